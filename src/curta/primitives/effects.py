"""Ops that are there for what they do to the program around them."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from curta import dtypes
from curta.core.avals import ShapedArray
from curta.core.op import Op


@dataclasses.dataclass(frozen=True)
class DceSink(Op):
    """Uses a value, so that what computes it stays in the program."""

    name: ClassVar[str] = "dce_sink"
    multiple_results: ClassVar[bool] = True
    prevent_mlir_dce: bool = False

    @property
    def effects(self) -> frozenset[str]:
        return frozenset({"NoDCE"})

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        return []

    def eval(self, *args: Any) -> Any:
        return []

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        self(*primals)
        return [], []

    def batch(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None]
    ) -> tuple[Any, Any]:
        self(*args)
        return [], []

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls(), [((2, 3), "any")]


@dataclasses.dataclass(frozen=True)
class Empty(Op):
    """An array of any elements: zeros."""

    name: ClassVar[str] = "empty"
    param_names: ClassVar[Mapping[str, str | None]] = {"out_sharding": None}
    shape: tuple[int, ...]
    dtype: Any

    def params(self) -> dict[str, Any]:
        return {"shape": self.shape, "dtype": self.dtype, "out_sharding": None}

    def aval(self, *avals: ShapedArray) -> ShapedArray:
        return ShapedArray(self.shape, self.dtype)

    def eval(self, *args: Any) -> Any:
        return np.zeros(self.shape, dtypes.physical_dtype(self.dtype))

    @classmethod
    def samples(cls) -> Iterator[Any]:
        yield cls((2, 3), np.dtype("float32")), []
        yield cls((), np.dtype("int32")), []
