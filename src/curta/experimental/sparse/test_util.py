"""For tests of functions of sparse arrays: random arrays, comparisons with dense ones.

It needs `absl-py`, whose test cases take parameters.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from absl.testing import parameterized

import curta.numpy as jnp
from curta import dtypes, lax, tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.on_demand import Listing, own
from curta.api.jacobian import jacfwd, jacrev
from curta.api.jit import jit
from curta.api.vmap import vmap
from curta.experimental.sparse.base import JAXSparse
from curta.experimental.sparse.bcoo import BCOO
from curta.experimental.sparse.bcsr import BCSR
from curta.experimental.sparse.densify import todense
from curta.experimental.sparse.transform import is_sparse as is_sparse, sparsify

__dir__: Listing = own(__name__)

Draw = Callable[..., Any]

MATMUL_TOL = {
    np.float32: 1e-5,
    np.float64: 1e-10,
    np.complex64: 1e-5,
    np.complex128: 1e-10,
}

# By how many bits the significand has.
_TOLERANCES = {52: 1e-15, 23: 1e-6, 10: 1e-3}


class BatchedDotGeneralProperties(NamedTuple):
    """A product: shapes, the layout of the left operand, and which dims meet."""

    lhs_shape: tuple[int, ...]
    rhs_shape: tuple[int, ...]
    n_batch: int
    n_dense: int
    dimension_numbers: Any


class SparseLayout(NamedTuple):
    """The numbers of batch, dense and sparse dims."""

    n_batch: int
    n_dense: int
    n_sparse: int


# --- layouts -------------------------------------------------------------------------


def iter_subsets(s: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """All subsets, small ones first.

    >>> list(iter_subsets("ab"))
    [(), ('a',), ('b',), ('a', 'b')]
    """
    sizes = range(len(s) + 1)
    return itertools.chain.from_iterable(itertools.combinations(s, n) for n in sizes)


def iter_sparse_layouts(
    shape: Sequence[int], min_n_batch: int = 0
) -> Iterator[SparseLayout]:
    """All layouts of a `BCOO` of this shape."""
    rank = len(shape)
    for n_batch in range(min_n_batch, rank + 1):
        for n_dense in range(rank + 1 - n_batch):
            yield SparseLayout(n_batch, n_dense, rank - n_batch - n_dense)


def iter_bcsr_layouts(
    shape: Sequence[int], min_n_batch: int = 0
) -> Iterator[SparseLayout]:
    """All layouts of a `BCSR` of this shape."""
    return (s for s in iter_sparse_layouts(shape, min_n_batch) if s.n_sparse == 2)


# --- random arrays -------------------------------------------------------------------


def _rand_default(rng: np.random.RandomState) -> Draw:
    """Draws normal numbers of standard deviation 3, rounded for integers."""

    def draw(shape: Sequence[int], dtype: Any) -> Any:
        x = np.asarray(3 * rng.randn(*shape))
        if dtypes.issubdtype(dtype, np.complexfloating):
            x = x + 3j * rng.randn(*shape)
        elif dtypes.issubdtype(dtype, np.unsignedinteger):
            x = abs(x)
        return np.asarray(x.astype(dtype))

    return draw


@dataclass(frozen=True)
class _Random:
    """Draws `BCOO` or `BCSR` of a shape and dtype; the fields are what to draw."""

    kind: type[JAXSparse]
    rng: np.random.RandomState
    rand_method: Callable[..., Draw]
    nse: float
    n_batch: int
    n_dense: int

    def __call__(self, shape: Sequence[int], dtype: Any, **changes: Any) -> Any:
        return dataclasses.replace(self, **changes).draw(tuple(shape), dtype)

    def draw(self, shape: tuple[int, ...], dtype: Any) -> Any:
        end = len(shape) - self.n_dense
        n_sparse = end - self.n_batch
        if min(n_sparse, self.n_batch, self.n_dense) < 0:
            raise ValueError(
                f"Invalid parameters: shape={shape} n_batch={self.n_batch}"
                f" n_dense={self.n_dense}"
            )
        batch, sizes = shape[: self.n_batch], shape[self.n_batch : end]
        share = self.nse * math.prod(sizes) if 0 <= self.nse < 1 else self.nse
        nse = math.ceil(share)
        data = self.rand_method(self.rng)((*batch, nse, *shape[end:]), dtype)
        randint = functools.partial(self.rng.randint, dtype=np.int32)
        if self.kind is BCOO:
            indices = randint(0, sizes, (*batch, nse, n_sparse))
            return BCOO((jnp.asarray(data), jnp.asarray(indices)), shape=shape)
        if n_sparse != 2:
            raise ValueError(
                f"bcsr array must have 2 sparse dimensions, not {n_sparse}"
            )
        indptr = np.sort(randint(0, nse + 1, (*batch, sizes[0] + 1)), axis=-1)
        indptr[..., 0] = 0
        indices = randint(0, sizes[1], (*batch, nse))
        buffers = jnp.asarray(data), jnp.asarray(indices), jnp.asarray(indptr)
        return BCSR(buffers, shape=shape)


def rand_bcoo(
    rng: np.random.RandomState,
    rand_method: Callable[..., Draw] = _rand_default,
    nse: float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Draw:
    """A function of (shape, dtype) that draws a `BCOO`; indices may occur twice.

    Args:
      rng: the generator.
      rand_method: `rand_method(rng)(shape, dtype)` draws the elements.
      nse: how many elements, of each batch; a number below 1 is a share of all.
      n_batch, n_dense: the numbers of batch and dense dims.

    >>> import numpy as np
    >>> rand_bcoo(np.random.RandomState(0), n_batch=1)((2, 3, 4), np.float32)
    BCOO(float32[2, 3, 4], nse=6, n_batch=1)
    """
    return _Random(BCOO, rng, rand_method, nse, n_batch, n_dense)


def rand_bcsr(
    rng: np.random.RandomState,
    rand_method: Callable[..., Draw] = _rand_default,
    nse: float = 0.5,
    n_batch: int = 0,
    n_dense: int = 0,
) -> Draw:
    """As `rand_bcoo`, for a `BCSR`; some elements may be after the last row."""
    return _Random(BCSR, rng, rand_method, nse, n_batch, n_dense)


def rand_sparse(
    rng: np.random.RandomState,
    nse: float = 0.5,
    post: Callable[..., Any] = lambda x: x,
    rand_method: Callable[..., Draw] = _rand_default,
) -> Draw:
    """A function of (shape, dtype) that draws a NumPy array with mostly zeros.

    `nse` of the elements are left, or that share of them; `post` is applied to it.
    """

    def draw(shape: Sequence[int], dtype: Any, nse: float = nse) -> Any:
        size = math.prod(shape)
        count = min(size, int(nse * size if 0 <= nse < 1 else nse))
        x = rand_method(rng)(shape, dtype)
        x.flat[rng.choice(size, size - count, replace=False)] = 0
        return post(x)

    return draw


# --- the test case -------------------------------------------------------------------


def _tolerance(dtype: Any, given: Any) -> float:
    if isinstance(given, dict):
        known = {np.dtype(key): value for key, value in given.items()}
        given = known.get(np.dtype(dtype))
    if given is not None:
        return float(given)
    if not dtypes.issubdtype(dtype, np.inexact):
        return 0.0
    return _TOLERANCES.get(dtypes.finfo(dtype).nmant, 1e-2)


class SparseTestCase(parameterized.TestCase):
    """A test case that compares functions of sparse arrays with those of dense ones."""

    def rng(self) -> np.random.RandomState:
        """A generator that is the same in every run of a test."""
        if not hasattr(self, "_rng"):
            seed = zlib.adler32(self._testMethodName.encode())
            self._rng = np.random.RandomState(seed)
        return self._rng

    def assertArraysEqual(
        self, x: Any, y: Any, *, check_dtypes: bool = True, err_msg: str = ""
    ) -> None:
        """Fail unless two arrays have the same elements, and dtype."""
        x, y = _plain(x), _plain(y)
        if check_dtypes:
            self.assertEqual(_canonical(x), _canonical(y))
        np.testing.assert_array_equal(x, y, err_msg=err_msg)

    def assertArraysAllClose(
        self,
        x: Any,
        y: Any,
        *,
        check_dtypes: bool = True,
        atol: Any = None,
        rtol: Any = None,
        err_msg: str = "",
        canonicalize_dtypes: bool = True,
    ) -> None:
        """Fail unless two arrays agree to within tolerances, which may go by dtype."""
        x, y = _plain(x), _plain(y)
        if check_dtypes and canonicalize_dtypes:
            self.assertEqual(_canonical(x), _canonical(y))
        elif check_dtypes:
            self.assertEqual(x.dtype, y.dtype)
        kinds = _canonical(x), _canonical(y)
        np.testing.assert_allclose(
            _wide(x),
            _wide(y),
            atol=max(_tolerance(kind, atol) for kind in kinds),
            rtol=max(_tolerance(kind, rtol) for kind in kinds),
            err_msg=err_msg,
            strict=False,
        )
        self.assertEqual(x.shape, y.shape)

    def assertAllClose(self, x: Any, y: Any, **options: Any) -> None:
        """Fail unless two trees of arrays agree, as by `assertArraysAllClose`."""
        xs, structure = tree_util.tree_flatten(x)
        ys, other = tree_util.tree_flatten(y)
        if isinstance(x, dict) or isinstance(y, dict):
            self.assertEqual(structure, other)
        self.assertEqual(len(xs), len(ys))
        for a, b in zip(xs, ys):
            self.assertArraysAllClose(a, b, **options)

    def assertSparseArraysEquivalent(self, x: Any, y: Any, **options: Any) -> None:
        """Fail unless trees of sparse arrays have the same buffers and knowledge."""
        (xs, structure), (ys, other) = map(tree_util.tree_flatten, (x, y))
        self.assertEqual(structure, other)
        self.assertAllClose(xs, ys, **options)

    def _CompileAndCheck(
        self,
        fun: Callable[..., Any],
        args_maker: Callable[[], Any],
        *,
        check_dtypes: bool = True,
        tol: Any = None,
        rtol: Any = None,
        atol: Any = None,
        check_cache_misses: bool = True,
    ) -> None:
        """Fail unless `fun` gives the same in jit, and is traced once."""
        args, traced = args_maker(), []

        def counted(*args: Any) -> Any:
            traced.append(args)
            return fun(*args)

        compiled = jit(counted)
        expected = fun(*args)
        close = functools.partial(
            self.assertAllClose,
            check_dtypes=check_dtypes,
            atol=atol or tol,
            rtol=rtol or tol,
        )
        close(expected, compiled(*args))
        close(expected, compiled(*args))
        if check_cache_misses:
            self.assertEqual(len(traced), 1)

    def _CheckAgainstNumpy(
        self,
        numpy_reference_op: Callable[..., Any],
        lax_op: Callable[..., Any],
        args_maker: Callable[[], Any],
        check_dtypes: bool = True,
        tol: Any = None,
        atol: Any = None,
        rtol: Any = None,
        canonicalize_dtypes: bool = True,
    ) -> None:
        """Fail unless `lax_op` gives what the reference does."""
        args = args_maker()
        self.assertAllClose(
            numpy_reference_op(*args),
            lax_op(*args),
            check_dtypes=check_dtypes,
            atol=atol or tol,
            rtol=rtol or tol,
            canonicalize_dtypes=canonicalize_dtypes,
        )

    def _CheckAgainstDense(
        self,
        dense_op: Callable[..., Any],
        sparse_op: Callable[..., Any],
        args_maker: Callable[[], Any],
        check_jit: bool = True,
        check_dtypes: bool = True,
        tol: Any = None,
        atol: Any = None,
        rtol: Any = None,
        canonicalize_dtypes: bool = True,
    ) -> None:
        """Fail unless `sparse_op` gives what `dense_op` does of the same arrays."""
        args, tolerances = args_maker(), {"atol": atol or tol, "rtol": rtol or tol}
        result = sparse_op(*args)
        self.assertAllClose(
            dense_op(*_dense(args)),
            _dense(result),
            check_dtypes=check_dtypes,
            canonicalize_dtypes=canonicalize_dtypes,
            **tolerances,
        )
        if check_jit:
            compiled = jit(sparse_op)(*args)
            self.assertSparseArraysEquivalent(result, compiled, **tolerances)

    def _CheckGradsSparse(
        self,
        dense_fun: Callable[..., Any],
        sparse_fun: Callable[..., Any],
        args_maker: Callable[[], Any],
        *,
        argnums: Sequence[int] | None = None,
        modes: Sequence[str] = ("fwd", "rev"),
        atol: Any = None,
        rtol: Any = None,
    ) -> None:
        """Fail unless derivatives by the data of the arguments agree."""
        args = args_maker()
        leaves, structure = tree_util.tree_flatten(args)
        counts = [len(tree_util.tree_leaves(arg)) for arg in args]
        firsts = [sum(counts[:i]) for i in range(len(args))]
        leaf_argnums = firsts if argnums is None else [firsts[i] for i in argnums]

        def of_dense(*leaves: Any) -> Any:
            return dense_fun(*_dense(tree_util.tree_unflatten(structure, leaves)))

        def of_sparse(*leaves: Any) -> Any:
            return _dense(sparse_fun(*tree_util.tree_unflatten(structure, leaves)))

        jacobians: dict[str, Callable[..., Any]] = {"fwd": jacfwd, "rev": jacrev}
        for mode in modes:
            jacobian = jacobians[mode]
            self.assertAllClose(
                *(
                    jacobian(f, tuple(leaf_argnums))(*leaves)
                    for f in (of_dense, of_sparse)
                ),
                atol=atol,
                rtol=rtol,
            )

    def _random_bdims(self, *args: int) -> list[int]:
        """An index up to each of the numbers, for a batch dim."""
        return [self.rng().randint(0, arg + 1) for arg in args]

    def _CheckBatchingSparse(
        self,
        dense_fun: Callable[..., Any],
        sparse_fun: Callable[..., Any],
        args_maker: Callable[[], Any],
        *,
        batch_size: int = 3,
        bdims: Sequence[int | None] | None = None,
        check_jit: bool = False,
        **options: Any,
    ) -> None:
        """Fail unless the functions agree over a batch, in any of its batch dims."""
        if bdims is None:
            ranks = [x.n_batch if is_sparse(x) else x.ndim for x in args_maker()]
            bdims = self._random_bdims(*ranks)

        def stacked(examples: Sequence[Any], dim: int) -> Any:
            expand = sparsify(functools.partial(lax.expand_dims, dimensions=[dim]))
            join = sparsify(functools.partial(lax.concatenate, dimension=dim))
            return join([expand(x) for x in examples])

        def batch() -> list[Any]:
            examples = zip(*(args_maker() for _ in range(batch_size)))
            return [
                arg[0] if dim is None else stacked(arg, dim)
                for arg, dim in zip(examples, bdims, strict=True)
            ]

        dense, sparse = (vmap(f, tuple(bdims)) for f in (dense_fun, sparse_fun))
        self._CheckAgainstDense(dense, sparse, batch, check_jit=check_jit, **options)


def _dense(tree: Any) -> Any:
    return tree_util.tree_map(todense, tree, is_leaf=is_sparse)


def _plain(x: Any) -> Any:
    """An array, or sparse array, as one of NumPy."""
    return np.asarray(todense(x) if is_sparse(x) else x)


def _canonical(x: Any) -> Any:
    return dtypes.canonicalize_dtype(x.dtype)


def _wide(x: Any) -> Any:
    """The elements in a dtype in which they can be compared."""
    if dtypes.issubdtype(x.dtype, np.complexfloating):
        return x.astype(np.complex128)
    if dtypes.issubdtype(x.dtype, np.inexact):
        return x.astype(np.float64)
    return x
