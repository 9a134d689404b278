"""From eqns to scalar expressions: the elements of virtual values.

`Elements` records which variables of a jaxpr are in buffers. An element of such a
variable is a load. An element of another variable is the expression that its op's
`lower` rule writes, from the elements of its operands.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.compiler.loops.build import CannotLower, CannotLowerOp, ScalarBuilder
from curta.compiler.loops.index import Affine, LoopVar, as_index, row_major
from curta.compiler.loops.nodes import Buffer
from curta.core.avals import ShapedArray
from curta.core.dim import SymbolicDim
from curta.core.evaluate import as_numpy
from curta.core.jaxpr import Atom, Eqn, Literal, Var
from curta.dtypes import physical_dtype
from curta.errors import MissingRule


@dataclass(frozen=True)
class Operand:
    """An operand as a `lower` rule sees it: its aval, and its elements."""

    aval: ShapedArray
    _atom: Atom
    _elements: Elements

    def at(self, index: tuple[Any, ...]) -> Any:
        """The scalar expression of the element at `index`."""
        return self._elements.at(self._atom, index)


class CannotLowerEqn(CannotLower):
    """An eqn whose op has no compiled code for its dtypes."""

    def __init__(self, eqn: Eqn) -> None:
        super().__init__(eqn.op.name)
        self.eqn = eqn


@contextmanager
def refusals(eqn: Eqn) -> Iterator[None]:
    """Say which eqn it was that could not be lowered."""
    try:
        yield
    except (CannotLowerOp, MissingRule) as reason:
        raise CannotLowerEqn(eqn) from reason


class Elements:
    """The elements of the variables of one jaxpr."""

    def __init__(
        self, builder: ScalarBuilder, buffers: Mapping[Var, Buffer],
        definitions: Mapping[Var, Eqn],
    ) -> None:  # fmt: skip
        self.builder = builder
        self._buffers = buffers
        self._definitions = definitions
        self._memo: dict[Any, Any] = {}

    def at(self, atom: Atom, index: tuple[Any, ...]) -> Any:
        """The element of a variable or literal: a load if it is in a buffer."""
        if isinstance(atom, Literal):
            value = as_numpy(atom.val, atom.aval)
            return self.builder.const(
                value.item() if value.ndim == 0 else value, value.dtype
            )
        if not atom.aval.size:  # an empty array: the element is never used
            return self.builder.const(0, atom.aval.dtype)
        buffer = self._buffers.get(atom)
        if buffer is None:
            return self.computed(atom, index)
        offset = row_major(index, atom.aval.shape)
        return self.builder.load(buffer, offset, physical_dtype(atom.aval.dtype))

    def computed(self, var: Var, index: tuple[Any, ...]) -> Any:
        """The element as the op of `var` computes it, from its operands' elements."""
        eqn = self._definitions[var]
        indices = tuple(
            as_index(i) if d != 1 else as_index(0)
            for i, d in zip(index, var.aval.shape, strict=True)
        )
        key = (id(eqn), indices, self.builder.where)
        results = self._memo.get(key)
        if results is None:
            operands = [Operand(a.aval, a, self) for a in eqn.invars]
            with refusals(eqn):
                results = eqn.op.lower(self.builder, indices, *operands)
            if not eqn.op.multiple_results:
                results = (results,)
            self._memo[key] = results
        result = results[eqn.outvars.index(var)]
        dtype = physical_dtype(var.aval.dtype)
        return (
            result
            if found_dtype(result) == dtype
            else self.builder.convert(result, dtype)
        )


def found_dtype(x: Any) -> Any:
    """The dtype of a scalar; None of an index, which must still be converted."""
    return None if isinstance(x, (int, Affine, SymbolicDim)) else x.dtype


def loop_dims(shape: tuple[int, ...], first: int = 0) -> tuple[Any, ...]:
    """A loop variable for each dim, numbered from `first`; 0 where the size is 1.

    Variables are numbered by their position among the dims that have one, so that nests
    over the same outer dims share them.
    """
    index: list[Any] = []
    for extent in shape:
        if extent == 1:
            index.append(0)
        else:
            index.append(LoopVar(f"i{first}", extent))
            first += 1
    return tuple(index)


def variables(index: tuple[Any, ...]) -> tuple[LoopVar, ...]:
    """The loop variables of an index made by `loop_dims`."""
    return tuple(i for i in index if isinstance(i, LoopVar))
