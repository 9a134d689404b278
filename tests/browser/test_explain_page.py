"""The page of `explain`: open, sort, unfold, search, by mouse and keyboard."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp

from .conftest import background, is_too_wide


@pytest.fixture(scope="module")
def explained():
    def f(x, i):
        y = jnp.sort(jnp.tanh(x @ x), 1)
        z = curta.lax.fori_loop(0, 3, lambda _, c: jnp.sin(c @ x), y)
        curta.debug.callback(lambda v: None, z[0, 0])
        return z[i], jnp.cumsum(y, 1).T.copy()

    x = np.random.default_rng(0).uniform(size=(64, 64)).astype(np.float32)
    return curta.explain(f, seconds=0.0)(x, np.array([1, 2]))


@pytest.fixture
def path(explained, tmp_path):
    explained.save(tmp_path / "page.html")
    return f"file://{tmp_path}/page.html"


def rows(page, column):
    cells = page.locator(f"tbody tr:visible td:nth-child({column})")
    return [float(c.get_attribute("data-v") or c.text_content()) for c in cells.all()]


def test_it_opens_with_the_most_expensive_kernel_first(open_page, path, explained):
    page = open_page(path)
    assert explained.cost.name in page.title()
    times = rows(page, 2)
    assert len(times) == len(explained.kernels) > 3
    assert times == sorted(times, reverse=True)
    assert page.locator("li", has_text="runs in Python").count() == 1


def test_the_source_with_times_comes_first(open_page, path):
    page = open_page(path)
    source = page.locator(".source")
    assert source.count() == 1 and "jnp.tanh(x @ x)" in source.text_content()
    heats = source.locator("div").evaluate_all(
        "divs => divs.map(d => d.style.getPropertyValue('--heat'))"
    )
    assert "85%" in heats
    top = source.bounding_box()["y"]
    assert top < page.locator("table").bounding_box()["y"]


def test_columns_are_sorted_by_their_heads(open_page, path):
    page = open_page(path)
    for number, name in enumerate(("kernel", "time", "share", "bytes", "flops"), 1):
        head = page.get_by_role("button", name=name, exact=True)
        orders = set()
        for _ in range(2):
            head.click()
            order = page.locator(f"th:nth-child({number})").get_attribute("aria-sort")
            assert rows(page, number) == sorted(
                rows(page, number), reverse=order == "descending"
            )
            orders.add(order)
        assert orders == {"ascending", "descending"}
        assert page.locator("th[aria-sort$=scending]").count() == 1


def test_kernels_unfold(open_page, path):
    page = open_page(path)
    head = "td > details > summary"
    summary = page.locator(head, has_text="product of matrices: dot_general").first
    row = summary.locator("..")
    code = row.locator("> details > summary")
    assert not code.is_visible()
    summary.click()
    assert code.is_visible()
    assert row.get_by_text("x @ x").first.is_visible()
    page.get_by_text("The jaxpr, with your lines").click()
    assert page.get_by_text("test_explain_page.py").last.is_visible()


def test_the_search_leaves_kernels_that_have_the_word(open_page, path, explained):
    page = open_page(path)
    page.get_by_label("Search").fill("CUMSUM")
    left = page.locator("tbody tr:visible")
    assert left.count() == 1 and "cumsum" in left.text_content()
    assert page.locator("output").text_content() == f"1 of {len(explained.kernels)}"
    page.get_by_label("Search").fill("")
    assert left.count() == len(explained.kernels)


def test_the_keyboard_reaches_all_of_it(open_page, path):
    page = open_page(path)
    active = "document.activeElement"
    focused = f"{active}.tagName + ' ' + {active}.textContent"
    seen = []
    for _ in range(10):
        page.keyboard.press("Tab")
        seen.append(page.evaluate(focused))
    assert seen[0].startswith("DIV")  # the source, which scrolls
    assert seen[1].startswith("INPUT")
    assert [s for s in seen if s.startswith("BUTTON")][:2] == [
        "BUTTON kernel",
        "BUTTON time",
    ]
    assert any(s.startswith("SUMMARY") for s in seen)
    page.keyboard.press("Enter")  # a summary has the focus
    assert page.locator("tbody details[open]").count() == 1
    page.get_by_role("button", name="bytes").focus()
    page.keyboard.press("Space")
    assert rows(page, 4) == sorted(rows(page, 4), reverse=True)
    outline = "getComputedStyle(document.activeElement).outlineStyle"
    assert page.evaluate(outline) != "none"


@pytest.mark.parametrize("scheme, dark", [("light", False), ("dark", True)])
def test_light_and_dark(open_page, path, scheme, dark):
    page = open_page(path, color_scheme=scheme)
    assert (background(page) < 64) == dark
    text = page.evaluate("getComputedStyle(document.body).color")
    bright = sum(int(n) for n in text.strip("rgba()").split(",")[:3]) / 3
    assert abs(bright - background(page)) > 120  # to be read
    step = page.locator("tr.python summary").first
    assert step.evaluate("e => getComputedStyle(e).color") != text


@pytest.mark.parametrize("width", [1300, 400])
def test_narrow_and_wide(open_page, path, width):
    page = open_page(path, viewport={"width": width, "height": 800})
    assert not is_too_wide(page)


def test_in_a_notebook_it_is_a_frame(open_page, explained, tmp_path):
    (tmp_path / "cell.html").write_text(f"<!doctype html>{explained._repr_html_()}")
    page = open_page(f"file://{tmp_path}/cell.html")
    inside = page.frame_locator("iframe")
    inside.get_by_role("button", name="bytes").click()
    assert inside.locator("th[aria-sort=descending]").text_content() == "bytes"
