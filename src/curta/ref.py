"""References: arrays that a program updates in place.

Arrays never change; `new_ref(x)` makes a reference that holds one after the other:

>>> import curta, curta.numpy as jnp
>>> ref = curta.new_ref(jnp.zeros(3))
>>> ref[1] = 5.0
>>> ref[...] += 1.0
>>> ref
Ref([1., 6., 1.], dtype=float32)

Compiled and traced functions may take references as arguments and close over them, but
not return them. Functions that make references and use them inside are differentiated
and batched as others are.

>>> @curta.jit
... def running_sums(x, total):
...     def step(_, i):
...         total[...] += x[i]
...         return None, total[...]
...     return curta.lax.scan(step, None, jnp.arange(3))[1]
>>> total = curta.new_ref(jnp.float32(10.0))
>>> running_sums(jnp.ones(3), total), total
(Array([11., 12., 13.], dtype=float32), Ref(13., dtype=float32))
"""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes, lax
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, listed
from curta.api.arguments import as_result, aval_of
from curta.core import refs
from curta.core.refs import (
    AbstractRef as AbstractRef,
    AccumEffect as AccumEffect,
    ReadEffect as ReadEffect,
    Ref as Ref,
    RefEffect as RefEffect,
    WriteEffect as WriteEffect,
)
from curta.core.trace import Tracer, typeof
from curta.numpy.index_update import IndexUpdater
from curta.numpy.indexing import getitem
from curta.primitives.elementwise import ConvertElementType

__all__ = [
    "AbstractRef",
    "Ref",
    "addupdate",
    "empty_ref",
    "free_ref",
    "freeze",
    "get",
    "new_ref",
    "set",
    "swap",
]
__dir__: Listing = listed(__all__)

_KINDS = (None, "no_grad_no_remat")


def new_ref(
    init_val: Any,
    *,
    memory_space: Any = None,
    kind: str | None = None,
    pin: bool = False,
) -> Ref:
    """Create a reference that holds the array `init_val`.

    Args:
      init_val: the array; writing the reference leaves it as it is.
      memory_space: must be None: there is one kind of memory.
      kind: with `no_grad_no_remat`, values are written to it without their
        derivatives, where it is used in a function that is differentiated.
      pin: must be False (default): there is no pinned memory.

    Returns:
      A `Ref` of the shape and dtype of the array.

    Raises:
      TypeError: if `init_val` is not an array.
      NotImplementedError: for memory spaces and pinned memory.
      ValueError: if the kind is unknown.

    >>> import curta
    >>> ref = curta.new_ref(curta.numpy.arange(3))
    >>> ref[0] = 7
    >>> ref[...]
    Array([7, 1, 2], dtype=int32)
    """
    if memory_space is not None:
        raise NotImplementedError("references have no memory space but the default")
    if pin:
        raise NotImplementedError("references have no pinned memory: leave out `pin`")
    if kind not in _KINDS:
        raise ValueError(f"kind of a reference must be one of {_KINDS}, got {kind!r}")
    if isinstance(init_val, Ref):
        raise TypeError(
            "Cannot store a Ref into another Ref. Did you forget to load from it using"
            " `[...]`?"
        )
    try:
        aval = typeof(init_val)
    except TypeError:
        raise TypeError(
            "Error interpreting argument to new_ref as an array. The problematic"
            f" value is of type {type(init_val)} and was passed to new_ref at position"
            " 0."
        ) from None
    return Ref(AbstractRef(aval, kind), as_result(init_val))


def empty_ref(ty: Any, memory_space: Any = None, pin: bool = False) -> Ref:
    """Create a reference to an uninitialized array with the shape and dtype of `ty`.

    The initial contents are unspecified; the implementation uses zeros.

    Args:
      ty: an array, a `ShapeDtypeStruct`, or anything with `shape` and `dtype`.
      memory_space: must be None (default): there is one kind of memory.
      pin: must be False (default): there is no pinned memory.

    Returns:
      A `Ref` of this shape and dtype.

    Raises:
      TypeError: if `ty` has no shape or dtype.
      NotImplementedError: for memory spaces and pinned memory.

    >>> import curta
    >>> ref = curta.empty_ref(curta.ShapeDtypeStruct((2,), "float32"))
    >>> ref[...] = curta.numpy.ones(2)
    >>> ref[...]
    Array([1., 1.], dtype=float32)
    """
    aval = aval_of(ty)
    start = lax.full(aval.shape, 0, aval.dtype)
    return new_ref(start, memory_space=memory_space, pin=pin)


def freeze(ref: Ref) -> Any:
    """Return the array in `ref`, and end the life of the reference.

    >>> import curta
    >>> curta.freeze(curta.new_ref(1.0))
    Array(1., dtype=float32, weak_type=True)
    """
    value = get(ref)
    refs.invalidate(ref)
    return value


def free_ref(ref: Ref) -> tuple[()]:
    """Free `ref`; later uses raise ValueError.

    >>> import curta
    >>> ref = curta.new_ref(curta.numpy.zeros(2))
    >>> curta.free_ref(ref)
    ()
    >>> ref[...]
    Traceback (most recent call last):
        ...
    ValueError: the reference of type Ref{float32[2]} was frozen or freed before
    """
    refs.invalidate(_reference(ref, "free_ref"))
    return ()


def get(ref: Any, idx: Any = None) -> Any:
    """`ref[idx]`: the array that the reference holds, or a part of it.

    >>> import curta, curta.numpy as jnp
    >>> curta.ref.get(curta.new_ref(jnp.arange(5)), slice(1, 3))
    Array([1, 2], dtype=int32)
    """
    if isinstance(ref, RefView):
        return _part(get(ref.ref, ref.index), idx)
    return _part(refs.read(_reference(ref, "ref_get")), idx)


def swap(ref: Any, idx: Any, value: Any) -> Any:
    """Set `ref[idx]` to `value`.

    Args:
      ref: a reference, or a part of one: `ref.at[index]`.
      idx: which elements, as in `ref[idx]`; `...`, `()` or None for all.
      value: an array of the shape and dtype of `ref[idx]`.

    Returns:
      What `ref[idx]` was before.

    Raises:
      ValueError: if the argument is not a reference, or the value has another shape or
          dtype.

    >>> import curta, curta.numpy as jnp
    >>> ref = curta.new_ref(jnp.arange(5))
    >>> curta.ref.swap(ref, 3, 10), ref
    (Array(3, dtype=int32), Ref([ 0,  1,  2, 10,  4], dtype=int32))
    """
    if isinstance(ref, RefView):
        whole = get(ref.ref, ref.index)
        new, before = _replaced(whole, idx, value, "swap")
        swap(ref.ref, ref.index, new)
        return before
    if _is_whole(idx):
        whole = _reference(ref, "ref_swap").aval.inner_aval
        return refs.swap(ref, _checked(value, whole, "swap"))
    whole = get(ref)
    new, before = _replaced(whole, idx, value, "swap")
    refs.swap(ref, _held(new, whole.aval))
    return before


def set(ref: Any, idx: Any, value: Any) -> None:
    """`ref[idx] = value`, for a value of the shape and dtype of `ref[idx]`.

    Args:
      ref: a reference, or a part of one: `ref.at[index]`.
      idx: which elements, as in `ref[idx]`; `...`, `()` or None for all.
      value: an array of the shape and dtype of `ref[idx]`.

    Returns:
      None.

    Raises:
      ValueError: if the argument is not a reference, or the value has another shape or
          dtype.

    >>> import curta, curta.numpy as jnp
    >>> ref = curta.new_ref(jnp.zeros(2))
    >>> curta.ref.set(ref, 1, 10.0)
    >>> ref
    Ref([ 0., 10.], dtype=float32)
    """
    swap(ref, idx, value)


def addupdate(ref: Any, idx: Any, x: Any) -> None:
    """`ref[idx] += x`, for x of the shape and dtype of `ref[idx]`.

    Args:
      ref: a reference, or a part of one: `ref.at[index]`.
      idx: which elements, as in `ref[idx]`; `...`, `()` or None for all.
      x: an array of the shape and dtype of `ref[idx]`.

    Returns:
      None.

    Raises:
      ValueError: if the argument is not a reference, or the value has another shape or
          dtype.

    >>> import curta, curta.numpy as jnp
    >>> ref = curta.new_ref(jnp.arange(3))
    >>> curta.ref.addupdate(ref, 2, 10)
    >>> ref
    Ref([ 0,  1, 12], dtype=int32)
    """
    if not isinstance(ref, RefView) and _is_whole(idx):
        whole = _reference(ref, "ref_addupdate").aval.inner_aval
        refs.addupdate(ref, _checked(x, whole, "addupdate"))
        return
    part = get(ref, idx)
    swap(ref, idx, lax.add(part, _checked(x, part.aval, "addupdate")))


@dataclass(frozen=True)
class RefView:
    """A part of what a reference holds: `ref.at[index]`, to read and to write."""

    ref: Any
    index: Any

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the part."""
        return get(self).shape

    @property
    def dtype(self) -> Any:
        """The element type of the part."""
        return self.ref.dtype


class _ViewMaker:
    """What `ref.at` is."""

    def __init__(self, ref: Any):
        self.ref = ref

    def __getitem__(self, index: Any) -> RefView:
        return RefView(self.ref, index)


def _reference(ref: Any, function: str) -> Ref:
    if not isinstance(ref, Ref):
        raise ValueError(f"Can only call `{function}` on a `Ref`: {ref}.")
    return ref


def _is_whole(idx: Any) -> bool:
    return idx is None or idx is Ellipsis or (isinstance(idx, tuple) and not idx)


def _part(x: Any, idx: Any) -> Any:
    if _is_whole(idx):
        return x
    if not isinstance(x, Tracer):
        _check_bounds(idx, x.shape)
    return getitem(x, idx)


def _entries(idx: Any) -> tuple[Any, ...]:
    return idx if isinstance(idx, tuple) else (idx,)


def _check_bounds(idx: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError for static integers beyond the end of the array.

    Only known arrays are checked. In traced programs, indices out of bounds are
    clamped, as those before the start are everywhere.
    """
    entries = _entries(idx)
    for i, entry in enumerate(entries):
        if entry is Ellipsis:
            missing = (slice(None),) * (len(shape) - len(entries) + 1)
            entries = (*entries[:i], *missing, *entries[i + 1 :])
            break
    for i, size in zip(entries, shape, strict=False):
        plain = isinstance(i, (int, np.integer)) and not isinstance(i, bool)
        if plain and i >= size:
            raise ValueError(f"Out of bound indexer: idx={i}, dim={size}.")


def _write_mode(idx: Any) -> str | None:
    """How to write out of bounds: reads and writes by scalars are both clamped."""
    return None if any(np.ndim(i) for i in _entries(idx) if i is not None) else "clip"


def _replaced(whole: Any, idx: Any, value: Any, verb: str) -> tuple[Any, Any]:
    """The array with another part at `idx`, and that part as it was."""
    before = _part(whole, idx)
    value = _checked(value, whole.aval, verb, before.shape)
    if _is_whole(idx):
        return value, before
    return IndexUpdater(whole)[idx].set(value, mode=_write_mode(idx)), before


def _checked(
    value: Any, whole: Any, verb: str, shape: tuple[int, ...] | None = None
) -> Any:
    """The value as one to write: numbers take the dtype, others have it."""
    if isinstance(value, Ref):
        raise ValueError(
            "Cannot store a Ref into another Ref. Did you forget to load from it using"
            " `[...]`?"
        )
    aval = typeof(value)
    if whole.is_high or aval.is_high:
        if whole != aval:
            raise ValueError(
                f"Invalid type for `{verb}`. Ref type: {whole.str_short()}. Value type:"
                f" {aval.str_short()}."
            )
        return value
    shape = whole.shape if shape is None else shape
    if aval.shape != shape:
        raise ValueError(
            f"Invalid shape for `{verb}`. Ref shape: {whole.shape}. Expected shape:"
            f" {shape}. Value shape: {aval.shape}. A value is not broadcast: use"
            " jnp.broadcast_to or jnp.full."
        )
    kinds = (np.floating, aval.weak_type), (np.integer, True)
    if any(
        allowed
        and dtypes.issubdtype(whole.dtype, kind)
        and dtypes.issubdtype(aval.dtype, kind)
        for kind, allowed in kinds
    ):
        return _held(value, whole)
    if aval.dtype != whole.dtype:
        raise ValueError(
            f"Invalid dtype for `{verb}`. Ref dtype: {whole.dtype}. Value dtype:"
            f" {aval.dtype}. Convert it: value.astype(ref.dtype)."
        )
    return _held(value, whole)


def _held(x: Any, whole: Any) -> Any:
    """An array of the dtype of `whole`, with a weak type if that has one."""
    aval = typeof(x)
    if not whole.weak_type:
        return lax.convert_element_type(x, whole.dtype)
    if aval.weak_type and aval.dtype == whole.dtype:
        return as_result(x)
    return ConvertElementType(whole.dtype, weak_type=True)(x)


def _method(function: Any) -> Any:
    """A function of reference, index and value as a method, the index last."""

    def method(self: Any, x: Any, idx: Any = ()) -> Any:
        return function(self, idx, x)

    name = method.__name__ = function.__name__
    method.__doc__ = f"`curta.ref.{name}(ref, idx, x)`; of all elements by default."
    return method


def _attach() -> None:
    attributes = {
        "__getitem__": get,
        "__setitem__": set,
        "get": get,
        "set": _method(set),
        "swap": _method(swap),
        "addupdate": _method(addupdate),
        "at": property(_ViewMaker),
    }
    for kind in (Ref, RefView):
        for name, attribute in attributes.items():
            setattr(kind, name, attribute)


_attach()
