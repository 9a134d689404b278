"""What a jaxpr does with random keys; finding those that are used twice."""

from __future__ import annotations

from typing import Any

import numpy as np

from curta import dtypes
from curta.core.jaxpr import Jaxpr, Literal, Var
from curta.core.key_use import Forward, KeyReuseSignature, Sink, Source
from curta.core.memo import kept_with_jaxpr
from curta.core.source_info import UNKNOWN, SourceInfo, source_text
from curta.errors import KeyReuseError


def is_key(x: Any) -> bool:
    """Whether an atom or array holds random keys."""
    return dtypes.issubdtype(x.aval.dtype, dtypes.prng_key)


class KeyUses:
    """Which variables of a jaxpr are used up, and where that was."""

    def __init__(self) -> None:
        self.consumed: dict[Any, Any] = {}  # masks
        self.locations: dict[Any, SourceInfo] = {}
        self.origins: dict[Any, Any] = {}  # of forwarded variables

    def origin(self, atom: Any) -> Any:
        """The variable of whose keys those of `atom` are."""
        while type(atom) is Var and atom in self.origins:
            atom = self.origins[atom]
        return atom

    def of(self, atom: Any) -> Any:
        """The keys that are used up."""
        atom = self.origin(atom)
        return False if type(atom) is Literal else self.consumed.get(atom, False)

    def use(self, atom: Any, mask: Any, location: SourceInfo) -> SourceInfo | None:
        """Use up keys; the location of an earlier use, if there is one."""
        atom = self.origin(atom)
        before = self.consumed.get(atom, False)
        if np.any(np.logical_and(before, mask)):
            return self.locations.get(atom, UNKNOWN)
        self.consumed[atom] = np.logical_or(before, mask)
        self.locations[atom] = location
        return None


@kept_with_jaxpr
def jaxpr_key_use(jaxpr: Jaxpr) -> KeyReuseSignature:
    """What a jaxpr does with its keys; inputs are its invars, then its constvars.

    Raises KeyReuseError if one is used twice.
    """
    uses = KeyUses()
    for eqn in jaxpr.eqns:
        eqn.op.check_keys([uses.of(v) for v in eqn.invars])
        atoms = (*eqn.invars, *eqn.outvars)
        if not any(is_key(v) for v in atoms):
            continue
        try:
            signature = eqn.op.key_use([v.aval for v in eqn.invars])
        except KeyReuseError as error:
            error.add_note(f"This is in the {eqn.op.name} of {eqn.source_info}.")
            raise
        forwarded = set()
        for forward in signature.forwards:
            uses.origins[eqn.outvars[forward.out_idx]] = eqn.invars[forward.in_idx]
            forwarded.add(forward.out_idx)
        for sink in sorted(signature.sinks):
            atom = eqn.invars[sink.idx]
            if not is_key(atom):
                continue
            before = uses.use(atom, sink.mask, eqn.source_info)
            if before is not None:
                raise KeyReuseError(
                    f"In {eqn.op.name}, argument {sink.idx} is already consumed."
                    + used_at(before, eqn.source_info)
                )
        fresh = {s.idx for s in signature.sources}
        for i, var in enumerate(eqn.outvars):
            if i not in forwarded and is_key(var):
                uses.consumed[var] = i not in fresh
                uses.locations[var] = eqn.source_info
    return _signature(jaxpr, uses)


def used_at(first: SourceInfo | None, second: SourceInfo) -> str:
    """The lines of an error that say where a key was used."""
    return f"\nThe key was first used at {first or UNKNOWN}\nand then again at {second}"


def where_used(jaxpr: Jaxpr, number: int) -> SourceInfo:
    """The line at which the input of this number is used up."""
    inputs = [*jaxpr.invars, *jaxpr.constvars]
    uses = KeyUses()
    for eqn in jaxpr.eqns:
        if not any(is_key(v) for v in eqn.invars):
            continue
        signature = eqn.op.key_use([v.aval for v in eqn.invars])
        for forward in signature.forwards:
            uses.origins[eqn.outvars[forward.out_idx]] = eqn.invars[forward.in_idx]
        for sink in signature.sinks:
            if uses.origin(eqn.invars[sink.idx]) is inputs[number]:
                return eqn.source_info
    return UNKNOWN


def used_in_each(loop: str, function: str, jaxpr: Jaxpr, number: int) -> KeyReuseError:
    """The error for a key that each iteration of a loop uses, and none replaces.

    `number` is that of the key among the inputs of the function that is repeated.
    """
    source = where_used(jaxpr, number)
    code = source_text(source) or "the function"
    return KeyReuseError(
        f"{loop} {function} function leads to key reuse when repeatedly executed:\n"
        f"{source}: `{code}` gets the same key in each iteration.",
        "To fix it: carry the key along and split it in each step, or map over"
        " curta.random.split(key, n). If the same numbers are wanted in all"
        " iterations, draw them before the loop.",
    )


def _signature(jaxpr: Jaxpr, uses: KeyUses) -> KeyReuseSignature:
    inputs = [*jaxpr.invars, *jaxpr.constvars]
    numbers = {v: i for i, v in reversed(list(enumerate(inputs)))}
    result: list[Any] = [
        Sink(i, uses.consumed[v])
        for i, v in enumerate(inputs)
        if is_key(v) and np.any(uses.consumed.get(v, False))
    ]
    for i, v in enumerate(jaxpr.outvars):
        if not is_key(v):
            continue
        origin = uses.origin(v)
        if origin in numbers:
            result.append(Forward(numbers[origin], i))
        elif not np.any(uses.of(v)):
            result.append(Source(i))
    return KeyReuseSignature(*result)


def while_key_use(
    cond: Jaxpr, body: Jaxpr, cond_nconsts: int, body_nconsts: int
) -> KeyReuseSignature:
    """What a while loop does with its keys.

    Raises KeyReuseError if a key that is used up is there again in the next step.
    """
    in_cond, in_body = jaxpr_key_use(cond), jaxpr_key_use(body)
    fresh = {s.idx for s in in_body.sources}
    used_by_cond = {s.idx - cond_nconsts for s in in_cond.sinks}
    used_by_body = {s.idx - body_nconsts for s in in_body.sinks}
    for name, used, jaxpr in (
        ("cond", used_by_cond, cond),
        ("body", used_by_body, body),
    ):
        if not used <= fresh:  # constants have negative numbers
            nconsts = cond_nconsts if name == "cond" else body_nconsts
            number = min(used - fresh) + nconsts
            raise used_in_each("while_loop", name, jaxpr, number)
    if both := used_by_cond & used_by_body:
        first = where_used(cond, min(both) + cond_nconsts)
        second = where_used(body, min(both) + body_nconsts)
        raise KeyReuseError(
            "while_loop cond and body functions both use the same key. Split it in the"
            f" body, and carry a key for each.{used_at(first, second)}"
        )
    start = cond_nconsts + body_nconsts
    return KeyReuseSignature(
        *[Sink(start + i) for i in used_by_cond | used_by_body],
        *in_body.sources,
        *[Forward(cond_nconsts + f.in_idx, f.out_idx) for f in in_body.forwards],
    )
