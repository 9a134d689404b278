"""Checking jaxprs: every variable is bound once, before it is read, with its type."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from curta.core.avals import ShapedArray
from curta.core.hi_types import same_kind
from curta.core.jaxpr import (
    Atom,
    Eqn,
    Jaxpr,
    Literal,
    Var,
    jaxprs_in_params,
    jaxprs_of,
)
from curta.core.pretty import Printer, Settings, format_jaxpr
from curta.core.pretty_printer import render
from curta.errors import JaxprTypeError

_LONGEST_SHOWN = 60
"""The most lines of a faulty jaxpr that the message shows."""


def check_jaxpr(jaxpr: Jaxpr) -> None:
    """Raise JaxprTypeError unless a jaxpr and those nested in it are well formed.

    Variables are bound once and before they are read, literals fit their types, and
    the types of eqns' outputs are those that their ops infer from the inputs.

    >>> import curta
    >>> from curta.core.check import check_jaxpr
    >>> check_jaxpr(curta.make_jaxpr(lambda x: x + 1)(2.0).jaxpr)
    """
    check_changed(jaxpr, set())


def check_changed(jaxpr: Jaxpr, known: set[Jaxpr | Eqn]) -> None:
    """As `check_jaxpr`, where some jaxprs and the types of some eqns are `known`.

    What is found to be well formed is known then, too.
    """
    if jaxpr in known:
        return
    checker = _Checker(jaxpr)
    for var in (*jaxpr.constvars, *jaxpr.invars):
        checker.bind(var)
    for eqn in jaxpr.eqns:
        if eqn in known:
            checker.check_scope(eqn)
            continue
        inner = [*jaxprs_in_params(eqn.op.params())]
        if inner and not eqn.op.holds_jaxprs:
            checker.fail(f"{type(eqn.op).__name__} must say that it holds_jaxprs", eqn)
        checker.check_eqn(eqn)
        for jaxpr_of_eqn in inner:
            check_changed(jaxpr_of_eqn, known)
        known.add(eqn)
    for atom in jaxpr.outvars:
        checker.read(atom)
    known.add(jaxpr)


class _Checker:
    """The variables bound so far."""

    def __init__(self, jaxpr: Jaxpr):
        self.jaxpr = jaxpr
        self.bound: set[Var] = set()

    def bind(self, var: Var, eqn: Eqn | None = None) -> None:
        if var in self.bound:
            self.fail(f"Variable '{self.name(var)}' already bound", eqn)
        self.bound.add(var)

    def read(self, atom: Atom, eqn: Eqn | None = None) -> ShapedArray:
        if isinstance(atom, Literal):
            if not _literal_fits(atom):
                self.fail(
                    f"Literal value {atom.val} does not match its type annotation"
                    f" {_short(atom.aval)}",
                    eqn,
                )
        elif atom not in self.bound:
            self.fail(f"Variable '{self.name(atom)}' not defined", eqn)
        return atom.aval

    def check_scope(self, eqn: Eqn) -> None:
        """Whether the operands are bound where an eqn stands, and its results not."""
        for atom in eqn.invars:
            if not isinstance(atom, Literal) and atom not in self.bound:
                self.read(atom, eqn)  # raises
        for var in eqn.outvars:
            self.bind(var, eqn)

    def check_eqn(self, eqn: Eqn) -> None:
        avals = [self.read(atom, eqn) for atom in eqn.invars]
        try:
            out = eqn.op.aval(*avals)
        except (TypeError, ValueError) as error:
            self.fail(str(error), eqn)
        inferred = list(out) if eqn.op.multiple_results else [out]
        if len(inferred) != len(eqn.outvars):
            self.fail(
                f"'{eqn.op.name}' gives {len(inferred)} results, but"
                f" {len(eqn.outvars)} variables are bound to them",
                eqn,
            )
        if eqn.op.inlined_names:
            (inner,) = jaxprs_of(eqn.op)
            self._check_arguments(eqn, inner, avals)
        for var, aval in zip(eqn.outvars, inferred, strict=True):
            self.bind(var, eqn)
            if not _same_type(var.aval, aval):
                self.fail(
                    f"Value for variable '{self.name(var)}' inconsistently typed as"
                    f" {_short(aval)} for let-binder of type {_short(var.aval)}",
                    eqn,
                )

    def _check_arguments(self, eqn: Eqn, inner: Jaxpr, avals: list[Any]) -> None:
        if len(avals) != len(inner.invars):
            self.fail(
                f"Call primitive {eqn.op.name} with {len(avals)} operands cannot call"
                f" jaxpr with {len(inner.invars)} inputs",
                eqn,
            )
        for given, wanted in zip(avals, inner.in_avals, strict=True):
            if not _same_type(given, wanted):
                self.fail(
                    f"Call primitive {eqn.op.name} passes operand of type"
                    f" {_short(given)} to jaxpr expecting type {_short(wanted)}",
                    eqn,
                )

    # ---- messages

    def name(self, var: Var) -> str:
        """The name under which the message's jaxpr shows the variable."""
        return self._printer().name(var)

    def _printer(self) -> Printer:
        printer = Printer(self.jaxpr, Settings())
        printer.document()
        return printer

    def fail(self, message: str, eqn: Eqn | None) -> NoReturn:
        parts = [message]
        if eqn is not None:
            text = render(self._printer().eqn(eqn))
            parts += ["in equation:", text, f"from source: {eqn.source_info}"]
        lines = format_jaxpr(self.jaxpr).splitlines()
        if len(lines) > _LONGEST_SHOWN:
            lines = [*lines[:_LONGEST_SHOWN], "  ..."]
        parts += ["while checking jaxpr:", "\n".join(lines)]
        raise JaxprTypeError("\n\n".join(parts))


def _same_type(x: ShapedArray, y: ShapedArray) -> bool:
    """Whether two avals agree, weak types aside."""
    return same_kind(x, y)


def _literal_fits(literal: Literal) -> bool:
    value, aval = literal.val, literal.aval
    if np.shape(value) != aval.shape:
        return False
    return not isinstance(value, np.generic) or value.dtype == aval.dtype


def _short(aval: ShapedArray) -> str:
    return aval.str_short(short_dtypes=True)
