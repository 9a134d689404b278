"""Ahead of time: the stages of `jit` one by one.

`jit(f).trace(*args)` gives a `Traced`, its `lower()` a `Lowered`, that one's
`compile()` a `Compiled`, which is called with the arguments that are not static.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from curta import tree_util
from curta._base.import_pause import collector_off
from curta._base.on_demand import late
from curta._base.once import cached_property
from curta.api.compiled import Compiled
from curta.api.lowered import canonical_platforms, lowered_program
from curta.api.stage import Stage
from curta.control.platform import PLATFORM, check_donation
from curta.core.jaxpr import ClosedJaxpr
from curta.core.name_stack import new_name_stack
from curta.core.trace import Tracer
from curta.errors import ConcretizationTypeError, JaxRuntimeError
from curta.partition.named_devices import with_devices
from curta.primitives.placing import INSPECTS
from curta.runtime.devices import (
    Device,
    default_device,
    default_is_host,
)
from curta.runtime.relayout import check_donated_layouts
from curta.transforms.dce import dce_jaxpr
from curta.transforms.discharge import low_program

# Loaded when it is first used, as few programs compile ahead of time.
ahead_of_time: Any = late("curta.runtime.ahead_of_time")


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
        """The traced program."""
        return self._staged.closed

    @property
    def lojax(self) -> Traced:
        """The function on arrays, in place of values of types of a program's own."""
        closed = low_program(self._staged.closed)
        if closed is self._staged.closed:
            return self
        ins, outs = closed.in_avals, closed.out_avals
        staged: Any = type(self._staged)
        out_tree = tree_util.tree_structure([0] * len(outs))
        low = staged(closed, (), out_tree, (), (), ())
        in_tree = tree_util.tree_structure((tuple(ins), {}))
        nothing = [""] * len(ins), [None] * len(ins)
        return Traced(self.fun_name, low, in_tree, *nothing)

    def lower(self, *, lowering_platforms: Any = None) -> Lowered:
        """The next stage.

        Args:
          lowering_platforms: the platforms, as `("cpu", "cuda")`, that `as_text` is to
            be for.

        Raises:
          NotImplementedError: if only some of them can take donated arguments.
        """
        rest = self._staged, self.in_tree, self._arg_names, self._arg_shardings
        lowered = Lowered(self.fun_name, *rest)
        lowered.abstract_shardings, lowered.layouts = (
            self.abstract_shardings,
            self.layouts,
        )
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

    @cached_property
    def platforms(self) -> tuple[str, ...]:
        """The platforms that `as_text` is for: the platform of the devices."""
        _, _, devices = self._target
        if not devices and default_is_host():
            return (PLATFORM,)
        device = devices[0] if devices else default_device()
        return canonical_platforms([device.platform_name.lower()])

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
            with collector_off():
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
                " text, and compile it. compiler_ir('jaxpr') is the program that Curta"
                " compiles for CPUs."
            )
        return self._module

    @cached_property
    def _module(self) -> Any:
        with collector_off():
            return lowered_program(
                self.fun_name,
                self._staged,
                self._arg_names,
                self.abstract_shardings or self._arg_shardings,
                self.platforms,
                self.layouts,
            ).module

    @cached_property
    def _live(self) -> ClosedJaxpr:
        """The jaxpr without what no result or effect needs."""
        closed = low_program(self._staged.closed)
        return ClosedJaxpr(dce_jaxpr(closed.jaxpr), closed.consts)

    def compile(
        self,
        compiler_options: dict[str, Any] | None = None,
        *,
        device_assignment: Sequence[Device] | None = None,
    ) -> Compiled:
        """The last stage: machine code.

        Args:
          compiler_options: there are none for the CPU yet; those of XLA (`xla_...`)
            are passed over there, and go to the plugin for devices of a topology.
          device_assignment: the devices of arguments that are laid out over a mesh
            without devices.

        Raises:
          JaxRuntimeError: for other options.
          ValueError: for more or fewer devices than the mesh has, or others than those
            that the program names.
        """
        check_compiler_options(compiler_options)
        if device_assignment is not None:
            lowered = self._assigned(tuple(device_assignment))
            return lowered.compile(compiler_options)
        for x in self._staged.captured:
            if isinstance(x, Tracer):
                raise ConcretizationTypeError(
                    x, "A function that closes over it cannot be compiled by itself."
                )
        rest = self._staged, self.in_tree, self._arg_names, self._arg_shardings
        to, given, devices = self._target
        run = None
        if devices and devices[0].topology is not None:
            closed, donated = self._staged.closed, self._staged.donated
            run = ahead_of_time.ProgramAhead(
                closed, to, given, donated, compiler_options or {}
            )
        if run is None:
            run = self._staged.compiled(
                self.fun_name, self._arg_shardings, self.layouts
            )
            outs = self._staged.out_layouts
            check_donated_layouts(run.consumed, self.layouts, outs, self._arg_shardings)
        compiled = Compiled(self.fun_name, *rest, run)
        compiled.layouts = self.layouts
        if INSPECTS in self._staged.closed.effects:
            compiled._result_shardings()  # runs inspect_array_sharding's callbacks
        compiled.prepare()
        return compiled

    def _assigned(self, devices: tuple[Device, ...]) -> Lowered:
        """The same for arguments on these devices."""
        given = self.abstract_shardings or self._arg_shardings
        _, _, known = self._target
        if not (known or any(given)):
            known = (default_device(),)
        if known and known != devices:
            now, before = (
                [d.id for d in assignment] for assignment in (devices, known)
            )
            raise ValueError(
                "device_assignment passed to `.compile` must match the"
                " device_assignment calculated from array shardings and out_shardings."
                f" Got device ids passed to compile {now} on platform"
                f" {devices[0].platform.upper()} and devices ids calculated from array"
                f" shardings and out_shardings {before} on platform"
                f" {known[0].platform.upper()}"
            )
        arg_shardings = [None if s is None else with_devices(s, devices) for s in given]
        return Lowered(
            self.fun_name, self._staged, self.in_tree, self._arg_names, arg_shardings
        )


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
