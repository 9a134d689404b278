"""`jit(abstracted_axes=...)`: one compilation for all sizes of named dims.

The first call of a function traces and compiles it with symbolic sizes, starting from
the sizes of that call (core/symbolic/sizes.py). The result is a *variant*: machine code
and guards on the sizes for which it is valid. A call with other sizes passes its sizes
to the same code; nothing is traced or compiled unless a guard fails. A function that
cannot be compiled for symbolic sizes is compiled for each size, and `curta_advice`
reports it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curta import tree_util
from curta._base.advisor import advise
from curta._base.lazy_dataclass import dataclass
from curta.api.jit_cache import Staged
from curta.api.jit_log import Signature, log_compiling
from curta.api.jit_options import Arguments
from curta.compiler.executable import Executable
from curta.core.avals import ShapedArray
from curta.core.compile_log import timed
from curta.core.flat import function_location
from curta.core.refs import AbstractRef
from curta.core.symbolic.sizes import LEAST, Guard, SizeScope
from curta.core.trace import current_trace
from curta.runtime.backends import compile_for_sizes, keep_for_sizes
from curta.runtime.devices import default_is_host
from curta.runtime.dispatch import CompiledCall
from curta.runtime.donation import find_donation
from curta.transforms.specialise import Relocation, Substitution

Sizes = Mapping[str, int]


class AbstractedAxes:
    """The names of dims of arguments, as the user gave them."""

    def __init__(self, given: Any) -> None:
        self.given = given

    def of_leaves(self, arguments: Arguments) -> list[dict[int, Any]]:
        """For each leaf of the arguments, the names of its dims; keywords have none.

        Raises ValueError where names do not fit the arguments.
        """
        axes, args = self.given, arguments.dynamic
        count = len(args) + len(arguments.static.argnums)
        if not _is_axes(axes) and len(axes) == count:
            axes = tuple(axes[i] for i in arguments.argnums)
        try:
            flat = tree_util.broadcast_prefix(axes, tuple(args), is_leaf=_is_axes)
        except ValueError as error:
            raise ValueError(
                "abstracted_axes must be a tree that is a prefix of the arguments',"
                " with a dict from axes to names, a tuple of names (None for axes"
                f" without one) or None for each: got {self.given!r}. {error}"
            ) from None
        leaves = tree_util.tree_leaves(tuple(args))
        named = [_axes_of(x, leaf) for x, leaf in zip(flat, leaves, strict=True)]
        return named + [{} for _ in tree_util.tree_leaves(arguments.options)]


def _is_axes(x: Any) -> bool:
    """Whether it names axes: a dict from numbers, a tuple of names, or None."""
    if isinstance(x, dict):
        return all(isinstance(k, int) for k in x)
    if isinstance(x, (tuple, list)):
        return all(n is None or isinstance(n, str) for n in x)
    return x is None


def _axes_of(axes: Any, leaf: Any) -> dict[int, Any]:
    if not axes:
        return {}
    ndim = len(getattr(leaf, "shape", ()))
    pairs = axes.items() if isinstance(axes, dict) else enumerate(axes)
    result = {}
    for axis, name in pairs:
        if name is None:
            continue
        if not -ndim <= axis < ndim:
            raise ValueError(
                f"abstracted_axes names axis {axis} {name!r} of an argument with"
                f" {ndim} dimensions"
            )
        result[axis % ndim] = name
    return result


def sizes_of(names: Sequence[dict[int, Any]], avals: Sequence[ShapedArray]) -> Sizes:
    """The size of each name in a call; ValueError if one has two."""
    sizes: dict[Any, int] = {}
    where: dict[Any, tuple[int, int]] = {}
    for i, (axes, aval) in enumerate(zip(names, avals, strict=True)):
        for axis, name in axes.items():
            size = aval.shape[axis]
            if sizes.setdefault(name, size) != size:
                other, at = where[name]
                raise ValueError(
                    f"jit got inconsistent sizes for the abstracted axis {name!r}: leaf"
                    f" {other} of the arguments has size {sizes[name]} along axis {at},"
                    f" and leaf {i}, of shape {aval.str_short()}, has size {size} along"
                    f" axis {axis}."
                )
            where.setdefault(name, (i, axis))
    return sizes


def _without_sizes(
    names: Sequence[dict[int, Any]], avals: Sequence[ShapedArray]
) -> tuple[Any, ...]:
    """What calls have alike that differ in the sizes of names alone."""
    return tuple(
        (
            a.update(shape=tuple(0 if d in axes else n for d, n in enumerate(a.shape))),
            *axes.items(),
        )
        for a, axes in zip(avals, names, strict=True)
    )


@dataclass(eq=False)
class Variant:
    """Machine code of a function, for all sizes that its guards allow."""

    scope: SizeScope
    staged: Staged
    executable: Executable
    donation: Mapping[int, int]
    variables: Mapping[Any, str]

    def refusal(self, sizes: Sizes) -> tuple[Guard, str] | None:
        """A guard against these sizes, and the line that it comes from."""
        return self.scope.refusal(self._values(sizes))

    def distance(self, sizes: Sizes) -> float:
        """The distance of sizes from those that it was compiled at."""
        first, values = self.scope.sizes, self._values(sizes)
        return sum(abs(math.log(max(values[n], 1) / first[n])) for n in first)

    def _values(self, sizes: Sizes) -> dict[str, int]:
        return {variable: sizes[name] for name, variable in self.variables.items()}

    def at(self, sizes: Sizes, name: str) -> Staged:
        """The plan for given sizes: the same code, and the program at them."""
        values, one = self._values(sizes), self.staged
        closed = Substitution(values, Relocation(None)).closed(one.closed)
        keep_for_sizes(closed, self.executable.at(values), self.donation)
        plan = Staged(
            closed, (), one.out_tree, one.donated, (), (), None, one.keep_unused
        )
        plan.variant = self
        call = CompiledCall(closed, f"jit({name})", one.donated)
        plan.__dict__["_compiled"] = call
        return plan


class Variants:
    """The variants of a function for arguments that differ in sizes alone."""

    def __init__(
        self,
        name: str,
        where: str,
        trace: Callable[[Sequence[ShapedArray]], Staged],
    ):
        self.name, self.where = name, where
        self.trace = trace
        self.known: list[tuple[dict[Any, int], Variant]] = []
        self.fixed: dict[
            Any, str
        ] = {}  # names that are compiled for each size, and why

    def plan(
        self,
        names: Sequence[dict[int, Any]],
        avals: Sequence[ShapedArray],
        sizes: Sizes,
    ) -> Staged | None:
        """The plan of a call; None if it is to be compiled for its own sizes."""
        while open_ := self._open(sizes):
            variant = self._fitting(sizes, open_) or self._compiled(names, avals, sizes)
            if variant is not None:
                return variant.at(sizes, self.name)
        return None

    def _open(self, sizes: Sizes) -> list[Any]:
        """The names whose sizes are left open: 0 and 1 are compiled on their own."""
        return [n for n in sizes if n not in self.fixed and sizes[n] >= LEAST]

    def _fitting(self, sizes: Sizes, open_: Sequence[Any]) -> Variant | None:
        others = {n: sizes[n] for n in sizes if n not in open_}
        fitting = [
            variant
            for fixed, variant in self.known
            if fixed == others and variant.refusal(sizes) is None
        ]
        return min(fitting, key=lambda v: v.distance(sizes), default=None)

    def _compiled(
        self,
        names: Sequence[dict[int, Any]],
        avals: Sequence[ShapedArray],
        sizes: Sizes,
    ) -> Variant | None:
        """A new variant; None if other names have to be fixed first."""
        open_ = self._open(sizes)
        variables = {name: _variable(name, i) for i, name in enumerate(open_)}
        scope = SizeScope({variables[n]: sizes[n] for n in open_})
        dims = {n: scope.size(v) for n, v in variables.items()}
        symbolic = [_with(a, axes, dims) for a, axes in zip(avals, names, strict=True)]
        try:
            staged = self.trace(symbolic)
            donation = _donation(staged)
            log_compiling(self.name, symbolic)
            with timed(f"compilation of jit({self.name})"):
                executable = compile_for_sizes(staged.closed, donation)
        except Exception as error:
            self._fix(open_, f"{type(error).__name__}: {error}".splitlines()[0])
            return None
        if scope.needed:
            for variable, line in scope.needed.items():
                name = next(n for n, v in variables.items() if v == variable)
                self._fix([name], f"its number is asked for at {line}")
            return None
        others = {n: sizes[n] for n in sizes if n not in open_}
        variant = Variant(scope, staged, executable, donation, variables)
        self.known.append((others, variant))
        return variant

    def _fix(self, names: Sequence[Any], why: str) -> None:
        self.fixed.update((n, why) for n in names)

    def tell(self) -> None:
        """Report the names of dims that need one compilation per size, and why."""
        for name, why in self.fixed.items():
            advise(
                "sizes",
                (self.where, name),
                f"jit({self.name}) is compiled for each size of {name!r}: {why}.",
            )


def plan_of(
    function: Any, arguments: Arguments, signature: Signature
) -> tuple[Staged | None, Variants | None]:
    """The plan of a call by code for many sizes, if it has one, and what was compiled.

    `function` is a `PjitFunction`. Raises ValueError where one name has two sizes.
    """
    names = function._options.abstracted_axes.of_leaves(arguments)
    avals = signature.avals
    sizes = sizes_of(names, avals)
    plain = not any(isinstance(a, AbstractRef) or a.placement for a in avals)
    evaluating = current_trace().is_evaluating() and not signature.axes
    if not (evaluating and plain and default_is_host()):
        return None, None
    key = signature._replace(avals=_without_sizes(names, avals))
    variants = function._plans.variants.get(key)
    if variants is None:

        def trace(avals: Sequence[ShapedArray]) -> Staged:
            result: Staged = function._trace(
                arguments, signature._replace(avals=tuple(avals))
            )
            return result

        where = function_location(function._fun)
        variants = Variants(function._name, where, trace)
        function._plans.variants[key] = variants
    plan = variants.plan(names, avals, sizes)
    if plan is not None:
        plan.signature = signature
    return plan, variants


def _donation(staged: Staged) -> Mapping[int, int]:
    donated = staged.donated
    return find_donation(staged.closed, donated) if any(donated) else {}


def _with(
    aval: ShapedArray, axes: dict[int, Any], dims: Mapping[Any, Any]
) -> ShapedArray:
    """A type with dims where the sizes are open."""
    shape = (dims.get(axes.get(d), n) for d, n in enumerate(aval.shape))
    return aval.update(shape=tuple(shape)) if axes else aval


def _variable(name: Any, number: int) -> str:
    """What the size of a name is called."""
    reserved = {"mod", "floordiv", "max", "min"}
    text = str(name)
    return text if text.isidentifier() and text not in reserved else f"size{number}"
