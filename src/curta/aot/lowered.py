"""From a function and its arguments to the code of a standalone program."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from curta import dtypes, tree_util
from curta._base.lazy_dataclass import dataclass
from curta.aot.errors import BuildError
from curta.aot.interface import (
    Interface,
    LeafField,
    argument_paths,
    result_paths,
    tree_of,
)
from curta.api.jit import jit
from curta.compiler.callee import HostCall
from curta.compiler.emit.emission import ProgramCode, emit
from curta.compiler.lower.mpi_call import MPICallee
from curta.compiler.pipeline import lower
from curta.compiler.program.program import Program
from curta.compiler.targets import Target
from curta.control.callback import Debugging
from curta.core.dim import is_symbolic_dim
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, with_jaxprs
from curta.export.exported import Exported
from curta.runtime.donation import find_donation

ALIGNMENT = 64  # of arenas, in bytes


@dataclass(frozen=True, eq=False)
class FunctionToBuild:
    """A function traced for the types of its arguments.

    Fields:
        name: the function's own name.
        closed: its program.
        in_tree: the structure of `(args, kwargs)`, without static arguments.
        out_tree: the structure of the results.
        names: how the user names each leaf of the arguments.
        donated: for each leaf whether its memory may be overwritten.
    """

    name: str
    closed: ClosedJaxpr
    in_tree: Any
    out_tree: Any
    names: tuple[str, ...]
    donated: tuple[bool, ...]


@dataclass(frozen=True, eq=False)
class BuiltProgram:
    """The code of a function with its interface."""

    signature: Interface
    codes: tuple[ProgramCode, ...]


def traced(
    fun: Any, args: Sequence[Any], kwargs: Mapping[str, Any], options: dict[str, Any]
) -> FunctionToBuild:
    """Trace a function for arguments, or take an exported one as it is.

    Args:
        fun: a function, jitted or not, or an `Exported`.
        args: arrays, `ShapeDtypeStruct`s, or pytrees of them; static arguments.
        kwargs: the same by name.
        options: those of `jit`: `static_argnums`, `donate_argnums`, ...

    Raises:
        TypeError: an exported or jitted function is given options or arguments that it
            cannot take.
    """
    given = {k: v for k, v in options.items() if v is not None}
    if isinstance(fun, Exported):
        return _exported(fun, args, kwargs, given)
    if hasattr(fun, "trace"):
        if given:
            raise TypeError(
                f"{', '.join(given)}: the function is jitted already. Give these to"
                " `jit`, or pass the function without `jit`."
            )
    else:
        fun = jit(fun, **given)
    staged = fun.trace(*args, **kwargs)
    closed = staged.jaxpr
    donated = staged._staged.donated or (False,) * len(closed.in_avals)
    names = tuple(staged._arg_names)
    trees = staged.in_tree, staged.out_tree
    return FunctionToBuild(staged.fun_name, closed, *trees, names, tuple(donated))


def _exported(
    fun: Exported, args: Sequence[Any], kwargs: Any, options: dict[str, Any]
) -> FunctionToBuild:
    if args or kwargs or options:
        raise TypeError(
            "an exported function has the types of its arguments; build it without"
            " arguments and options of `jit`"
        )
    count = len(fun.in_avals)
    names = [f"arg{p[1].idx}" if len(p) > 1 else "arg" for p in _keys(fun.in_tree)]
    return FunctionToBuild(
        fun.fun_name, fun.jaxpr, fun.in_tree, fun.out_tree, tuple(names),
        (False,) * count,
    )  # fmt: skip


def _keys(in_tree: Any) -> list[Any]:
    from_zero = range(in_tree.num_leaves)
    leaves = tree_util.tree_leaves_with_path(
        tree_util.tree_unflatten(in_tree, from_zero)
    )
    return [path for path, _ in leaves]


def built(
    function: FunctionToBuild, symbol: str, target: Target, drop_prints: bool
) -> BuiltProgram:
    """Lower a traced function and write its code.

    Args:
        function: what is built.
        symbol: begins the names of what is exported.
        target: the machine of the code.
        drop_prints: whether to leave out `debug.print` and `debug.callback`.

    Raises:
        BuildError: the program needs Python, other hosts, or sizes that are not known.
    """
    closed = function.closed
    _check_types(function)
    if drop_prints:
        closed = _without_debugging(closed)
    arrays = [d and a.ndim > 0 for d, a in zip(function.donated, closed.in_avals)]
    pairs = dict(find_donation(closed, arrays)) if any(arrays) else {}
    program = lower(closed, target, in_place=pairs)
    _check_callees(function.name, program)
    codes = tuple(emit(program))
    parallel = any(code.parallel for code in codes)
    return BuiltProgram(_signature(function, symbol, program, pairs, parallel), codes)


def _check_types(function: FunctionToBuild) -> None:
    closed = function.closed
    jaxpr = closed.jaxpr
    ends = (*jaxpr.constvars, *jaxpr.invars, *jaxpr.outvars)
    avals = [v.aval for v in ends]
    for aval in avals:
        if aval.is_high:
            raise BuildError(
                f"{function.name}: {aval.str_short()} is a type of the program's own,"
                " not an array. Pass its arrays instead."
            )
        if any(map(is_symbolic_dim, aval.shape)):
            raise BuildError(
                f"{function.name}: {aval.str_short()} has a symbolic size. Libraries"
                " are built for fixed sizes; build one function for each size."
            )
        if dtypes.physical_dtype(aval.dtype).name == "void":
            raise BuildError(f"{function.name}: {aval.str_short()} has no elements")


def _check_callees(name: str, program: Program) -> None:
    """Raise BuildError for what only a process of Curta's can do."""
    lines = []
    for callee in _outside(program):
        eqn = callee.eqn
        if eqn is None:
            continue
        operands = ", ".join(v.aval.str_short() for v in eqn.invars)
        lines.append(f"  {eqn.op.name}({operands}) at {eqn.source_info}")
    if lines:
        found = "\n".join(dict.fromkeys(lines))
        raise BuildError(
            f"{name} cannot be built: a library has no Python, which these need:\n"
            f"{found}\nTake callbacks out of the function; `debug_print='drop'` leaves"
            " out prints. Convert operands of other ops to a dtype with compiled code."
        )


def _outside(program: Program) -> Iterator[Any]:
    for part in program.inner_first():
        for callee in part.callees:
            if isinstance(callee, (HostCall, MPICallee)):
                yield callee


def _without_debugging(closed: ClosedJaxpr) -> ClosedJaxpr:
    """Return a program without callbacks for debugging, at any depth."""
    eqns = []
    for eqn in closed.jaxpr.eqns:
        if isinstance(eqn.op, Debugging):
            continue
        op = with_jaxprs(eqn.op, _without_debugging)
        eqns.append(eqn if op is eqn.op else eqn.replace(op=op))
    return ClosedJaxpr(closed.jaxpr.replace(eqns=tuple(eqns)), closed.consts)


def _signature(
    function: FunctionToBuild, symbol: str, program: Program, pairs: Mapping[int, int],
    parallel: bool,
) -> Interface:  # fmt: skip
    closed, results = function.closed, len(function.closed.out_avals)
    physical = program.signature
    read = _read(program.jaxpr)
    in_place = {o: i for i, o in pairs.items() if o in program.in_place}
    inputs = [
        LeafField(
            index=i, path=name, aval=aval, dtype=physical[results + i][0],
            shape=physical[results + i][1], is_read=read[i],
            is_overwritten=i in in_place.values(),
        )
        for i, (name, aval) in enumerate(zip(function.names, closed.in_avals))
    ]  # fmt: skip
    paths, single = result_paths(function.out_tree)
    outputs = [
        LeafField(
            index=i, path="result" + "".join(map(str, () if single else paths[i])),
            aval=aval, dtype=physical[i][0], shape=physical[i][1],
            in_place=in_place.get(i),
        )
        for i, aval in enumerate(closed.out_avals)
    ]  # fmt: skip
    arena = int(program.arena_bytes)
    arguments = argument_paths(function.in_tree, function.names)
    return Interface(
        name=symbol,
        source=_call_text(function, inputs),
        inputs=tree_of(arguments, inputs),
        outputs=tree_of(paths, outputs),
        single=single,
        workspace=arena and arena + ALIGNMENT - 1,
        parallel=parallel,
    )


def _read(jaxpr: Jaxpr) -> list[bool]:
    used = {v for eqn in jaxpr.eqns for v in eqn.invars} | {*jaxpr.outvars}
    return [v in used for v in jaxpr.invars]


def _call_text(function: FunctionToBuild, inputs: Sequence[LeafField]) -> str:
    heads = (re.match(r"\w*", leaf.path) for leaf in inputs)
    names = dict.fromkeys(m[0] for m in heads if m is not None)
    return f"{function.name}({', '.join(names)})"
