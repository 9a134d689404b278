"""The last stage of `jit`, ahead of time: what is called."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

from curta import tree_util
from curta._base.on_demand import late
from curta._base.once import cached_property
from curta.api.cost import bytes_of
from curta.api.stage import Stage, StagedFunction
from curta.config import config
from curta.core.array_layout import Format, stored_format
from curta.core.avals import ShapedArray
from curta.core.partition_spec import PartitionSpec
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.sharding import NamedSharding, Sharding
from curta.core.trace import TracedValue, typeof
from curta.errors import JaxRuntimeError
from curta.partition.named_devices import mesh_among
from curta.runtime.array import ArrayImpl
from curta.runtime.devices import (
    default_device,
    default_is_host,
    has_plugin_devices,
    over_mesh,
    placing_of,
)
from curta.runtime.dispatch import CompiledCall
from curta.runtime.native_call import MISS, CallArguments, entry_of_call, native_caller
from curta.runtime.plans import Plan, PlanTable
from curta.runtime.relayout import is_laid_out
from curta.transforms.dce import read_atoms

_LEAF = tree_util.tree_structure(0)

# Few programs ask for it.
texts: Any = late("curta.api.collectives_text")


class MemoryAnalysis(NamedTuple):
    """The bytes that a compiled function reads, writes and needs besides.

    The peak counts arguments, outputs outside of donated arguments, constants and
    temporaries. Only plugins report the size of machine code. If devices have memory of
    their own, the host fields count host memory only.

    >>> import curta, curta.numpy as jnp
    >>> compiled = curta.jit(lambda x: x + 1).lower(jnp.ones(3)).compile()
    >>> compiled.memory_analysis().peak_memory_in_bytes
    24
    """

    argument_size_in_bytes: int
    output_size_in_bytes: int
    alias_size_in_bytes: int
    temp_size_in_bytes: int
    peak_memory_in_bytes: int
    generated_code_size_in_bytes: int = 0
    host_generated_code_size_in_bytes: int = 0
    host_argument_size_in_bytes: int = 0
    host_output_size_in_bytes: int = 0
    host_alias_size_in_bytes: int = 0
    host_temp_size_in_bytes: int = 0


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
        arg_shardings: Sequence[Sharding | None],
        run: Any = None,
    ):
        super().__init__(name, staged, in_tree, arg_names, arg_shardings)
        self._run: Any = staged.compiled(name, arg_shardings) if run is None else run
        self._calls = PlanTable()
        self._native = native_caller(self._calls.entries)
        self._tried = 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            out = self._native(*args)
            if out is not MISS:
                return out
        return self._call(args, kwargs)

    def run_by(self, run: Any) -> Compiled:
        """The same function, run by another call of its program."""
        rest = self._staged, self.in_tree, self._arg_names, self._arg_shardings
        return Compiled(self.fun_name, *rest, run)

    def _call(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        leaves, in_tree = tree_util.tree_flatten((args, kwargs))
        if in_tree != self.in_tree:
            raise TypeError(_tree_message(self.in_tree, in_tree))
        self._check_avals([typeof(x) for x in leaves])
        for x in leaves:
            if isinstance(x, TracedValue):
                raise TypeError(
                    "Cannot apply transformations to a function lowered and"
                    f" compiled for a particular signature. Detected argument of"
                    f" Tracer type {type(x)}. Transform the jitted function instead."
                )
        self._check_shardings(leaves)
        self._check_layouts(leaves)
        outs = self._run(leaves)
        if not kwargs and self._tried < config.tuning.native_entries:
            self._make_ready(args, leaves)
        return tree_util.tree_unflatten(self.out_tree, outs)

    def _make_ready(self, args: tuple[Any, ...], leaves: Sequence[Any]) -> None:
        """Let native code make the next call with arguments like these."""
        self._tried += 1
        if isinstance(self._run, CompiledCall):
            build = None if self.out_tree == _LEAF else self.out_tree.unflatten
            entry = entry_of_call(CallArguments(args), leaves, self._run, build)
            if entry is not None:
                self._calls.call_natively(Plan(), entry)

    def _check_avals(self, avals: Sequence[ShapedArray]) -> None:
        wrong = [
            f"Argument '{name}' compiled with {want.str_short()} and called with"
            f" {have.str_short()}"
            for name, want, have in zip(self._arg_names, self._in_avals, avals)
            if _without_placement(want) != _without_placement(have)
        ]
        if wrong:
            raise TypeError(
                "Argument types differ from the types for which this computation was"
                " compiled. Perhaps you are calling the compiled executable with a"
                " different enable_x64 mode than when it was AOT compiled? The"
                " mismatches are:\n" + "\n".join(wrong)
            )

    def _check_shardings(self, leaves: Sequence[Any]) -> None:
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

    def _check_layouts(self, leaves: Sequence[Any]) -> None:
        if not any(map(is_laid_out, leaves)):
            return
        formats = _formats(self._in_avals, self._wanted(), self._orders[0])
        wrong = [
            f"Argument {name} with shape {typeof(x).str_short()}:\n  Passed layout:"
            f" {x.format.layout}\n  Required layout: {format.layout}"
            for name, x, format in zip(self._arg_names, leaves, formats)
            if is_laid_out(x) and x.committed and x.format.layout != format.layout
        ]
        if wrong:
            raise ValueError(
                "Computation was compiled for input layouts that disagree with the"
                " layouts of arguments passed to it. Here are the"
                f" {len(wrong)} mismatches:\n" + "\n".join(wrong)
            )

    @cached_property
    def _orders(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """The dims of arguments and results as they are stored; () for row-major."""
        return (
            getattr(self._run, "in_orders", ()),
            getattr(self._run, "out_orders", ()),
        )

    def _wanted(self) -> Sequence[Sharding]:
        """Where the arguments are to be."""
        avals = self._in_avals
        given = self._arg_shardings or [None] * len(avals)
        meshes = [s.mesh for s in given if isinstance(s, NamedSharding)]
        whole = NamedSharding(meshes[0], PartitionSpec()) if meshes else None
        return [
            s or (self._placing_of(a) if a.placement or whole is None else whole)
            for s, a in zip(given, avals, strict=True)
        ]

    def as_text(self) -> str:
        """The text of what was compiled: the jaxpr.

        Types show how values are split over devices, by the compiler's decision, as
        they do by the program's for explicit axes. Below are, if there are any, the
        collectives between the devices. For devices of plugins it is XLA's
        program after all of its passes, with its collectives. JaxRuntimeError if the
        plugin does not give it.

        >>> import curta, curta.numpy as jnp
        >>> from curta.sharding import AxisType, NamedSharding, PartitionSpec
        >>> mesh = curta.make_mesh((1,), ("i",), (AxisType.Auto,))
        >>> x = curta.device_put(jnp.ones(2), NamedSharding(mesh, PartitionSpec("i")))
        >>> print(curta.jit(lambda x: x + 1).lower(x).compile().as_text())
        { lambda ; a:f32[2@i]. let b:f32[2@i] = add a 1.0:f32[] in (b,) }
        """
        if self._of_plugin is not None:
            result: str = self._of_plugin.optimized_text()
            return result
        closed, to = self._staged.closed, self._run.destinations
        ins, outs = self._wanted(), self._result_shardings()
        sent = texts.collectives_text(closed, to.mesh(ins), ins, outs)
        return f"{closed.pretty_print(types=to.types())}{sent}"

    # By JAX's names: constants are part of programs here, and no arguments of them.

    @property
    def _params(self) -> SimpleNamespace:
        return SimpleNamespace(const_args=[])

    @property
    def _executable(self) -> SimpleNamespace:
        avals, staged = self._in_avals, self._staged
        inputs = staged.closed.jaxpr.invars[len(staged.captured) :]
        read = {*read_atoms(staged.closed.jaxpr)}
        kept = [i for i, v in enumerate(inputs) if staged.keep_unused or v in read]
        return SimpleNamespace(in_avals=[avals[i] for i in kept], _kept_var_idx={*kept})

    def runtime_executable(self) -> Any:
        """The object that runs the function on buffers."""
        return self._of_plugin or self._run.executable

    def prepare(self) -> None:
        """Have a plugin compile the program, where one does, before the first call."""
        self._of_plugin  # noqa: B018

    @cached_property
    def _of_plugin(self) -> Any:
        """What a plugin made of the program; None on our own CPU."""
        _, given, devices = self._target
        if devices and devices[0].topology is not None:
            return self._run.executable
        if not isinstance(self._run, CompiledCall) or (
            default_is_host() and not has_plugin_devices()
        ):
            return None
        where = devices or (default_device(),)
        if where[0].hardware is None:
            return None
        call = self._run.on_devices(given, devices)
        return call.program.executable()

    def cost_analysis(self) -> dict[str, float]:
        """An estimate of the work, by the plugin where it has one."""
        try:
            result = self._of_plugin and self._of_plugin.cost_analysis()
        except JaxRuntimeError:  # not every plugin estimates
            result = None
        return result or super().cost_analysis()

    def memory_analysis(self) -> MemoryAnalysis:
        """The bytes of arguments, outputs and temporaries, on one device."""
        if self._of_plugin is not None:
            sizes = self._of_plugin.memory_stats()
            names = MemoryAnalysis._fields
            return MemoryAnalysis(**{n: sizes[n] for n in names})
        closed = self._staged.closed
        donated = sum(bytes_of(closed.in_avals[i]) for i in self._run.consumed)
        inputs = sum(map(bytes_of, closed.in_avals))
        outputs = sum(map(bytes_of, closed.out_avals))
        temporary = self._run.executable.temporary_bytes
        consts = sum(bytes_of(v.aval) for v in closed.jaxpr.constvars)
        peak = inputs + outputs - donated + temporary + consts
        return MemoryAnalysis(inputs, outputs, donated, temporary, peak)

    @property
    def input_shardings(self) -> Any:
        """Where the arguments are expected, as `(args, kwargs)`."""
        return tree_util.tree_unflatten(self.in_tree, self._wanted())

    @property
    def input_formats(self) -> Any:
        """How the arguments are expected to be stored, as `(args, kwargs)`."""
        formats = _formats(self._in_avals, self._wanted(), self._orders[0])
        return tree_util.tree_unflatten(self.in_tree, formats)

    @property
    def output_formats(self) -> Any:
        """How the outputs will be stored."""
        avals, arg_shardings = self._staged.closed.out_avals, self._result_shardings()
        formats = _formats(avals, arg_shardings, self._orders[1])
        return tree_util.tree_unflatten(self.out_tree, formats)

    @property
    def output_shardings(self) -> Any:
        """Where the outputs will be."""
        return tree_util.tree_unflatten(self.out_tree, self._result_shardings())

    @property
    def out_info(self) -> Any:
        """The shapes, dtypes and shardings of the output."""
        structs = [
            ShapeDtypeStruct(a.shape, a.dtype, sharding=s)
            for a, s in zip(
                self._staged.closed.out_avals, self._result_shardings(), strict=True
            )
        ]
        return tree_util.tree_unflatten(self.out_tree, structs)

    def _result_shardings(self) -> list[Sharding]:
        to = self._run.destinations
        avals = self._staged.closed.in_avals
        given = [
            self._placing_of(a) if a.placement and a.placement.has_axes else s
            for s, a in zip(to.in_shardings or [None] * len(avals), avals)
        ]
        outs = self._staged.closed.out_avals
        return [s or self._placing_of(a) for s, a in zip(to.results(given), outs)]

    def _placing_of(self, aval: ShapedArray) -> Sharding:
        """Where values of a type are: over the mesh of the arguments, if it has it."""
        mesh = mesh_among(self._arg_shardings or ())
        where = aval.placement
        if mesh is None or where is None or mesh.abstract_mesh is not where.mesh:
            return placing_of(aval)
        return over_mesh(mesh, aval)


def _tree_message(wanted: Any, tree: Any) -> str:
    errors = list(tree_util.equality_errors_pytreedef(tree, wanted))
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


def _formats(
    avals: Sequence[ShapedArray], shardings: Sequence[Sharding], orders: Sequence[Any]
) -> list[Format]:
    orders = orders or [range(a.ndim) for a in avals]
    return [*map(stored_format, orders, shardings)]


def _without_placement(aval: ShapedArray) -> ShapedArray:
    return aval.unplaced().strip_weak_type()
