"""Arrays, jaxprs and pytrees in notebooks."""

import base64
import contextlib
import html.parser
import re
import zlib

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import notebook


class Tags(html.parser.HTMLParser):
    """Checks that tags are closed; keeps the text, and the titles of elements."""

    def __init__(self, page):
        super().__init__()
        self.open, self.titles, self.words = [], [], []
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.titles += [v for k, v in attributes if k == "title"]
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self):
        return " ".join(self.words)


def pixels_of(page):
    """The picture in a page, as (rows, columns, 3) of bytes."""
    png = base64.b64decode(re.search(r"base64,([^\"]+)", page)[1])
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, content = 8, {}
    while place < len(png):
        size = int.from_bytes(png[place : place + 4])
        kind, data = png[place + 4 : place + 8], png[place + 8 : place + 8 + size]
        check = int.from_bytes(png[place + 8 + size : place + 12 + size])
        assert zlib.crc32(kind + data) == check
        content[kind] = data
        place += 12 + size
    width, height = (int.from_bytes(content[b"IHDR"][i : i + 4]) for i in (0, 4))
    rows = np.frombuffer(zlib.decompress(content[b"IDAT"]), np.uint8)
    rows = rows.reshape(height, 1 + 3 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 3)


def test_arrays_show_text_type_bytes_and_device():
    page = jnp.arange(3)._repr_html_()
    text = Tags(page).text
    assert "Array([0, 1, 2], dtype=int32)" in text
    assert "int32[3] · 12 bytes" in text and "cpu" in text.lower()
    assert "<img" not in page
    assert "weak type" in jnp.asarray(1.0)._repr_html_()


def test_matrices_have_a_picture_of_their_values():
    x = np.zeros((6, 5), np.float32)
    x[0], x[-1], x[2, 3] = -2, 2, np.nan
    page = jnp.asarray(x)._repr_html_()
    assert Tags(page).titles == ["from -2 to 2, 1 pixels not finite"]
    pixels = pixels_of(page)
    assert pixels.shape == (6, 5, 3)
    assert (pixels[0] == (33, 76, 160)).all() and (pixels[-1] == (168, 22, 40)).all()
    assert (pixels[1] == 247).all() and (pixels[2, 3] == (255, 0, 255)).all()


@pytest.mark.parametrize(
    "dtype", ["bool", "int8", "uint32", "bfloat16", "float8_e4m3fn", "complex64"]
)
def test_pictures_of_all_dtypes(dtype):
    x = jnp.arange(300).reshape(30, 10).astype(dtype)
    assert pixels_of(x._repr_html_()).shape == (30, 10, 3)


def test_large_matrices_are_means_of_blocks_in_small_pictures():
    x = jnp.zeros((3000, 300)).at[:1500].set(1)
    pixels = pixels_of(x._repr_html_())
    assert max(pixels.shape) <= 128
    assert (pixels[0] == (253, 231, 37)).all() and (pixels[-1] == (68, 1, 84)).all()
    x = jnp.full((5, 5), jnp.inf)
    assert "25 pixels not finite" in x._repr_html_()


def test_arrays_without_elements_to_show():
    keys = curta.random.split(curta.random.key(0), 4)
    assert "key<fry>[4]" in Tags(keys._repr_html_()).text
    assert "float32[0,7]" in jnp.ones((0, 7))._repr_html_()


def test_deleted_arrays_in_notebooks():
    """A cell may end with an array that it has donated; in JAX `repr` raises."""
    x = jnp.ones((2, 3))
    printer = Printer()
    x._repr_pretty_(printer, False)
    assert "".join(printer.parts) == repr(x)
    x.delete()
    with pytest.raises(RuntimeError, match="has been deleted"):
        repr(x)
    x._repr_pretty_(gone := Printer(), False)
    assert gone.parts == ["Array(deleted, shape=(2, 3), dtype=float32)"]
    assert gone.parts[0] in Tags(x._repr_html_()).text


class Printer:
    """The part of IPython's pretty printer that is used."""

    def __init__(self):
        self.parts = []
        self.text = self.parts.append
        self.group = contextlib.nullcontext

    def break_(self):
        self.parts.append("\n")


def test_jaxprs_unfold_to_what_their_text_says():
    @curta.jit
    def inner(x):
        return x + 1

    def f(x):
        def step(c, y):
            return c * 2, inner(y) < c

        return curta.lax.scan(step, 1.0, x), inner(x)

    closed = curta.make_jaxpr(f)(jnp.ones(3))
    tags = Tags(closed._repr_html_())

    def names(text):  # without white space and the order of jaxprs, which differ
        return re.findall(r"\w+:\w+\[\d*\] = \w+", re.sub(r"\s+", " ", text))

    assert sorted(names(tags.text)) == sorted(names(str(closed)))
    assert tags.text.count("{ lambda") == str(closed).count("lambda ;")
    assert any("test_displays.py" in title for title in tags.titles)
    assert closed.jaxpr._repr_html_() == closed._repr_html_()


def test_jaxprs_used_twice_are_shown_once():
    @curta.jit
    def inner(x):
        return x + 1

    text = Tags(curta.make_jaxpr(lambda x: inner(inner(x)))(1.0)._repr_html_()).text
    assert text.count("add ") == 1 and "let inner = " in text


@pytest.fixture
def no_treescope(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)


def test_pytrees_unfold(no_treescope):
    tree = {"w": jnp.ones((2, 2)), "rest": (None, [1.5, "text"])}
    shown = curta.debug.show(tree)
    assert repr(shown).splitlines() == [
        "dict: 1 array, 16 bytes",
        "  ['rest'] tuple: 0 arrays, 0 bytes",
        "    [0] None",
        "    [1] list: 0 arrays, 0 bytes",
        "      [0] 1.5",
        "      [1] 'text'",
        "  ['w'] float32[2,2]",
    ]
    page = shown._repr_html_()
    assert "['w']  float32[2,2]" in Tags(page).text
    assert page.count("<details") == 4


def test_treescope_shows_pytrees_if_it_is_installed(monkeypatch):
    class Treescope:
        @staticmethod
        def render_to_html(tree):
            return f"<p>{type(tree['x']).__module__}</p>"

    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "treescope")
    monkeypatch.setattr("curta.debug.trees.treescope", Treescope)
    assert curta.debug.show({"x": jnp.ones(2)})._repr_html_() == "<p>numpy</p>"


# ---- the extension of IPython


class Formatter(dict):
    """IPython's formatter, as far as it is used."""

    def for_type(self, kind, function):
        self[kind] = function


class Events(dict):
    """IPython's events, as far as they are used."""

    def register(self, name, function):
        self[name] = function

    def unregister(self, name, function):
        assert self.pop(name) == function


class Shell:
    """IPython's shell, as far as it is used."""

    def __init__(self):
        self.formatter, self.events = Formatter(), Events()
        self.display_formatter = self
        self.formatters = {"text/html": self.formatter}
        self.shown = []

    custom_exceptions = ()

    def set_custom_exc(self, kinds, handler):
        self.custom_exceptions = kinds

    def run(self, cell, function):
        self.raw_cell = cell
        self.info = self
        self.events["pre_run_cell"](self)
        function()
        self.events["post_run_cell"](self)


@pytest.fixture
def shell():
    result = Shell()
    notebook.load_ipython_extension(result)
    assert result.custom_exceptions == (Exception,)
    yield result
    notebook.unload_ipython_extension(result)
    assert not result.formatter and not result.events


def test_the_extension_shows_trees_that_hold_arrays(shell, no_treescope):
    assert "float32[2]" in shell.formatter[dict]({"a": jnp.ones(2)})
    assert shell.formatter[list]([1, 2]) is None


def test_timing_without_waiting_is_told(shell, monkeypatch):
    count = iter(range(100))
    monkeypatch.setattr(notebook, "submitted", lambda: next(count))
    with curta.advice("raise"):
        shell.run("%timeit f(x).block_until_ready()", lambda: None)
        shell.run("f(x)", lambda: None)
        for cell in ("%timeit f(x)", "x = 1\n%%time\nf(x)"):
            with pytest.raises(curta.errors.AdviceWarning, match="block_until_ready"):
                shell.run(cell, lambda: None)
    monkeypatch.setattr(notebook, "submitted", lambda: 7)
    with curta.advice("raise"):
        shell.run("%timeit f(x)", lambda: None)


def test_calls_that_are_queued_are_counted():
    from curta.runtime import queue

    before = queue.submitted()
    x = jnp.ones((1200, 1200))
    y = curta.jit(lambda x: x @ x @ x)(x)
    queued = type(getattr(y, "_pending", None)) is queue.Pending
    assert queue.submitted() - before == queued
    y.block_until_ready()
