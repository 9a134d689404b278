"""Programs of one line, each with its arguments, whose jaxprs are compared."""

import numpy as np

from curta import numpy as jnp


def _vector():
    return jnp.arange(3.0)


def _matrix():
    return jnp.arange(6.0).reshape(3, 2)


def _integers():
    return jnp.arange(3)


def _cube():
    return jnp.ones((2, 2, 2))


v, m, i, c = _vector, _matrix, _integers, _cube


PROGRAMS = {
    "add_int": (lambda x: x + 1, v),
    "add_float_to_ints": (lambda x: x + 1.5, i),
    "add_numpy": (lambda x: x + np.arange(3), v),
    "add_weak": (lambda x: jnp.zeros(3) + x, 1.0),
    "reflected": (lambda x: (1 - x, 1 / x, 2**x), v),
    "divide_ints": (lambda x: x / 2, i),
    "floor_divide": (lambda x: x // 2, i),
    "floor_divide_float": (lambda x: x // 2, v),
    "remainder": (lambda x: x % 2, v),
    "divmod": (lambda x: jnp.divmod(x, 2), v),
    "fmod": (lambda x: jnp.fmod(x, 2), i),
    "power_int": (lambda x: x**2, v),
    "power_float": (lambda x: x**2.0, v),
    "power_ints": (lambda x: x**x, i),
    "power_negative": (lambda x: x**-2, v),
    "comparison": (lambda x: (x == x, x > 1, x <= 2), v),
    "bits": (lambda x: (x & 1, x >> 1, ~x), i),
    "maximum": (lambda x: jnp.maximum(x, 0), v),
    "clip": (lambda x: jnp.clip(x, 0, 1), v),
    "hypot": (lambda x: jnp.hypot(x, x), v),
    "heaviside": (lambda x: jnp.heaviside(x, 0.5), v),
    "fmax": (lambda x: jnp.fmax(x, 0.5), v),
    "square": (jnp.square, i),
    "logarithms": (lambda x: jnp.log2(x) + jnp.log10(x), v),
    "log_of_ints": (jnp.log, i),
    "round": (lambda x: jnp.round(x, 2), m),
    "round_builtin": (round, v),
    "rint": (jnp.rint, v),
    "trunc": (jnp.trunc, v),
    "deg2rad": (jnp.deg2rad, v),
    "nan_to_num": (jnp.nan_to_num, v),
    "signbit": (jnp.signbit, v),
    "copysign": (lambda x: jnp.copysign(x, x), v),
    "isinf": (jnp.isinf, v),
    "isclose": (lambda x: jnp.isclose(x, x), v),
    "logical_and": (lambda x: jnp.logical_and(x, x), v),
    "where_twice": (lambda x: (jnp.where(x > 0, x, 0), jnp.where(x > 1, x, 0)), v),
    "select": (lambda x: jnp.select([x > 0, x < 0], [x, -x], 2), m),
    "sum_scalar": (jnp.sum, 1.0),
    "sum_bfloat16": (lambda x: x.sum(0), lambda: jnp.ones((3, 2), "bfloat16")),
    "sum_where": (lambda x: x.sum(where=x > 0, keepdims=True), m),
    "max_initial": (lambda x: x.max(initial=0), m),
    "max_scalar": (jnp.max, 1.0),
    "any": (lambda x: x.any(), m),
    "prod": (jnp.prod, i),
    "ptp": (jnp.ptp, v),
    "count_nonzero": (jnp.count_nonzero, v),
    "mean": (jnp.mean, i),
    "var": (jnp.var, i),
    "var_axis": (lambda x: x.var(0, ddof=1), m),
    "std": (jnp.std, v),
    "average": (lambda x: jnp.average(x, axis=0, weights=x), m),
    "nanmean": (jnp.nanmean, v),
    "nanmax": (jnp.nanmax, v),
    "nanargmax": (jnp.nanargmax, v),
    "cumsum": (lambda x: jnp.cumsum(x, axis=0), m),
    "diff": (jnp.diff, v),
    "trapezoid": (jnp.trapezoid, v),
    "argmax": (jnp.argmax, m),
    "argmin_axis": (lambda x: jnp.argmin(x, axis=1, keepdims=True), m),
    "sort": (jnp.sort, m),
    "argsort": (jnp.argsort, m),
    "bincount": (lambda x: jnp.bincount(x, length=4), i),
    "isin": (lambda x: jnp.isin(x, x), v),
    "cov": (jnp.cov, m),
    "get_first": (lambda x: x[0], v),
    "get_last": (lambda x: x[-1], v),
    "get_pair": (lambda x: x[0, 1], m),
    "get_column": (lambda x: x[:, 1], m),
    "get_slices": (lambda x: x[1:3, None, ..., 0], lambda: jnp.ones((3, 2, 4))),
    "get_steps": (lambda x: (x[::2], x[::-1], x[::-2]), v),
    "get_new": (lambda x: x[None], v),
    "get_traced": (lambda x, i: x[i], v, 1),
    "get_traced_row": (lambda x, i: x[i, 1:], m, 1),
    "get_array": (lambda x, i: x[i], v, i),
    "get_array_column": (lambda x, i: x[:, i], m, i),
    "get_arrays_apart": (lambda x, i: x[i, :, i], lambda: jnp.ones((3, 2, 3)), i),
    "get_array_new": (lambda x, i: x[i, None, 0:1], m, i),
    "get_mask": (lambda x: x[np.array([True, False, True])], v),
    "get_fill": (
        lambda x: x.at[jnp.array([1])].get(mode="fill", fill_value=0),
        v,
    ),
    "set": (lambda x: x.at[0].set(1), v),
    "set_rows": (lambda x: x.at[jnp.array([0, 1])].set(2.0), m),
    "add_at": (lambda x: x.at[0].add(1), v),
    "add_at_slice": (lambda x: x.at[1:2].add(1), v),
    "multiply_at": (lambda x: x.at[0].multiply(2), v),
    "divide_at": (lambda x: x.at[0].divide(2), v),
    "min_at": (lambda x: x.at[0].min(2), v),
    "take": (lambda x: jnp.take(x, jnp.array([0, 1]), axis=0), m),
    "take_along_axis": (
        lambda x: jnp.take_along_axis(x, jnp.argsort(x, 1), 1),
        m,
    ),
    "unravel_index": (lambda x: jnp.unravel_index(x, (2, 2)), i),
    "reshape": (lambda x: x.reshape(-1, 1), v),
    "ravel": (jnp.ravel, m),
    "squeeze": (jnp.squeeze, lambda: jnp.ones((3, 1))),
    "expand_dims": (lambda x: jnp.expand_dims(x, 0), v),
    "transposes": (lambda x: (x.T, x.mT, jnp.swapaxes(x, 0, 1)), m),
    "moveaxis": (lambda x: jnp.moveaxis(x, 0, 1), m),
    "broadcast_to": (lambda x: jnp.broadcast_to(x, (2, 3)), v),
    "concatenate": (lambda x: jnp.concatenate([x, x]), m),
    "stack": (lambda x: jnp.stack([x, x]), m),
    "vstack": (lambda x: jnp.vstack([x, x]), m),
    "hstack": (lambda x: jnp.hstack([x, x]), m),
    "append": (lambda x: jnp.append(x, x), v),
    "tile": (lambda x: jnp.tile(x, (2, 1)), m),
    "repeat": (lambda x: jnp.repeat(x, 2, axis=0), m),
    "flip": (jnp.flip, m),
    "rot90": (jnp.rot90, m),
    "roll": (lambda x: jnp.roll(x, 1, 0), m),
    "pad_edge": (lambda x: jnp.pad(x, 1, mode="edge"), v),
    "astype": (lambda x: x.astype(int), m),
    "array": (lambda x: jnp.array([x, x]), 1.0),
    "full": (lambda x: jnp.full((2,), x), 1.0),
    "ones_like": (jnp.ones_like, 1.0),
    "arange": (lambda x: jnp.arange(1, 4, 2.0), v),
    "linspace": (lambda x: jnp.linspace(0, 1, 5), v),
    "logspace": (lambda x: jnp.logspace(1, 2, 3), v),
    "geomspace": (lambda x: jnp.geomspace(1, 2, 3), v),
    "eye": (lambda x: jnp.eye(3), v),
    "tri": (lambda x: jnp.tri(2), v),
    "triangles": (lambda x: (jnp.tril(x), jnp.triu(x)), m),
    "meshgrid": (lambda x: jnp.meshgrid(x, x), v),
    "indices": (lambda x: jnp.indices((2, 2)), v),
    "dot": (lambda x: jnp.dot(x, x.T), m),
    "matmul": (lambda x: x @ x.T, m),
    "matmul_batch": (lambda x: x @ x, c),
    "matmul_one_batch": (lambda x: x @ x[0], c),
    "matmul_broadcast": (lambda x: x @ jnp.ones((3, 1, 2, 2)), c),
    "tensordot": (lambda x: jnp.tensordot(x, x, 1), lambda: jnp.ones((2, 2))),
    "inner": (lambda x: jnp.inner(x, x), v),
    "outer": (lambda x: jnp.outer(x, x), v),
    "vdot": (lambda x: jnp.vdot(x, x), v),
    "kron": (lambda x: jnp.kron(x, x), v),
    "cross": (lambda x: jnp.cross(x, x), v),
    "trace": (jnp.trace, lambda: jnp.ones((2, 2))),
    "diag": (jnp.diag, v),
    "norm": (jnp.linalg.norm, v),
    "einsum_transposed": (lambda x: jnp.einsum("ij,kj->ki", x, x), m),
    "einsum_three": (lambda x: jnp.einsum("bij,bjk,bk->bi", x, x, x[0]), c),
    "einsum_diagonal": (lambda x: jnp.einsum("ii->i", x), lambda: jnp.ones((2, 2))),
    "einsum_trace": (lambda x: jnp.einsum("ii", x), lambda: jnp.ones((2, 2))),
}


def arguments(given):
    """The arguments of a program, made only when it is run."""
    return [a() if callable(a) else a for a in given]
