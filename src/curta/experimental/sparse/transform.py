"""`sparsify`: functions of dense arrays applied to sparse ones."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import curta.numpy as jnp
from curta import tree_util
from curta._base.on_demand import Listing, own
from curta.core.avals import ShapedArray
from curta.core.flat import FlatFunction, debug_info
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, Literal
from curta.core.op import Op
from curta.core.stage import refuse_dead_tracer, stage
from curta.core.trace import (
    Trace,
    Tracer,
    current_trace,
    running,
    swap_trace,
    typeof,
)
from curta.core.wrapping import wraps
from curta.experimental.sparse.base import JAXSparse

__dir__: Listing = own(__name__)

# --- arrays as references to buffers -------------------------------------------------


class SparsifyValue(NamedTuple):
    """An array, dense or sparse, by the numbers of its buffers in a `SparsifyEnv`.

    Arrays that share indices refer to one buffer.
    """

    shape: tuple[int, ...]
    data_ref: int | None
    indices_ref: int | None = None
    indptr_ref: int | None = None
    indices_sorted: bool | None = False
    unique_indices: bool | None = False

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self.shape)

    def is_sparse(self) -> bool:
        """Return True if it is sparse, in one of the formats."""
        return self.indices_ref is not None

    def is_dense(self) -> bool:
        """Return True if it is a dense array."""
        return self.indices_ref is None

    def is_bcoo(self) -> bool:
        """Return True if it is in batched coordinates."""
        return self.is_sparse() and self.indptr_ref is None

    def is_bcsr(self) -> bool:
        """Return True if it has compressed rows."""
        return self.is_sparse() and self.indptr_ref is not None


class SparsifyEnv:
    """The buffers that a function applied to sparse arrays works on."""

    def __init__(self, bufs: Sequence[Any] = ()) -> None:
        self._buffers = list(bufs)

    def _push(self, x: Any) -> int:
        self._buffers.append(jnp.asarray(x))
        return len(self._buffers) - 1

    def _get(self, ref: int | None) -> Any:
        if ref is None:
            raise RuntimeError("a dense array has no indices")
        return self._buffers[ref]

    def data(self, value: SparsifyValue) -> Any:
        """The data of an array: all its elements if it is dense."""
        return self._get(value.data_ref)

    def indices(self, value: SparsifyValue) -> Any:
        """The indices of a sparse array."""
        return self._get(value.indices_ref)

    def indptr(self, value: SparsifyValue) -> Any:
        """Where the rows of an array begin."""
        return self._get(value.indptr_ref)

    def aval(self, value: SparsifyValue) -> ShapedArray:
        """The aval of the dense array that it stands for."""
        known = typeof(self.data(value))
        return ShapedArray(value.shape, known.dtype, known.weak_type)

    def dense(self, data: Any) -> SparsifyValue:
        """A dense array."""
        ref = self._push(data)
        return SparsifyValue(typeof(self._buffers[ref]).shape, ref)

    def sparse(
        self,
        shape: Sequence[int],
        data: Any = None,
        indices: Any = None,
        indptr: Any = None,
        *,
        data_ref: int | None = None,
        indices_ref: int | None = None,
        indptr_ref: int | None = None,
        indices_sorted: bool = False,
        unique_indices: bool = False,
    ) -> SparsifyValue:
        """A sparse array of new buffers, or of those of given numbers."""
        refs = []
        for name, x, ref in (
            ("data", data, data_ref),
            ("indices", indices, indices_ref),
            ("indptr", indptr, indptr_ref),
        ):
            if x is not None and ref is not None:
                raise ValueError(f"SparsifyEnv.sparse: both {name} and {name}_ref")
            refs.append(ref if x is None else self._push(x))
        if None in refs[:2]:
            raise ValueError("SparsifyEnv.sparse: data and indices are needed")
        numbers = refs[0], refs[1], refs[2]
        return SparsifyValue(tuple(shape), *numbers, indices_sorted, unique_indices)


# The class of sparse arrays with so many buffers.
_formats: dict[int, type[Any]] = {}


def sparsifiable(kind: type[Any]) -> type[Any]:
    """Make `kind` the class in which functions get and give its format."""
    _formats[len(kind._fields)] = kind
    return kind


def is_sparse(x: Any) -> bool:
    """Return True if x is an array of one of the sparse formats."""
    return isinstance(x, JAXSparse)


def arrays_to_spvalues(spenv: SparsifyEnv, args: Any) -> Any:
    """A tree of arrays as one of `SparsifyValue`, their buffers in the environment."""

    def value(x: Any) -> SparsifyValue:
        if not is_sparse(x):
            return spenv.dense(x)
        x = x if type(x) in _formats.values() else x.to_bcoo()
        return spenv.sparse(
            x.shape,
            *x._buffers(),
            indices_sorted=x.indices_sorted,
            unique_indices=x.unique_indices,
        )

    return tree_util.tree_map(value, args, is_leaf=is_sparse)


def spvalues_to_arrays(spenv: SparsifyEnv, spvalues: Any) -> Any:
    """A tree of `SparsifyValue` as one of arrays."""

    def array(value: SparsifyValue) -> Any:
        if value.is_dense():
            return spenv.data(value)
        buffers = [spenv.data(value), spenv.indices(value)]
        if value.is_bcsr():
            buffers.append(spenv.indptr(value))
        return _formats[len(buffers)](
            tuple(buffers),
            shape=value.shape,
            indices_sorted=bool(value.indices_sorted),
            unique_indices=bool(value.unique_indices),
        )

    return tree_util.tree_map(array, spvalues, is_leaf=_is_value)


def _is_value(x: Any) -> bool:
    return isinstance(x, SparsifyValue)


# --- ops on sparse arrays ------------------------------------------------------------

Rule = Callable[..., Sequence[SparsifyValue]]

# Of each op that sparse arrays stay sparse under, `rule(spenv, op, *values)`.
_RULES: dict[str, Rule] = {}
# The same for arrays with compressed rows, where they need not become coordinates.
_BCSR_RULES: dict[str, Rule] = {}

_DENSIFYING = frozenset(
    ("acos", "acosh", "bessel_i0e", "cos", "cosh", "eq", "exp", "ge", "gt", "le")
    + ("lt", "log", "ne", "xor", "or", "not", "exp2", "log2", "logistic")
)


def rule(*names: str, bcsr: bool = False) -> Callable[[Rule], Rule]:
    """Register a rule for the ops of these names."""

    def register(sparse_rule: Rule) -> Rule:
        (_BCSR_RULES if bcsr else _RULES).update(dict.fromkeys(names, sparse_rule))
        return sparse_rule

    return register


def array_rule(*names: str, bcsr: bool = False) -> Callable[..., Any]:
    """Register a function of the arrays and parameters of the ops of these names."""

    def register(f: Callable[..., Any]) -> Callable[..., Any]:
        def sparse_rule(spenv: SparsifyEnv, op: Op, *values: SparsifyValue) -> Any:
            out = f(*spvalues_to_arrays(spenv, values), **op.params())
            return arrays_to_spvalues(spenv, [out])

        rule(*names, bcsr=bcsr)(sparse_rule)
        return f

    return register


def apply(
    spenv: SparsifyEnv, op: Op, values: Sequence[SparsifyValue]
) -> Sequence[SparsifyValue]:
    """The results of an op; NotImplementedError if they would not be sparse."""
    if all(value.is_dense() for value in values):
        out = op(*(spenv.data(value) for value in values))
        return [spenv.dense(x) for x in (out if op.multiple_results else [out])]
    if any(value.is_bcsr() for value in values):
        if op.name in _BCSR_RULES:
            return _BCSR_RULES[op.name](spenv, op, *values)
        arrays = spvalues_to_arrays(spenv, list(values))
        arrays = [x.to_bcoo() if is_sparse(x) else x for x in arrays]
        values = arrays_to_spvalues(spenv, arrays)
    if op.name in _RULES:
        return _RULES[op.name](spenv, op, *values)
    text = f"sparse rule for {op.name} is not implemented"
    if op.name in _DENSIFYING:
        text += (
            " because it would result in dense output. If this is your intent, use"
            " sparse.todense() to convert your arguments to dense matrices"
        )
    raise NotImplementedError(text + ".")


def eval_sparse(
    jaxpr: Jaxpr,
    consts: Sequence[Any],
    spvalues: Sequence[SparsifyValue],
    spenv: SparsifyEnv,
) -> list[SparsifyValue]:
    """The results of a jaxpr, whose constants are dense."""
    result = dict(zip(jaxpr.invars, spvalues, strict=True))
    result.update((v, spenv.dense(x)) for v, x in zip(jaxpr.constvars, consts))

    def read(atom: Any) -> SparsifyValue:
        return spenv.dense(atom.val) if isinstance(atom, Literal) else result[atom]

    for eqn in jaxpr.eqns:
        outs = apply(spenv, eqn.op, [read(v) for v in eqn.invars])
        result.update(zip(eqn.outvars, outs, strict=True))
    return [read(v) for v in jaxpr.outvars]


def sparsified(
    closed: ClosedJaxpr, arrays: Sequence[Any], more: Sequence[ShapedArray] = ()
) -> tuple[ClosedJaxpr, Any]:
    """A jaxpr applied to arrays of these formats, as a jaxpr of their buffers.

    `more` are the avals of further operands, which are dense. Second comes the tree of
    the results.
    """
    leaves, structure = tree_util.tree_flatten(list(arrays))
    result: list[Any] = []

    def run(*args: Any) -> Sequence[Any]:
        spenv = SparsifyEnv()
        given = tree_util.tree_unflatten(structure, args[: len(leaves)])
        values = arrays_to_spvalues(spenv, [*given, *args[len(leaves) :]])
        outs = eval_sparse(closed.jaxpr, closed.consts, values, spenv)
        flat, tree = tree_util.tree_flatten(spvalues_to_arrays(spenv, outs))
        result[:] = [tree]
        return flat

    staged = stage(run, [*map(typeof, leaves), *more])
    return staged, result[0]


# --- the trace -----------------------------------------------------------------------


class SparseTracer(Tracer):
    """A dense array, in the eyes of a function, that may be sparse."""

    __slots__ = ("_spvalue",)

    def __init__(self, trace: SparseTrace, *, spvalue: SparsifyValue) -> None:
        self._trace = trace
        self._spvalue = spvalue
        self.aval: ShapedArray = trace.spenv.aval(spvalue)

    @property
    def spenv(self) -> SparsifyEnv:
        """The environment that holds its buffers."""
        result: SparsifyEnv = self._trace.spenv
        return result


class SparseTrace(Trace):
    """Applies the rule of each op to sparse arrays."""

    def __init__(self, parent: Trace, spenv: SparsifyEnv) -> None:
        self.parent: Trace = parent
        self.spenv = spenv

    def value(self, x: Any) -> SparsifyValue:
        """The array that `x` is; one of another trace is dense."""
        if type(x) is SparseTracer and x._trace is self:
            return x._spvalue
        if isinstance(x, Tracer):
            refuse_dead_tracer(x)
        return self.spenv.dense(x)

    def process(self, op: Op, args: Sequence[Any]) -> Any:
        before = swap_trace(self.parent)
        try:
            outs = apply(self.spenv, op, [self.value(x) for x in args])
        finally:
            swap_trace(before)
        boxed = [SparseTracer(self, spvalue=value) for value in outs]
        return boxed if op.multiple_results else boxed[0]

    def custom_jvp(self, call: Any, args: Sequence[Any]) -> Sequence[Any]:
        made: Sequence[Any] = call.stage([typeof(x) for x in args])(*args)
        return made

    custom_vjp = custom_jvp


def _traced(
    fun: FlatFunction, spenv: SparsifyEnv, values: Sequence[SparsifyValue]
) -> list[SparsifyValue]:
    trace = SparseTrace(current_trace(), spenv)
    with running(trace):
        outs = fun(*(SparseTracer(trace, spvalue=value) for value in values))
        return [trace.value(x) for x in outs]


# --- sparsify ------------------------------------------------------------------------


def _interpreted(
    fun: FlatFunction, spenv: SparsifyEnv, values: Sequence[SparsifyValue]
) -> list[SparsifyValue]:
    info = debug_info("sparsify", fun.fun)
    closed = stage(fun, [spenv.aval(value) for value in values], info)
    return eval_sparse(closed.jaxpr, closed.consts, values, spenv)


def sparsify_raw(f: Callable[..., Any]) -> Callable[..., Any]:
    """`f` on arrays given by `SparsifyValue`, which may share buffers.

    The function that it returns takes a `SparsifyEnv`, trees of `SparsifyValue`, and
    keywords that are handed to `f`; it returns a list of the results and their tree.
    """

    def wrapped(spenv: SparsifyEnv, *spvalues: Any, **params: Any) -> tuple[Any, Any]:
        values, structure = tree_util.tree_flatten((spvalues, {}), is_leaf=_is_value)
        fun = FlatFunction(functools.partial(f, **params), structure)
        return _interpreted(fun, spenv, values), fun.out_tree

    return wrapped


def sparsify(f: Callable[..., Any], use_tracer: bool = False) -> Callable[..., Any]:
    """`f`, written for dense arrays, also for arguments that are `BCOO` or `BCSR`.

    Operations that keep zeros, products, sums and what moves elements give sparse
    arrays, or dense ones where a dense array takes part in a sum; NotImplementedError
    for others. With `use_tracer`, `f` is run on tracers that know their buffers rather
    than traced to a jaxpr first.

    >>> from curta import numpy as jnp
    >>> from curta.experimental import sparse
    >>> x = sparse.BCOO.fromdense(jnp.array([0.0, 3.0]))
    >>> sparse.sparsify(lambda x, y: 2 * x @ y)(x, jnp.array([1.0, 2.0]))
    Array(12., dtype=float32)
    """
    run = _traced if use_tracer else _interpreted

    @wraps(f)
    def call(*args: Any, **kwargs: Any) -> Any:
        spenv = SparsifyEnv()
        leaves, structure = tree_util.tree_flatten((args, kwargs), is_leaf=is_sparse)
        fun = FlatFunction(f, structure)
        outs = run(fun, spenv, arrays_to_spvalues(spenv, leaves))
        return tree_util.tree_unflatten(fun.out_tree, spvalues_to_arrays(spenv, outs))

    return call
