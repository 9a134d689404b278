"""`Op`: one primitive operation, with all its rules in one class.

An instance holds the static parameters of the operation, so that an equation is
`(op, invars, outvars)`. Subclasses with parameters are frozen dataclasses. Which rules
a class needs depends on where it is used; a missing one raises `MissingRule`, which
names the class, the rule and the file to edit.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, NoReturn

from curta import dtypes
from curta._settings.api_version import Change
from curta.core import trace
from curta.core.avals import ShapedArray
from curta.core.effects import Effect
from curta.core.key_use import KeyReuseSignature, Sink
from curta.errors import MissingRule

Flags = tuple[bool, ...]
BatchDims = Sequence[int | None]
"""For each operand the dim along which the examples of a batch lie, or None."""
Batched = tuple[Any, Any]
"""What a batching rule gives: the outputs, and their dims as in `BatchDims`."""


class LoopView(NamedTuple):
    """What loops of all kinds have.

    The body takes `consts` constants, the carry and the rows of arrays; the carry is
    the first of its results, and of the loop's.
    """

    body: Any
    iterations: int | None
    """How many there are, if that is known."""
    consts: int
    carry: int
    """How many parts the carry has."""
    start: int
    """The operand of the loop with which the first part of the carry begins."""

    def initial(self, operands: Sequence[Any]) -> Sequence[Any]:
        """What the carry begins as."""
        return operands[self.start : self.start + self.carry]


class Op:
    """Base of all primitives.

    Rules (x: values, of whatever trace is current):

    =============  =======================================================
    `aval`         output aval (a sequence of them for `multiple_results`)
    `eval`         NumPy arrays to NumPy array(s): the meaning of the op
    `jvp`          `(primals, tangents) -> (out, out_tangent)`; a tangent may be `Zero`
    `taylor`       `(k, out, *series) -> term`, if not by `jvp` (transforms/jet)
    `transpose`    `(cotangent, *args) -> a cotangent or None per argument`; the
                   arguments it is linear in are passed as `LinearArg(aval)`
    `batch`        `(axis, args, dims) -> (out, out_dim)`; dims are ints or None
    `lower`        scalar code of one output element, for the compiler
    `samples`      inputs on which the conformance test runs every rule
    =============  =======================================================
    """

    name: ClassVar[str]
    arity: ClassVar[int | None] = None
    """How many operands there are, where that is always the same."""
    multiple_results: ClassVar[bool] = False
    places_outputs: ClassVar[bool] = False
    """Whether `aval` gives the placement of results; else it follows by a rule."""
    is_high: ClassVar[bool] = False
    """Whether it stands for other ops, which replace it before it runs."""
    takes_refs: ClassVar[bool] = False
    """Whether operands may be references (core/refs.py)."""
    inlined_names: ClassVar[bool] = False
    """Whether the variables of its jaxpr are printed under the names of the eqn's."""
    compiled_above: ClassVar[str | None] = "compiled_elements"
    """The limit of elements, by its name in `Tuning`, above which eager mode compiles
    it; None is always."""
    makes_nan: ClassVar[bool] = False
    """Whether NaN may be among the outputs where the operands have none."""
    key_signature: ClassVar[KeyReuseSignature | None] = None
    """What it does with random keys; None if it uses up those it gets."""
    holds_functions: ClassVar[bool] = False
    """Whether parameters may be functions of the program, which no table keeps."""
    holds_jaxprs: ClassVar[bool] = False
    """Whether parameters may be jaxprs."""
    runs_python: ClassVar[bool] = False
    """Whether it runs a function of the program, and so only where the program does."""
    rules_run_python: ClassVar[bool] = False
    """Whether its rules of transformations run functions of the program."""
    reads_elements: ClassVar[bool] = False
    """Whether its loops read elements of the operands, which then need no memory."""
    renames_memory: ClassVar[bool] = False
    """Whether each result is what lies in the operand's memory, in the same order."""
    is_barrier: ClassVar[bool] = False
    """Whether nothing is moved before it, nor its results taken for its operands."""
    updates_first: ClassVar[bool] = False
    """Whether the result is the first operand with some elements updated."""
    meets_hosts: ClassVar[bool] = False
    """Whether processes that run the program meet in it."""
    waits_for_hosts: ClassVar[bool] = False
    """Whether it waits for what processes have begun together."""
    calls_function: ClassVar[bool] = False
    """Whether its `scope` is a function's name, which transformations wrap."""
    param_names: ClassVar[Mapping[str, str | None]] = MappingProxyType({})
    """Keys of `params()` that are no fields: the field, or None if others imply it."""
    params_since: ClassVar[Mapping[str, Change]] = MappingProxyType({})
    """Keys of `params()` that are there only from a version of JAX on."""
    hidden_fields: ClassVar[tuple[str, ...]] = ()
    """The fields that are none of its parameters to those who read jaxprs."""

    # Ops without parameters are equal if they are of one class; those with parameters
    # are dataclasses, which compare the parameters too.
    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    @property
    def parts_run(self) -> tuple[Any, ...]:
        """The jaxprs that it runs: its regions, or its callees."""
        return self.regions

    @property
    def memory_limit(self) -> int | None:
        """The bytes in which the program that it is part of is to fit."""
        return None

    @property
    def recomputes(self) -> bool:
        """Whether it computes again what must not be taken from the first time."""
        return False

    __call__: ClassVar[Callable[..., Any]] = trace.bind
    bind: ClassVar[Callable[..., Any]] = trace.bind  # the same, by JAX's name

    # ---- the rules

    def aval(self, *avals: ShapedArray) -> Any:
        """The aval(s) of the output; raises TypeError for operands it refuses."""
        self._missing("aval")

    def eval(self, *args: Any) -> Any:
        """The op on NumPy arrays."""
        self._missing("eval")

    def jvp(self, primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
        """Output and its tangent; at least one of `tangents` is not `Zero`."""
        self._missing("jvp")

    def taylor(self, k: int, out: Sequence[Any], *series: Sequence[Any]) -> Any:
        """Coefficient k > 0 of the output's power series, from those of the operands.

        Also from those before it, `out[:k]`. Zeros are None.
        """
        self._missing("taylor")

    def pushforward(
        self, primals: Sequence[Any], tangents: Sequence[Any], push: Any
    ) -> tuple[Any, Any]:
        """As `jvp`, by another transformation `push` of the jaxprs that the op holds.

        See `Pushforward` of transforms/jaxprs.
        """
        self._missing("pushforward")

    def inlined(self, *args: Any) -> Sequence[Any]:
        """What the op of a jaxpr does, as its ops under the current trace."""
        self._missing("inlined")

    def transpose(self, cotangent: Any, *args: Any) -> Sequence[Any]:
        """A cotangent (or None) for each argument."""
        self._missing("transpose")

    def batch(self, axis: Any, args: Sequence[Any], dims: BatchDims) -> Batched:
        """Output and its batch dim; at least one of `dims` is not None."""
        self._missing("batch")

    def lower(self, b: Any, index: tuple[Any, ...], *operands: Any) -> Any:
        """The scalar expression of the output element at `index`."""
        self._missing("lower")

    def terms(self, *avals: ShapedArray) -> int:
        """How many terms an element of a sum of products has; 0 for other ops."""
        return 0

    @property
    def regions(self) -> tuple[Any, ...]:
        """The jaxprs that run when it does, if it is control flow."""
        return ()

    @property
    def loop(self) -> LoopView | None:
        """What a loop over a body says of it; None for any other op."""
        return None

    always_pruned: ClassVar[bool] = False
    """Whether dead code elimination asks for `pruned` wherever it looks."""

    def pruned(self, used: Flags) -> tuple[Op, Flags, Flags] | None:
        """The op with fewer results, of which only those of `used` are needed.

        Also which operands it still reads, and which results it still gives. None if
        it computes all of them together.
        """
        return None

    def partial_eval(self, partial: Any, args: Sequence[Any]) -> Any:
        """How a `PartialTrace` treats the op when some arguments are unknown.

        By default the whole op is recorded for later. Ops that hold jaxprs split
        them into a known and an unknown part.
        """
        return partial.defer(self, args)

    def checkify(self, checker: Any, args: Sequence[Any]) -> Any:
        """Apply the op, telling a `Checker` what may go wrong (transforms/checkify.py).

        By default NaN may. Ops that hold jaxprs check those.
        """
        out = self(*args)
        if self.makes_nan:
            checker.nan(self, out)
        return out

    def key_use(self, avals: Sequence[ShapedArray]) -> KeyReuseSignature:
        """What the op does with random keys among operands of these avals."""
        if self.key_signature is not None:
            return self.key_signature
        keys = [dtypes.issubdtype(a.dtype, dtypes.prng_key) for a in avals]
        return KeyReuseSignature(*[Sink(i) for i, k in enumerate(keys) if k])

    def check_keys(self, consumed: Sequence[Any]) -> None:
        """Look at which keys among the operands are used up when the op is applied."""

    @classmethod
    def samples(cls) -> Iterator[Any]:
        """Inputs for the conformance test."""
        raise MissingRule(_missing_text(cls, "samples"))

    # ---- description

    @property
    def effects(self) -> frozenset[Effect]:
        """Side effects of the op; an op with effects is neither moved nor removed."""
        return frozenset()

    def params(self) -> dict[str, Any]:
        """The parameters by the names under which a jaxpr prints them."""
        if not dataclasses.is_dataclass(self):
            return {}
        keys = {field: key for key, field in self.param_names.items()}
        shown = [f.name for f in dataclasses.fields(self)]
        shown = [name for name in shown if name not in self.hidden_fields]
        implied = dict.fromkeys(k for k, f in self.param_names.items() if f is None)
        params = {keys.get(name, name): getattr(self, name) for name in shown} | implied
        for key, change in self.params_since.items():
            if not change.applies():
                del params[key]
        return params

    def subfuns(self) -> Sequence[Callable[..., Any]]:
        """The functions that JAX's `bind` takes in place of a jaxpr and its rules."""
        return ()

    def printed_params(self, eqn: Any) -> dict[str, Any]:
        """The parameters that the printer shows for `eqn`; all of them by default."""
        return self.params()

    @property
    def printed_name(self) -> str:
        """The name of the op in jaxprs."""
        return self.name

    @property
    def scope(self) -> str:
        """The name of the op in paths, `model/layer/sin`."""
        return self.name

    def scopes(self, param: str, index: int) -> Sequence[str]:
        """The names, outermost first, that lead to a jaxpr among the parameters.

        `index` counts those of one parameter.
        """
        return (self.scope,)

    def statement(self, used: bool) -> str | None:
        """How a jaxpr shows an eqn, its operands by number, if in another form.

        `used` is whether the result is read.
        """
        return None

    @property
    def linear(self) -> bool:
        """Whether the op can be transposed."""
        return type(self).transpose is not Op.transpose

    def has_rule(self, rule: str) -> bool:
        """Whether this class defines `rule`."""
        return getattr(type(self), rule) is not getattr(Op, rule)

    def _missing(self, rule: str) -> NoReturn:
        raise MissingRule(_missing_text(type(self), rule))


def may_have_effects(kind: type[Op]) -> bool:
    """Whether ops of that class may do more than compute outputs."""
    return kind.effects is not Op.effects


def _missing_text(cls: type, rule: str) -> str:
    try:
        where = inspect.getsourcefile(cls) or cls.__module__
    except TypeError:
        where = cls.__module__
    name = getattr(cls, "name", cls.__name__)
    purpose = PURPOSE.get(rule, rule)
    linear = " Only linear functions can be transposed;" if rule == "transpose" else ""
    return (
        f"{purpose} for '{name}' not implemented:{linear} class {cls.__name__} has no"
        f" `{rule}` rule. Define {cls.__name__}.{rule} in {where}."
    )


PURPOSE = {
    "aval": "Abstract evaluation",
    "eval": "Evaluation rule",
    "jvp": "Differentiation rule",
    "taylor": "Taylor mode rule",
    "pushforward": "The rule for tangents and series",
    "inlined": "The body as ops",
    "transpose": "Transpose rule (for reverse-mode differentiation)",
    "batch": "Batching rule",
    "lower": "Compiled lowering",
    "samples": "The conformance samples",
}
