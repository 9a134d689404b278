"""Checkify: an interpreter that computes, next to the results, what went wrong.

It runs a jaxpr op by op with an `Error` (primitives/checks.py). An op's `checkify`
rule applies the op and tells the `Checker` of conditions under which something is
wrong; an op that holds jaxprs has the error among their inputs and outputs.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta import dtypes
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, Literal, bound_consts
from curta.core.memo import kept_with_jaxpr
from curta.core.op import Op
from curta.core.source_info import UNKNOWN, Replay
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.primitives.checks import (
    DivisionByZeroError,
    Error,
    ErrorEffect,
    FailedCheckError,
    IndexOutOfRange,
    JaxException,
    Metadata,
    NaNError,
    OOBError,
    check_error,
)
from curta.primitives.elementwise.bitwise import or_
from curta.primitives.elementwise.comparison import eq, gt, lt, ne
from curta.primitives.elementwise.convert import convert_element_type
from curta.primitives.elementwise.rounding import rem
from curta.primitives.indexing.dynamic import DynamicSlice
from curta.primitives.joining import Concatenate
from curta.primitives.reduction import ArgMax, ReduceOr
from curta.primitives.structure import full, reshape
from curta.transforms.dce import dce_jaxpr

Kinds = frozenset[type[JaxException]]
Effects = tuple[ErrorEffect, ...]
Dims = tuple[int, ...]
_INT32 = np.dtype(np.int32)


# Whatever the checks in a program are about, and nothing else.
OWN: Kinds = frozenset([JaxException])


class Checked(NamedTuple):
    """A jaxpr from an error of some kinds and its inputs to an error and its outputs.

    `effects` are the kinds of that error, `metadata` the codes that are new.
    """

    closed: ClosedJaxpr
    effects: Effects
    metadata: Metadata

    def with_metadata_of(self, others: Sequence[Checked]) -> Checked:
        """The same where the codes of `others` may occur too."""
        return self._replace(
            metadata=Metadata(item for c in others for item in c.metadata.items())
        )

    def error(self, results: Sequence[Any]) -> Error:
        """The error among the results of the jaxpr."""
        return Error.of(self.effects, results[: count(self.effects)], self.metadata)

    def raise_where(self, flags: Any, results: Sequence[Any]) -> list[Any]:
        """The outputs among the results; raises the error where the flags are set."""
        check_error(self.error(results).only(flags))
        return list(results[count(self.effects) :])


class Checker:
    """Runs jaxprs and keeps the first error that is of one of the `enabled` classes."""

    error: Error
    source: Any

    def __init__(self, enabled: Kinds, error: Error):
        self.enabled = enabled
        self.error = error
        self.source = UNKNOWN

    def run(
        self, jaxpr: Jaxpr, consts: Sequence[Any], args: Sequence[Any]
    ) -> list[Any]:
        """Apply the jaxpr's ops one by one, checking them."""
        env = bound_consts(jaxpr, consts)
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Any:
            return atom.operand if type(atom) is Literal else env[atom]

        replay = Replay()
        try:
            for eqn in jaxpr.eqns:
                self.source = eqn.source_info
                replay.at(eqn.source_info)
                out = eqn.op.checkify(self, [read(v) for v in eqn.invars])
                outs = out if eqn.op.multiple_results else [out]
                env.update(zip(eqn.outvars, outs, strict=True))
        finally:
            replay.finish()
        return [read(v) for v in jaxpr.outvars]

    # ---- what ops tell

    def nan(self, op: Op, out: Any) -> None:
        """`out` is what `op` gave: NaN in it is an error."""
        if NaNError not in self.enabled:
            return
        outs = out if op.multiple_results else [out]
        result = [
            any_of(ne(x, x))
            for x in outs
            if dtypes.issubdtype(typeof(x).dtype, np.inexact)
        ]
        if result:
            bad = functools.reduce(or_, result)
            self.error = self.error.adding(bad, NaNError(self.source, op.name))

    def divisor(self, x: Any) -> None:
        """`x` is divided by."""
        if DivisionByZeroError in self.enabled:
            bad = any_of(eq(x, full(typeof(x).strip_weak_type(), 0)))
            self.error = self.error.adding(bad, DivisionByZeroError(self.source))

    def starts(
        self, op: Op, operand: Any, indices: Any, axes: Dims, sizes: Dims
    ) -> None:
        """Windows of `sizes` into `operand` start at the index vectors `indices`.

        The entries of an index vector are for `axes`.
        """
        if OOBError not in self.enabled or not typeof(indices).size:
            return
        shape, dtype = typeof(operand).shape, typeof(indices).dtype
        flat = reshape(indices, (typeof(indices).size // len(axes), len(axes)))
        greatest = dtypes.iinfo(dtype).max
        limits = [min(shape[a] - sizes[a], greatest) for a in axes]
        bad = or_(lt(flat, _row([0] * len(axes), dtype)), gt(flat, _row(limits, dtype)))
        first_bad = ArgMax((0,), _INT32)(reshape(bad, (typeof(bad).size,)))
        column = rem(first_bad, np.int32(len(axes)))
        numbers = [
            DynamicSlice((1,))(x, start)
            for x, start in (
                (reshape(flat, (typeof(flat).size,)), first_bad),
                (np.array(axes, np.int32), column),
                (np.array([shape[a] for a in axes], np.int32), column),
            )
        ]
        payload = Concatenate(0)(*[convert_element_type(n, _INT32) for n in numbers])
        error = OOBError(self.source, op.name, shape, payload)
        self.error = self.error.adding(any_of(bad), error)

    def discharge(self, error: Error, debug: bool) -> list[Any]:
        """A `Check` has found `error`: it is kept, raised later, or dropped."""
        every = [e.error_type for e in error.effects]
        wanted = self.enabled
        if wanted == OWN:
            wanted = frozenset() if debug else frozenset(every)
        self.error = self.error.followed_by(error.of_types(wanted))
        raised = [t for t in every if t.raised_by_programs and t not in wanted]
        check_error(error.of_types(raised), debug)
        return []

    @property
    def is_automatic(self) -> bool:
        """Whether ops are checked, not only what the program asks for."""
        return not self.enabled <= {FailedCheckError, IndexOutOfRange, *OWN}

    # ---- jaxprs within ops

    def checked(self, closed: ClosedJaxpr, effects: Effects | None = None) -> Checked:
        """The jaxpr with the error, which has `effects`, in front."""
        known = self.error.effects if effects is None else effects
        return checked_jaxpr(closed, self.enabled, known)

    def whole(self, op: Any, args: Sequence[Any]) -> Any:
        """Apply an op that has rules for its jaxpr, which know of no errors, as it is.

        If there are checks in the jaxpr, its ops are applied instead.
        """
        if has_checks(op.effects):
            return self.run(op.jaxpr.jaxpr, op.jaxpr.consts, args)
        return Op.checkify(op, self, args)

    def apply(self, checked: Checked, op: Callable[..., Any], args: Any) -> list[Any]:
        """The outputs of `op`, which takes the error and `args` and gives it back."""
        return self.take(checked, op(*self.error.leaves(), *args))

    def take(self, checked: Checked, results: Sequence[Any]) -> list[Any]:
        """The outputs among the results, in which an error is in front."""
        n = count(checked.effects)
        metadata = {**self.error._metadata, **checked.metadata}
        self.error = Error.of(checked.effects, results[:n], metadata)
        return list(results[n:])

    def expect(self, effects: Sequence[ErrorEffect]) -> None:
        """Let the error have slots for `effects`."""
        self.error = self.error.with_effects(effects)


def count(effects: Effects) -> int:
    """How many arrays an error of these kinds has."""
    return sum(len(e.avals()) for e in effects)


@kept_with_jaxpr
def checked_jaxpr(closed: ClosedJaxpr, enabled: Kinds, effects: Effects) -> Checked:
    """The checked jaxpr for an error of the kinds `effects`."""
    n = count(effects)
    result: list[Any] = []

    def run(*args: Any) -> list[Any]:
        checker = Checker(enabled, Error.of(effects, args[:n]))
        outs = checker.run(closed.jaxpr, closed.consts, args[n:])
        error = checker.error
        result[:] = error.effects, Metadata(error._metadata)
        return [*error.leaves(), *outs]

    avals = [a for e in effects for a in e.avals()]
    staged = stage(run, [*avals, *closed.in_avals], closed.jaxpr.debug_info)
    return Checked(staged, *result)


def own_checks(closed: ClosedJaxpr, wanted: bool = True) -> Checked:
    """The jaxpr with the errors that it would raise in front of its outputs.

    With none if there are none, or they are not `wanted`. Checks that are there to be
    checkified, and raise nothing, are dropped.
    """
    if wanted and has_checks(closed.effects):
        return checked_jaxpr(closed, OWN, ())
    return Checked(closed, (), Metadata())


def has_checks(effects: frozenset[Any]) -> bool:
    """Whether a jaxpr of these effects raises errors."""
    return any(isinstance(e, ErrorEffect) for e in effects)


def without_checks(closed: ClosedJaxpr) -> ClosedJaxpr:
    """The jaxpr that raises no errors."""
    checked = own_checks(closed)
    jaxpr = checked.closed.jaxpr
    outvars = jaxpr.outvars[count(checked.effects) :]
    consts = checked.closed.consts
    return ClosedJaxpr(dce_jaxpr(jaxpr.replace(outvars=outvars)), consts)


@kept_with_jaxpr
def moved_error(closed: ClosedJaxpr, n_error: int, n_before: int) -> ClosedJaxpr:
    """A checked jaxpr with the first `n_before` inputs in front of the error."""
    inputs = closed.jaxpr.invars
    error, rest = inputs[:n_error], inputs[n_error:]
    invars = [*rest[:n_before], *error, *rest[n_before:]]
    return ClosedJaxpr(closed.jaxpr.replace(invars=invars), closed.consts)


def any_of(flags: Any) -> Any:
    """Whether one of the booleans is true."""
    return ReduceOr(tuple(range(typeof(flags).ndim)))(flags)


def _row(numbers: Sequence[int], dtype: Any) -> Any:
    return np.array([numbers], dtype)
