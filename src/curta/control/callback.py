"""Ops that call Python functions of the user while a program runs.

Compiled programs call Python for them, in the order of the program
(compiler/machine_code/host_call.py).
"""

from __future__ import annotations

import copy
import dataclasses
import logging
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from curta import dtypes, tree_util
from curta._base.lazy_dataclass import dataclass
from curta.control.scan import Scan
from curta.core.avals import ShapedArray
from curta.core.effects import Effect, NamedEffect
from curta.core.key_use import NOTHING, KeyReuseSignature
from curta.core.mesh_scope import outside_meshes
from curta.core.op import BatchDims, Batched, Op
from curta.core.sharding import Index
from curta.core.stage import stage
from curta.core.trace import base_trace, typeof, use_trace
from curta.core.tracebacks import shown_frames
from curta.errors import JaxRuntimeError
from curta.primitives.elementwise.convert import Copy
from curta.primitives.random_bits.implementations import KeyImplementation
from curta.primitives.random_bits.ops import RandomWrap
from curta.primitives.slicing import Slice
from curta.primitives.structure import broadcast_batch, move_dim, reshape

logger: Any = logging.getLogger("curta.debugging")
# The name by which libraries know the logger of callbacks that raise, to filter it.
failures: Any = logging.getLogger("jax._src.callback")

#: Functions that wait until callbacks made by programs on plugins' devices are done.
barriers: list[Callable[[], None]] = []
#: Functions that wait for those of an effect that this thread's programs will make.
earlier: list[Callable[[Effect], None]] = []

VMAP_METHODS = (
    "sequential",
    "sequential_unrolled",
    "expand_dims",
    "broadcast_all",
    "legacy_vectorized",
)


@dataclass(frozen=True, eq=False)
class FlatCallback:
    """A function of a pytree as one of its leaves; equal for the same function."""

    callback_func: Callable[..., Any]
    in_tree: Any

    def __call__(self, *leaves: Any) -> list[Any]:
        args, kwargs = tree_util.tree_unflatten(self.in_tree, leaves)
        return tree_util.tree_leaves(self.callback_func(*args, **kwargs))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, FlatCallback)
            and self.callback_func is other.callback_func
            and self.in_tree == other.in_tree
        )

    def __hash__(self) -> int:
        return hash((id(self.callback_func), self.in_tree))

    def __repr__(self) -> str:  # as jaxprs show it
        return (
            f"_FlatCallback(callback_func={self.callback_func}, in_tree={self.in_tree})"
        )


@dataclass(frozen=True)
class MixedCallback:
    """A function of a pytree as one of the leaves that are arrays.

    `static` are the other leaves, with their positions. `keys` are the positions of
    random keys among the arrays, of which the words are given, with their
    implementations.
    """

    callback: Callable[..., Any]
    in_tree: Any
    static: tuple[tuple[int, Any], ...]
    keys: tuple[tuple[int, KeyImplementation], ...] = ()

    def __call__(self, *arrays: Any) -> None:
        leaves = list(arrays)
        for position, implementation in self.keys:
            leaves[position] = RandomWrap(implementation)(leaves[position])
        for position, value in self.static:
            leaves.insert(position, value)
        args, kwargs = tree_util.tree_unflatten(self.in_tree, leaves)
        self.callback(*args, **kwargs)


class CallbackOp(Op):
    """What the callbacks share."""

    multiple_results: ClassVar[bool] = True
    holds_functions: ClassVar[bool] = True
    runs_python: ClassVar[bool] = True
    rules_run_python: ClassVar[bool] = True

    def await_turn(self) -> None:
        """Wait for what comes before it on other devices, if the order matters."""
        for effect in self.effects:
            if effect.ordered:
                for wait in earlier:
                    wait(effect)

    def check_operands(self, avals: Sequence[ShapedArray]) -> None:
        """Raise TypeError for random keys, which NumPy does not have."""
        for aval in avals:
            if isinstance(aval.dtype, dtypes.ExtendedDType):
                raise TypeError(
                    f"{self.name} does not take random keys, got an operand of type"
                    f" {aval.str_short()}. Pass jax.random.key_data(key) instead."
                )


def call_outside(fun: Callable[..., Any], args: Sequence[Any]) -> Any:
    """`fun` on arrays, which are its own: no transformation at work, nor a mesh."""
    with use_trace(base_trace()), outside_meshes():
        # NumPy arrays become arrays as they enter an op.
        return fun(*[Copy()(np.array(x)) for x in args])


# ---- callbacks for debugging


class DebugEffect(Effect):
    """That of a callback for debugging.

    >>> import curta
    >>> jaxpr = curta.make_jaxpr(lambda x: curta.debug.print("{}", x))(1)
    >>> jaxpr.effects
    frozenset({Debug})
    """

    def __str__(self) -> str:
        return "Debug"


class OrderedDebugEffect(DebugEffect):
    """The effect of a debugging callback that is ordered.

    >>> import curta
    >>> def f(x):
    ...     curta.debug.print("{}", x, ordered=True)
    >>> curta.make_jaxpr(f)(1).effects
    frozenset({OrderedDebug})
    """

    ordered: ClassVar[bool] = True

    def __str__(self) -> str:
        return "OrderedDebug"


class OrderedIOEffect(NamedEffect):
    """That of an ordered `io_callback`."""

    __slots__ = ()
    ordered: ClassVar[bool] = True
    shardable: ClassVar[bool] = True


DEBUG, ORDERED_DEBUG = DebugEffect(), OrderedDebugEffect()
IO, ORDERED_IO = NamedEffect("IO"), OrderedIOEffect("OrderedIO")


# For each device, the index of its part of each operand; none if all show the whole.
Parts = tuple[tuple[Index, ...], ...]


class Debugging(CallbackOp):
    """A callback with no results, which transformations do not change.

    Two of them are never equal: each is to happen.
    """

    key_signature: ClassVar[KeyReuseSignature | None] = NOTHING
    hidden_fields: ClassVar[tuple[str, ...]] = ("parts",)
    partitioned: bool
    parts: Parts

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def shown(self, args: Sequence[Any]) -> Sequence[Sequence[Any]]:
        """The operands of each call: whole, or the parts that each device holds."""
        if not self.parts:
            return [args]
        return [
            [np.asarray(x)[part] for x, part in zip(args, own, strict=True)]
            for own in self.parts
        ]

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        self.check_operands(avals)
        return []

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        self(*primals)
        return [], []

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        return [None] * len(args)

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        for i in range(axis.size):
            self(*[_example(x, d, i) for x, d in zip(args, dims, strict=True)])
        return [], []


@dataclass(frozen=True, eq=False)
class DebugCallback(Debugging):
    """Call `callback` with the operands.

    If it is `partitioned`, in programs over several devices `parts` has for each of
    them the indices of its part of each operand.
    """

    name: ClassVar[str] = "debug_callback"
    callback: Callable[..., Any]
    effect: DebugEffect
    partitioned: bool = False
    parts: Parts = ()

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset({self.effect})

    def eval(self, *args: Any) -> Any:
        self.await_turn()
        for own in self.shown(args):
            call_outside(self.callback, own)
        return []


@dataclass(frozen=True, eq=False)
class DebugPrint(Debugging):
    """Print `fmt` with the operands, and the leaves in `static_args`, put in.

    With no placeholders in `fmt`, the operands are printed after it. If there is a
    `logging_record`, it is logged with this text instead.
    """

    name: ClassVar[str] = "debug_print"
    hidden_fields: ClassVar[tuple[str, ...]] = ("parts", "keys")
    fmt: str
    has_placeholders: bool
    in_tree: Any
    np_printoptions: tuple[tuple[str, Any], ...]
    static_args: tuple[tuple[int, Any], ...]
    ordered: bool = False
    partitioned: bool = False
    logging_record: logging.LogRecord | None = None
    keys: tuple[tuple[int, KeyImplementation], ...] = ()
    parts: Parts = ()

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset({ORDERED_DEBUG if self.ordered else DEBUG})

    def eval(self, *args: Any) -> Any:
        self.await_turn()
        leaves = self.in_tree, self.static_args, self.keys
        for own in self.shown(args):
            call_outside(MixedCallback(self._print, *leaves), own)
        return []

    def _print(self, *args: Any, **kwargs: Any) -> None:
        with np.printoptions(**dict(self.np_printoptions)):
            if self.has_placeholders:
                text = self.fmt.format(*args, **kwargs)
            else:
                text = " ".join([self.fmt, *map(str, args)])
        if self.logging_record is None:
            sys.stdout.write(text + "\n")
        else:
            record = copy.copy(self.logging_record)
            record.msg = text
            logger.handle(record)


def _example(x: Any, dim: int | None, i: int) -> Any:
    """Example `i` of a batch."""
    if dim is None:
        return x
    shape = typeof(x).shape
    start, limit = [0] * len(shape), list(shape)
    start[dim], limit[dim] = i, i + 1
    return reshape(Slice(tuple(start), tuple(limit))(x), shape[:dim] + shape[dim + 1 :])


# ---- callbacks with results


class Computing(CallbackOp):
    """A callback whose results the program uses."""

    callback: Callable[..., Any]
    result_avals: tuple[ShapedArray, ...]
    kind: ClassVar[str]

    def aval(self, *avals: ShapedArray) -> Sequence[ShapedArray]:
        self.check_operands(avals)
        return self.result_avals

    def eval(self, *args: Any) -> Any:
        self.await_turn()
        try:
            return self._checked(call_outside(self.callback, args))
        except Exception as error:
            shown = type(error), error, shown_frames(error.__traceback__)
            text = "".join(traceback.format_exception(*shown))
            failures.error("jax.%s failed", self.name, exc_info=shown)
            raise JaxRuntimeError(
                f"INTERNAL: {self.name}: error calling callback: {text}"
            ) from error

    def _checked(self, outs: Sequence[Any]) -> list[Any]:
        if len(outs) != len(self.result_avals):
            raise RuntimeError(
                "Mismatched number of outputs from callback. Expected:"
                f" {len(self.result_avals)}, Actual: {len(outs)}"
            )
        arrays = []
        for i, (out, aval) in enumerate(zip(outs, self.result_avals, strict=True)):
            x = np.asarray(out)
            x = np.array(x, dtypes.canonicalize_dtype(x.dtype), order="C")
            for what in "shape", "dtype":
                wanted, result = getattr(aval, what), getattr(x, what)
                if wanted != result:
                    raise RuntimeError(
                        f"Incorrect output {what} for return value #{i}: Expected:"
                        f" {wanted}, Actual: {result}"
                    )
            arrays.append(x)
        return arrays

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> NoReturn:
        raise ValueError(
            f"{self.kind} callbacks do not support JVP. Please use `jax.custom_jvp` to"
            " use callbacks while taking gradients."
        )

    def transpose(self, cotangent: Any, *args: Any) -> NoReturn:
        raise ValueError(
            f"{self.kind} callbacks do not support transpose. Please use"
            " `jax.custom_vjp` to use callbacks while taking gradients."
        )

    def one_by_one(
        self, axis: Any, args: Sequence[Any], dims: Sequence[int | None], unroll: int
    ) -> tuple[Any, Any]:
        """Call once for each example, in order."""
        batched = [d is not None for d in dims]
        same = [x for x, b in zip(args, batched, strict=True) if not b]
        rows = [
            move_dim(x, d, 0) for x, d, b in zip(args, dims, batched, strict=True) if b
        ]

        def body(*values: Any) -> Any:
            fixed, moving = iter(values[: len(same)]), iter(values[len(same) :])
            return self(*[next(moving if b else fixed) for b in batched])

        slices = [a.update(shape=a.shape[1:]) for a in map(typeof, rows)]
        jaxpr = stage(body, [*map(typeof, same), *slices])
        op = Scan(jaxpr, axis.size, False, len(same), 0, unroll)
        return op(*same, *rows), [0] * len(self.result_avals)


@dataclass(frozen=True)
class PureCallback(Computing):
    """The results of a function that has no side effects.

    It is called as often as the program needs the results: not at all, perhaps.
    """

    name: ClassVar[str] = "pure_callback"
    kind: ClassVar[str] = "Pure"
    callback: Callable[..., Any]
    result_avals: tuple[ShapedArray, ...]
    sharding: Any = None
    vmap_method: str | None = None

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        method, size = self.vmap_method, axis.size
        if axis.devices:  # a pmap: each device makes its own call
            method = "sequential"
        if method is None:
            *names, last = map(repr, VMAP_METHODS)
            raise NotImplementedError(
                f"vmap is only supported for the {self.name} primitive when"
                f" vmap_method is one of {', '.join(names)}, or {last}. Got"
                " vmap_method=None."
            )
        if method.startswith("sequential"):
            unroll = size if method == "sequential_unrolled" else 1
            return self.one_by_one(axis, args, dims, unroll)
        repeats = {"expand_dims": 1, "broadcast_all": size}.get(method)
        moved = [
            move_dim(x, d, 0)
            if d is not None
            else (x if repeats is None else broadcast_batch(x, repeats, 0))
            for x, d in zip(args, dims, strict=True)
        ]
        avals = tuple(a.update(shape=(size, *a.shape)) for a in self.result_avals)
        op = dataclasses.replace(self, result_avals=avals)
        return op(*moved), [0] * len(avals)


@dataclass(frozen=True, eq=False)
class IOCallback(Computing):
    """The results of a function with side effects, called exactly once."""

    name: ClassVar[str] = "io_callback"
    kind: ClassVar[str] = "IO"
    callback: Callable[..., Any]
    result_avals: tuple[ShapedArray, ...]
    ordered: bool = False
    sharding: Any = None

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def effects(self) -> frozenset[Effect]:
        return frozenset({ORDERED_IO if self.ordered else IO})

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        if self.ordered and not axis.devices:
            raise ValueError("Cannot `vmap` ordered IO callback.")
        return self.one_by_one(axis, args, dims, 1)
