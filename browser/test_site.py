"""The site, as `make docs` builds it: search, narrow and wide, light and dark."""

import functools
import http.server
import threading
from pathlib import Path

import pytest

from .conftest import background, is_too_wide

SITE = Path(__file__).parents[1] / "site"
PAGES = (
    *(
        "",
        "quickstart/",
        "howto/notebooks/",
        "explain/",
        "gallery/",
        "reference/numpy/",
    ),
    *("reference/numpy/sort/", "coming_from/numpy/", "command_line/"),
)
# What a reader types, and a page that is to be among the first answers.
QUERIES = {
    "vmap": "vmap",
    "out of memory": "faq",
    "recompile": "avoid_recompiling",
    "progress bar": "notebooks",
    "slow": "performance",
}
pytestmark = pytest.mark.skipif(not SITE.exists(), reason="no site: make docs")


class Handler(http.server.SimpleHTTPRequestHandler):
    """Says nothing of what is asked for."""

    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def address():
    handler = functools.partial(Handler, directory=SITE)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture
def site(open_page, address):
    """A function that opens a page of the site, without what other sites have."""

    def open_of_site(path, **options):
        return open_page(address + path, **options)

    return open_of_site


@pytest.mark.parametrize("query", QUERIES)
def test_search(site, query):
    page = site("", viewport={"width": 1300, "height": 900})
    page.get_by_role("textbox", name="Search").fill(query)
    found = page.locator(".md-search-result__item > a")
    found.first.wait_for()
    page.wait_for_timeout(300)
    first = [a.get_attribute("href") for a in found.all()[:6]]
    assert any(QUERIES[query] in link for link in first), first


@pytest.mark.parametrize("scheme, dark", [("light", False), ("dark", True)])
@pytest.mark.parametrize("width", [1300, 400])
def test_pages_fit_and_are_light_or_dark(site, width, scheme, dark):
    for path in PAGES:
        viewport = {"width": width, "height": 900}
        page = site(path, color_scheme=scheme, viewport=viewport)
        assert not is_too_wide(page), path
        assert (background(page) < 80) == dark, path
        assert page.locator("h1").first.is_visible(), path
        broken = "[...document.images].filter(i => !i.naturalWidth).map(i => i.src)"
        assert page.evaluate(broken) == [], path
        page.close()
