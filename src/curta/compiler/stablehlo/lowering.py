"""From a jaxpr to a module of StableHLO.

Each op class has a rule, found in one table: a function of a `BlockBuilder`, the op and
the values of its operands. It emits operations and returns the results' value(s).

    @rule(Sin)
    def _sine(b: BlockBuilder, op: Sin, x: HloValue) -> HloValue:
        return b.op("sine", [x], b.out_type)

Ops without a rule that are made of others (`Composed`) are lowered as those.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any, NamedTuple, TypeVar

import numpy as np

from curta.compiler.stablehlo.asm import PrintedModule
from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.constants import constant_text, elements
from curta.compiler.stablehlo.dims import dynamic_op
from curta.compiler.stablehlo.ir import HloBlock, HloFunction, HloValue, Operation
from curta.compiler.stablehlo.key_words import moves_keys, on_words
from curta.compiler.stablehlo.locations import EqnLocation
from curta.compiler.stablehlo.shardings import (
    OWN_PLACES,
    Manual,
    Meshes,
    constrained_by_types,
)
from curta.compiler.stablehlo.targets import expanded_targets
from curta.compiler.stablehlo.types import TOKEN, Dynamic, tensor_type
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.jaxpr import Atom, ClosedJaxpr, Jaxpr, Literal
from curta.core.mesh import AbstractMesh
from curta.core.name_stack import EMPTY, NameStack
from curta.core.op import Op
from curta.core.source_info import UNKNOWN
from curta.primitives.composed import Composed

Rule = Callable[..., "HloValue | Sequence[HloValue]"]
RULES: dict[type[Op], Rule] = {}


F = TypeVar("F", bound=Rule)
T = TypeVar("T")


_KNOW_KEYS: set[Rule] = set()


def rule(*classes: type[Op], keys: bool = False) -> Callable[[F], F]:
    """Register a rule for op classes and their subclasses.

    `keys` says that it knows random keys as words along a last dim. Ops that know
    nothing of it, and hold no jaxprs, are lowered as their batch over that dim.
    """

    def register(function: F) -> F:
        for cls in classes:
            RULES[cls] = function
        if keys:
            _KNOW_KEYS.add(function)
        _resolved.clear()
        return function

    return register


class _ResolvedRule(NamedTuple):
    """The rule for a class of ops, and what it sees to itself."""

    rule: Rule
    knows_keys: bool
    places_results: bool


_resolved: dict[type[Op], _ResolvedRule] = {}  # what was looked for


def _rule_of(kind: type[Op]) -> _ResolvedRule | None:
    """The rule of a class, or of its first base that has one."""
    try:
        return _resolved[kind]
    except KeyError:
        pass
    result = next((RULES[cls] for cls in kind.__mro__ if cls in RULES), None)
    if result is None:
        return None
    places = issubclass(kind, OWN_PLACES)
    return _resolved.setdefault(
        kind, _ResolvedRule(result, result in _KNOW_KEYS, places)
    )


PLATFORM_INDEX = "_platform_index"


def number_type() -> str:
    """The type of the numbers that functions get, as of Python's ints."""
    return "tensor<i64>" if config.jax_enable_x64 else "tensor<i32>"


def ordered_effects(effects: Iterable[Effect]) -> list[Effect]:
    """Those effects whose order is kept, by a token each."""
    return sorted([e for e in effects if e.ordered], key=str)


class ModuleState:
    """The state shared by the functions of one module.

    `platforms` are those that the module is for; where there are several, its
    functions get the index of the one it runs on. It is among the numbers that all
    functions get first, by the names `numbers`. `targets` are the routines that custom
    calls may name, `callbacks` the functions of Python that it calls, by number. Types
    that say nothing are those of values of which all devices of `mesh` have the whole,
    if it has explicit axes.
    """

    def __init__(
        self,
        name: str,
        platforms: Sequence[str] = ("cpu",),
        numbers: Sequence[str] = (),
        targets: Iterable[str] = (),
    ) -> None:
        self.platforms: tuple[str, ...] = tuple(platforms)
        self.targets: frozenset[str] = expanded_targets(platforms) | {*targets}
        several = len(self.platforms) > 1
        self.numbers: tuple[str, ...] = (*[PLATFORM_INDEX] * several, *numbers)
        self.module: PrintedModule = PrintedModule(
            name,
            {
                "mhlo.num_partitions": RawAttribute("1 : i32"),
                "mhlo.num_replicas": RawAttribute("1 : i32"),
            },
        )
        self.meshes: Meshes = Meshes(self.module)
        self.mesh: AbstractMesh | None = None
        self.callbacks: list[Any] = []
        self.call_numbers: Iterator[int] = count()
        self._groups = count()
        self._channels = count(2)  # the first is that of collectives
        self._known: dict[Any, tuple[Any, Any]] = {}

    def new_channel(self) -> int:
        """The number of a channel between devices and the host."""
        return next(self._channels)

    def new_group(self) -> int:
        """A number for values that are laid out alike."""
        return next(self._groups)

    def function(
        self, closed: ClosedJaxpr, name: str, manual: Manual | None = None
    ) -> HloFunction:
        """A private function for a jaxpr; one for all calls of it."""
        key = closed.jaxpr, name, manual, *map(id, closed.consts)
        return self.kept(key, lambda: self.define(closed, name, manual=manual), closed)

    def helper(
        self,
        name: str,
        types: Sequence[str],
        write: Callable[..., Sequence[HloValue]],
        key: Any = None,
    ) -> HloFunction:
        """A private function that is no jaxpr's: `write(builder, *args)` gives it.

        There is one for each name, types of arguments, and key. It gets the numbers
        if there are any.
        """
        first = len(self.numbers)

        def make() -> HloFunction:
            body = HloBlock([HloValue(t) for t in [*[number_type()] * first, *types]])
            function = self.new_function(name, body, [])
            b = BlockBuilder(self, body)
            b.numbers = dict(zip(self.numbers, body.arguments))
            outs = write(b, *body.arguments[first:])
            function.set_results([x.type for x in outs])
            b.emit("func.return", outs, [])
            return function

        shapes = tuple(t.shape if isinstance(t, Dynamic) else t for t in types)
        return self.kept((name, *types, shapes, key), make)

    def kept(self, key: Any, make: Callable[[], T], *alive: Any) -> T:
        """What `make` gives, once for each key; what is `alive` is kept with it."""
        result = self._known.get(key)
        if result is None:
            result = self._known[key] = make(), alive
        made: T = result[0]
        return made

    def new_function(
        self, name: str, body: HloBlock, results: Sequence[str], public: bool = False
    ) -> HloFunction:
        function = HloFunction(self.module.unused_name(name), body, results, public)
        self.module.functions[function.name] = function
        return function

    def define(
        self,
        closed: ClosedJaxpr,
        name: str,
        public: bool = False,
        *,
        path: NameStack = EMPTY,
        manual: Manual | None = None,
    ) -> HloFunction:
        """A new function for a jaxpr; its constants are constants of the function.

        Numbers and tokens come before its arguments, tokens before its results.
        """
        jaxpr, first = closed.jaxpr, len(self.numbers)
        effects = ordered_effects(closed.effects)
        tokens = [TOKEN] * len(effects)
        before = [*[number_type()] * first, *tokens]
        body = HloBlock(
            [HloValue(t) for t in [*before, *map(tensor_type, jaxpr.in_avals)]]
        )
        results = [*tokens, *map(tensor_type, jaxpr.out_avals)]
        function = self.new_function(name, body, results, public)
        mark(function, self.numbers, len(effects))
        b = BlockBuilder(self, body)
        b.manual, b.location = manual, path
        b.numbers = dict(zip(self.numbers, body.arguments))
        b.tokens = dict(zip(effects, body.arguments[first:]))
        outs = lower_closed(b, closed, body.arguments[len(before) :])
        b.emit("func.return", [*b.tokens.values(), *outs], [])
        return function


def mark(function: HloFunction, numbers: Sequence[str], tokens: int) -> None:
    """Say which arguments are numbers and tokens, and which results tokens."""
    for i, number in enumerate(numbers):
        function.argument_attributes[i]["jax.global_constant"] = number
    for i in range(tokens):
        function.argument_attributes[len(numbers) + i]["jax.token"] = True
        function.result_attributes[i]["jax.token"] = True


class BlockBuilder:
    """Appends operations to a block.

    While a rule runs, `ins` and `outs` are the avals of its eqn. `tokens` are what
    the next operation with an ordered effect comes after, `numbers` those of the
    program; `manual` says which axes of which mesh are mapped over, and `of_elements`
    that values are elements of arrays, which are nowhere in particular.
    """

    def __init__(self, program: ModuleState, block: HloBlock) -> None:
        self.program = program
        self.block = block
        self.ins: Sequence[ShapedArray] = ()
        self.outs: Sequence[ShapedArray] = ()
        self.location: Any = UNKNOWN
        self.tokens: dict[Effect, HloValue] = {}
        self.numbers: dict[str, HloValue] = {}
        self.manual: Manual | None = None
        self.of_elements = False

    @property
    def out_type(self) -> str:
        """The type of the first result of the eqn."""
        return tensor_type(self.outs[0])

    @property
    def out_types(self) -> list[str]:
        """The types of the results of the eqn."""
        return [tensor_type(a) for a in self.outs]

    @property
    def line(self) -> Any:
        """The line of the program that the eqn is from, for messages."""
        return (
            self.location.eqn.source_info
            if isinstance(self.location, EqnLocation)
            else ""
        )

    def emit(
        self,
        name: str,
        operands: Sequence[HloValue],
        types: Sequence[str],
        regions: Sequence[HloBlock] = (),
        /,
        **attributes: Any,
    ) -> list[HloValue]:
        """Append an operation; its results."""
        results = [HloValue(t) for t in types]
        operation = Operation(
            name, operands, results, attributes, regions, self.location
        )
        self.block.operations.append(operation)
        return results

    def op(
        self, name: str, operands: Sequence[HloValue], type_: str, /, **attributes: Any
    ) -> HloValue:
        """Append an operation of StableHLO with one result."""
        if type(type_) is Dynamic:
            dynamic = dynamic_op(self, name, operands, type_, attributes)
            if dynamic is not None:
                return dynamic
        result = HloValue(type_)
        operation = Operation(
            f"stablehlo.{name}", operands, (result,), attributes, (), self.location
        )
        self.block.operations.append(operation)
        return result

    def constant(self, value: Any) -> HloValue:
        """A constant tensor."""
        text, type_, hint = constant_text(np.asarray(value))
        result = HloValue(type_, hint)
        self.block.operations.append(
            Operation(
                "stablehlo.constant", (), [result], {"value": text}, (), self.location
            )
        )
        return result

    @contextmanager
    def region(self, types: Sequence[str]) -> Iterator[BlockBuilder]:
        """A region with a block that takes values of these types.

        The builder of it, which ends it by `finish`.
        """
        inner = BlockBuilder(self.program, HloBlock([HloValue(t) for t in types]))
        inner.ins, inner.outs = self.ins, self.outs
        inner.location, inner.manual = self.location, self.manual
        inner.of_elements = self.of_elements
        inner.tokens, inner.numbers = dict(self.tokens), self.numbers
        yield inner

    def finish(self, *values: HloValue) -> HloBlock:
        """End a region; its block."""
        self.emit("stablehlo.return", values, [])
        return self.block

    def call(
        self, jaxpr: ClosedJaxpr, name: str, args: Sequence[HloValue]
    ) -> list[HloValue]:
        """Call a jaxpr as a function of the module."""
        function = self.program.function(jaxpr, name, self.manual)
        effects = ordered_effects(jaxpr.effects)
        tokens = [self.tokens[e] for e in effects]
        given = [*self.numbers.values(), *tokens, *args]
        location, results = self.location, function.result_types
        if isinstance(location, EqnLocation) and location.part:
            self.location = location._replace(part=f"{location.part}/{name}")
        result = self.emit("func.call", given, results, callee=function.name)
        self.location = location
        self.tokens.update(zip(effects, result))
        return result[len(effects) :]

    def call_helper(
        self, function: HloFunction, args: Sequence[HloValue]
    ) -> list[HloValue]:
        """Call a function that no jaxpr stands for."""
        given, results = [*self.numbers.values(), *args], function.result_types
        return self.emit("func.call", given, results, callee=function.name)

    def outlined(
        self, op: Op, write: Callable[..., Sequence[HloValue]], args: Sequence[HloValue]
    ) -> list[HloValue]:
        """What `write(builder, *args)` gives, as a function with the name of the op.

        All eqns of equal ops on equal avals call one function.
        """
        ins, outs, location = self.ins, self.outs, self.location

        def body(b: BlockBuilder, *args: HloValue) -> Sequence[HloValue]:
            b.ins, b.outs, b.location = ins, outs, location
            return write(b, *args)

        types = [x.type for x in args]
        function = self.program.helper(op.name, types, body, (op, *ins))
        return self.call_helper(function, args)

    def apply(
        self, op: Op, avals: Sequence[ShapedArray], *args: HloValue
    ) -> Sequence[HloValue]:
        """Append an op on operands of these avals; the values of its results."""
        before = self.ins, self.outs
        outs: Any = op.aval(*avals)
        self.ins = tuple(avals)
        self.outs = tuple(outs) if op.multiple_results else (outs,)
        results = lower_op(self, op, args)
        self.ins, self.outs = before
        return results


def lower_closed(
    b: BlockBuilder, closed: ClosedJaxpr, args: Sequence[HloValue]
) -> list[HloValue]:
    """Append the eqns of a jaxpr; the values of its results."""
    consts = [
        b.constant(elements(c, v.aval))
        for c, v in zip(closed.consts, closed.jaxpr.constvars, strict=True)
    ]
    return lower_jaxpr(b, closed.jaxpr, consts, args)


def lower_jaxpr(
    b: BlockBuilder, jaxpr: Jaxpr, consts: Sequence[HloValue], args: Sequence[HloValue]
) -> list[HloValue]:
    """Append the eqns of a jaxpr; the values of its results."""
    env: dict[Atom, HloValue] = {}
    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atoms: Iterable[Atom]) -> list[HloValue]:
        return [
            b.constant(elements(v.val, v.aval)) if type(v) is Literal else env[v]
            for v in atoms
        ]

    ins, outs, around = b.ins, b.outs, b.location
    for eqn in jaxpr.eqns:
        b.ins = tuple([v.aval for v in eqn.invars])
        b.outs = tuple([v.aval for v in eqn.outvars])
        b.location = EqnLocation(eqn, jaxpr, around)
        operands = read(eqn.invars)
        first = len(b.block.operations)
        results = lower_op(b, eqn.op, operands)
        names = eqn.source_info.name_stack
        if names.stack and (notes := names.notes):
            annotate(b.block.operations[first:], results, notes)
        env.update(zip(eqn.outvars, results, strict=True))
    b.ins, b.outs, b.location = ins, outs, around
    return read(jaxpr.outvars)


FRONTEND = "mhlo.frontend_attributes"


def annotate(
    operations: Sequence[Operation],
    results: Sequence[HloValue],
    notes: Mapping[str, Any],
) -> None:
    """Give those of the operations that make some values notes for XLA."""
    texts = {k: str(v).lower() if type(v) is bool else str(v) for k, v in notes.items()}
    for operation in operations:
        if any(x in results for x in operation.results):
            before = operation.attributes.get(FRONTEND, {})
            both = {FRONTEND: {**before, **texts}}
            operation.attributes = {**operation.attributes, **both}


def lower_op(b: BlockBuilder, op: Op, args: Sequence[HloValue]) -> Sequence[HloValue]:
    """Append an op from `b.ins` to `b.outs`; the values of its results."""
    lowering = _rule_of(type(op))
    if lowering is None and isinstance(op, Composed):
        return lower_closed(b, op.expansion(b.ins), args)
    if lowering is None:
        raise NotImplementedError(
            f"StableHLO lowering rule for primitive '{op.name}' not found, for"
            f" platforms {b.program.platforms}. {b.line}"
        )
    if not lowering.knows_keys and moves_keys(op, b.ins):
        return lower_closed(b, on_words(op, b.ins), args)
    result = lowering.rule(b, op, *args)
    results = [result] if isinstance(result, HloValue) else result
    return results if lowering.places_results else constrained_by_types(b, results)
