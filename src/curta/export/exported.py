"""`Exported`: a function traced for given types, independent of its source code."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from curta import dtypes, tree_util
from curta._base.once import cached_property
from curta.api.custom_derivatives import custom_vjp
from curta.api.jit_shardings import constrained
from curta.api.lowered import canonical_platforms, entry, result_names
from curta.control.call_exported import (
    PREFIX,
    CallExported,
    calls_refined,
    wrong_devices,
)
from curta.control.platform import PLATFORM
from curta.core.avals import ShapedArray
from curta.core.dim import is_symbolic_dim
from curta.core.effects import Effect
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.mesh import AbstractMesh
from curta.core.mesh_scope import get_concrete_mesh
from curta.core.partition_spec import PartitionSpec
from curta.core.sharding import MemorySpace, NamedSharding
from curta.core.trace import Tracer, current_trace, typeof
from curta.export.bytecode import portable_artifact
from curta.export.dimensions import argument_path, path_text, solve
from curta.export.encoding import serialize
from curta.export.for_jax import serialize_for_jax
from curta.transforms.dce import prune_outputs
from curta.transforms.specialise import (
    Relocation,
    Substitution,
    has_symbolic_dims,
    shardings_within,
)

minimum_supported_calling_convention_version: Final = 9
maximum_supported_calling_convention_version: Final = 10


class DisabledSafetyCheck:
    """A check that is left out: made by `platform` or `custom_call`.

    >>> from curta import export
    >>> export.DisabledSafetyCheck.platform()
    platform
    """

    def __init__(self, _impl: str):
        self._impl = _impl

    @classmethod
    def platform(cls) -> DisabledSafetyCheck:
        """Let a function run on platforms for which it was not exported."""
        return cls("platform")

    @classmethod
    def custom_call(cls, target_name: str) -> DisabledSafetyCheck:
        """Let a program call a target that may change; Curta's programs call none."""
        return cls(f"custom_call:{target_name}")

    def is_custom_call(self) -> str | None:
        """The target, of a `custom_call`."""
        result = re.match("custom_call:(.+)$", self._impl)
        return result and result[1]

    def __repr__(self) -> str:
        return self._impl

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DisabledSafetyCheck) and self._impl == other._impl

    def __hash__(self) -> int:
        return hash(self._impl)


@dataclasses.dataclass(frozen=True, eq=False)
class Exported:
    """A function traced for given types, to be called, stored and loaded.

    Attributes:
      fun_name: what the function was called.
      in_tree, out_tree: the structures of `(args, kwargs)` and of the result.
      in_avals, out_avals: the types of their leaves; dims may be symbolic.
      platforms: where the function may run.
      nr_devices: over how many devices its shardings are.
      disabled_safety_checks: the checks left out.
      calling_convention_version: JAX's number for a way to call; kept for its users.
      module_kept_var_idx: the leaves of the arguments that are used.
      jaxpr: the program.

    `export` makes it, and `deserialize`.

    >>> import curta
    >>> from curta import export, numpy as jnp
    >>> exported = export.export(curta.jit(jnp.sin))(jnp.ones(3))
    >>> exported.fun_name, exported.out_avals
    ('sin', (ShapedArray(float32[3]),))
    >>> again = export.deserialize(exported.serialize())
    >>> again.call(jnp.zeros(3))
    Array([0., 0., 0.], dtype=float32)
    """

    fun_name: str
    in_tree: Any
    in_avals: tuple[ShapedArray, ...]
    out_tree: Any
    out_avals: tuple[ShapedArray, ...]
    _in_named_shardings: tuple[Any, ...]
    _out_named_shardings: tuple[Any, ...]
    nr_devices: int
    platforms: tuple[str, ...]
    disabled_safety_checks: tuple[DisabledSafetyCheck, ...]
    calling_convention_version: int
    module_kept_var_idx: tuple[int, ...]
    jaxpr: ClosedJaxpr
    _get_vjp: Callable[[Exported], Exported] | None
    _specialised: dict[Any, ClosedJaxpr] = dataclasses.field(
        default_factory=dict, repr=False
    )

    def __str__(self) -> str:
        return f"Exported(fun_name={self.fun_name}, ...)"

    @cached_property
    def uses_global_constants(self) -> bool:
        """Whether sizes or platforms are open, here or in a function that is called."""
        return (
            has_symbolic_dims(self.in_avals)
            or len(self.platforms) > 1
            or calls_refined(_used(self.jaxpr))
        )

    @property
    def ordered_effects(self) -> tuple[Effect, ...]:
        """The effects whose order is kept."""
        return tuple(sorted((e for e in self.jaxpr.effects if e.ordered), key=str))

    @property
    def unordered_effects(self) -> tuple[Effect, ...]:
        """The other effects."""
        return tuple(sorted((e for e in self.jaxpr.effects if not e.ordered), key=str))

    def mlir_module(self, serialized: bool = True) -> Any:
        """The program as the text of a module of StableHLO.

        It takes the arguments that are used. Where the function is for several
        platforms, they come after the index of that which it runs on. Without
        `serialized` it is the module, whose `str` is the text without locations.
        """
        return self._module.text(debug_info=True) if serialized else self._module

    @property
    def mlir_module_serialized(self) -> bytes:
        """The program as MLIR's tools take it, and JAX.

        It is bytecode of StableHLO, as in JAX, where jaxlib is installed, since only
        MLIR itself can write that; else the text of `mlir_module`.
        """
        return portable_artifact(self.mlir_module())

    @cached_property
    def _module(self) -> Any:
        description = entry.MainAttributes(
            self.fun_name,
            result_names=result_names(self.out_tree),
            in_shardings=self._in_named_shardings,
            out_shardings=self._out_named_shardings,
            platforms=canonical_platforms(self.platforms),
            solve=lambda actual: solve(self.in_avals, self.in_tree, actual),
        )
        module = entry.lower_program(self.jaxpr, description).module
        if self.uses_global_constants:
            module.attributes["jax.uses_shape_polymorphism"] = True
        return module

    # ---- shardings

    def in_shardings_jax(self, mesh: Any = None) -> tuple[Any, ...]:
        """Where arguments are expected: a sharding each, or None.

        They are over `mesh`, which has the axes of the exported one; by default over
        the abstract mesh that was exported. Arguments in the host's memory have one.
        """
        given = zip(self.in_avals, self._in_named_shardings, strict=True)
        return tuple(_over(s or _in_memory(a), mesh) for a, s in given)

    def out_shardings_jax(self, mesh: Any) -> tuple[Any, ...]:
        """Where results will be, over a mesh of the same axes: or None."""
        return tuple(_over(s, mesh) for s in self._out_named_shardings)

    # ---- derivatives

    def has_vjp(self) -> bool:
        """Return True if the function can be differentiated, in reverse mode."""
        return self._get_vjp is not None

    def vjp(self) -> Exported:
        """The function of flat arguments and cotangents to cotangents of arguments.

        Raises ValueError if it is not available: a function that was loaded can be
        differentiated as often as the `vjp_order` with which it was stored.
        """
        if self._get_vjp is None:
            raise ValueError(
                "No VJP is available. Store the function with serialize(vjp_order=1),"
                " or more to differentiate more often."
            )
        return self._get_vjp(self)

    def serialize(self, vjp_order: int = 0, *, for_jax: bool = False) -> bytearray:
        """The function as bytes, from which `deserialize` makes it again.

        Args:
          vjp_order: how often the loaded function can be differentiated.
          for_jax: for `jax.export.deserialize`, which takes the program as StableHLO.

        Raises:
          ValueError: for pytree types that are not registered with this module.
          TypeError: for dicts with keys that are not strings.
          NotImplementedError: for programs that call back into Python.
        """
        if for_jax:
            return serialize_for_jax(self, vjp_order)
        return serialize(self, vjp_order)

    # ---- calls

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function, on arrays or in another function.

        Raises:
          ValueError: if the arguments have another structure or other types than the
            function was exported for, or it was exported for another platform.
        """
        leaves, tree = tree_util.tree_flatten((args, kwargs))
        if tree != self.in_tree:
            raise ValueError(self._tree_mismatch(tree))
        self._check_platform()
        run = self._apply if current_trace().is_evaluating() else self._differentiable
        outs = run(*leaves)
        return tree_util.tree_unflatten(self.out_tree, outs)

    @cached_property
    def _differentiable(self) -> Any:
        return _with_vjp(self)

    def _tree_mismatch(self, tree: Any) -> str:
        result, expected = (
            tree_util.tree_unflatten(t, [0] * t.num_leaves)
            for t in (tree, self.in_tree)
        )
        lines = [
            f"   - {path_text(path)} is a {thing} in the invocation and a {other} when"
            f" exported, so {reason}.\n"
            for path, thing, other, reason in tree_util.equality_errors(
                result, expected
            )
        ]
        return (
            "The invocation args and kwargs must have the same pytree structure as when"
            f" the function '{self.fun_name}' was exported, but they have the following"
            " structural differences:\n" + "\n".join(lines)
        )

    def _check_platform(self) -> None:
        if PLATFORM in self.platforms:
            return
        if DisabledSafetyCheck.platform() not in self.disabled_safety_checks:
            raise ValueError(
                f"Function '{self.fun_name}' was exported for platforms"
                f" '{self.platforms}' but it is used on '{(PLATFORM,)}'. Export it for"
                f" `platforms=({PLATFORM!r},)`, or with"
                " `disabled_checks=[DisabledSafetyCheck.platform()]`."
            )

    def _apply(self, *args: Any) -> Sequence[Any]:
        """The function on flat arguments."""
        there = Relocation(self._devices(args))
        closed = self._for_types(tuple([typeof(x) for x in args]), there)
        refined, count = self.uses_global_constants, self.nr_devices
        op = CallExported(
            closed, f"{PREFIX}{self.fun_name}", refined=refined, nr_devices=count
        )
        if self.nr_devices == 1:  # on the devices of its arguments
            return list(op(*args))
        given, wanted = (
            [s and there(s) for s in several]
            for several in (self._in_named_shardings, self._out_named_shardings)
        )
        outs = op(*map(constrained, args, given))
        return [*map(constrained, outs, wanted)]

    def _devices(self, args: Sequence[Any]) -> tuple[Any, ...] | None:
        """The devices of the arguments, or of the mesh in scope; None without both."""
        arrays = [x for x in args if not isinstance(x, Tracer)]
        shardings = [x.sharding for x in arrays if hasattr(x, "sharding")]
        known = [s.devices for s in shardings if s.num_devices > 1]
        known.append((*get_concrete_mesh().devices.flat,))
        count = self.nr_devices
        result = next((devices for devices in known if len(devices) == count), None)
        if result is None and count > 1 and len(arrays) == len(args):
            most = max(1, *map(len, known))
            raise ValueError(wrong_devices(self.fun_name, count, most))
        return result

    def _for_types(
        self, avals: tuple[ShapedArray, ...], there: Relocation
    ) -> ClosedJaxpr:
        """The program for arguments of these types, on the devices where they are."""
        avals = tuple([a.strip_weak_type() for a in avals])
        key = avals, there
        result = self._specialised.get(key)
        if result is None:
            for i, (expected, aval) in enumerate(zip(self.in_avals, avals)):
                self._check_type(i, expected, aval)
            solution = solve(self.in_avals, self.in_tree, avals)
            solution.verify()
            result = self.jaxpr
            if has_symbolic_dims(self.in_avals) or any(shardings_within(result.jaxpr)):
                result = Substitution(solution.values, there).closed(result)
            result = self._specialised.setdefault(key, result)
        return result

    def _check_type(self, i: int, expected: ShapedArray, aval: ShapedArray) -> None:
        if expected.ndim != aval.ndim:
            raise ValueError(
                f"Rank mismatch for {argument_path(self.in_tree, i)}: expected"
                f" {expected.shape} and called with {aval.shape}"
            )
        if expected.dtype != aval.dtype:
            raise ValueError(
                f"Dtype mismatch for {argument_path(self.in_tree, i)}: expected"
                f" {expected.dtype} and called with {aval.dtype}"
            )
        for k, (want, size) in enumerate(zip(expected.shape, aval.shape)):
            if not is_symbolic_dim(want) and want != size:
                raise ValueError(
                    f"Shape mismatch for {argument_path(self.in_tree, i)}.shape[{k}]"
                    f" (expected same constant): expected {expected.shape} and called"
                    f" with {aval.shape}"
                )


def _used(closed: ClosedJaxpr) -> Jaxpr:
    """The jaxpr without what its outputs and effects do not need."""
    return prune_outputs(closed, (True,) * len(closed.out_avals))[0].jaxpr


def _in_memory(aval: ShapedArray) -> NamedSharding | None:
    """A sharding that names the memory of arguments, None for that of devices."""
    if aval.memory_space is not MemorySpace.Host:
        return None
    spec = PartitionSpec(*[None] * aval.ndim)
    return NamedSharding(AbstractMesh((), ()), spec, memory_kind="pinned_host")


def _over(sharding: Any, mesh: Any) -> Any:
    if sharding is None:
        return None
    return sharding.update(mesh=sharding.mesh.abstract_mesh if mesh is None else mesh)


def _with_vjp(exported: Exported) -> Any:
    """The function on flat arguments, with the exported VJP as its derivative."""

    @custom_vjp
    def apply(*args: Any) -> Any:
        return exported._apply(*args)

    def forward(*args: Any) -> Any:
        return apply(*args), args

    def backward(args: Any, cotangents: Any) -> Any:
        vjp = exported.vjp()
        expected = vjp.in_avals[len(args) :]
        fitting = [
            np.zeros(np.shape(ct), dtypes.float0) if a.dtype == dtypes.float0 else ct
            for ct, a in zip(cotangents, expected, strict=True)
        ]
        return tuple(vjp.call(*args, *fitting))

    apply.defvjp(forward, backward)
    return apply
