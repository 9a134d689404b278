"""Documents are laid out to fit a width."""

import pytest

from curta.core.pretty_printer import (
    TYPE,
    concat,
    group,
    join,
    line_break,
    nest,
    render,
    text,
)


def call(name, args):
    inner = concat([line_break(""), join(text(",") + line_break(), args)])
    return group(concat([text(f"{name}("), nest(2, inner), line_break(""), text(")")]))


def test_a_group_that_fits_stays_on_its_line():
    doc = call("f", [text("x"), text("y")])
    assert render(doc) == "f(x, y)"
    assert doc.width == len("f(x, y)")


def test_a_group_that_does_not_fit_breaks_as_a_whole():
    doc = call("f", [text("x" * 5), text("y" * 5), text("z")])
    assert render(doc, width=14) == "f(\n  xxxxx,\n  yyyyy,\n  z\n)"
    assert render(doc, width=17) == render(doc, width=14)
    assert render(doc, width=18) == "f(xxxxx, yyyyy, z)"


def test_inner_groups_break_only_if_they_must():
    doc = call("f", [call("g", [text("a"), text("b")]), text("c" * 9)])
    assert render(doc, width=15) == "f(\n  g(a, b),\n  ccccccccc\n)"
    assert render(doc, width=6) == "f(\n  g(\n    a,\n    b\n  ),\n  ccccccccc\n)"


@pytest.mark.parametrize(("width", "lines"), [(7, 1), (6, 4)])
def test_what_follows_a_group_does_not_break_it(width, lines):
    doc = call("f", [text("x"), text("y")]) + text(" and more text")
    assert len(render(doc, width).splitlines()) == lines


def test_a_break_outside_groups_is_a_new_line():
    assert render(text("a") + line_break() + text("b")) == "a\nb"


def test_joining_nothing_is_nothing():
    assert render(join(text(","), [])) == ""
    assert render(join(text(","), [text("a")])) == "a"


def test_notes_stand_in_one_column():
    doc = concat(
        [text("a", note="first"), line_break(), text("long line", note="second")]
    )
    assert render(doc) == "a         # first\nlong line # second"


def test_colours_take_no_room():
    doc = call("f", [text("x", TYPE), text("y")])
    assert render(doc, width=7, use_color=True) == "f(\x1b[35mx\x1b[39m, y)"
    assert render(doc, width=7) == "f(x, y)"
