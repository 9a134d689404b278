"""Indices to LLVM integers: a scalar, or a lane for each of consecutive ones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from curta.compiler.llvm.scopes import Scopes
from curta.compiler.llvm.types import I64, Type, Value
from curta.compiler.loops.index import Affine, IndexAtom, LoopVar, Quotient, Remainder
from curta.compiler.loops.nodes import Const, DataIndex, Expr, IndexValue, Instr

_SIGNED32: Final = 2**31 - 1
_SAFE = 1 << 62


class IndexValues(Scopes, ABC):
    """The values of indices, at the current ones of the loops."""

    @abstractmethod
    def value(self, expr: Expr) -> Value:
        """The value of an expression that an index may read."""

    def index(self, index: Affine) -> Value:
        """An index as an i64, or as lanes of i64 or i32."""
        if self.lane not in self._index_depends(index):
            return self._scalar_index(index)
        known = self._memo.get(index)
        if known is None:
            low, high = index.bounds
            fits = -_SIGNED32 <= low and high <= _SIGNED32
            type_ = Type("i32" if fits else "i64", self.lanes)
            known = self._lane_index(index, type_)
            known = self.b.convert(known, "i64")
            self._remember(index, known)
        return known

    def _lane_index(self, index: Affine, type_: Type) -> Value:
        scalar = Affine(
            {
                a: k
                for a, k in index.terms.items()
                if self.lane not in self._index_depends(a.as_index())
            },
            index.const,
        )
        first = self.b.convert(self._scalar_index(scalar), type_.kind)
        total = self.b.splat(first, self.lanes)
        for atom, k in index.terms.items():
            if atom in scalar.terms:
                continue
            total = self.b.add(total, self.b.mul(self._lane_atom(atom, type_), k))
        return total

    def _lane_atom(self, atom: IndexAtom, type_: Type) -> Value:
        if isinstance(atom, LoopVar):
            first = self.b.convert(self._variables[atom], type_.kind)
            return self.b.add(self.b.splat(first, self.lanes), self.b.lane_index(type_))
        if isinstance(atom, DataIndex):
            value = self.spread(self.value(atom.value))
            unsigned = atom.value.dtype.kind in "ub"
            return self.b.convert(value, type_.kind, unsigned=unsigned)
        assert isinstance(atom, (Quotient, Remainder))
        low, high = atom.of.bounds
        fits = -_SIGNED32 <= low and high <= _SIGNED32
        inner = Type("i32" if fits else "i64", self.lanes)
        of = self._lane_index(atom.of, inner)
        return self.b.convert(self._divided(atom, of), type_.kind)

    def _divided(self, atom: Quotient | Remainder, of: Value) -> Value:
        """Division rounding down: shifted up where the dividend may be negative."""
        low, high = atom.of.bounds
        if low < -_SAFE or high > _SAFE:  # read from data: no shift would fit
            rest = self.b.srem(of, atom.by)
            rest = self.b.select(rest < 0, self.b.add(rest, atom.by), rest)
            if isinstance(atom, Remainder):
                return rest
            return self.b.div(self.b.sub(of, rest), atom.by)
        shift = -(low // atom.by) if low < 0 else 0
        if shift:
            of = self.b.add(of, shift * atom.by)
        if isinstance(atom, Remainder):
            return self.b.urem(of, atom.by)
        quotient = self.b.udiv(of, atom.by)
        return self.b.sub(quotient, shift) if shift else quotient

    def _scalar_index(self, index: Affine) -> Value:
        """The index as an i64; of the lane variable, the first lane's."""
        known = self._memo.get(("scalar", index))
        if known is not None:
            return known
        total: Value | None = None
        for atom, k in index.terms.items():
            term = self._scalar_atom(atom)
            term = term if k == 1 else self.b.mul(term, k)
            total = term if total is None else self.b.add(total, term)
        if total is None:
            return self.b.const(I64, index.const)
        if index.const:
            total = self.b.add(total, index.const)
        self._remember(("scalar", index), total)
        return total

    def _scalar_atom(self, atom: IndexAtom) -> Value:
        if isinstance(atom, LoopVar):
            return self._variables[atom]
        if isinstance(atom, DataIndex):
            unsigned = atom.value.dtype.kind in "ub"
            return self.b.convert(self.value(atom.value), "i64", unsigned=unsigned)
        assert isinstance(atom, (Quotient, Remainder))
        return self._divided(atom, self._scalar_index(atom.of))

    def _compare_index(self, expr: Instr) -> Value | None:
        """The comparison of an index with a constant, in 32 bits if it fits."""
        index, bound = expr.args
        if not isinstance(index, IndexValue) or not isinstance(bound, Const):
            return None
        low, high = index.index.bounds
        if max(-low, high, abs(bound.value)) > _SIGNED32:
            return None
        if self.lane not in self._index_depends(index.index):
            return None
        type_ = Type("i32", self.lanes)
        lanes = self._lane_index(index.index, type_)
        direction = expr.name.partition(".")[2]
        return self.b.compare(direction, lanes, self.b.const(type_, bound.value))
