"""The site, as `make docs` builds it: search, narrow and wide, light and dark."""

import functools
import http.server
import json
import subprocess
import sys
import threading
import urllib.request
from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

from .conftest import background, is_too_wide

SITE = Path(__file__).parents[2] / "site"
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
    "resume": "resume_training",
    "jnp.sum": "reference/numpy/sum/",
    "curta.scipy.stats.norm.logpdf": "reference/scipy_stats_norm/logpdf/",
    "add_p": "reference/lax/primitives/#add_p",
    "checkpoint_policies": "checkpoint_policies/",
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
    page.get_by_role("searchbox", name="Search").fill(query)
    found = page.locator(".results a")
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
        # Pictures load when they come into view; those of the other scheme never do.
        lost = "i.complete && !i.naturalWidth"
        broken = f"[...document.images].filter(i => {lost}).map(i => i.src)"
        assert page.evaluate(broken) == [], path
        page.close()


def test_the_toggle_overrides_the_system_and_is_kept(site):
    page = site("quickstart/", color_scheme="light")
    assert background(page) > 200
    page.get_by_role("button", name="Light or dark").click()
    assert background(page) < 80
    page.reload()
    assert background(page) < 80


def test_the_menu_opens_on_narrow_screens(site):
    page = site("quickstart/", viewport={"width": 400, "height": 900})
    links = page.get_by_role("navigation", name="Pages").get_by_role("link")
    assert not links.first.is_visible()
    page.get_by_role("button", name="Menu").click()
    assert links.first.is_visible()


@pytest.mark.parametrize("path", ["quickstart/", "sharp_bits/", "tutorials/pytrees/"])
def test_copied_code_runs_in_ipython(site, path):
    """Every copy button of a page gives code without prompts and outputs."""
    page = site(path, permissions=["clipboard-read", "clipboard-write"])
    shell = InteractiveShell.instance()
    buttons = page.locator("button.copy")  # whose text changes to "Copied"
    assert buttons.count() > 4
    for button in buttons.all():
        button.click()
        done = "button => button.textContent === 'Copied'"
        page.wait_for_function(done, arg=button.element_handle(), polling=50)
        code = page.evaluate("navigator.clipboard.readText()")
        assert ">>>" not in code
        if code.startswith("pip "):
            continue  # a line for a terminal
        assert shell.run_cell(code).success, code


@pytest.mark.parametrize("path", ["quickstart/quickstart", "tutorials/jit/jit"])
def test_downloads_run(address, path, tmp_path):
    """Pages come as programs and as notebooks, whose cells run in order."""
    script = urllib.request.urlopen(f"{address}{path}.py").read().decode()
    (tmp_path / "page.py").write_text(script)
    subprocess.run([sys.executable, "page.py"], cwd=tmp_path, check=True)
    notebook = json.load(urllib.request.urlopen(f"{address}{path}.ipynb"))
    shell = InteractiveShell.instance()
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            fails = "raises-exception" in cell["metadata"].get("tags", ())
            assert shell.run_cell("".join(cell["source"])).success != fails


def test_the_plot_of_the_front_page_follows_its_slider(site):
    page = site("")
    before = page.locator("#live .h").get_attribute("d")
    page.get_by_role("slider", name="Initial speed").fill("35")
    assert page.locator("#live .h").get_attribute("d") != before
