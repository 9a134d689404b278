"""Types of a program's own, whose values are no arrays: `HiType`, and their tracers.

A value of such a type, a high value, is any Python object of a registered class. Its
type says which arrays it is made of (`lo_ty`, `lower_val`, `raise_val`). Jaxprs have
variables of such types; before a program is compiled each is replaced by variables for
its arrays (`transforms/lowering.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import MethodType
from typing import Any, ClassVar, NoReturn

from curta.core.avals import AbstractValue
from curta.core.trace import (
    TracedValue,
    Tracer as ArrayTracer,
    is_array_like,
    register_other_type,
    typeof,
)


def _must_override(kind: Any, method: str, needed_for: str) -> NoReturn:
    raise NotImplementedError(
        f"{needed_for} requires {type(kind).__name__} to implement the `{method}`"
        " method"
    )


class MappingSpec:
    """Base of what says how `vmap` maps values of a `HiType`.

    >>> from curta.experimental import hijax
    >>> class Rows(hijax.MappingSpec):
    ...     pass
    """


class HiPspec:
    """Base of what says how `shard_map` splits values of a `HiType`."""

    def to_lo(self) -> tuple[Any, ...]:
        """Return a `PartitionSpec` for each array that the value is made of."""
        _must_override(self, "to_lo", "shard_map")

    def to_tangent_spec(self) -> HiPspec:
        """Return how tangents are split."""
        _must_override(self, "to_tangent_spec", "autodiff through shard_map")

    def to_ct_spec(self) -> HiPspec:
        """Return how cotangents are split."""
        _must_override(self, "to_ct_spec", "autodiff through shard_map")


class HiType(AbstractValue):
    """Base of types of a program's own.

    Subclasses define `__eq__` and `__hash__`, and whichever of the methods below the
    program needs; a missing one raises NotImplementedError, which names it.
    """

    is_high: ClassVar[bool] = True
    has_qdd: ClassVar[bool] = False
    placement: ClassVar[None] = None
    weak_type: ClassVar[bool] = False

    def __hash__(self) -> int:
        _must_override(self, "__hash__", "type equality")

    def __eq__(self, other: object) -> bool:
        _must_override(self, "__eq__", "type equality")

    # ---- the arrays of a value

    def lo_ty(self) -> list[Any]:
        """Return the types of the arrays that a value is made of."""
        _must_override(self, "lo_ty", "lowering (e.g. under jit)")

    def lower_val(self, hi_val: Any, /) -> list[Any]:
        """Return the arrays that a value is made of."""
        _must_override(self, "lower_val", "lowering values (e.g. under jit)")

    def raise_val(self, *lo_vals: Any) -> Any:
        """Return the value that is made of these arrays."""
        _must_override(self, "raise_val", "raising lowered values (e.g. under jit)")

    # ---- derivatives

    def to_tangent_aval(self) -> Any:
        """Return the type of tangents."""
        _must_override(self, "to_tangent_aval", "autodiff")

    def to_ct_aval(self) -> Any:
        """Return the type of cotangents: by default that of tangents."""
        return self.to_tangent_aval()

    def to_cotangent_aval(self) -> Any:
        """Return `to_ct_aval()`: its name within the package."""
        return self.to_ct_aval()

    def vspace_zero(self) -> Any:
        """Return a zero, if values of this type are tangents or cotangents."""
        _must_override(self, "vspace_zero", "use as a tangent/cotangent type")

    def vspace_add(self, x: Any, y: Any) -> Any:
        """Return the sum of two values, if these are tangents or cotangents."""
        _must_override(self, "vspace_add", "use as a tangent/cotangent type")

    # ---- batches and loops

    def dec_rank(self, size: int | None, spec: Any) -> Any:
        """Return the type of one of the `size` examples in a value of this type."""
        _must_override(self, "dec_rank", "vmap")

    def inc_rank(self, size: int | None, spec: Any) -> Any:
        """Return the type of `size` examples of this type."""
        _must_override(self, "inc_rank", "vmap")

    def leading_axis_spec(self) -> Any:
        """Return the specification along which `scan` takes and stacks rows."""
        _must_override(self, "leading_axis_spec", "scan")

    def with_dim(self, dim: Any, size: int, entry: Any = None) -> Any:
        """Return the type of `size` examples; a `dim` of 0 is that of a scan."""
        return self.inc_rank(size, self.leading_axis_spec() if _is_int(dim) else dim)

    # ---- devices

    def shard(self, mesh: Any, manual_axes: Any, check_vma: bool, spec: Any) -> Any:
        """Return the type of a device's part."""
        _must_override(self, "shard", "shard_map")

    def unshard(self, mesh: Any, check_vma: bool, spec: Any) -> Any:
        """Return the type of the parts of all devices together."""
        _must_override(self, "unshard", "shard_map")

    def nospec(self, mesh: Any, check_vma: bool, all_names: tuple[Any, ...]) -> Any:
        """Return the specification of residuals."""
        _must_override(self, "nospec", "autodiff through shard_map")

    def reshard(self, sharding: Any) -> Any:
        """Return the type of a value that is laid out by `sharding`."""
        _must_override(self, "reshard", "reshard")

    # ---- what all types have

    def unplaced(self) -> Any:
        """Return the same type: it does not say where a value is."""
        return self

    strip_weak_type = normalize = unplaced

    def str_short(self, short_dtypes: bool = False, **_: Any) -> str:
        """Return the text by which jaxprs show the type."""
        return str(self)


def _is_int(x: Any) -> bool:
    return isinstance(x, int)


def is_high(aval: Any) -> bool:
    """Whether a type is a program's own."""
    return isinstance(aval, HiType)


def same_kind(x: Any, y: Any) -> bool:
    """Whether types agree: of arrays in shape and dtype, others by `==`."""
    if x.is_high or y.is_high:
        return bool(x == y)
    return bool(x.shape == y.shape and x.dtype == y.dtype)


class aval_method:
    """A method of the values of a type, kept in the class of the type."""

    __slots__ = ("fun",)

    def __init__(self, fun: Callable[..., Any]):
        self.fun = fun


class aval_property:
    """A property of the values of a type, kept in the class of the type."""

    __slots__ = ("fget",)

    def __init__(self, fget: Callable[[Any], Any]):
        self.fget = fget


_value_types: dict[type, Callable[[Any], Any]] = {}


def register_hitype(val_cls: type, typeof_fn: Callable[[Any], Any]) -> None:
    """Let values of a class be arguments and results of transformed functions.

    Args:
      val_cls: the class; subclasses of it are not meant.
      typeof_fn: gives the type, a `HiType`, of a value.

    Returns:
      None.

    >>> import curta, dataclasses
    >>> from curta.experimental import hijax
    >>> class Pair:
    ...     def __init__(self, x, y):
    ...         self.x, self.y = x, y
    >>> @dataclasses.dataclass(frozen=True)
    ... class PairType(hijax.HiType):
    ...     of: object
    ...     def lo_ty(self):
    ...         return [self.of, self.of]
    ...     def lower_val(self, pair):
    ...         return [pair.x, pair.y]
    ...     def raise_val(self, x, y):
    ...         return Pair(x, y)
    >>> hijax.register_hitype(Pair, lambda pair: PairType(curta.typeof(pair.x)))
    >>> curta.jit(lambda pair: pair)(Pair(1.0, 2.0)).y
    Array(2., dtype=float32, weak_type=True)
    """
    _value_types[val_cls] = typeof_fn
    register_other_type(val_cls, typeof_fn)


def is_high_value(x: Any) -> bool:
    """Whether `x` is of a registered class, or stands for such a value."""
    return type(x) in _value_types or isinstance(x, HiTracer)


def is_value(x: Any) -> bool:
    """Whether `x` can be an argument or result: an array, or a high value."""
    return is_array_like(x) or is_high_value(x)


def lower_value(x: Any) -> Sequence[Any]:
    """Return the arrays that a high value is made of; `[x]` of anything else."""
    if not is_high_value(x):
        return [x]
    parts: Sequence[Any] = typeof(x).lower_val(x)
    return parts


def lower_types(avals: Sequence[Any]) -> list[list[Any]]:
    """Return for each type those of the arrays that a value of it is made of."""
    return [_arrays_of(a.lo_ty()) if is_high(a) else [a] for a in avals]


def _arrays_of(avals: Sequence[Any]) -> list[Any]:
    return [low for part in lower_types(avals) for low in part]


# ---- tracers


class HiTracer(TracedValue):
    """A high value of a trace. It is no array.

    It has the attributes of its type, and those methods and properties that the type
    has as `aval_method` and `aval_property`. Operators are looked up in the type, too:
    `x + y` is `x.aval._add(x, y)`.
    """

    __slots__ = ("__weakref__", "_trace", "aval")

    _trace: Any
    aval: Any

    def concrete_value(self) -> None:
        """Return None: the value is not known."""
        return None

    def _error_repr(self) -> str:
        return f"traced value of type {self.aval.str_short()}"

    def __getattr__(self, name: str) -> Any:
        if name == "aval":  # not set yet
            raise AttributeError(name)
        try:
            found = getattr(self.aval, name)
        except AttributeError as error:
            raise AttributeError(
                f"{type(self).__name__} has no attribute {name}"
            ) from error
        if type(found) is aval_property:
            return found.fget(self)
        return MethodType(found.fun, self) if type(found) is aval_method else found

    def __setitem__(self, index: Any, value: Any) -> None:
        self.aval._setitem(self, index, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval.str_short()})"


class _TracerType(type(ArrayTracer)):  # type: ignore[misc]
    """The type of the class `Tracer` that programs know."""

    def __instancecheck__(cls, x: object) -> bool:
        if cls is Tracer:
            return isinstance(x, TracedValue)
        return bool(super().__instancecheck__(x))

    def __subclasscheck__(cls, kind: type) -> bool:
        if cls is Tracer:
            return issubclass(kind, TracedValue)
        return bool(super().__subclasscheck__(kind))


class Tracer(ArrayTracer, metaclass=_TracerType):
    """What programs know as `Tracer`: `isinstance` is true of all values of traces.

    >>> import curta
    >>> @curta.jit
    ... def f(x):
    ...     print(isinstance(x, curta.core.Tracer))
    >>> f(1.0)
    True
    """

    __slots__ = ()


def _operator(name: str) -> Any:
    method = f"_{name}"

    def apply(self: HiTracer, *args: Any) -> Any:
        return getattr(self.aval, method)(self, *args)

    apply.__name__ = apply.__qualname__ = f"__{name}__"
    return apply


_OPERATORS = (
    "getitem len iter add sub mul matmul truediv floordiv mod divmod pow lshift rshift"
    " and xor or radd rsub rmul rmatmul rtruediv rfloordiv rmod rdivmod rpow rlshift"
    " rrshift rand rxor ror neg pos abs invert complex int float index round trunc"
    " floor ceil eq ne lt le gt ge bool"
)
for _name in _OPERATORS.split():
    setattr(HiTracer, f"__{_name}__", _operator(_name))
HiTracer.__hash__ = object.__hash__  # type: ignore[method-assign]
