"""Calling Python functions from within transformed and compiled functions."""

from __future__ import annotations

import logging
import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta.control.callback import (
    DEBUG,
    ORDERED_DEBUG,
    VMAP_METHODS,
    DebugCallback,
    DebugEffect as DebugEffect,
    DebugPrint,
    FlatCallback,
    IOCallback,
    MixedCallback,
    OrderedDebugEffect as OrderedDebugEffect,
    PureCallback,
    barriers,
    logger,
)
from curta.core.avals import ShapedArray
from curta.core.sharding import Sharding
from curta.core.source_info import user_frame
from curta.core.trace import is_array_like, typeof
from curta.primitives.random_bits.ops import RandomUnwrap
from curta.primitives.random_bits.registry import implementation_of


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    vmap_method: str | None = None,
    **kwargs: Any,
) -> Any:
    """Call a pure Python function, also from compiled code.

    Args:
      callback: gets the arguments as concrete arrays, of random keys their words
        (uint32); returns a pytree of arrays like `result_shape_dtypes`. It may be
        called more often than the program says, or not at all if nothing depends on
        its results.
      result_shape_dtypes: pytree of what has `shape` and `dtype`.
      *args, **kwargs: pytrees of arrays.
      sharding: from which device to call. They all are of this process, so that it
        makes no difference.
      vmap_method: what `vmap` does. "sequential" and "sequential_unrolled" call once
        for each example; "broadcast_all" calls once with all arguments repeated
        along a leading batch axis; "expand_dims" gives those that are not batched a
        leading axis of size 1 instead, and "legacy_vectorized" leaves them alone.

    Returns:
      A pytree of arrays like `result_shape_dtypes`.

    Raises:
      ValueError: for another `vmap_method`; for 64-bit results without
        `jax_enable_x64`; when it is differentiated.
      NotImplementedError: when `vmap` meets it without a `vmap_method`.
      JaxRuntimeError: if `callback` raises, or returns other shapes or dtypes.

    >>> import curta, numpy as np
    >>> shape = curta.ShapeDtypeStruct((), np.float32)
    >>> curta.jit(lambda x: 2 * curta.pure_callback(np.sqrt, shape, x))(9.0)
    Array(6., dtype=float32)
    """
    if vmap_method is not None and vmap_method not in VMAP_METHODS:
        raise ValueError(
            "vmap_method must be one of the allowed methods"
            f" {[*VMAP_METHODS, None]}, but got: {vmap_method}"
        )
    _check_sharding("pure_callback", sharding)
    leaves, in_tree = _arrays("pure_callback", args, kwargs)
    avals, out_tree = _results(result_shape_dtypes)
    op = PureCallback(FlatCallback(callback, in_tree), avals, sharding, vmap_method)
    return tree_util.tree_unflatten(out_tree, op(*leaves))


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    sharding: Sharding | None = None,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """The results of a Python function with side effects, called exactly once.

    Args:
      callback: gets the arguments as concrete arrays; returns a pytree of arrays like
        `result_shape_dtypes`.
      result_shape_dtypes: pytree of what has `shape` and `dtype`.
      *args, **kwargs: pytrees of arrays.
      sharding: from which device to call. They all are of this process, so that it
        makes no difference.
      ordered: whether the order among such calls matters. Calls are made in the
        order of the program in any case; `vmap` refuses ordered ones.

    Returns:
      A pytree of arrays like `result_shape_dtypes`.

    Raises:
      ValueError: for 64-bit results without `jax_enable_x64`; when it is
        differentiated; when it is ordered and meets `vmap`.
      JaxRuntimeError: if `callback` raises, or returns other shapes or dtypes.

    >>> import curta, numpy as np
    >>> from curta.experimental import io_callback
    >>> seen = []
    >>> curta.jit(lambda x: io_callback(seen.append, None, x))(3.0)
    >>> seen
    [Array(3., dtype=float32)]
    """
    _check_sharding("io_callback", sharding)
    leaves, in_tree = _arrays("io_callback", args, kwargs)
    avals, out_tree = _results(result_shape_dtypes)
    op = IOCallback(FlatCallback(callback, in_tree), avals, ordered, sharding)
    return tree_util.tree_unflatten(out_tree, op(*leaves))


def _check_sharding(name: str, sharding: Any) -> None:
    # All devices are of this process, and see the whole arrays.
    if sharding is not None and not isinstance(sharding, Sharding):
        raise TypeError(
            f"{name} takes a Sharding as `sharding`, got {sharding!r} of type"
            f" {type(sharding)}. Leave the argument out: every device would do."
        )


def _arrays(name: str, args: Any, kwargs: Any) -> tuple[list[Any], Any]:
    """The leaves, of random keys their words, and the structure."""
    leaves, in_tree = tree_util.tree_flatten((args, kwargs))
    for i, x in enumerate(leaves):
        if not is_array_like(x):
            raise TypeError(
                f"Error interpreting argument to {name} as an array. The"
                f" problematic value is of type {type(x)} and was passed to {name} at"
                f" position {i}. Bind it to the function, with functools.partial say."
            )
        if dtypes.issubdtype(typeof(x).dtype, dtypes.prng_key):
            leaves[i] = RandomUnwrap(implementation_of(typeof(x).dtype))(x)
    return leaves, in_tree


def _results(structs: Any) -> tuple[tuple[ShapedArray, ...], Any]:
    leaves, tree = tree_util.tree_flatten(structs)
    for x in leaves:
        if isinstance(x.dtype, dtypes.ExtendedDType):
            raise TypeError(
                f"Cannot interpret '{x.dtype}' as a data type: the results of callbacks"
                " are arrays of NumPy. Return the words of a key, and apply"
                " jax.random.wrap_key_data to them."
            )
        if dtypes.canonicalize_dtype(x.dtype) != x.dtype:
            raise ValueError(
                "result_shape_dtypes cannot specify 64-bit types when"
                f" `jax_enable_x64` is disabled, got {np.dtype(x.dtype)}. Ask for"
                f" {dtypes.canonicalize_dtype(x.dtype)}, or enable it."
            )
    return tuple(ShapedArray(tuple(x.shape), np.dtype(x.dtype)) for x in leaves), tree


# ---- debugging


def debug_callback(
    callback: Callable[..., Any] | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Call a Python function to look at values, whatever transformations are at work.

    Under `vmap` it is called once for each example, under differentiation with the
    primal values. `debug.callback(ordered=True)` is the function with its options
    set, to be called with a callback and arguments.

    Args:
      callback: gets the arguments, arrays as concrete ones; its result is ignored.
      *args, **kwargs: pytrees; leaves that are not arrays are passed as they are.
      ordered: whether the order among such calls matters. Calls are made in the
        order of the program in any case.
      partitioned: whether in a program over several devices there is a call for each
        of them, with its parts of the arrays, rather than one with the whole arrays.

    Returns:
      None; with `ordered` and no callback a function to be called with them.

    Raises:
      TypeError: if `callback` cannot be called.
      ValueError: if it is ordered, in a compiled program over several devices.

    Exceptions of `callback` propagate out of the program unchanged.

    >>> import curta
    >>> seen = []
    >>> curta.jit(lambda x: curta.debug.callback(seen.append, x + 1))(3.0)
    >>> seen
    [Array(4., dtype=float32)]
    """

    def call(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        if not callable(callback):
            raise TypeError(
                "first argument to jax.debug.callback must be callable, but got an"
                f" object of type {type(callback)}"
            )
        arrays, in_tree, static, keys = _split(args, kwargs)
        effect = ORDERED_DEBUG if ordered else DEBUG
        flat = MixedCallback(callback, in_tree, static, keys)
        DebugCallback(flat, effect, partitioned)(*arrays)

    if callback is not None:
        call(callback, *args, **kwargs)
        return None
    _check_options("debug_callback", args, kwargs)
    return call


def debug_print(
    fmt: str | None = None,
    *args: Any,
    ordered: bool = False,
    partitioned: bool = False,
    skip_format_check: bool = False,
    _use_logging: bool = False,
    **kwargs: Any,
) -> Callable[..., None] | None:
    """Print values, whatever transformations are at work.

    The text is put together when the program runs: no f-string. Under `vmap` there is
    a line for each example, under differentiation the primal values are shown.
    `debug.print(ordered=True)` is the function with its options set.

    Args:
      fmt: as for `str.format`: "{}" stands for the next of `args`, "{x}" for `x=`.
      *args, **kwargs: what to show: arrays, or anything else.
      ordered: whether the order among such calls matters. Lines are printed in the
        order of the program in any case.
      partitioned: whether in a program over several devices there is a call for each
        of them, with its parts of the arrays, rather than one with the whole arrays.
      skip_format_check: whether not to look whether `fmt` fits the arguments; those
        that a text without placeholders does not show are printed after it.

    Returns:
      None; with `ordered` and no text a function to be called with them.

    Raises:
      ValueError: for arguments that `fmt` does not show; if it is ordered, in a
        compiled program over several devices.
      IndexError, KeyError: for placeholders without an argument.

    >>> import curta
    >>> curta.jit(lambda x: curta.debug.print("x is {x}, and {}", -x, x=x))(3.0)
    x is 3.0, and -3.0
    """

    def show(fmt: str, *args: Any, **kwargs: Any) -> None:
        if not skip_format_check:
            _check_format(fmt, args, kwargs)
        fields = [field for _, field, *_ in string.Formatter().parse(fmt)]
        arrays, in_tree, static, keys = _split(args, kwargs)
        op = DebugPrint(
            fmt,
            any(field is not None for field in fields),
            in_tree,
            tuple(np.get_printoptions().items()),
            static,
            ordered,
            partitioned,
            _logging_record() if _use_logging else None,
            keys,
        )
        op(*arrays)

    if fmt is not None:
        show(fmt, *args, **kwargs)
        return None
    _check_options("debug_print", args, kwargs)
    return show


def _check_options(name: str, args: Any, kwargs: Any) -> None:
    if args or kwargs:
        raise TypeError(
            f"{name} received unexpected arguments in the two-call form: {args=}"
            f" {kwargs=}. Only options go into the first call."
        )


def debug_log(fmt: str | None = None, *args: Any, **kwargs: Any) -> Any:
    """As `debug.print`, to the logger "curta.debugging" at the level INFO.

    The record names the user's line.

    Args:
      fmt: a text for `str.format` with the other arguments; the values alone by
        default.
      *args, **kwargs: pytrees of arrays or other values.

    Returns:
      Nothing.

    Raises:
      TypeError: if `fmt` is not text.
      IndexError, KeyError: if it names an argument that is not given.

    >>> import curta, logging, sys
    >>> logger = logging.getLogger("curta.debugging")
    >>> logger.addHandler(handler := logging.StreamHandler(sys.stdout))
    >>> curta.jit(lambda x: curta.debug.log("x is {}", x))(3.0)
    x is 3.0
    >>> logger.removeHandler(handler)
    """
    return debug_print(fmt, *args, _use_logging=True, **kwargs)


def _logging_record() -> logging.LogRecord:
    location = user_frame()
    file = "(unknown file)" if location.code is None else location.code.co_filename
    return logger.makeRecord(
        logger.name, logging.INFO, file, location.line, "", (), None
    )


def _split(
    args: Any, kwargs: Any
) -> tuple[list[Any], Any, tuple[Any, ...], tuple[Any, ...]]:
    """The leaves that are arrays, the structure, and the other leaves with positions.

    Of random keys the words are taken; their positions and implementations come last.
    """
    leaves, in_tree = tree_util.tree_flatten((args, kwargs))
    arrays = [x for x in leaves if is_array_like(x)]
    static = tuple((i, x) for i, x in enumerate(leaves) if not is_array_like(x))
    keys = []
    for i, x in enumerate(arrays):
        if dtypes.issubdtype(typeof(x).dtype, dtypes.prng_key):
            implementation = implementation_of(typeof(x).dtype)
            keys.append((i, implementation))
            arrays[i] = RandomUnwrap(implementation)(x)
    return arrays, in_tree, static, tuple(keys)


def _check_format(fmt: str, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    """Raise an error, without frames of `string`, if a text does not fit arguments."""
    try:
        _checker.format(fmt, *args, **kwargs)
    except KeyError as error:
        name = error.args[0]
        raise KeyError(f"{name}: debug.print has no argument {name}=...") from None
    except IndexError:
        raise IndexError(
            f"debug.print: the format {fmt!r} has more fields than the {len(args)}"
            " positional arguments"
        ) from None
    except ValueError as error:
        raise error.with_traceback(None) from None


class _FormatChecker(string.Formatter):
    """Looks whether a format string and arguments fit, without formatting."""

    def format_field(self, value: Any, format_spec: str) -> str:
        return ""

    def check_unused_args(
        self, used_args: Any, args: Sequence[Any], kwargs: Any
    ) -> None:
        unused = [x for i, x in enumerate(args) if i not in used_args]
        if unused:
            raise ValueError(
                f"Unused positional arguments to `jax.debug.print`: {unused}. Give"
                " each a placeholder {} in the text."
            )
        names = [k for k in kwargs if k not in used_args]
        if names:
            raise ValueError(
                f"Unused keyword arguments to `jax.debug.print`: {names}. You may be"
                ' passing an f-string (`f"{x}"`), which is filled in too early: pass a'
                " plain string."
            )


_checker = _FormatChecker()


def effects_barrier() -> None:
    """Wait until all callbacks of programs called so far have run.

    On the CPU they have been made when this is called: a program returns after its
    callbacks. On devices of plugins it waits for them.

    Raises:
      JaxRuntimeError: if one of them failed.

    >>> import curta
    >>> curta.jit(lambda x: curta.debug.print("x = {}", x))(1)
    x = 1
    >>> curta.effects_barrier()
    """
    for wait in barriers:
        wait()
