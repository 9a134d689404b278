"""Rewrites of single eqns by op class, applied in one sweep.

A rewrite looks at an eqn (and at what its operands are made of) and gives what
its results are instead: an operand, a literal, or the result of other ops. A pass is a
few of them:

    @rewrites(Neg)
    def negated_twice(eqn, context): ...

    signs = Rewriting(negated_twice)  # a function of a jaxpr and the target
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from curta._base.lazy_dataclass import dataclass
from curta.compiler.rewrite.equality import OpKey, compares_jaxprs, literal_key
from curta.compiler.rewrite.inline import called
from curta.compiler.rewrite.loop import renamed
from curta.compiler.targets import Target, Tuning
from curta.core.jaxpr import Atom, Eqn, Jaxpr, Literal, Var
from curta.core.memo import has_hash
from curta.core.op import Op

Results = list[Atom]


class Context:
    """The eqns so far, how rewrites add to them, and the limits of the target."""

    def __init__(self, tuning: Tuning) -> None:
        self.tuning = tuning
        self.eqns: list[Eqn] = []
        self.definition: dict[Var, Eqn] = {}
        self.known: dict[Any, tuple[Var, ...]] = {}

    def made_by(self, atom: Atom, *ops: type[Op]) -> Any:
        """The eqn that defines a variable, if its op is of one of the classes."""
        eqn = self.definition.get(atom) if isinstance(atom, Var) else None
        return eqn if eqn is not None and isinstance(eqn.op, ops) else None

    def apply(self, op: Op, *args: Atom) -> Var:
        """The one result of an op: of a new eqn, or of an equal one before."""
        eqn = Eqn(op, args, (Var(op.aval(*[a.aval for a in args])),))
        return (self.results_before(eqn) or self.add(eqn))[0]

    def results_before(self, eqn: Eqn) -> tuple[Var, ...] | None:
        """The results of an equal eqn, if there was one; later ones find this one."""
        key = key_of(eqn, eqn.invars)
        known = None if key is None else self.known.setdefault(key, eqn.outvars)
        return None if known is eqn.outvars else known

    def add(self, eqn: Eqn) -> tuple[Var, ...]:
        """Append an eqn; its results."""
        self.eqns.append(eqn)
        self.definition.update((v, eqn) for v in eqn.outvars)
        return eqn.outvars


@dataclass(frozen=True)
class Rewrite:
    """A rewrite of eqns whose ops are of some classes."""

    run: Callable[[Any, Context], Results | None]
    ops: tuple[type[Op], ...]

    @property
    def name(self) -> str:
        return self.run.__name__


def rewrites(*ops: type[Op]) -> Callable[[Callable[..., Results | None]], Rewrite]:
    """Make a rewrite of a function; without classes it sees all eqns."""
    return lambda run: Rewrite(run, ops or (Op,))


class Rewriting:
    """A pass from jaxpr to jaxpr that applies rewrites, and uses equal eqns again.

    A jaxpr without an op that they are for stays as it is.
    """

    def __init__(self, *rewrites: Rewrite) -> None:
        self.rewrites = rewrites

    def __call__(self, jaxpr: Jaxpr, target: Target) -> Jaxpr:
        kinds = dict.fromkeys(type(e.op) for e in jaxpr.eqns)
        of_kind = {k: [r for r in self.rewrites if issubclass(k, r.ops)] for k in kinds}
        if not any(of_kind.values()):
            return jaxpr
        context = Context(target.tuning)
        env: dict[Var, Atom] = {}
        for eqn in jaxpr.eqns:
            eqn = renamed(eqn, env)
            results: Sequence[Atom] | None
            results = _rewritten(eqn, context, of_kind[type(eqn.op)])
            if results is None:
                results = context.results_before(eqn)
            if results is None:
                context.add(eqn)
            else:
                env.update(zip(eqn.outvars, results, strict=True))
        outvars = tuple(called(v, env) for v in jaxpr.outvars)
        return jaxpr.replace(eqns=tuple(context.eqns), outvars=outvars)


def _rewritten(eqn: Eqn, context: Context, rules: Sequence[Rewrite]) -> Results | None:
    for rule in rules:
        results = rule.run(eqn, context)
        if results is not None:
            return results
    return None


def key_of(eqn: Eqn, invars: Sequence[Atom]) -> Any:
    """The key of eqns that may be merged; None if an eqn must stay."""
    if eqn.effects or eqn.op.is_barrier:
        return None
    op, read = eqn.op, (literal_key(a) if isinstance(a, Literal) else a for a in invars)
    try:
        named = OpKey(op) if compares_jaxprs(op) else op
    except TypeError:  # a parameter without a hash
        return None
    key = (type(op), named, *read)
    return key if has_hash(key) else None
