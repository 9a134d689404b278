"""Ops for tokens, effects and dead-code elimination."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta._base.lazy_dataclass import dataclass
from curta.core.array import Array
from curta.core.avals import ShapedArray
from curta.core.effects import Effect, NamedEffect
from curta.core.op import BatchDims, Batched, Op
from curta.core.trace import base_trace
from curta.primitives.families import Linear


@dataclass(frozen=True)
class DceSink(Op):
    """Uses a value, so that dead-code elimination keeps its eqns."""

    name: ClassVar[str] = "dce_sink"
    multiple_results: ClassVar[bool] = True
    prevent_mlir_dce: bool = False

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset({NamedEffect("NoDCE")})

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return []

    def eval(self, *args: Any) -> Any:
        return []

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        self(*primals)
        return [], []

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        self(*args)
        return [], []

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((2, 3), "any")]


class token(dtypes.extended):
    """The scalar type of tokens, never made."""


@dataclass(frozen=True, repr=False)
class TokenDType(dtypes.ExtendedDType):
    """The dtype of tokens: values of no content, which order what takes them."""

    type: ClassVar[Any] = token
    name: ClassVar[str] = "Tok"  # type: ignore[misc]
    physical: ClassVar[Any] = np.dtype(bool)  # type: ignore[misc]


TOKEN = ShapedArray((), TokenDType())


class _TokenTypes(type):
    """Makes `isinstance` ask for the dtype of tokens."""

    def __instancecheck__(cls, x: Any) -> bool:
        aval = x if isinstance(x, ShapedArray) else getattr(x, "aval", None)
        is_type = isinstance(x, ShapedArray)
        known = isinstance(aval, ShapedArray) and aval.dtype == TOKEN.dtype
        return known and is_type is cls.of_types

    of_types: bool


class AbstractToken(metaclass=_TokenTypes):
    """The singleton type of tokens."""

    of_types = True

    def __new__(cls) -> Any:
        return TOKEN


class Token(metaclass=_TokenTypes):
    """The class of tokens; `lax.create_token` makes one."""

    of_types = False

    def __new__(cls, buf: Any = None) -> Any:
        return CreateToken()()


class CreateToken(Op):
    """A token that comes after nothing."""

    name: ClassVar[str] = "create_token"

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return TOKEN

    def eval(self, *args: Any) -> Any:
        return np.zeros((), bool)

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), []


class AfterAll(Op):
    """A token that comes after other tokens."""

    name: ClassVar[str] = "after_all"

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        if any(a.dtype != TOKEN.dtype for a in avals):
            raise TypeError(
                "Arguments to after_all must be tokens, as create_token makes them; got"
                f" {', '.join(a.str_short() for a in avals)}."
            )
        return TOKEN

    def eval(self, *args: Any) -> Any:
        return np.zeros((), bool)


@dataclass(frozen=True)
class Empty(Op):
    """An array of any elements: zeros."""

    name: ClassVar[str] = "empty"
    param_names: ClassVar[Mapping[str, str | None]] = {"out_sharding": None}
    shape: tuple[int, ...]
    dtype: Any

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype)

    def eval(self, *args: Any) -> Any:
        return np.zeros(self.shape, dtypes.physical_dtype(self.dtype))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((2, 3), np.dtype("float32")), []
        yield cls((), np.dtype("int32")), []


@dataclass(frozen=True)
class Empty2(Op):
    """A number of any value: zero."""

    name: ClassVar[str] = "empty2"
    dtype: Any
    memory_space: Any = None

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray((), self.dtype)

    def eval(self, *args: Any) -> Any:
        return np.zeros((), dtypes.physical_dtype(self.dtype))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(np.dtype("float32")), []


class Stage(Linear):
    """A number or NumPy array as an array. No program has an eqn of it."""

    name: ClassVar[str] = "stage"

    def __call__(self, *args: Any) -> Any:
        (x,) = args
        return x if isinstance(x, Array) else base_trace().process(self, args)

    bind = __call__

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return avals[0]

    def eval(self, *args: Any) -> Any:
        return args[0].copy()

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        return self(*args), dims[0]

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [cotangent]

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((2, 3), "any")]
