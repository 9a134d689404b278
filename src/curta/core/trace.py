"""Traces and tracers: how one Python function is run under many interpretations.

A thread has one current trace. `bind` hands every op to it. The base trace
evaluates; a transformation makes a `Trace` whose parent is the one current when
it began, boxes the arguments in tracers, makes itself current and calls the
function. Values that are not its own tracers are constants to it.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np

from curta import dtypes, errors
from curta._base.on_demand import late
from curta.core.array import Array
from curta.core.avals import (
    ShapedArray,
    is_python_scalar,
    plain_scalar,
    scalar_aval,
)
from curta.core.wrapping import Flat
from curta.dtypes.scalars import ALL

assertions: Any = late("curta.core.assertions")  # when there is an error

if TYPE_CHECKING:
    from curta.core.op import Op


_identity: list[Callable[[type[Op]], Any]] = []


def set_identity(primitive_of: Callable[[type[Op]], Any]) -> None:
    """Install the function that gives the primitive of a class of ops."""
    _identity[:] = [primitive_of]


class Trace:
    """An interpretation of ops. `parent` handles what this trace does not change."""

    parent: Trace | None = None
    finished: bool = False
    """Whether the function it was made for has returned; its tracers are dead then."""
    records: bool = False
    """Whether ops become eqns of a jaxpr, rather than being applied in the parent."""
    locates: bool = False
    """Whether the eqns that ops become in the end are told the user's line."""
    differentiates: bool = False
    """Whether its values have derivatives, which are lost where they are constants."""
    evaluates_known: bool = False
    """Whether ops on known values run at once, though a jaxpr is recorded outside."""
    passes_refs: bool = False
    """Whether ops that do nothing to a reference are handed on with it."""
    expands: bool = False
    """Whether ops of a program's own are replaced by what they consist of."""
    writes_apart: bool = False
    """Whether what is written to references outside would be written many times."""

    @property
    def main(self) -> Trace:
        """The trace itself: older programs compare traces by their `main`."""
        return self

    def __init_subclass__(cls) -> None:
        if "process_primitive" in cls.__dict__:  # a user's, with JAX's interface
            own: Any = cls
            own.parent = property(lambda trace: trace.parent_trace)

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        """Apply `op`; returns one value, or a sequence if `op.multiple_results`.

        Traces that programs define say how in `process_primitive`.
        """
        return self.process_primitive(_identity[0](type(op)), args, op.params())

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Apply a function that brings its own derivative; see control/custom_*."""
        fun, rule = Flat(call.fun), Flat(call.rule)
        zeros = call.symbolic_zeros
        return self.process_custom_jvp_call(None, fun, rule, args, symbolic_zeros=zeros)

    def custom_vjp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        """Apply a function with a custom VJP rule."""
        fun, fwd, zeros = Flat(call.fun), Flat(call.fwd), call.symbolic_zeros
        return self.process_custom_vjp_call(
            None, fun, fwd, None, args, out_trees=None, symbolic_zeros=zeros
        )

    def process_primitive(self, primitive: Any, tracers: Any, params: Any) -> Any:
        """Apply an operation, in a trace that a program defines."""
        raise NotImplementedError

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Any, **options: Any
    ) -> Any:
        """Apply `fun.call_wrapped`, which has a custom JVP rule."""
        return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Any, **options: Any
    ) -> Any:
        """Apply `fun.call_wrapped`, which has a custom VJP rule."""
        return fun.call_wrapped(*tracers)

    def axis_sizes(self) -> dict[Any, int]:
        """The named axes in scope, with their sizes."""
        return self.parent.axis_sizes() if self.parent is not None else {}

    def memo(self) -> dict[Any, Any]:
        """Values cached for the lifetime of this trace."""
        kept: dict[Any, Any] = self.__dict__.setdefault("_memo", {})
        return kept

    def is_evaluating(self) -> bool:
        """Whether ops run at once on concrete arrays with nothing recorded."""
        return False

    def array(self, x: Any, aval: ShapedArray) -> Any:
        """A NumPy array as an array of this aval, which settings might narrow."""
        raise NotImplementedError

    def owns(self, x: Any) -> bool:
        """Whether `x` is a value of this trace, unknown to its parent."""
        return x._trace is self

    def written(self, x: Any, ref: Any, what: str) -> Any:
        """The value for the parent, where `x` is written to a reference outside.

        `what` names the operation that does so.
        """
        raise errors.UnexpectedTracerError(
            f"a value of {type(self).__name__} was written to a reference of type"
            f" {ref.aval} that was made outside of it"
        )


_base: list[Trace] = []


class ThreadState(threading.local):
    """What each thread has for itself: its current trace."""

    trace: Trace

    def __init__(self) -> None:
        if _base:
            self.trace = _base[0]


thread_state: ThreadState = ThreadState()


def set_base_trace(trace: Trace) -> None:
    """Install the trace that evaluates ops when no transformation is at work."""
    _base[:] = [trace]
    thread_state.trace = trace


def current_trace() -> Trace:
    """The trace that `bind` hands ops to, in this thread."""
    return thread_state.trace


def swap_trace(trace: Trace) -> Trace:
    """Make `trace` current and return the one that was; pair it with try/finally."""
    before = current_trace()
    thread_state.trace = trace
    return before


@contextlib.contextmanager
def use_trace(trace: Trace) -> Iterator[Trace]:
    """Make `trace` the current one within the `with` block.

    >>> import curta
    >>> from curta.extend.core import find_top_trace, set_current_trace
    >>> with set_current_trace(find_top_trace()):
    ...     print(curta.numpy.sin(0.0))
    0.0
    """
    before = swap_trace(trace)
    try:
        yield trace
    finally:
        thread_state.trace = before


@contextlib.contextmanager
def running(trace: Trace) -> Iterator[Trace]:
    """Make `trace` current within the block; after it its tracers are dead."""
    before = swap_trace(trace)
    try:
        yield trace
    finally:
        thread_state.trace = before
        trace.finished = True


def base_trace() -> Trace:
    """The evaluating trace."""
    return _base[0]


def trace_state_clean() -> bool:
    """Whether no transformation is at work in this thread.

    >>> import curta
    >>> from curta.core import trace_state_clean
    >>> trace_state_clean(), curta.jit(trace_state_clean)().item()
    (True, False)
    """
    return thread_state.trace is _base[0]


def bind(op: Op, *args: Any) -> Any:
    """Apply `op` to `args` under the current trace."""
    try:
        return thread_state.trace.process(op, args)
    except TypeError:
        _check_operands(op, args)
        raise


def _check_operands(op: Op, args: Sequence[Any]) -> None:
    """Raise TypeError if an operand is no array."""
    for i, x in enumerate(args):
        operand_type(op.name, i, x)


def operand_type(name: str, position: int, x: Any) -> ShapedArray:
    """The aval of operand `position` of the op of that name.

    Raises TypeError that says so if it is no array.
    """
    try:
        return typeof(x)
    except TypeError as error:
        raise TypeError(
            f"Error interpreting argument to {name} as an array. The problematic"
            f" value is of type {type(x)} and was passed to {name} at position"
            f" {position}.\n{error}"
        ) from None


def _method_of_elements(name: str) -> Any:
    """A method that only arrays with elements have."""

    def refuse(self: Tracer, *args: Any, **kwargs: Any) -> NoReturn:
        raise errors.ConcretizationTypeError(
            self, f"The {name}() method was called on {self._error_repr()}."
        )

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Raises ConcretizationTypeError: `{name}` is for known elements."
    return refuse


def _attribute_of_elements(name: str) -> Any:
    """An attribute that only arrays with elements have."""

    def refuse(self: Tracer) -> NoReturn:
        raise errors.ConcretizationTypeError(
            self, f"The '{name}' attribute is not available on {self._error_repr()}."
        )

    return property(refuse)


def _absent(name: str, kind: str) -> Any:
    """What `hasattr` does not find on tracers."""

    def refuse(self: Tracer) -> NoReturn:
        raise AttributeError(
            f"The '{name}' {kind} is not available on {self._error_repr()}."
            f"{self._origin_msg()}"
        )

    return property(refuse)


class TracedValue:
    """Base of all values of traces: `Tracer` of arrays, `HiTracer` of others."""

    __slots__ = ()
    _trace: Any
    aval: Any

    def _origin_msg(self) -> str:
        return ""


class Tracer(TracedValue, Array):
    """An array of a trace. Arithmetic and methods are attached in numpy/operators."""

    __slots__ = ("__weakref__", "_trace", "aval")
    __array_priority__ = 1000

    _trace: Any
    aval: ShapedArray

    def __init__(self, trace: Trace, aval: ShapedArray):
        self._trace, self.aval = trace, aval

    @property
    def mat(self) -> Any:
        """How the value relates to the manual axes of an enclosing `shard_map`."""
        return self.aval.mat

    def concrete_value(self) -> Any:
        """The array behind this tracer if it is known now, else None."""
        return None

    def _concretize(self, error: Callable[..., Exception], *context: Any) -> Any:
        value = self.concrete_value()
        if value is None:
            raise error(self, *context)
        return value

    def __bool__(self) -> bool:
        _check_truth(self)
        return bool(self._concretize(assertions.unknown_truth))

    def __int__(self) -> int:
        _check_scalar(self)
        return int(self._concretize(errors.ConcretizationTypeError, _through("int")))

    def __float__(self) -> float:
        # Refused even if the value is known: a Python float would drop its derivative.
        _check_scalar(self)
        raise errors.ConcretizationTypeError(self, _through("float"))

    def __complex__(self) -> complex:
        _check_scalar(self)
        raise errors.ConcretizationTypeError(self, _through("complex"))

    def __index__(self) -> int:
        if self.aval.shape or not dtypes.issubdtype(self.aval.dtype, np.integer):
            raise TypeError(
                "Only integer scalar arrays can be converted to a scalar index."
            )
        return int(self._concretize(errors.TracerIntegerConversionError))

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise errors.TracerArrayConversionError(self)

    __dlpack__: ClassVar[Any] = _method_of_elements("__dlpack__")
    __reduce__: ClassVar[Any] = _method_of_elements("__reduce__")
    addressable_data: ClassVar[Any] = _method_of_elements("addressable_data")
    delete: ClassVar[Any] = _method_of_elements("delete")
    devices: ClassVar[Any] = _method_of_elements("devices")
    is_deleted: ClassVar[Any] = _method_of_elements("is_deleted")
    on_device_size_in_bytes: ClassVar[Any] = _method_of_elements(
        "on_device_size_in_bytes"
    )
    tobytes: ClassVar[Any] = _method_of_elements("tobytes")
    unsafe_buffer_pointer: ClassVar[Any] = _method_of_elements("unsafe_buffer_pointer")

    addressable_shards: ClassVar[Any] = _attribute_of_elements("addressable_shards")
    committed: ClassVar[Any] = _attribute_of_elements("committed")
    global_shards: ClassVar[Any] = _attribute_of_elements("global_shards")
    is_fully_addressable: ClassVar[Any] = _attribute_of_elements("is_fully_addressable")
    is_fully_replicated: ClassVar[Any] = _attribute_of_elements("is_fully_replicated")

    block_until_ready: ClassVar[Any] = _absent("block_until_ready", "method")
    copy_to_host_async: ClassVar[Any] = _absent("copy_to_host_async", "method")
    device: ClassVar[Any] = _absent("device", "attribute")

    @property
    def sharding(self) -> NoReturn:
        """Only concrete arrays are placed on devices; raises AttributeError."""
        raise AttributeError(
            f"{type(self).__name__} has no attribute `sharding`: where a traced value"
            " will be is not known. The type of the value is jax.typeof(x)."
        )

    def _immutable_subject(self) -> str:
        return f" Got {self!r}."

    def __copy__(self) -> Tracer:
        return self

    def __deepcopy__(self, memo: Any) -> Tracer:
        return self

    def __repr__(self) -> str:
        weak = "~" if self.aval.weak_type else ""
        return f"{type(self).__name__}({weak}{self.aval.str_short()})"

    def __format__(self, spec: str) -> str:
        return object.__format__(self, spec)  # TypeError but for an empty one

    # The texts from which errors about this tracer are made.

    def _error_repr(self) -> str:
        return f"traced array with shape {self.aval.str_short()}"


def _through(kind: str) -> str:
    return (
        f"The problem arose with the `{kind}` function. If trying to convert the data"
        f" type of a value, try using `x.astype({kind})` or `jnp.array(x, {kind})`"
        " instead."
    )


def _check_truth(x: Tracer) -> None:
    if x.aval.size == 0:
        raise ValueError(
            "The truth value of an empty array is ambiguous. Use `array.size > 0` to"
            " check that an array is not empty."
        )
    if x.aval.size > 1:
        raise ValueError(
            "The truth value of an array with more than one element is ambiguous. Use"
            " a.any() or a.all()"
        )


def _check_scalar(x: Tracer) -> None:
    if x.aval.shape:
        raise TypeError(
            "Only scalar arrays can be converted to Python scalars; got"
            f" arr.ndim={len(x.aval.shape)}"
        )


# ---- avals of values

pytype_aval_mappings: dict[type, Callable[[Any], ShapedArray]] = {}
_other_types: dict[type, Callable[[Any], ShapedArray]] = {}


def register_aval_rule(kind: type, rule: Callable[[Any], ShapedArray]) -> None:
    """Let values of type `kind` enter ops; `rule` gives their aval."""
    pytype_aval_mappings[kind] = rule


def register_other_type(kind: type, rule: Callable[[Any], Any]) -> None:
    """Let `typeof` take values of type `kind`, which are no arrays."""
    _other_types[kind] = rule


def typeof(x: Any) -> ShapedArray:
    """The aval of an array, tracer, NumPy array or Python scalar.

    Raises TypeError for anything else.
    """
    if isinstance(x, Array):
        return x.aval
    rule = pytype_aval_mappings.get(type(x))
    if rule is not None:
        return rule(x)
    if is_python_scalar(x):
        return scalar_aval(x)
    if type(x) in _other_types:
        return _other_types[type(x)](x)
    if isinstance(x, TracedValue):
        return x.aval
    for kind in type(x).__mro__[1:]:
        if kind in pytype_aval_mappings:
            return pytype_aval_mappings[kind](x)
    if isinstance(x, (bool, int, float, complex)):
        return scalar_aval(plain_scalar(x))
    if hasattr(x, "__jax_array__"):
        raise ValueError(
            "Triggering __jax_array__() during abstractification is no longer"
            " supported. To avoid this error, either explicitly convert your object"
            " using jax.numpy.array(), or register your object as a pytree."
        )
    raise TypeError(_no_type(x))


def _no_type(x: Any) -> str:
    kind = str(type(x)) if isinstance(x, str) else f"'{type(x)}'"
    return f"Argument '{x}' of type {kind} is not a valid JAX type"


def is_array_like(x: Any) -> bool:
    """Whether `typeof` takes `x`."""
    return (
        isinstance(x, (Tracer, bool, int, float, complex))
        or type(x) in pytype_aval_mappings
        or any(kind in pytype_aval_mappings for kind in type(x).__mro__)
    )


def _numpy_aval(x: Any) -> ShapedArray:
    if type(x) is not np.ndarray and hasattr(x, "mask"):
        raise ValueError(
            "numpy masked arrays are not supported as direct inputs to functions of"
            " arrays. Use arr.filled() to convert the value to a standard numpy array."
        )
    dtype = dtypes.canonicalize_dtype(x.dtype)
    if not dtypes.is_valid_dtype(dtype):
        if isinstance(x, np.generic):
            raise TypeError(_no_type(x))
        raise TypeError(
            f"Dtype {x.dtype} is not a valid JAX array type. Only arrays of numeric"
            f" types are supported: booleans, integers, floats and complex"
            f" numbers; got {x!r}."
        )
    return ShapedArray(np.shape(x), dtype)


def _number_aval(x: Any) -> ShapedArray:
    """The aval of a scalar of a dtype that arrays have."""
    return ShapedArray((), dtypes.canonicalize_dtype(x.dtype))


register_aval_rule(np.ndarray, _numpy_aval)
register_aval_rule(np.generic, _numpy_aval)
for _dtype in ALL:  # exact types are found without a walk over bases
    register_aval_rule(_dtype.type, _number_aval)


def concrete_or_none(x: Any) -> Any:
    """The value of `x` if it is known now, else None."""
    return x.concrete_value() if isinstance(x, Tracer) else x


def concrete_or_error(
    force: Callable[[Any], Any] | None, value: Any, context: str = ""
) -> Any:
    """`force(value)`, or `value` itself for None, of a value that is known now.

    Args:
      force: the type or function that the value goes through, or None.
      value: an array, a traced value or any other object.
      context: what the message of the error says besides.

    Returns:
      The result of `force`.

    Raises:
      ConcretizationTypeError: for a traced value that is not known now.

    >>> from curta.extend.core import concrete_or_error
    >>> concrete_or_error(int, 3.0)
    3
    """
    known = concrete_or_none(value)
    if known is None and value is not None:
        raise errors.ConcretizationTypeError(value, context)
    return known if force is None else force(known)
