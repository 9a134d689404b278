"""The passes from jaxpr to jaxpr, in the order in which they run.

`prepare.py` runs `PROGRAM` over a program, then over the jaxprs of its loops and
branches, then `LOOPS` over what has some; `ORDER` finds the order of eqns before
lowering. `CURTA_DUMP` prints the program after the passes that it names; with
`CURTA_CHECK=1` it is checked after each of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from curta.compiler.dump import dump, is_checked
from curta.compiler.rewrite.aliases import without_aliases
from curta.compiler.rewrite.dead_results import without_dead_results
from curta.compiler.rewrite.in_place import with_late_updates
from curta.compiler.rewrite.outer_products import outer_products
from curta.compiler.rewrite.overlap import overlapped
from curta.compiler.rewrite.recomputation import without_idle_barriers
from curta.compiler.rewrite.simplify import simplify
from curta.compiler.rewrite.sinking import sunk
from curta.compiler.rewrite.strip_mining import moved_out_of_loops
from curta.compiler.targets import Target
from curta.core.check import check_changed
from curta.core.jaxpr import Eqn, Jaxpr
from curta.core.recorder import span
from curta.errors import JaxprTypeError
from curta.partition.collective_order import numbers_in
from curta.transforms.dce import dce_jaxpr


class Pass(NamedTuple):
    """A function of a jaxpr and the target, and its name in `CURTA_DUMP`."""

    name: str
    run: Callable[[Jaxpr, Target], Jaxpr]


def for_all(run: Callable[[Jaxpr], Jaxpr]) -> Callable[[Jaxpr, Target], Jaxpr]:
    """Return the pass of a function that does the same for all targets."""
    return lambda jaxpr, _: run(jaxpr)


_DCE = Pass("dce", for_all(dce_jaxpr))
_DEAD_RESULTS = Pass("dead-results", for_all(without_dead_results))
PROGRAM = (
    Pass("barriers", for_all(without_idle_barriers)),  # that nothing needs
    Pass("simplify", simplify),  # algebra, equal eqns, constants
    _DCE,
)

LOOPS = (
    Pass("aliases", for_all(without_aliases)),  # one name for each value
    _DEAD_RESULTS,
    Pass("sink", sunk),  # cheap rows and indices into the loops that read them
    _DEAD_RESULTS,
    Pass("licm", moved_out_of_loops),  # invariant code, products and sums; strip mining
    Pass("simplify", simplify),
    _DCE,
)


# These find the order of eqns, the last before lowering.
ORDER = (
    Pass("outer-products", outer_products),  # to elementwise products
    _DCE,
    Pass("overlap", overlapped),  # starts collectives early, awaits them late
    Pass("late-updates", for_all(with_late_updates)),  # updates after all reads
)


def run_passes(passes: Sequence[Pass], jaxpr: Jaxpr, target: Target) -> Jaxpr:
    """Run the passes on a jaxpr, for a target.

    Raises:
        JaxprTypeError: with `CURTA_CHECK=1`, naming the first pass whose result is not
            well formed, or has collectives in another order.
    """
    known: set[Jaxpr | Eqn] = set()  # to be well formed
    for name, run in passes:
        before = jaxpr
        with span(name, "pass"):
            jaxpr = run(jaxpr, target)
        dump(name, jaxpr.__str__)
        if is_checked():
            _check(name, before, jaxpr, known)
    return jaxpr


def _check(name: str, before: Jaxpr, jaxpr: Jaxpr, known: set[Jaxpr | Eqn]) -> None:
    try:
        check_changed(jaxpr, known)
    except JaxprTypeError as error:
        raise JaxprTypeError(f"after the pass {name!r}: {error}") from error
    had, has = [*numbers_in(before)], [*numbers_in(jaxpr)]
    if has != [n for n in had if n in {*has}]:
        raise JaxprTypeError(
            f"after the pass {name!r}: collectives begin in the order {has}, which"
            f" was {had}. A pass may drop collectives, and must keep the order of the"
            " others."
        )
