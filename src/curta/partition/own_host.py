"""Host numbers as inputs of a local program: one program serves all hosts.

A local program asks with `HostIndex` for the number of its host within a group. Here
these ops become inputs. So no compiler pass can evaluate the number: every host
compiles the same program, with the same collectives in the same order.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.control.cond import Cond
from curta.control.remat import Remat
from curta.control.scan import Scan
from curta.control.while_loop import While
from curta.core.jaxpr import Atom, ClosedJaxpr, Eqn, Jaxpr, Var, jaxprs_of
from curta.core.op import Op
from curta.hosts.group import HostGroup
from curta.partition.collective_order import numbered
from curta.primitives.host_collectives import HostIndex

NDArray = np.ndarray[Any, Any]
Groups = tuple[HostGroup, ...]


@dataclass(frozen=True)
class OneProgram:
    """A local program that every host of a mesh runs.

    Its last inputs are the numbers, int32 scalars, of the host within `groups`.
    """

    closed: ClosedJaxpr
    groups: Groups

    def numbers(self, host: int) -> list[NDArray]:
        """The last arguments on a host."""
        return [np.array(g.index(host), np.int32) for g in self.groups]


def one_program(closed: ClosedJaxpr) -> OneProgram:
    """The local program with host numbers as its last inputs.

    Its collectives are numbered in the order of the program.
    """
    closed = numbered(closed)
    groups = _asked(closed.jaxpr)
    if not groups:
        return OneProgram(closed, ())
    given = _with_numbers(closed, groups).jaxpr
    invars = (*given.invars[len(groups) :], *given.invars[: len(groups)])
    return OneProgram(ClosedJaxpr(given.replace(invars=invars), closed.consts), groups)


def _asked(jaxpr: Jaxpr) -> Groups:
    """The groups whose numbers a jaxpr can take as inputs, each once."""
    found: dict[HostGroup, None] = {}
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, HostIndex):
            found[eqn.op.group] = None
        elif _takes_numbers.dispatch(type(eqn.op)) is not _takes_none:
            for inner in jaxprs_of(eqn.op):
                found.update(dict.fromkeys(_asked(inner)))
    return tuple(found)


def _with_numbers(closed: ClosedJaxpr, groups: Groups) -> ClosedJaxpr:
    """The jaxpr with the numbers of the host within `groups` as its first inputs."""
    if not groups:
        return closed
    jaxpr = closed.jaxpr
    numbers = {group: Var(HostIndex(group).aval()) for group in groups}
    names: dict[Var, Var] = {}
    eqns = []
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, HostIndex) and eqn.op.group in numbers:
            names[eqn.outvars[0]] = numbers[eqn.op.group]
            continue
        eqn = eqn.replace(invars=_renamed(eqn.invars, names))
        eqns.append(_takes_numbers(eqn.op, eqn, numbers))
    outvars = _renamed(jaxpr.outvars, names)
    invars = (*numbers.values(), *jaxpr.invars)
    jaxpr = jaxpr.replace(invars=invars, eqns=eqns, outvars=outvars)
    return ClosedJaxpr(jaxpr, closed.consts)


def _renamed(atoms: Sequence[Atom], names: dict[Var, Var]) -> tuple[Atom, ...]:
    return tuple(names.get(v, v) if isinstance(v, Var) else v for v in atoms)


# ---- ops that hold jaxprs

Numbers = dict[HostGroup, Var]


@functools.singledispatch
def _takes_numbers(op: Op, eqn: Eqn, numbers: Numbers) -> Eqn:
    """The eqn whose jaxprs take the numbers that they ask for as operands.

    An op without a rule keeps its `HostIndex`, which is evaluated when it runs.
    """
    return eqn


_takes_none = _takes_numbers.dispatch(object)


def _inner(
    jaxprs: Sequence[ClosedJaxpr], numbers: Numbers
) -> tuple[list[ClosedJaxpr], list[Var]]:
    """Jaxprs that all take the same numbers first, and these numbers."""
    groups = tuple(dict.fromkeys(g for j in jaxprs for g in _asked(j.jaxpr)))
    return [_with_numbers(j, groups) for j in jaxprs], [numbers[g] for g in groups]


@_takes_numbers.register
def _scan(op: Scan, eqn: Eqn, numbers: Numbers) -> Eqn:
    (body,), new = _inner([op.jaxpr], numbers)
    loop = op.with_body(body, op.num_consts + len(new), op.num_carry)
    return eqn.replace(op=loop, invars=(*new, *eqn.invars))


@_takes_numbers.register
def _while(op: While, eqn: Eqn, numbers: Numbers) -> Eqn:
    (cond,), tested = _inner([op.cond_jaxpr], numbers)
    (body,), new = _inner([op.body_jaxpr], numbers)
    loop = dataclasses.replace(
        op,
        cond_jaxpr=cond,
        body_jaxpr=body,
        cond_nconsts=op.cond_nconsts + len(tested),
        body_nconsts=op.body_nconsts + len(new),
    )
    consts, rest = eqn.invars[: op.cond_nconsts], eqn.invars[op.cond_nconsts :]
    return eqn.replace(op=loop, invars=(*tested, *consts, *new, *rest))


@_takes_numbers.register
def _cond(op: Cond, eqn: Eqn, numbers: Numbers) -> Eqn:
    branches, new = _inner(op.branches, numbers)
    index, *operands = eqn.invars
    choice = op.with_branches(tuple(branches))
    return eqn.replace(op=choice, invars=(index, *new, *operands))


@_takes_numbers.register
def _remat(op: Remat, eqn: Eqn, numbers: Numbers) -> Eqn:
    (body,), new = _inner([op.jaxpr], numbers)
    return eqn.replace(op=op.with_jaxpr(body), invars=(*new, *eqn.invars))
