"""The base of the stages of `jit`, for compilation ahead of time."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, Protocol, Self

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property
from curta.api.cost import bytes_of, flops, transcendentals
from curta.core.array_layout import Format, Layout
from curta.core.avals import ShapedArray
from curta.core.jaxpr import ClosedJaxpr
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.sharding import Sharding
from curta.partition.destinations import Destinations
from curta.partition.named_devices import Shardings
from curta.runtime.devices import Device
from curta.transforms.discharge import low_program


class StagedFunction(Protocol):
    """The cache entry of a function traced for one signature."""

    closed: ClosedJaxpr
    captured: Sequence[Any]
    out_tree: Any
    donated: tuple[bool, ...]
    in_shardings: Sequence[Any]
    out_shardings: Sequence[Any]
    keep_unused: bool
    mesh: Any

    in_layouts: Sequence[Any]
    out_layouts: Sequence[Any]

    def compiled(
        self, name: str, arg_shardings: Sequence[Any] = (), layouts: Sequence[Any] = ()
    ) -> Any: ...


@dataclass(frozen=True)
class ArgInfo:
    """The type of one leaf of the arguments.

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


def _described(aval: ShapedArray, sharding: Sharding | None, layout: Any) -> Any:
    """What is known of a result: where it is to be, and how it is to be stored."""
    result = ShapeDtypeStruct.of_aval(aval)
    if sharding is None:
        return result
    layout = layout if isinstance(layout, Layout) else None
    return result.update(sharding=Format(layout, sharding))


class Stage:
    """The base of the stages: the function's name, its jaxpr, its trees.

    `arg_shardings` has None for arguments that were on no device in particular.
    `abstract_shardings`, if any, are also those over meshes without devices; `layouts`
    are those of the arguments.
    """

    abstract_shardings: Sequence[Sharding | None] = ()
    layouts: Sequence[Any] = ()
    _no_kwargs: bool = False  # by JAX's name: arguments may be given by keyword

    def __init__(
        self,
        name: str,
        staged: StagedFunction,
        in_tree: Any,
        arg_names: Sequence[str],
        arg_shardings: Sequence[Sharding | None],
    ):
        self.fun_name = name
        self._staged = staged
        self.in_tree = in_tree
        self._arg_names = arg_names
        self._arg_shardings = arg_shardings

    def with_arguments(self, name: str, in_tree: Any, names: Sequence[str]) -> Self:
        """The same stage of a function whose arguments have these leaves."""
        result = copy.copy(self)
        result.fun_name, result.in_tree, result._arg_names = name, in_tree, names
        return result

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
        outs = self._staged.closed.out_avals
        arg_shardings = self._staged.out_shardings or [None] * len(outs)
        layouts = self._staged.out_layouts or [None] * len(outs)
        structs = map(_described, outs, arg_shardings, layouts)
        return tree_util.tree_unflatten(self.out_tree, list(structs))

    @property
    def donate_argnums(self) -> tuple[int, ...]:
        """Which leaves of the arguments are donated."""
        return tuple(i for i, d in enumerate(self._staged.donated) if d)

    @property
    def _in_avals(self) -> tuple[ShapedArray, ...]:
        return self._staged.closed.in_avals[len(self._staged.captured) :]

    @cached_property
    def _target(self) -> tuple[Destinations, Shardings, tuple[Device, ...]]:
        """Where values are to be, the arguments among them; the devices, if known."""
        staged = self._staged
        arg_shardings = [None] * len(staged.captured) + [*self._arg_shardings]
        arg_shardings = arg_shardings if any(arg_shardings) else [*staged.in_shardings]
        closed, outs = staged.closed, staged.out_shardings
        if closed.is_high:
            closed, outs, arg_shardings = low_program(closed), (), []
        to = Destinations(closed, arg_shardings, outs, staged.mesh)
        given = to.read_alone(arg_shardings or [None] * len(closed.in_avals))
        return to, given, to.devices(given)

    def cost_analysis(self) -> dict[str, float]:
        """An estimate of the work: floating point operations, values of
        transcendental functions, bytes in and out, together and for each operand."""
        closed = low_program(self._staged.closed)
        operands = [*map(bytes_of, closed.in_avals)]
        results = sum(map(bytes_of, closed.out_avals))
        return {
            "flops": float(flops(closed)),
            "transcendentals": float(transcendentals(closed)),
            "bytes accessed": float(sum(operands) + results),
            **{f"bytes accessed{i}{{}}": float(n) for i, n in enumerate(operands)},
            "bytes accessedout{}": float(results),
        }
