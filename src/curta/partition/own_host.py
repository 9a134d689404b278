"""The program of one host in particular: its number is a constant.

Where a process is one host, its program may know which. Slices begin at constants
then, and nobody is asked while the program runs.
"""

from __future__ import annotations

import numpy as np

from curta.core.jaxpr import Atom, ClosedJaxpr, Literal, Var, with_jaxprs
from curta.primitives.host_collectives import HostIndex


def of_host(closed: ClosedJaxpr, host: int) -> ClosedJaxpr:
    """The program where the number of the host in each group is a literal."""
    jaxpr = closed.jaxpr
    known: dict[Atom, Literal] = {}
    eqns = []
    for eqn in jaxpr.eqns:
        if isinstance(eqn.op, HostIndex):
            (out,) = eqn.outvars
            known[out] = Literal(np.int32(eqn.op.group.index(host)), out.aval)
            continue
        op = with_jaxprs(eqn.op, lambda inner: of_host(inner, host))
        invars = tuple(known.get(v, v) if type(v) is Var else v for v in eqn.invars)
        eqns.append(eqn.replace(op=op, invars=invars))
    outvars = [known.get(v, v) if type(v) is Var else v for v in jaxpr.outvars]
    return ClosedJaxpr(jaxpr.replace(eqns=eqns, outvars=outvars), closed.consts)
