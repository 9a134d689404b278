"""Metadata for XLA on parts of a program, written to its StableHLO.

Our own compiler for CPUs does nothing of what a note would ask of XLA.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from curta import tree_util
from curta._base.on_demand import Listing, listed
from curta.api.arguments import as_result
from curta.core.source_info import Annotating
from curta.core.wrapping import wraps
from curta.primitives.elementwise.convert import XlaMetadataValue

__all__ = [
    "fuse_limit",
    "must_fuse_call",
    "set_xla_metadata",
    "xla_metadata_call",
    "xla_metadata_call2",
]
__dir__: Listing = listed(__all__)


def set_xla_metadata(x: Any = None, **kwargs: Any) -> Any:
    """Attach notes to the ops that make the arrays of a pytree.

    Returns `x`; without it, what attaches them to the ops in a `with` block or to
    those of the function that it decorates. There None takes a note back. They are
    frontend attributes of the operations that make the values, in loops those of the
    whole loop.

    >>> import curta
    >>> from curta.experimental.xla_metadata import set_xla_metadata
    >>> curta.make_jaxpr(lambda x: set_xla_metadata(2.0 * x, key="a"))(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = mul 2.0:f32[] a
        c:f32[] = xla_metadata_value[xla_metadata_kvs=(('key', 'a'),)] b
      in (c,) }
    >>> @curta.jit
    ... def f(x):
    ...     with set_xla_metadata(key="a"):
    ...         return curta.numpy.sin(x)
    >>> [line] = [s for s in f.lower(0.0).as_text().splitlines() if "sine" in s]
    >>> line.strip()
    '%0 = stablehlo.sine %arg0 {mhlo.frontend_attributes = {key = "a"}} : tensor<f32>'
    """
    if x is None:
        return Annotating(tuple(sorted(kwargs.items())))
    op = XlaMetadataValue(tuple(sorted(kwargs.items())))
    return tree_util.tree_map(lambda leaf: op(as_result(leaf)), x)


def fuse_limit() -> Annotating:
    """A `with` block whose ops XLA does not fuse with ops outside of it.

    >>> import curta
    >>> from curta.experimental.xla_metadata import fuse_limit
    >>> @curta.jit
    ... def f(x):
    ...     with fuse_limit():
    ...         return curta.numpy.sin(x)
    >>> "FUSE_LIMIT" in f.lower(0.0).as_text()
    True
    """
    return Annotating((("FUSE_LIMIT", True),))


def must_fuse_call(identifier: str) -> Callable[..., Any]:
    """A decorator that asks XLA to make one fusion of all ops of a function.

    >>> import curta
    >>> from curta.experimental.xla_metadata import must_fuse_call
    >>> f = curta.jit(must_fuse_call("1")(lambda x: curta.numpy.sin(x) + 1))
    >>> 'MUST_FUSE = "1"' in f.lower(0.0).as_text()
    True
    """
    decorate: Callable[..., Any] = xla_metadata_call(MUST_FUSE=identifier)
    return decorate


def xla_metadata_call(
    f: Callable[..., Any] | None = None, /, **meta: Any
) -> Callable[..., Any]:
    """The function, with notes attached to all its ops, those of derivatives too.

    Args:
      f: function of pytrees of arrays. Left out, the result is a decorator.
      meta: strings, booleans and numbers by name.

    Returns:
      A function with the arguments and results of `f`.

    Raises:
      TypeError: if `f` is not callable.

    >>> import curta
    >>> from curta.experimental.xla_metadata import xla_metadata_call
    >>> f = curta.jit(xla_metadata_call(curta.numpy.sin, key="a"))
    >>> 'key = "a"' in f.lower(0.0).as_text()
    True
    """
    if f is None:
        return lambda fun: xla_metadata_call(fun, **meta)
    if not callable(f):
        raise TypeError(f"expected a callable to wrap, got {f!r}")
    fun, notes = f, tuple(sorted(meta.items()))

    @wraps(fun)
    def noted(*args: Any, **kwargs: Any) -> Any:
        with Annotating(notes):
            return fun(*args, **kwargs)

    return noted


def xla_metadata_call2(
    f: Any = None,
    /,
    metadata: Mapping[str, Any] | None = None,
    *,
    ad_metadata: str | Mapping[str, Any] = "same",
) -> Callable[..., Any]:
    """As `xla_metadata_call`, with the notes in a dict.

    Args:
      f: function of pytrees of arrays, or the dict. Without a function the result is a
        decorator.
      metadata: strings, booleans and numbers by name.
      ad_metadata: `"same"` (default): the ops of derivatives have the same notes.

    Returns:
      A function with the arguments and results of `f`, or a decorator.

    Raises:
      TypeError: `f` is not callable, or a note has another type.
      NotImplementedError: derivatives are to have other notes than the function.

    >>> import curta
    >>> from curta.experimental.xla_metadata import xla_metadata_call2
    >>> f = curta.jit(xla_metadata_call2(curta.numpy.sin, {"key": "a"}))
    >>> 'key = "a"' in f.lower(0.0).as_text()
    True
    """
    if isinstance(f, Mapping) and metadata is None:
        f, metadata = None, f
    notes = dict(metadata or {})
    for key, value in notes.items():
        if not isinstance(value, (str, int, float)):
            raise TypeError(
                "xla_metadata_call metadata values must be str, bool, int, or float,"
                f" got {type(value)} for key {key!r}"
            )
    if ad_metadata not in ("same", notes):
        raise NotImplementedError(
            f"xla_metadata_call2(ad_metadata={ad_metadata!r}): the ops of derivatives"
            " have the notes of the function that they are derivatives of."
        )
    return xla_metadata_call(f, **notes)
