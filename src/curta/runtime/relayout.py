"""Bringing arrays into the order of a layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeGuard

from curta.core.array_layout import Layout
from curta.runtime.array import ArrayImpl, wrap
from curta.runtime.laid_out import LaidOutData, in_order
from curta.runtime.remote_data import RemoteData


def is_laid_out(x: Any) -> TypeGuard[ArrayImpl]:
    """Whether it is an array that is stored in another order than the row-major."""
    return type(x) is ArrayImpl and type(getattr(x, "_pending", None)) is LaidOutData


def laid_out(x: ArrayImpl, layout: Layout) -> ArrayImpl:
    """An array with its elements stored in the order of a layout.

    Those with terms of sums stay.
    """
    order, stored = layout.order, x.format.layout
    assert isinstance(stored, Layout)
    if stored.order == order or x._has_terms():
        return x
    data = x._buffer()
    if not isinstance(data, RemoteData):
        data = x._storage()
    if layout.is_row_major:
        own = data.shared() if isinstance(data, RemoteData) else data
        return wrap(own, x.aval, x._sharding)
    return wrap(LaidOutData(in_order(data, order), order), x.aval, x._sharding)


def check_layout(layout: Any, x: ArrayImpl) -> None:
    """Raise ValueError if an array is stored in another order than `jit` was told."""
    stored = x.format.layout
    assert isinstance(stored, Layout)
    auto = layout is Layout.AUTO
    if stored.is_row_major if auto else stored.order == layout.order:
        return
    remedy = " Leave the choice to the compiler for a jax.ShapeDtypeStruct only."
    raise ValueError(
        "Layout passed to jit does not match the layout on the respective arg. Got jit"
        f" layout: {layout},\narg layout: {stored} for arg type:"
        f" {x.aval.str_short()}.{remedy if auto else ''}"
    )


def check_donated_layouts(
    consumed: Mapping[int, int],
    in_layouts: Sequence[Any],
    out_layouts: Sequence[Any],
    placed: Sequence[Any],
) -> None:
    """Raise ValueError if only one side of a donation is left to the compiler.

    Arguments that are `placed` on devices are stored somehow already.
    """
    for i, k in consumed.items():
        given = in_layouts[i] if in_layouts else None
        out = out_layouts[k] if out_layouts else None
        if not placed[i] and {given, out} == {None, Layout.AUTO}:
            side = "input" if out is Layout.AUTO else "output"
            raise ValueError(
                f"Input layout being donated was {given} while output layout was {out}."
                f" Did you mean to set the **{side} layout** to **Layout.AUTO**? Then"
                " the compiler chooses both."
            )
