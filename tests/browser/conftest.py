"""A browser: Debian's Chromium, or another that is installed, through Playwright."""

import shutil

import pytest
from playwright.sync_api import sync_playwright

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


@pytest.fixture(scope="session")
def browser():
    path = next(filter(None, map(shutil.which, BROWSERS)), None)
    if path is None:
        names = ", ".join(BROWSERS)
        raise RuntimeError(f"none of {names} is installed: apt install chromium")
    with sync_playwright() as playwright:
        # In containers there is often neither a sandbox nor shared memory.
        flags = ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        chromium = playwright.chromium.launch(executable_path=path, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture
def open_page(browser):
    """A function that opens an address; errors of scripts, or a network, fail the test.

    Its options are those of a browser's context: `color_scheme="dark"`, `viewport=...`.
    """
    contexts, faults = [], []

    def open_address(address, **options):
        contexts.append(browser.new_context(**options))
        page = contexts[-1].new_page()
        page.on("pageerror", lambda error: faults.append(f"script: {error}"))
        page.on("console", lambda m: m.type == "error" and faults.append(m.text))
        page.on("requestfailed", lambda r: faults.append(f"failed: {r.url}"))
        page.goto(address)
        return page

    yield open_address
    for context in contexts:
        context.close()
    assert faults == []


def background(page):
    """The brightness of the page, from 0 to 255."""
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    return sum(int(float(n)) for n in colour.strip("rgba()").split(",")[:3]) / 3


def is_too_wide(page):
    """Whether the page has to be scrolled sideways."""
    root = "document.documentElement"
    return page.evaluate(f"{root}.scrollWidth - {root}.clientWidth") > 1
