"""Instructions of random programs: every op on operands like its samples, and functions
of any shape: structure, indexing, reductions, control flow with bodies of their own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.conformance.checks import array
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import Case, cases
from tests.stress.fuzz.programs import DTYPES, SHAPES, Instruction, Values, fit, run
from tests.stress.fuzz.rows import ROWS

import curta
import curta.numpy as jnp
from curta import dtypes, lax

Rule = Callable[[Values, Instruction], Any]


def _axis(x: Any, choice: int) -> int:
    return choice % x.ndim


def _nonscalar(x: Any) -> Any:
    return x if x.ndim else x.reshape(1)


def _unary(fun: Callable[[Any], Any]) -> Rule:
    return lambda v, s: fun(v.inexact(s.choices[0]))


def _along(fun: Callable[[Any, int], Any], take: str = "number") -> Rule:
    def rule(v: Values, s: Instruction) -> Any:
        x = _nonscalar(getattr(v, take)(s.choices[0]))
        return fun(x, _axis(x, s.choices[1]))

    return rule


def _binary(fun: Callable[[Any, Any], Any], take: str = "number") -> Rule:
    """A function of two values; the second is cut to a shape that broadcasts."""

    def rule(v: Values, s: Instruction) -> Any:
        x, y = getattr(v, take)(s.choices[0]), getattr(v, take)(s.choices[1])
        keep = [1 if s.choices[2] >> i & 1 else n for i, n in enumerate(x.shape)]
        return fun(x, fit(y, tuple(keep[s.choices[2] % (x.ndim + 1) :]), x.dtype))

    return rule


def _reduction(fun: Callable[..., Any], take: str = "number") -> Rule:
    def rule(v: Values, s: Instruction) -> Any:
        x = getattr(v, take)(s.choices[0])
        axes = tuple(i for i in range(x.ndim) if s.choices[1] >> i & 1)
        if fun in (jnp.max, jnp.min) and not all(x.shape[i] for i in axes):
            return x
        return fun(x, axis=axes, keepdims=bool(s.choices[2] & 1))

    return rule


def _arg(fun: Callable[..., Any]) -> Rule:
    def rule(v: Values, s: Instruction) -> Any:
        x = _nonscalar(v.real(s.choices[0]))
        axis = _axis(x, s.choices[1])
        return fun(x, axis) if x.shape[axis] else x

    return rule


def _concatenate(v: Values, s: Instruction) -> Any:
    x, y = _nonscalar(v[s.choices[0]]), v[s.choices[1]]
    return jnp.concatenate([x, fit(y, x.shape, x.dtype), x], _axis(x, s.choices[2]))


def _pad(v: Values, s: Instruction) -> Any:
    x, (_, low, high, inner) = v[s.choices[0]], s.choices[:4]
    config = [(low % 4 - 1, high % 4 - 1, inner % 2) for _ in range(x.ndim)]
    grown = [n + a + b + max(n - 1, 0) * c for n, (a, b, c) in zip(x.shape, config)]
    if min(grown, default=0) < 0:
        return x
    return lax.pad(x, jnp.zeros((), x.dtype), config)


def _slice(v: Values, s: Instruction) -> Any:
    x = v[s.choices[0]]
    step = s.choices[2] % 3 + 1
    at = [
        slice(min(s.choices[1] % 3, n), None, step if i else -step)
        for i, n in enumerate(x.shape)
    ]
    return x[tuple(at)]


def _dynamic_slice(v: Values, s: Instruction) -> Any:
    x = v[s.choices[0]]
    start = v.like(s.choices[1], (max(x.ndim, 1),), "int32")
    sizes = [max(n - s.choices[2] % 3, 0) for n in x.shape]
    return lax.dynamic_slice(x, [start[i] for i in range(x.ndim)], sizes)


def _dynamic_update(v: Values, s: Instruction) -> Any:
    x = v[s.choices[0]]
    start = v.like(s.choices[1], (max(x.ndim, 1),), "int32")
    sizes = tuple(max(n - s.choices[2] % 3, 0) for n in x.shape)
    new = v.like(s.choices[3], sizes, x.dtype)
    return lax.dynamic_update_slice(x, new, [start[i] for i in range(x.ndim)])


_MODES = ("fill", "clip", "wrap", "promise_in_bounds")


def _gather(v: Values, s: Instruction) -> Any:
    x = _nonscalar(v[s.choices[0]])
    if not x.shape[0]:
        return x
    where = v.like(s.choices[1], SHAPES[s.choices[2] % 10], "int32") - 3
    mode = _MODES[s.choices[3] % 3]
    return x.at[where].get(mode=mode)


_UPDATES = ("set", "add", "multiply", "min", "max")


def _scatter(v: Values, s: Instruction) -> Any:
    x = _nonscalar(v.number(s.choices[0]))
    how = _UPDATES[s.choices[2] % len(_UPDATES)]
    if not x.shape[0] or (how in ("min", "max") and jnp.iscomplexobj(x)):
        return x
    where = v.like(s.choices[1], (s.choices[3] % 9,), "int32") - 2
    if how == "set":  # whose order is nobody's, unless they are different
        where = (jnp.arange(where.size) * 3 + s.choices[1]) % max(x.shape[0], 1)
        where = where[: x.shape[0]] if x.shape[0] % 3 else where[:1]
    new = v.like(s.choices[1], (where.size, *x.shape[1:]), x.dtype)
    return getattr(x.at[where], how)(new, mode="drop")


def _dot(v: Values, s: Instruction) -> Any:
    x, y = _nonscalar(v.number(s.choices[0])), v.number(s.choices[1])
    rows = s.choices[2] % 7
    shape = (x.shape[-1], rows) if s.choices[3] % 3 else (x.shape[-1],)
    return x @ fit(y, shape, x.dtype)


def _batched_dot(v: Values, s: Instruction) -> Any:
    x, n = v.number(s.choices[0]), s.choices[2] % 5 + 1
    a, b = fit(x, (3, n, 4), x.dtype), v.like(s.choices[1], (3, 4, 2), x.dtype)
    return jnp.einsum(("bij,bjk->bik", "bij,bjk->ki", "bij,bjk->bj")[n % 3], a, b)


def _transpose(v: Values, s: Instruction) -> Any:
    x = v[s.choices[0]]
    order = np.random.default_rng(s.choices[1]).permutation(x.ndim)
    return jnp.transpose(x, tuple(map(int, order)))


def _reshape(v: Values, s: Instruction) -> Any:
    x = v[s.choices[0]]
    return (x.ravel(), x[None], x[..., None], x.reshape(x.size, 1))[s.choices[1] % 4]


def _fitted(v: Values, s: Instruction) -> Any:
    shape = SHAPES[s.choices[1] % len(SHAPES)]
    return v.like(s.choices[0], shape, DTYPES[s.choices[2] % len(DTYPES)])


def _where(v: Values, s: Instruction) -> Any:
    x = v[s.choices[0]]
    return jnp.where(
        v.like(s.choices[1], x.shape, "bool"), x, v.like(s.choices[2], x.shape, x.dtype)
    )


def _random(v: Values, s: Instruction) -> Any:
    key = curta.random.key(s.choices[0])
    key = curta.random.fold_in(key, v.like(s.choices[1], (), "int32"))
    shape = SHAPES[s.choices[2] % len(SHAPES)]
    draw = (curta.random.uniform, curta.random.normal, curta.random.bits)
    return draw[s.choices[3] % 3](key, shape)


def _linear_algebra(v: Values, s: Instruction) -> Any:
    n = s.choices[1] % 4 + 1
    x = v.inexact(s.choices[0])
    x = x.astype("float32") if x.dtype in ("float16", "bfloat16") else x
    x = jnp.tanh(jnp.nan_to_num(jnp.abs(fit(x, (2, n, n), x.dtype))))
    a = x + 4 * n * jnp.eye(n, dtype=x.dtype)  # well away from singular
    which = s.choices[2] % 4
    if which == 0:
        return jnp.linalg.solve(a, v.like(s.choices[3], (2, n, 1), a.dtype))
    if which == 1:
        return jnp.linalg.cholesky(a @ jnp.swapaxes(a, 1, 2).conj())
    return jnp.linalg.inv(a) if which == 2 else jnp.linalg.slogdet(a)[1]


def _carry(v: Values, s: Instruction, body: int, values: list[Any]) -> list[Any]:
    """The values that a body computes from others."""
    return run(s.bodies[body], Values(values), INSTRUCTIONS)


def _scan(v: Values, s: Instruction) -> Any:
    init, xs = v[s.choices[0]], _nonscalar(v[s.choices[1]])
    closed = v[s.choices[2]]
    xs = xs[: s.choices[3] % 6]

    def body(carry: Any, x: Any) -> Any:
        found = _carry(v, s, 0, [carry, x, closed])
        return fit(found[-1], init.shape, init.dtype), found[-2]

    return list(lax.scan(body, init, xs, reverse=bool(s.choices[3] & 8)))


def _fori(v: Values, s: Instruction) -> Any:
    init, other = v[s.choices[0]], v[s.choices[1]]

    def body(i: Any, pair: Any) -> Any:
        found = _carry(v, s, 0, [*pair, i])
        return fit(found[-1], init.shape, init.dtype), fit(
            found[-2], other.shape, other.dtype
        )

    return list(lax.fori_loop(0, s.choices[2] % 5, body, (init, other)))


def _while(v: Values, s: Instruction) -> Any:
    init = v[s.choices[0]]
    most = v.like(s.choices[1], (), "int32") % 6

    def body(state: Any) -> Any:
        i, x = state
        return i + 1, fit(_carry(v, s, 0, [x, i])[-1], init.shape, init.dtype)

    stopped = lax.while_loop(lambda state: state[0] < most, body, (jnp.int32(0), init))
    return lax.stop_gradient(stopped[1])


def _cond(v: Values, s: Instruction) -> Any:
    a, b = v[s.choices[0]], v[s.choices[1]]
    pred = v.like(s.choices[2], (), "int32") % 3

    def branch(n: int) -> Callable[..., Any]:
        def taken(*operands: Any) -> Any:
            return fit(_carry(v, s, n, list(operands))[-1], a.shape, a.dtype)

        return taken

    return lax.switch(pred, [branch(0), branch(1), lambda x, y: x], a, b)


def _map(v: Values, s: Instruction) -> Any:
    xs, closed = _nonscalar(v[s.choices[0]])[:4], v[s.choices[1]]
    fun = lax.map if s.choices[2] & 1 else curta.vmap
    body = lambda x: _carry(v, s, 0, [x, closed])[-1]  # noqa: E731
    if fun is lax.map:
        return lax.map(body, xs)
    return curta.vmap(body)(xs) if xs.shape[0] else xs


def _called(wrap: Callable[..., Any]) -> Rule:
    def rule(v: Values, s: Instruction) -> Any:
        fun = wrap(lambda *a: _carry(v, s, 0, list(a))[-2:])
        return list(fun(v[s.choices[0]], v[s.choices[1]]))

    return rule


def _custom_vjp(v: Values, s: Instruction) -> Any:
    @curta.custom_vjp
    def half(x: Any) -> Any:
        return jnp.sin(x) / 2

    half.defvjp(lambda x: (half(x), x), lambda x, g: (g * jnp.cos(x) / 2,))
    return half(v.inexact(s.choices[0]))


def _custom_jvp(v: Values, s: Instruction) -> Any:
    @curta.custom_jvp
    def bent(x: Any) -> Any:
        return jnp.tanh(x) + x

    bent.defjvps(lambda t, out, x: t * (2 - jnp.tanh(x) ** 2))
    return bent(v.inexact(s.choices[0]))


def _reference(v: Values, s: Instruction) -> Any:
    x = _nonscalar(v[s.choices[0]])
    if not x.shape[0]:
        return x
    ref = curta.new_ref(x)
    ref[s.choices[1] % x.shape[0]] = v.like(s.choices[2], x.shape[1:], x.dtype)
    return curta.freeze(ref)


def _associative_scan(v: Values, s: Instruction) -> Any:
    x = _nonscalar(v.inexact(s.choices[0]))
    return lax.associative_scan(jnp.add, x, axis=_axis(x, s.choices[1]))


def _top(v: Values, s: Instruction) -> Any:
    x = _nonscalar(v.real(s.choices[0]))
    if x.dtype == bool:
        return x
    return lax.top_k(x, min(x.shape[-1], s.choices[1] % 5))[0]


def _sorted_pairs(v: Values, s: Instruction) -> Any:
    x = _nonscalar(v.real(s.choices[0]))
    y = v.like(s.choices[1], x.shape, "int32")
    return list(lax.sort((x, y), dimension=_axis(x, s.choices[2]), num_keys=1))


def _window(v: Values, s: Instruction) -> Any:
    x = v.number(s.choices[0])
    x = x.astype("float32") if jnp.iscomplexobj(x) else x
    x = fit(x, (1, 5, 6, 2), x.dtype)
    if s.choices[1] & 1:
        kernel = v.like(s.choices[2], (2, 3, 2, 3), x.dtype)
        return lax.conv_general_dilated(
            x, kernel, (1, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
        )
    zero = np.zeros((), x.dtype)
    return lax.reduce_window(x, zero, lax.add, (1, 2, 3, 1), (1, 1, 2, 1), "VALID")


STRUCTURED: dict[str, Rule] = {
    "add": _binary(jnp.add),
    "sub": _binary(jnp.subtract),
    "mul": _binary(jnp.multiply),
    "div": _binary(lambda x, y: x / (y * y + 1)),
    "maximum": _binary(jnp.maximum),
    "less": _binary(lambda x, y: x < y, "real"),
    "power": _binary(lambda x, y: jnp.abs(x) ** jnp.tanh(y * 1.0)),
    "shift": lambda v, s: v.like(s.choices[0], (5,), "int32") << 2,
    "sin": _unary(jnp.sin),
    "tanh": _unary(jnp.tanh),
    "exp": _unary(lambda x: jnp.exp(-jnp.abs(x))),
    "log": _unary(lambda x: jnp.log1p(jnp.abs(x))),
    "sqrt": _unary(lambda x: jnp.sqrt(jnp.abs(x) + 1)),
    "logistic": _unary(lambda x: curta.nn.sigmoid(x)),
    "abs": lambda v, s: jnp.abs(v.number(s.choices[0])),
    "integer power": lambda v, s: v.number(s.choices[0]) ** (s.choices[1] % 4),
    "sum": _reduction(jnp.sum),
    "max": _reduction(jnp.max, "real"),
    "min": _reduction(jnp.min, "real"),
    "prod": _reduction(jnp.prod),
    "any": _reduction(jnp.any),
    "mean": _reduction(jnp.mean),
    "var": _reduction(jnp.var),
    "logsumexp": _along(lambda x, d: curta.nn.logsumexp(x * 1.0, d), "real"),
    "softmax": _along(lambda x, d: curta.nn.softmax(x * 1.0, d), "real"),
    "cumsum": _along(jnp.cumsum),
    "cumprod": _along(jnp.cumprod),
    "cummax": _along(lambda x, d: lax.cummax(x, d, bool(d & 1)), "real"),
    "sort": _along(jnp.sort, "real"),
    "argsort": _along(lambda x, d: jnp.argsort(x, d, stable=True), "real"),
    "flip": _along(jnp.flip),
    "roll": _along(lambda x, d: jnp.roll(x, 2, d)),
    "argmax": _arg(jnp.argmax),
    "argmin": _arg(jnp.argmin),
    "sorted pairs": _sorted_pairs,
    "top": _top,
    "concatenate": _concatenate,
    "pad": _pad,
    "slice": _slice,
    "dynamic slice": _dynamic_slice,
    "dynamic update": _dynamic_update,
    "gather": _gather,
    "scatter": _scatter,
    "dot": _dot,
    "batched dot": _batched_dot,
    "transpose": _transpose,
    "reshape": _reshape,
    "fitted": _fitted,
    "where": _where,
    "random": _random,
    "linear algebra": _linear_algebra,
    "custom vjp": _custom_vjp,
    "custom jvp": _custom_jvp,
    "reference": _reference,
    "associative scan": _associative_scan,
    "window": _window,
    "fft": _along(lambda x, d: jnp.fft.fft(x * 1.0, axis=d) if x.shape[d] else x),
}
# Those with bodies, and how many they have.
NESTED: dict[str, tuple[Rule, int]] = {
    "scan": (_scan, 1),
    "fori": (_fori, 1),
    "while": (_while, 1),
    "switch": (_cond, 2),
    "map": (_map, 1),
    "inner jit": (_called(curta.jit), 1),
    "inner remat": (_called(curta.checkpoint), 1),
}


def _in_domain(x: Any, case: Case, i: int) -> Any:
    """Values where the sample of an op is said to make sense."""
    domain = case.domains[i]
    if x.dtype == bool or jnp.issubdtype(x.dtype, jnp.complexfloating):
        return x
    if jnp.issubdtype(x.dtype, jnp.floating):
        x = jnp.nan_to_num(x)
    low, high = domain.get("low", -5), domain.get("high", 9)
    if jnp.issubdtype(x.dtype, jnp.integer):
        low = max(int(np.ceil(low)), int(jnp.iinfo(x.dtype).min))
    x = jnp.clip(x, low, high).astype(x.dtype)
    if not domain.get("nonzero"):
        return x
    return jnp.where(jnp.abs(x) < 0.1, jnp.asarray(max(low, 1), x.dtype), x)


def _is_fixed(case: Case, i: int) -> bool:
    """Whether an operand is taken from the sample: its values say what is meant."""
    domain, dtype = case.domains[i], case.avals[i].dtype
    fixed = {"values", "distinct", "constant"} & domain.keys()
    return bool(fixed) or isinstance(dtype, dtypes.ExtendedDType)


def _applied(case: Case) -> Rule:
    """The op of a sample on values like its operands."""

    def rule(v: Values, s: Instruction) -> Any:
        if any(dtypes.canonicalize_dtype(a.dtype) != a.dtype for a in case.avals):
            return v[s.choices[0]]  # 64 bits are switched off
        operands = []
        for i, aval in enumerate(case.avals):
            if _is_fixed(case, i):
                operands.append(array(case.args[i], aval))
                continue
            x = v.like(s.choices[i % len(s.choices)], aval.shape, aval.dtype)
            operands.append(_in_domain(x, case, i))
        out = case.op(*operands)
        outs = out if isinstance(out, (list, tuple)) else [out]
        return [o for o in outs if not isinstance(o.dtype, dtypes.ExtendedDType)]

    return rule


# Ops without values that a comparison could know: bits without a meaning.
_NO_VALUE = {"Empty", "RngBitGenerator"}


@functools.cache
def op_instructions() -> dict[str, Rule]:
    """An instruction for every sample of every op."""
    return {
        f"{cls.__name__} {k}": _applied(case)
        for cls in sampled_ops()
        if cls.__name__ not in _NO_VALUE
        for k, case in enumerate(cases(cls))
    }


INSTRUCTIONS: dict[str, Rule] = {
    **STRUCTURED,
    **ROWS,
    **{name: rule for name, (rule, _) in NESTED.items()},
    **op_instructions(),
}
