"""References to arrays: the one thing in a program that changes.

A `Ref` is a cell with an array in it. It belongs to the trace in which it was made,
and there reading and writing it is a matter of Python: what is in the cell is a value
of that trace, which is differentiated, batched and recorded as any other. So a
function that makes references, writes them and returns what is in them in the end
needs no rules.

Only a trace that records (`JaxprTrace`) and finds references of others, passed as
arguments or closed over, has to note what is done to them: by `RefGet`, `RefSwap` and
`RefAddUpdate`, on inputs of the type `AbstractRef`. Ops that hold such jaxprs are
applied, outside of recording, to the values of the references, and give the new ones
(transforms/discharge.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Final, NoReturn

from curta.core.avals import AbstractValue, ShapedArray
from curta.core.effects import Effect, NamedEffect
from curta.core.op import Op
from curta.core.source_info import user_frame
from curta.core.trace import Trace, TracedValue, current_trace, register_other_type
from curta.errors import UnexpectedTracerError

NOT_USED, READ, WRITTEN = range(3)
"""What a jaxpr does to a reference, the more the greater."""


class RefEffect(NamedEffect):
    """That an eqn reads or writes a reference."""

    __slots__ = ()


ReadEffect: RefEffect = RefEffect("Read")
WriteEffect: RefEffect = RefEffect("Write")
AccumEffect: RefEffect = RefEffect("Accum")


class AbstractRef(AbstractValue):
    """The type of a reference to an array of type `inner_aval`.

    >>> import curta
    >>> curta.typeof(curta.new_ref(curta.numpy.zeros(3)))
    Ref{float32[3]}
    """

    __slots__ = ("inner_aval", "kind")
    placement = None

    inner_aval: ShapedArray
    kind: str | None

    def __new__(cls, inner_aval: ShapedArray, kind: str | None = None) -> AbstractRef:
        result = _interned.get((inner_aval, kind))
        if result is None:
            result = object.__new__(cls)
            result.inner_aval, result.kind = inner_aval, kind
            result = _interned.setdefault((inner_aval, kind), result)
        return result

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the array."""
        return self.inner_aval.shape

    @property
    def dtype(self) -> Any:
        """The element type of the array."""
        return self.inner_aval.dtype

    @property
    def weak_type(self) -> bool:
        """Whether the dtype gives way to others in promotion: never."""
        return False

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.inner_aval.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return self.inner_aval.size

    @property
    def sharding(self) -> Any:
        """How the array is split over devices, as far as its type tells."""
        inner: Any = self.inner_aval
        return inner.sharding

    @property
    def memory_space(self) -> Any:
        """The memory that the array is in."""
        inner: Any = self.inner_aval
        return inner.memory_space

    def update(self, **changes: Any) -> AbstractRef:
        """The type of references to arrays of another type."""
        return AbstractRef(self.inner_aval.update(**changes), self.kind)

    def strip_weak_type(self) -> AbstractRef:
        """The same: references are strongly typed."""
        return self

    def unplaced(self) -> AbstractRef:
        """The same, of an array whose type does not say where it is."""
        return AbstractRef(self.inner_aval.unplaced(), self.kind)

    def without_dim(self, dim: int) -> AbstractRef:
        """The type of references to one slice along a dim."""
        inner: Any = self.inner_aval
        return AbstractRef(inner.without_dim(dim), self.kind)

    def to_tangent_aval(self) -> ShapedArray:
        """That of an integer: nothing is differentiated in a reference."""
        return ShapedArray(self.shape, bool).to_tangent_aval()

    to_cotangent_aval = to_tangent_aval

    def str_short(self, short_dtypes: bool = False) -> str:
        """`Ref{float32[3]}`, or `Ref{f32[3]}` with `short_dtypes`."""
        return f"Ref{{{self.inner_aval.str_short(short_dtypes)}}}"

    def __repr__(self) -> str:
        return self.str_short()

    def __reduce__(self) -> tuple[Any, ...]:
        return AbstractRef, (self.inner_aval, self.kind)


def is_ref_type(aval: Any) -> bool:
    """Whether an aval is that of references."""
    return type(aval) is AbstractRef


_interned: Final[dict[tuple[ShapedArray, str | None], AbstractRef]] = {}


class Ref:
    """A reference to an array, which `ref[...] = value` replaces.

    Made by `curta.new_ref`; indexing and the other methods are attached in
    `curta.ref`. A reference is no array: `ref[...]` is the one it holds now.

    >>> import curta
    >>> ref = curta.new_ref(curta.numpy.zeros(2))
    >>> ref[0] = 5.0
    >>> ref[...]
    Array([5., 0.], dtype=float32)
    """

    __slots__ = ("__weakref__", "_trace", "_value", "aval", "source")

    def __init__(self, aval: AbstractRef, value: Any, trace: Trace | None = None):
        self.aval: AbstractRef = aval
        self._value = value
        self._trace = current_trace() if trace is None else trace
        self.source: Any = user_frame() if self._trace.records else None

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions of the array."""
        return self.aval.shape

    @property
    def dtype(self) -> Any:
        """The element type of the array."""
        return self.aval.dtype

    @property
    def ndim(self) -> int:
        """The number of dimensions of the array."""
        return self.aval.ndim

    @property
    def size(self) -> int:
        """The number of elements of the array."""
        return self.aval.size

    @property
    def sharding(self) -> Any:
        """Where the array is."""
        return (self.aval if self._value is None else read(self)).sharding

    @property
    def committed(self) -> bool:
        """Whether the array stays on its devices."""
        return read(self).committed

    @property
    def format(self) -> Any:
        """The order of the array's dims in memory, and where it is."""
        return read(self).format

    def unsafe_buffer_pointer(self) -> int:
        """The address of the array that the reference holds now."""
        return read(self).unsafe_buffer_pointer()

    def __len__(self) -> int:
        return len(self.aval.inner_aval)

    def __iter__(self) -> NoReturn:
        raise TypeError("cannot iterate over a reference: iterate over `ref[...]`")

    def __array__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise TypeError(
            f"a reference of type {self.aval} is not an array: read it with `ref[...]`"
        )

    def __repr__(self) -> str:
        text = repr(self._value)
        if text.startswith("Array("):
            return f"Ref({text[len('Array(') :]}"
        return f"Ref<{self.aval.inner_aval.str_short()}>"


class RefTracer(Ref):
    """A reference that is an input of the jaxpr being recorded."""

    __slots__ = ("_var",)

    def __init__(self, trace: Trace, var: Any):
        super().__init__(var.aval, None, trace)
        self._var = var


register_other_type(Ref, lambda ref: ref.aval)
register_other_type(RefTracer, lambda ref: ref.aval)


# ---- reading and writing


def _owner(ref: Ref) -> Trace:
    """The innermost trace that has a say: one that records, or the reference's own."""
    if ref._trace.finished:
        raise UnexpectedTracerError(
            "Encountered an unexpected tracer. A reference of type"
            f" {ref.aval} was used after the function that made it, or took it as an"
            " argument, had returned. Return `ref[...]`, the array that it holds."
        )
    trace = current_trace()
    while trace is not ref._trace and not trace.records:
        if trace.parent is None:
            raise NotImplementedError(
                f"a reference of type {ref.aval}, made in a function that is"
                " transformed, is used where that function's values are not known: by a"
                " custom derivative, for example. Pass the array `ref[...]` instead."
            )
        trace = trace.parent
    return trace


def read(ref: Ref) -> Any:
    """The array that `ref` holds."""
    trace = _owner(ref)
    if trace is not ref._trace or type(ref) is RefTracer:
        return trace.process(RefGet(), [ref])
    if ref._value is None:
        raise ValueError(f"the reference of type {ref.aval} was frozen or freed before")
    return ref._value


def swap(ref: Ref, value: Any) -> Any:
    """Let `ref` hold `value`, of its type; returns what it held."""
    trace = _owner(ref)
    value = _value_for(ref, value, trace, "a set/swap operation")
    if trace is not ref._trace or type(ref) is RefTracer:
        return trace.process(RefSwap(), [ref, value])
    before = read(ref)
    ref._value = value
    return before


def addupdate(ref: Ref, value: Any) -> None:
    """Let `ref` hold the sum of its array and `value`, an array of its type."""
    trace = _owner(ref)
    value = _value_for(ref, value, trace, "an addupdate operation")
    if trace is not ref._trace or type(ref) is RefTracer:
        trace.process(RefAddUpdate(), [ref, value])
    else:
        ref._value = read(ref) + value


def invalidate(ref: Ref) -> None:
    """Let nothing more be done to `ref`."""
    read(ref)
    if type(ref) is Ref:
        ref._value = None


def _value_for(ref: Ref, value: Any, owner: Trace, what: str) -> Any:
    """`value` if it is one in `owner`, not only in a transformation inside of that."""
    trace: Trace | None = current_trace()
    while trace is not owner:
        assert trace is not None
        if trace.writes_apart or isinstance(value, TracedValue) and trace.owns(value):
            value = trace.written(value, ref, what)
        trace = trace.parent
    return value


# ---- the ops of jaxprs with references among their inputs


class RefOp(Op):
    """What a jaxpr does to a reference; the first operand is that."""

    takes_refs: ClassVar[bool] = True
    places_outputs: ClassVar[bool] = True  # where the referenced array is
    access: ClassVar[int]
    effect: ClassVar[RefEffect]
    verb: ClassVar[str]

    def accesses(self) -> Sequence[int]:
        """What it does to each operand, as far as they are references."""
        return (self.access,)

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset([self.effect])

    def _inner(self, *avals: Any) -> ShapedArray:
        ref, *values = avals
        if not isinstance(ref, AbstractRef):
            raise ValueError(f"`{self.verb}` must be called on `Ref` types: {ref}.")
        for value in values:
            if isinstance(value, AbstractRef):
                raise ValueError(
                    "Cannot store a Ref into another Ref. Did you forget to load from"
                    " it using `[...]`?"
                )
        return ref.inner_aval


class RefGet(RefOp):
    """The array that a reference holds."""

    name: ClassVar[str] = "get"
    access: ClassVar[int] = READ
    effect: ClassVar[RefEffect] = ReadEffect
    verb: ClassVar[str] = "get"

    def __call__(self, *args: Any) -> Any:
        return read(*args)

    def aval(self, *avals: Any) -> ShapedArray:
        return self._inner(*avals)

    def statement(self, used: bool) -> str:
        return "{out} <- {0}[...]"


class RefSwap(RefOp):
    """The array that a reference held, after it was given another one."""

    name: ClassVar[str] = "swap"
    access: ClassVar[int] = WRITTEN
    effect: ClassVar[RefEffect] = WriteEffect
    verb: ClassVar[str] = "swap"

    def __call__(self, *args: Any) -> Any:
        return swap(*args)

    def aval(self, *avals: Any) -> ShapedArray:
        return self._inner(*avals)

    def statement(self, used: bool) -> str:
        return "{out}, {0}[...] <- {0}[...], {1}" if used else "{0}[...] <- {1}"


class RefAddUpdate(RefOp):
    """Adds to the array that a reference holds."""

    name: ClassVar[str] = "addupdate"
    multiple_results: ClassVar[bool] = True
    access: ClassVar[int] = WRITTEN
    effect: ClassVar[RefEffect] = AccumEffect
    verb: ClassVar[str] = "addupdate"

    def __call__(self, *args: Any) -> Any:
        addupdate(*args)
        return []

    def aval(self, *avals: Any) -> Sequence[ShapedArray]:
        self._inner(*avals)
        return []

    def statement(self, used: bool) -> str:
        return "{0}[...] += {1}"


def returned_ref(ref: Ref, info: Any, argument: str) -> ValueError:
    """The error for a traced function that returns a reference."""
    origin = ""
    if argument:
        origin = f"passed in as the argument {argument}"
    elif ref.source is not None:
        origin = f"created on line {ref.source}"
    return ValueError(
        f"function {info.function()} traced for {info.traced_for} returned a mutable"
        f" array reference of type {ref.aval}, but mutable array references cannot be"
        " returned."
        + (f"\n\nThe returned mutable array was {origin}." if origin else "")
        + " Return `ref[...]`, the array that it holds."
    )


def refuse_custom_refs(
    what: str, outs: Sequence[Any], arguments: Sequence[Any] | None = None
) -> None:
    """Raise ValueError if a custom rule returns a reference, but one of `arguments`."""
    for x in outs:
        if not isinstance(x, Ref):
            continue
        if arguments is None:
            end = ", but mutable array references cannot be returned there."
        elif any(x is a for a in arguments):
            continue
        else:
            end = " that was not an argument."
        raise ValueError(
            f"custom_vjp {what} returned a mutable array reference of type"
            f" {x.aval}{end}"
        )


def refuse_aliases(
    refs: Sequence[Any], info: Any, names: Sequence[str], captured: Sequence[Any] = ()
) -> None:
    """Raise ValueError for a reference passed twice, or passed and closed over."""
    seen: dict[int, int] = {}
    for number, ref in enumerate(refs):
        if not isinstance(ref, Ref):
            continue
        name = _name(names, number)
        if any(ref is c for c in captured):
            raise ValueError(
                f"when tracing {info.function()} for {info.traced_for}, a mutable array"
                f" reference of type {ref.aval} was both closed over and passed as the"
                f" argument {name}"
            )
        first = seen.setdefault(id(ref), number)
        if first != number:
            raise ValueError(
                "only one reference to a mutable array may be passed as an argument to"
                f" a function, but when tracing {info.function()} for"
                f" {info.traced_for} the mutable array reference of type {ref.aval}"
                f" appeared at both {_name(names, first)} and {name}."
            )


def _name(names: Sequence[str], number: int) -> str:
    return names[number] if number < len(names) else f"argument {number}"
