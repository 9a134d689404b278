"""Ahead of time: the stages of `jit` one by one.

`jit(f).trace(*args)` gives a `Traced`, its `lower()` a `Lowered`, that one's
`compile()` a `Compiled`, which is called with the arguments that are not static.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple, Protocol, Self

from curta import tree_util
from curta.api.lowered import canonical_platforms, lowered_program
from curta.control.platform import PLATFORM, check_donation
from curta.core.array_layout import Format, row_major
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.name_stack import new_name_stack
from curta.core.op import Op
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import NamedSharding, Sharding
from curta.core.trace import Tracer, typeof
from curta.errors import ConcretizationTypeError, JaxRuntimeError
from curta.lazy_dataclass import dataclass
from curta.primitives.base import Elementwise
from curta.primitives.families import Reduction
from curta.runtime.array import ArrayImpl
from curta.runtime.devices import placing_of
from curta.runtime.executables import temporary_bytes
from curta.runtime.shape_struct import ShapeDtypeStruct
from curta.transforms.dce import dce_jaxpr


class StagedFunction(Protocol):
    """What jit keeps of a function traced for one signature."""

    closed: ClosedJaxpr
    captured: Sequence[Any]
    out_tree: Any
    donated: tuple[bool, ...]
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    keep_unused: bool

    def compiled(self, name: str, places: Sequence[Any] = ()) -> Any: ...


@dataclass(frozen=True)
class ArgInfo:
    """What is known of one leaf of the arguments.

    >>> import curta
    >>> lowered = curta.jit(lambda x: x + 1).lower(1.0)
    >>> lowered.args_info
    ((ArgInfo(_aval=ShapedArray(float32[], weak_type=True), donated=False),), {})
    """

    _aval: ShapedArray
    donated: bool

    @property
    def shape(self) -> tuple[int, ...]:
        """The dimensions."""
        return self._aval.shape

    @property
    def dtype(self) -> Any:
        """The element type."""
        return self._aval.dtype


class MemoryAnalysis(NamedTuple):
    """The bytes that a compiled function reads, writes and needs besides."""

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int


class Stage:
    """What the stages share: the function's name, its jaxpr, its trees.

    `places` are the shardings of the arguments, None where they were on no device in
    particular. `abstract_places`, if any, are also those over meshes without devices.
    """

    abstract_places: Sequence[Sharding | None] = ()

    def __init__(
        self,
        name: str,
        staged: StagedFunction,
        in_tree: Any,
        arg_names: Sequence[str],
        places: Sequence[Sharding | None],
    ):
        self.fun_name = name
        self._staged = staged
        self.in_tree = in_tree
        self._arg_names = arg_names
        self._places = places

    def with_arguments(self, name: str, in_tree: Any, names: Sequence[str]) -> Self:
        """The same stage of a function whose arguments have these leaves."""
        found = copy.copy(self)
        found.fun_name, found.in_tree, found._arg_names = name, in_tree, names
        return found

    @property
    def out_tree(self) -> Any:
        """The tree structure of the output."""
        return self._staged.out_tree

    @property
    def in_avals(self) -> Any:
        """The avals of the arguments, as `(args, kwargs)`."""
        return tree_util.tree_unflatten(self.in_tree, self._in_avals)

    @property
    def args_info(self) -> Any:
        """Shape, dtype and donation of the arguments, as `(args, kwargs)`."""
        donated = self._staged.donated or (False,) * len(self._in_avals)
        infos = map(ArgInfo, self._in_avals, donated)
        return tree_util.tree_unflatten(self.in_tree, list(infos))

    @property
    def out_info(self) -> Any:
        """The shapes and dtypes of the output, as a tree of `ShapeDtypeStruct`."""
        structs = [ShapeDtypeStruct.of_aval(a) for a in self._staged.closed.out_avals]
        return tree_util.tree_unflatten(self.out_tree, structs)

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments are donated."""
        return tuple(i for i, d in enumerate(self._staged.donated) if d)

    @property
    def _in_avals(self) -> tuple[ShapedArray, ...]:
        return self._staged.closed.in_avals[len(self._staged.captured) :]

    def cost_analysis(self) -> dict[str, float]:
        """An estimate of the work: floating point operations, values of
        transcendental functions, bytes in and out."""
        closed = self._staged.closed
        touched = (*closed.in_avals, *closed.out_avals)
        return {
            "flops": float(_flops(closed)),
            "transcendentals": float(_transcendentals(closed)),
            "bytes accessed": float(sum(map(_bytes, touched))),
        }


class Traced(Stage):
    """A function traced for certain shapes and dtypes.

    >>> import curta
    >>> curta.jit(lambda x: x + 1).trace(2.0).out_info
    ShapeDtypeStruct(shape=(), dtype=float32, weak_type=True)
    """

    @property
    def out_avals(self) -> Any:
        """The avals of the output."""
        return tree_util.tree_unflatten(self.out_tree, self._staged.closed.out_avals)

    @property
    def jaxpr(self) -> ClosedJaxpr:
        """What the function does."""
        return self._staged.closed

    def lower(self, *, lowering_platforms: Any = None) -> Lowered:
        """The next stage.

        Args:
          lowering_platforms: the platforms, as `("cpu", "cuda")`, that `as_text` is to
            be for.

        Raises:
          NotImplementedError: if only some of them can take donated arguments.
        """
        rest = self._staged, self.in_tree, self._arg_names, self._places
        lowered = Lowered(self.fun_name, *rest)
        lowered.abstract_places = self.abstract_places
        if lowering_platforms is not None:
            lowered.platforms = canonical_platforms(lowering_platforms)
            check_donation(lowered.platforms, self._staged.donated)
        return lowered


class Lowered(Stage):
    """A function ready to be compiled.

    >>> import curta
    >>> lowered = curta.jit(lambda x: x + 1).lower(1.0)
    >>> lowered.compile()(2.0)
    Array(3., dtype=float32, weak_type=True)
    """

    platforms: tuple[str, ...] = (PLATFORM,)

    def as_text(self, dialect: str | None = None, *, debug_info: bool = False) -> str:
        """The text of the program as StableHLO.

        It is also what is given for "hlo", a form of XLA's own. With "jaxpr" it is the
        jaxpr, which Curta's compiler for CPUs takes. With `debug_info` each line ends
        with the path to the op through functions, scopes (`named_scope`),
        transformations and loops, and the user's line. Raises ValueError for other
        dialects.

        >>> import curta, curta.numpy as jnp
        >>> fun = curta.vmap(curta.named_call(jnp.sin, name="a"))
        >>> lowered = curta.jit(fun).lower(jnp.ones(2))
        >>> print(lowered.as_text())  # doctest: +ELLIPSIS
        module @jit_sin attributes {mhlo.num_partitions = 1 : i32, ...
            %0 = stablehlo.sine %arg0 : tensor<2xf32>
        ...
        >>> print(lowered.as_text("jaxpr", debug_info=True))
        { lambda ; a:f32[2]. let b:f32[2] = sin a in (b,) } # jit(sin)/vmap(a)/sin ...
        """
        if dialect != "jaxpr":
            _check_dialect(dialect)
            return self._module.text(debug_info=debug_info)
        if not debug_info:
            return str(self._live)
        path = new_name_stack(f"jit({self.fun_name})")
        return self._live.pretty_print(path=path)

    def compiler_ir(self, dialect: str | None = None) -> Any:
        """The program: as a module of StableHLO, whose `str` is the text.

        With "jaxpr" it is the jaxpr. Raises NotImplementedError for "hlo", the programs
        of XLA, which only XLA can make.
        """
        if dialect == "jaxpr":
            return self._live
        _check_dialect(dialect)
        if dialect == "hlo":
            raise NotImplementedError(
                "compiler_ir('hlo') would be a program of XLA's own, which is not part"
                " of Curta. Take compiler_ir('stablehlo'): XLA's tools translate its"
                " text, and compile it. What Curta compiles for CPUs is"
                " compiler_ir('jaxpr')."
            )
        return self._module

    @functools.cached_property
    def _module(self) -> Any:
        return lowered_program(
            self.fun_name,
            self._staged,
            self._arg_names,
            self.abstract_places or self._places,
            self.platforms,
        ).module

    @functools.cached_property
    def _live(self) -> ClosedJaxpr:
        """The jaxpr without what no result or effect needs."""
        closed = self._staged.closed
        return ClosedJaxpr(dce_jaxpr(closed.jaxpr), closed.consts)

    def compile(self, compiler_options: dict[str, Any] | None = None) -> Compiled:
        """The last stage: machine code.

        There are no `compiler_options` yet; those of XLA (`xla_...`) are passed over.
        Raises JaxRuntimeError for others.
        """
        check_compiler_options(compiler_options)
        for x in self._staged.captured:
            if isinstance(x, Tracer):
                raise ConcretizationTypeError(
                    x, "A function that closes over it cannot be compiled by itself."
                )
        rest = self._staged, self.in_tree, self._arg_names, self._places
        compiled = Compiled(self.fun_name, *rest)
        if "InspectSharding" in self._staged.closed.effects:
            compiled._out_places()  # where everything is, which is shown
        return compiled


class Compiled(Stage):
    """A compiled function, called with the arguments that are not static.

    >>> import curta
    >>> compiled = curta.jit(lambda x: x + 1).lower(2.0).compile()
    >>> compiled(5.0)
    Array(6., dtype=float32, weak_type=True)
    """

    def __init__(
        self,
        name: str,
        staged: StagedFunction,
        in_tree: Any,
        arg_names: Sequence[str],
        places: Sequence[Sharding | None],
    ):
        super().__init__(name, staged, in_tree, arg_names, places)
        self._run = staged.compiled(name, places)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, in_tree = tree_util.tree_flatten((args, kwargs))
        if in_tree != self.in_tree:
            raise TypeError(_tree_message(self.in_tree, in_tree))
        self._check_avals([typeof(x) for x in leaves])
        for x in leaves:
            if isinstance(x, Tracer):
                raise TypeError(
                    "Cannot apply JAX transformations to a function lowered and"
                    f" compiled for a particular signature. Detected argument of"
                    f" Tracer type {type(x)}. Transform the jitted function instead."
                )
        self._check_places(leaves)
        return tree_util.tree_unflatten(self.out_tree, self._run(leaves))

    def _check_avals(self, found: Sequence[ShapedArray]) -> None:
        wrong = [
            f"Argument '{name}' compiled with {want.str_short()} and called with"
            f" {have.str_short()}"
            for name, want, have in zip(self._arg_names, self._in_avals, found)
            if _without_place(want) is not _without_place(have)
        ]
        if wrong:
            raise TypeError(
                "Argument types differ from the types for which this computation was"
                " compiled. Perhaps you are calling the compiled executable with a"
                " different enable_x64 mode than when it was AOT compiled? The"
                " mismatches are:\n" + "\n".join(wrong)
            )

    def _check_places(self, leaves: Sequence[Any]) -> None:
        placed = [x._sharding if type(x) is ArrayImpl else None for x in leaves]
        if not any(placed):
            return
        wrong = [
            f"Argument {name} with shape {typeof(x).str_short()}:\n  Passed sharding:"
            f" {have}\n  Required sharding: {want}"
            for name, x, have, want in zip(
                self._arg_names, leaves, self._run.read_alone(placed), self._wanted()
            )
            if have is not None and not have.is_equivalent_to(want, x.ndim)
        ]
        if wrong:
            raise ValueError(
                "Computation was compiled for input shardings that disagree with the"
                " shardings of arguments passed to it. Here are the"
                f" {len(wrong)} mismatches:\n" + "\n".join(wrong)
            )

    def _wanted(self) -> Sequence[Sharding]:
        """Where the arguments are to be."""
        avals = self._in_avals
        given = self._places or [None] * len(avals)
        meshes = [s.mesh for s in given if isinstance(s, NamedSharding)]
        whole = NamedSharding(meshes[0], PartitionSpec()) if meshes else None
        return [
            s or (placing_of(a) if a.placement or whole is None else whole)
            for s, a in zip(given, avals, strict=True)
        ]

    def as_text(self) -> str:
        """The text of what was compiled: the jaxpr.

        Types show how values are split over devices, by the compiler's decision, as
        they do by the program's for explicit axes.

        >>> import curta, curta.numpy as jnp
        >>> from curta.sharding import AxisType, NamedSharding, PartitionSpec
        >>> mesh = curta.make_mesh((1,), ("i",), (AxisType.Auto,))
        >>> x = curta.device_put(jnp.ones(2), NamedSharding(mesh, PartitionSpec("i")))
        >>> print(curta.jit(lambda x: x + 1).lower(x).compile().as_text())
        { lambda ; a:f32[2@i]. let b:f32[2@i] = add a 1.0:f32[] in (b,) }
        """
        return self._staged.closed.pretty_print(types=self._run.destinations.types())

    # By JAX's names: constants are part of programs here, and no arguments of them.

    @property
    def _params(self) -> SimpleNamespace:
        return SimpleNamespace(const_args=[])

    @property
    def _executable(self) -> SimpleNamespace:
        return SimpleNamespace(in_avals=self._in_avals)

    def runtime_executable(self) -> Any:
        """What runs the function on buffers."""
        return self._run.executable

    def memory_analysis(self) -> MemoryAnalysis:
        """The bytes of arguments, outputs and temporaries."""
        closed = self._staged.closed
        donated = sum(_bytes(closed.in_avals[i]) for i in self._run.consumed)
        inputs = sum(map(_bytes, closed.in_avals))
        outputs = sum(map(_bytes, closed.out_avals))
        temporary = temporary_bytes(self._run.executable)
        return MemoryAnalysis(inputs, outputs, donated, temporary)

    @property
    def input_shardings(self) -> Any:
        """Where the arguments are expected, as `(args, kwargs)`."""
        return tree_util.tree_unflatten(self.in_tree, self._wanted())

    @property
    def input_formats(self) -> Any:
        """How the arguments are expected to be stored, as `(args, kwargs)`."""
        return tree_util.tree_unflatten(
            self.in_tree, _formats(self._in_avals, self._wanted())
        )

    @property
    def output_formats(self) -> Any:
        """How the outputs will be stored."""
        formats = _formats(self._staged.closed.out_avals, self._out_places())
        return tree_util.tree_unflatten(self.out_tree, formats)

    @property
    def output_shardings(self) -> Any:
        """Where the outputs will be."""
        return tree_util.tree_unflatten(self.out_tree, self._out_places())

    @property
    def out_info(self) -> Any:
        """The shapes, dtypes and shardings of the output."""
        structs = [
            ShapeDtypeStruct(a.shape, a.dtype, sharding=s)
            for a, s in zip(
                self._staged.closed.out_avals, self._out_places(), strict=True
            )
        ]
        return tree_util.tree_unflatten(self.out_tree, structs)

    def _out_places(self) -> list[Sharding]:
        to = self._run.destinations
        avals = self._staged.closed.in_avals
        given = [
            s if a.placement is None else placing_of(a)
            for s, a in zip(to.in_shardings or [None] * len(avals), avals)
        ]
        outs = self._staged.closed.out_avals
        return [s or placing_of(a) for s, a in zip(to.results(given), outs)]


def _tree_message(wanted: Any, found: Any) -> str:
    errors = list(tree_util.equality_errors_pytreedef(found, wanted))
    lines = [
        "Function compiled with input pytree does not match the input pytree it was"
        f" called with. There are {len(errors)} mismatches, including:"
    ]
    for (first, *rest), now, before, why in errors:
        base = ("args", "kwargs")[first.idx]
        path = tree_util.keystr(tuple(rest))
        lines.append(
            f"    * at {base}{path}, seen {before} but now given {now}, so {why}"
        )
    lines.append("Arguments that were static are left out of the call.")
    return "\n".join(lines)


def _formats(avals: Sequence[ShapedArray], places: Sequence[Sharding]) -> list[Format]:
    return [row_major(a.ndim, s) for a, s in zip(avals, places, strict=True)]


def check_compiler_options(options: dict[str, Any] | None) -> None:
    """Raise JaxRuntimeError for options other than those of XLA."""
    if not isinstance(options, Mapping | None):
        raise TypeError(
            f"compiler_options must be a dict of names to values, got {options}"
        )
    for name in options or ():
        if not name.startswith("xla_") and name not in _XLA_OPTIONS:
            raise JaxRuntimeError(
                f"INVALID_ARGUMENT: No such compile option: '{name}'. The options of"
                " XLA (xla_...) are passed over, and there are no others."
            )


_XLA_OPTIONS = ("optimization_level", "memory_fitting_level")


def _check_dialect(dialect: str | None) -> None:
    if dialect not in (None, "hlo", "stablehlo"):
        raise ValueError(
            f"unknown dialect: {dialect}. There are 'stablehlo', and 'jaxpr' for what"
            " Curta's compiler takes."
        )


def _without_place(aval: ShapedArray) -> ShapedArray:
    return aval.unplaced().strip_weak_type()


def _bytes(aval: ShapedArray) -> int:
    return aval.size * int(aval.dtype.itemsize)


def _flops(closed: ClosedJaxpr) -> int:
    """One operation for each number that is computed, two for each term of a dot.

    A reduction of n elements to one takes n - 1. Transcendental functions are counted
    apart, and ops that only move elements not at all.
    """
    total = 0
    for eqn in closed.eqns:
        inner = eqn.params.get("jaxpr")
        if isinstance(inner, ClosedJaxpr):
            total += _flops(inner)
        elif "dimension_numbers" in eqn.params and eqn.op.name == "dot_general":
            (contracted, _), _ = eqn.params["dimension_numbers"]
            shape = eqn.invars[0].aval.shape
            depth = math.prod(shape[d] for d in contracted)
            total += 2 * depth * eqn.outvars[0].aval.size
        elif isinstance(eqn.op, Reduction):
            total += sum(v.aval.size for v in eqn.invars)
            total -= sum(v.aval.size for v in eqn.outvars)
        elif isinstance(eqn.op, Elementwise) and not _is_transcendental(eqn.op):
            total += eqn.outvars[0].aval.size
    return total


def _transcendentals(closed: ClosedJaxpr) -> int:
    """The values of transcendental functions that are computed."""
    return sum(
        _transcendentals(inner)
        if isinstance(inner := eqn.params.get("jaxpr"), ClosedJaxpr)
        else eqn.outvars[0].aval.size * _is_transcendental(eqn.op)
        for eqn in closed.eqns
    )


def _is_transcendental(op: Op) -> bool:
    return op.name in _TRANSCENDENTAL


_TRANSCENDENTAL = {
    *("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "cos"),
    *("cosh", "digamma", "erf", "erf_inv", "erfc", "exp", "exp2", "expm1", "lgamma"),
    *("log", "log1p", "logistic", "pow", "rsqrt", "sin", "sinh", "sqrt", "tan", "tanh"),
}
