"""Foreign functions, called from compiled programs by address.

They have the signature `void f(void* out, const void** ins)`, in JAX the custom call of
version 1: `ins` are the addresses of the arguments. `out` is the address of the result,
or, for several results, of an array of their addresses. Here one is made with ctypes;
others come from a library that ctypes has loaded.

>>> import ctypes
>>> import curta, curta.numpy as jnp
>>> pointers = ctypes.POINTER(ctypes.c_void_p)
>>> @ctypes.CFUNCTYPE(None, ctypes.c_void_p, pointers)
... def negative(out, ins):
...     x, y = (ctypes.cast(p, ctypes.POINTER(ctypes.c_float)) for p in (ins[0], out))
...     for i in range(3):
...         y[i] = -x[i]
>>> register_ffi_target("negative", pycapsule(negative), api_version=0)
>>> like = curta.ShapeDtypeStruct((3,), jnp.float32)
>>> call = ffi_call("negative", like, custom_call_api_version=1)
>>> curta.jit(call)(jnp.arange(3.0))
Array([-0., -1., -2.], dtype=float32)

Handlers for XLA's typed interface (version 4, JAX's default) read call frames that only
XLA makes. Registered for the platform of a plugin (`platform="cuda"`) they are called
by programs on its devices; on the CPU a call of one raises NotImplementedError.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import numpy as np

from curta import tree_util
from curta._base.on_demand import Listing, late, listed
from curta.api.callbacks import io_callback, pure_callback
from curta.control.ffi_call import FfiCall, FrozenDict, HashableArray
from curta.core.avals import ShapedArray
from curta.core.trace import typeof
from curta.errors import JaxRuntimeError
from curta.primitives.effects import TOKEN as abstract_token

given_handlers: Any = late("curta.runtime.pjrt.given_handlers")

__all__ = [
    "abstract_token",
    "build_ffi_lowering_function",
    "ffi_call",
    "ffi_lowering",
    "include_dir",
    "pycapsule",
    "register_ffi_target",
    "register_ffi_target_as_batch_partitionable",
    "register_ffi_type",
    "register_ffi_type_id",
]
__dir__: Listing = listed(__all__)


class _HandlerTarget(NamedTuple):
    capsule: Any
    api_version: int


_targets: Final[dict[str, _HandlerTarget]] = {}
_VMAP_METHODS: Final = (
    *("sequential", "sequential_unrolled", "expand_dims", "broadcast_all"),
    None,
)


def pycapsule(funcptr: Any) -> Any:
    """The address of a function of ctypes, as a capsule.

    >>> import ctypes
    >>> type(pycapsule(ctypes.pythonapi.Py_IncRef)).__name__
    'PyCapsule'
    """
    make = ctypes.pythonapi.PyCapsule_New
    make.restype, make.argtypes = ctypes.py_object, [ctypes.c_void_p] * 3
    return make(ctypes.cast(funcptr, ctypes.c_void_p), None, None)


def register_ffi_target(
    name: str, fn: Any, platform: str = "cpu", api_version: int = 1, **kwargs: Any
) -> None:
    """Give a function a name, by which `ffi_call` finds it.

    Args:
      name: the name.
      fn: a capsule of its address, or a dictionary of them.
      platform: "cpu", or the name of a plugin, as `cuda`.
      api_version: 0 for functions of addresses alone, 1 for handlers of XLA's typed
        interface, which are called on devices of plugins.
      **kwargs: taken as JAX takes them; they change nothing.

    Returns:
      None.

    Example:
      >>> import ctypes
      >>> from curta import ffi
      >>> @ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)
      ... def nothing(out, ins):
      ...     pass
      >>> ffi.register_ffi_target("nothing", ffi.pycapsule(nothing), api_version=0)
    """
    where = platform.lower()
    if where in ("cpu", "host"):
        _targets[name] = _HandlerTarget(fn, api_version)
    elif api_version == 1:
        given_handlers.give(where, name, fn)


def ffi_call(
    target_name: str,
    result_shape_dtypes: Any,
    *,
    has_side_effect: bool = False,
    vmap_method: str | None = None,
    input_layouts: Sequence[Any] | None = None,
    output_layouts: Any = None,
    input_output_aliases: dict[int, int] | None = None,
    custom_call_api_version: int = 4,
    legacy_backend_config: str | None = None,
) -> Callable[..., Any]:
    """The function of arrays that a registered function computes.

    Args:
      target_name: the name it was registered under.
      result_shape_dtypes: shape and dtype of the result, or a sequence for several.
      has_side_effect: whether it is called even if the results are not used.
      vmap_method: how it is mapped, as for `curta.pure_callback`.
      input_layouts, output_layouts: for each array a `Layout`, or its dims from major
        to minor; row-major if not given. Handlers of plugins alone take others.
      input_output_aliases: results that may have the memory of arguments; none has.
      custom_call_api_version: 1; 4 for handlers of a plugin's platform, which take
        attributes by keyword: numbers, strings, arrays and dictionaries of these.
      legacy_backend_config: not for version 1.

    Raises:
      ValueError: for an unknown `vmap_method`, where it is differentiated, and in a
        call for layouts that are none of the arrays.
      NotImplementedError: for other versions and layouts; for 4, on the CPU.
      JaxRuntimeError: in a call, if nothing has that name.

    Returns:
      A function of arrays. Each must have the dtype that the registered function reads.

    Example:
      >>> import ctypes
      >>> import curta, curta.numpy as jnp
      >>> @ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_float), ctypes.c_void_p)
      ... def forty_two(out, ins):
      ...     out[0] = 42.0
      >>> capsule = curta.ffi.pycapsule(forty_two)
      >>> curta.ffi.register_ffi_target("forty_two", capsule, api_version=0)
      >>> scalar = curta.ShapeDtypeStruct((), jnp.float32)
      >>> curta.ffi.ffi_call("forty_two", scalar, custom_call_api_version=1)()
      Array(42., dtype=float32)
    """
    if vmap_method not in _VMAP_METHODS:
        raise ValueError(
            f"vmap_method must be on of the allowed methods {[*_VMAP_METHODS]}, but"
            f" got: {vmap_method}"
        )
    typed = custom_call_api_version == 4 and given_handlers.is_given(target_name)
    known = typed or custom_call_api_version == 1
    if not known or legacy_backend_config is not None:
        _refuse(
            f"a call of '{target_name}' with custom_call_api_version="
            f"{custom_call_api_version}"
        )
    one_out = [output_layouts] if _is_layout(output_layouts) else output_layouts
    if typed:
        aliases = tuple(sorted((input_output_aliases or {}).items()))
        options = aliases, has_side_effect, vmap_method
        layouts = input_layouts, one_out
        return _typed_call(target_name, result_shape_dtypes, options, layouts)
    for layout in (*(input_layouts or ()), *(one_out or ())):
        if layout is not None and [*_order(layout)] != [*range(len(_order(layout)))]:
            _refuse(f"the layout {layout}")
    return _bare_call(target_name, result_shape_dtypes, has_side_effect, vmap_method)


def _typed_call(
    target_name: str,
    result_shape_dtypes: Any,
    options: tuple[Any, bool, str | None],
    layouts: tuple[Any, Any],
) -> Callable[..., Any]:
    """The function that a handler of a plugin computes."""
    structs, tree = tree_util.tree_flatten(result_shape_dtypes)
    avals = tuple(ShapedArray(s.shape, np.dtype(s.dtype)) for s in structs)

    def ffi_fun(*args: Any, **attributes: Any) -> Any:
        given = tuple((k, _hashable(v)) for k, v in sorted(attributes.items()))
        orders = None
        if any(layouts):
            inputs = _orders("input", layouts[0], [*map(typeof, args)])
            orders = inputs, _orders("output", layouts[1], avals)
        outs = FfiCall(target_name, avals, given, *options, orders)(*args)
        return tree_util.tree_unflatten(tree, outs)

    return ffi_fun


def _bare_call(
    target_name: str,
    result_shape_dtypes: Any,
    has_side_effect: bool,
    vmap_method: str | None,
) -> Callable[..., Any]:
    """The function that one of addresses alone computes."""

    def ffi_fun(*args: Any) -> Any:
        ranks = [np.ndim(x) for x in args]

        def call(*arrays: Any) -> Any:
            return _call(target_name, result_shape_dtypes, arrays, ranks)

        if target_name not in _targets:
            raise JaxRuntimeError(
                f"NOT_FOUND: No FFI handler registered for {target_name} on a platform"
                " Host. curta.ffi.register_ffi_target registers one."
            )
        if _targets[target_name].api_version != 0:
            _refuse(f"a call of '{target_name}', registered with api_version=1,")
        if has_side_effect:
            return io_callback(call, result_shape_dtypes, *args)
        return pure_callback(call, result_shape_dtypes, *args, vmap_method=vmap_method)

    return ffi_fun


def _hashable(attribute: Any) -> Any:
    """An attribute as one of an op."""
    if isinstance(attribute, np.ndarray):
        return HashableArray(attribute)
    if isinstance(attribute, Mapping):
        return FrozenDict({k: _hashable(v) for k, v in attribute.items()})
    return attribute


def _is_layout(x: Any) -> bool:
    return hasattr(x, "major_to_minor") or (
        isinstance(x, (tuple, list)) and all(isinstance(n, int) for n in x)
    )


def _orders(what: str, layouts: Any, avals: Sequence[ShapedArray]) -> Any:
    """The dims of each array, major to minor; ValueError where layouts do not fit."""
    given = layouts or [None] * len(avals)
    if len(given) != len(avals):
        raise ValueError(
            f"The number of {what} layouts must match the number of {what}s: got"
            f" {len(given)} layouts for {len(avals)} {what}s."
        )
    result = []
    for layout, aval in zip(given, avals):
        order = range(aval.ndim) if layout is None else _order(layout)
        if sorted(order) != [*range(aval.ndim)]:
            raise ValueError(
                f"The {what} layout {layout} is not an order of the {aval.ndim} dims of"
                f" an array of shape {aval.shape}."
            )
        result.append(tuple(order))
    return tuple(result)


def _order(layout: Any) -> Sequence[int]:
    return getattr(layout, "major_to_minor", layout)


def _call(
    name: str, result_shape_dtypes: Any, args: Sequence[Any], ranks: Sequence[int]
) -> Any:
    """Call a registered function on arrays; dims beyond their `ranks` are a batch."""
    structs, tree = tree_util.tree_flatten(result_shape_dtypes)
    ins = [np.ascontiguousarray(x).reshape(np.shape(x)) for x in args]
    leading = [x.shape[: x.ndim - r] for x, r in zip(ins, ranks, strict=True)]
    batch = np.broadcast_shapes(*leading)
    outs = [np.empty((*batch, *s.shape), s.dtype) for s in structs]
    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)(
        get(_targets[name].capsule, None)
    )
    several = isinstance(result_shape_dtypes, (tuple, list))
    function(_addresses(outs) if several else outs[0].ctypes.data, _addresses(ins))
    return tree_util.tree_unflatten(tree, outs)


def _addresses(arrays: Sequence[np.ndarray[Any, Any]]) -> Any:
    return (ctypes.c_void_p * len(arrays))(*[x.ctypes.data for x in arrays])


def _refuse(what: str) -> NoReturn:
    raise NotImplementedError(
        f"jax.ffi: {what} needs the runtime of XLA. Functions `void f(void* out, const"
        " void** ins)` on row-major arrays can be called, registered with"
        " api_version=0 and called with custom_call_api_version=1; or call the function"
        " from Python, by curta.pure_callback."
    )


def register_ffi_target_as_batch_partitionable(name: str) -> None:
    """Say that a function may be applied to parts of a batch; it changes no result.

    >>> from curta import ffi
    >>> ffi.register_ffi_target_as_batch_partitionable("solve")
    """


def include_dir() -> NoReturn:
    """Would be the folder of XLA's headers; raises NotImplementedError.

    >>> from curta import ffi
    >>> ffi.include_dir()
    Traceback (most recent call last):
    ...
    NotImplementedError: jax.ffi: a folder of headers needs the runtime of XLA. ...
    """
    _refuse("a folder of headers")


def register_ffi_type(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Would be for types of typed handlers.

    Args:
      name: what the type would be called.
      args, kwargs: JAX's.

    Returns:
      Nothing, as typed handlers cannot be called.

    Raises:
      NotImplementedError: always.

    Example:
      >>> from curta import ffi
      >>> ffi.register_ffi_type("state")
      Traceback (most recent call last):
      ...
      NotImplementedError: jax.ffi: the type 'state' needs the runtime of XLA. ...
    """
    _refuse(f"the type '{name}'")


def register_ffi_type_id(name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Would be for types of typed handlers.

    Args:
      name: what the type would be called.
      args, kwargs: JAX's.

    Returns:
      Nothing.

    Raises:
      ValueError: always, as JAX's.

    Example:
      >>> from curta import ffi
      >>> ffi.register_ffi_type_id("state")
      Traceback (most recent call last):
      ...
      ValueError: register_ffi_type_id is not supported any more.
    """
    raise ValueError("register_ffi_type_id is not supported any more.")


def ffi_lowering(call_target_name: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Would be a rule that makes MLIR.

    Args:
      call_target_name: the function it would call.
      args, kwargs: JAX's.

    Returns:
      Nothing, as there is no MLIR here.

    Raises:
      NotImplementedError: always.

    Example:
      >>> from curta import ffi
      >>> ffi.ffi_lowering("solve")
      Traceback (most recent call last):
      ...
      NotImplementedError: jax.ffi: a lowering rule for 'solve' needs the runtime of ...
    """
    _refuse(f"a lowering rule for '{call_target_name}'")


build_ffi_lowering_function = ffi_lowering
