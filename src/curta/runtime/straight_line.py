"""Jaxprs as lists of NumPy calls, for small arrays.

There is less between the calls than where ops are bound one by one, and nothing is
compiled. On large arrays, and where a jaxpr has loops, the compiled program runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta.compiler.rewrite.inline import inline_calls
from curta.config import config
from curta.core.evaluate import as_numpy
from curta.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal, jaxprs_of
from curta.runtime.backends import executable
from curta.runtime.eager import eval_rule, worth_compiling
from curta.runtime.transfer import to_array


def several_results(closed: ClosedJaxpr) -> Callable[..., Sequence[Any]]:
    """The jaxpr as a function of NumPy arrays to a list of results, or of buffers."""
    flat = inline_calls(closed)
    if _is_for_the_compiler(flat):
        return executable(closed).on_ready()
    return _run(flat.jaxpr, [to_array(c)._storage() for c in flat.consts])


def single_result(closed: ClosedJaxpr) -> Callable[..., Any]:
    """As `several_results`, of a jaxpr with one output: it alone is returned."""
    flat = inline_calls(closed)
    jaxpr = flat.jaxpr
    if not _is_for_the_compiler(flat) and len(jaxpr.eqns) == 1:
        (eqn,) = jaxpr.eqns
        if eqn.invars == jaxpr.invars and eqn.outvars == jaxpr.outvars:
            return eval_rule(eqn.op, [v.aval for v in eqn.invars])
    run = several_results(closed)
    return lambda *args: run(*args)[0]


def _is_for_the_compiler(closed: ClosedJaxpr) -> bool:
    jaxpr = closed.jaxpr
    most = config.tuning.compiled_elements
    if any(v.aval.size > most for v in jaxpr.invars):
        return True
    return any(
        worth_compiling(e.op, [v.aval for v in (*e.invars, *e.outvars)])
        or any(jaxprs_of(e.op))
        for e in jaxpr.eqns
    )


def _run(jaxpr: Jaxpr, consts: Sequence[Any]) -> Callable[..., Sequence[Any]]:
    """The jaxpr as steps on numbered values: inputs, fixed values, then results."""
    numbers: dict[Atom, int] = {}
    for v in (*jaxpr.invars, *jaxpr.constvars):
        numbers[v] = len(numbers)
    fixed = list(consts)
    for atom in (*[v for eqn in jaxpr.eqns for v in eqn.invars], *jaxpr.outvars):
        if type(atom) is Literal and atom not in numbers:
            numbers[atom] = len(numbers)
            fixed.append(as_numpy(atom.val, atom.aval))
    steps = []
    for eqn in jaxpr.eqns:
        inputs = [numbers[v] for v in eqn.invars]
        rule = eval_rule(eqn.op, [v.aval for v in eqn.invars])
        steps.append((rule, inputs, eqn.op.multiple_results))
        for v in eqn.outvars:
            numbers[v] = len(numbers)
    outputs = [numbers[v] for v in jaxpr.outvars]

    def run(*args: Any) -> Sequence[Any]:
        values = [*args, *fixed]
        for rule, inputs, several in steps:
            out = rule(*[values[i] for i in inputs])
            if several:
                values.extend(out)
            else:
                values.append(out)
        return [values[i] for i in outputs]

    return run
