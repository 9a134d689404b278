"""Loops whose iterations treat the rows of their arrays apart, cut along those rows.

A batch of sequences goes through a recurrent network, particles through a simulation:
row i of the new carry comes from row i of the old one, and of the `xs`, alone. Then
some rows can run through all iterations before the next ones do. Threads take such
*parts* without waiting for one another in every iteration, and what a part carries
stays in the first-level cache. Parts are cut by shape, never by the number of threads.

The analysis gives each variable of the body the dim along which it has the rows, if
any. Along which dims of operands and results of an op the same rows lie is said by its
factors; everything else follows from the carry.
"""

from __future__ import annotations

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.compiler.rewrite.inline import with_variables
from curta.compiler.rewrite.values import is_virtual, op_cost
from curta.compiler.targets import Tuning
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Literal, Var
from curta.core.op import LoopView
from curta.partition.local_ops import local_op
from curta.primitives.factors import factors
from curta.primitives.relation import Dims
from curta.primitives.shape import Iota


@dataclass(frozen=True)
class Parts:
    """How a scan is cut: `count` loops over `body`.

    `arguments` and `results` say of those of the body whether a part has its own rows
    of them (along dim 0) or all parts have the same.
    """

    count: int
    body: ClosedJaxpr
    arguments: tuple[bool, ...]
    results: tuple[bool, ...]


def parts_of(eqn: Eqn, tuning: Tuning) -> Parts | None:
    """The parts of a scan, if it has independent rows and enough to do."""
    loop = eqn.op.loop
    if loop is None or loop.iterations is None or eqn.effects:
        return None
    body = loop.body.jaxpr
    if body.constvars:
        return None
    if not all(isinstance(v.aval.dtype, np.dtype) for v in (*eqn.invars, *eqn.outvars)):
        return None
    if any(is_symbolic_dim(v.aval.size) for v in (*eqn.invars, *eqn.outvars)):
        return None  # the number of parts is a divisor of the number of rows
    carried = [v for v in body.outvars[: loop.carry] if v.aval.size > tuning.part_own]
    if not carried or not carried[0].aval.shape:
        return None
    extent = carried[0].aval.shape[0]
    row = sum(v.aval.size * v.aval.dtype.itemsize for v in carried) // extent
    rows = _rows(extent, row, tuning)
    if rows == extent or _work(body) * loop.iterations < tuning.part_work:
        return None
    row_dims = _Rows(loop, extent, tuning).row_dims()
    if row_dims is None:
        return None
    return Parts(
        extent // rows,
        ClosedJaxpr(_shrunk(body, row_dims, rows)),
        tuple(v in row_dims for v in body.invars),
        tuple(_is_cut(v, row_dims) for v in body.outvars),
    )


def _rows(extent: int, row_bytes: int, tuning: Tuning) -> int:
    """The rows of a part: few, but enough to fill vectors, tiles and cache lines."""
    least = max(
        tuning.part_rows,
        tuning.part_bytes // max(1, row_bytes),
    )
    counts = range(extent // least, 1, -1)
    return extent // next((n for n in counts if extent % n == 0), 1)


def _work(body: Jaxpr) -> int:
    """What an iteration costs, in simple operations."""
    total = 0
    for eqn in body.eqns:
        size = sum(v.aval.size for v in eqn.outvars)
        terms = eqn.op.terms(*[v.aval for v in eqn.invars])
        total += size * (terms or op_cost(eqn.op))
    return total


def _is_cut(atom: Atom, row_dims: dict[Var, int]) -> bool:
    return isinstance(atom, Var) and atom in row_dims


class _Mixed(Exception):
    """The rows depend on one another, or the analysis cannot tell."""


class _Rows:
    """Finds for each variable the dim of its rows."""

    def __init__(self, loop: LoopView, extent: int, tuning: Tuning) -> None:
        self.own: int = tuning.part_own
        self.body, self.extent = loop.body.jaxpr, extent
        self.carried, first = loop.carry, loop.consts
        self.carry = self.body.invars[first : first + self.carried]
        self.dim_of: dict[Var, int] = {}
        self.known: dict[Eqn, tuple[Dims, ...]] = {}
        self.grown = False

    def row_dims(self) -> dict[Var, int] | None:
        """The dims, where there are any; None if the rows are not independent."""
        try:
            for var in self.carry:
                if var.aval.size > self.own:
                    self._put(var, 0)
            while True:
                self.grown = False
                for eqn in self.body.eqns:
                    self._visit(eqn)
                for inner, end in zip(self.carry, self.body.outvars, strict=False):
                    self._same(inner, end)
                if not self.grown:
                    break
            self._check()
        except _Mixed:
            return None
        return self.dim_of

    def _put(self, atom: Atom, dim: int) -> None:
        shape = atom.aval.shape
        if isinstance(atom, Literal) or not dim < len(shape):
            raise _Mixed
        if shape[dim] != self.extent or self.dim_of.get(atom, dim) != dim:
            raise _Mixed
        if atom not in self.dim_of:
            self.dim_of[atom] = dim
            self.grown = True

    def _same(self, inner: Var, end: Atom) -> None:
        if inner in self.dim_of:
            self._put(end, self.dim_of[inner])
        elif _is_cut(end, self.dim_of):
            raise _Mixed

    def _visit(self, eqn: Eqn) -> None:
        """Let what is known of one operand or result tell of the others."""
        atoms = (*eqn.invars, *eqn.outvars)
        if not any(isinstance(v, Var) and v in self.dim_of for v in atoms):
            return
        sides = self._dims(eqn)
        pairs = [*zip(atoms, sides, strict=True)]
        rows = {
            dims[self.dim_of[v]]
            for v, dims in pairs
            if isinstance(v, Var) and v in self.dim_of
        }
        if len(rows) > 1:
            raise _Mixed
        (own,) = rows
        if not own or any(own not in dims for dims in sides[len(eqn.invars) :]):
            raise _Mixed  # a result depends on several rows
        for atom, dims in pairs:
            if own in dims:
                self._put(atom, dims.index(own))
            elif any(not set(own).isdisjoint(dim) for dim in dims):
                raise _Mixed

    def _dims(self, eqn: Eqn) -> tuple[Dims, ...]:
        """The factors of the dims of all operands and results of an eqn.

        () stands for those along which rows depend on one another, or on their index.
        """
        if eqn not in self.known:
            avals, outs = [v.aval for v in eqn.invars], [v.aval for v in eqn.outvars]
            rel = factors(eqn.op, avals, outs)
            mixed = set(rel.whole)
            if isinstance(eqn.op, Iota):  # row numbers differ between parts
                mixed.update(rel.results[0][eqn.op.dimension])
            self.known[eqn] = tuple(
                tuple(dim if mixed.isdisjoint(dim) else () for dim in dims)
                for dims in (*rel.operands, *rel.results)
            )
        return self.known[eqn]

    def _check(self) -> None:
        """Rows come first in what goes in and out; the rest costs little."""
        for var in self.body.invars:
            if self.dim_of.get(var, 0):
                raise _Mixed
        for end in self.body.outvars[self.carried :]:
            if not _is_cut(end, self.dim_of) or self.dim_of[end]:
                raise _Mixed
        for eqn in self.body.eqns:
            shared = not any(v in self.dim_of for v in eqn.outvars)
            large = any(v.aval.size > self.own for v in (*eqn.invars, *eqn.outvars))
            if shared and large and not is_virtual(eqn.op):
                raise _Mixed


# ---------------------------------------------------------------- smaller bodies


def _shrunk(body: Jaxpr, row_dims: dict[Var, int], rows: int) -> Jaxpr:
    """The body for a chunk of rows."""
    small = {v: Var(_with_rows(v.aval, d, rows)) for v, d in row_dims.items()}
    made, result = {*small.values()}, with_variables(body, small)

    def of_rows(eqn: Eqn) -> Eqn:
        if made.isdisjoint(eqn.outvars):
            return eqn
        shapes = [[v.aval.shape for v in side] for side in (eqn.invars, eqn.outvars)]
        return eqn.replace(op=local_op(eqn.op, *shapes))

    return result.replace(eqns=[*map(of_rows, result.eqns)])


def _with_rows(aval: ShapedArray, dim: int, rows: int) -> ShapedArray:
    return aval.update(shape=(*aval.shape[:dim], rows, *aval.shape[dim + 1 :]))
