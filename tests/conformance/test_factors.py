"""The factors of an op describe the behavior of `eval`."""

import functools
import math

import numpy as np
import pytest
from tests.conformance.checks import as_list, evaluate
from tests.conformance.operations import sampled_ops
from tests.conformance.samples import cases

from curta.config import enable_x64
from curta.partition.local_ops import local_op
from curta.primitives.factors import factors
from curta.primitives.joining import Concatenate, Split
from curta.primitives.shape import Iota
from curta.primitives.slicing import Pad, Slice

FOLDS = {
    "sum": np.add,
    "prod": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
}


def part(x, dims, sizes, factor, rows):
    """The rows of a factor of an array whose dims have these factors."""
    for d, dim in enumerate(dims):
        if factor in dim:
            inner = [sizes[f] for f in dim]
            split = x.reshape(*x.shape[:d], *inner, *x.shape[d + 1 :])
            at = (slice(None),) * (d + dim.index(factor))
            split = split[(*at, rows)]
            x = split.reshape(*x.shape[:d], -1, *x.shape[d + 1 :])
    return x


def parts_of(case, rel, factor, rows):
    """The op on some rows of a factor, and the rows of what it gives for all."""
    outs = [np.asarray(x) for x in evaluate(case.op, case.args)]
    pairs = zip(case.args, rel.operands, strict=True)
    args = [part(x, dims, rel.sizes, factor, rows) for x, dims in pairs]
    pairs = zip(outs, rel.results, strict=True)
    wanted = [part(x, dims, rel.sizes, factor, rows) for x, dims in pairs]
    op = local_op(case.op, [x.shape for x in args], [x.shape for x in wanted])
    return [np.asarray(x) for x in evaluate(op, args)], wanted


def assert_close(found, wanted, case):
    for x, y in zip(found, wanted, strict=True):
        if x.dtype.kind == "V":  # small floats
            x, y = x.astype("float32"), y.astype("float32")
        if x.dtype.kind in "fc":
            np.testing.assert_allclose(x, y, 1e-4, 1e-4, err_msg=str(case))
        else:
            np.testing.assert_array_equal(x, y, err_msg=str(case))


def relation(case):
    with enable_x64(True):
        outs = as_list(case.op, case.op.aval(*case.avals))
    return factors(case.op, case.avals, outs), outs


def first_cases(cls):
    """The samples of an op, each in one dtype, without empty arrays."""
    shapes = {str((c.op, [a.shape for a in c.avals])): c for c in reversed(cases(cls))}
    return [c for c in shapes.values() if math.prod(a.size for a in c.avals)]


@pytest.mark.parametrize("cls", sampled_ops(), ids=lambda c: c.__name__)
def test_factors(cls):
    for case in first_cases(cls):
        rel, outs = relation(case)
        for dims, aval in zip((*rel.operands, *rel.results), (*case.avals, *outs)):
            assert len(dims) == aval.ndim, case
            for dim, size in zip(dims, aval.shape, strict=True):
                assert math.prod(rel.sizes[f] for f in dim) == size, case
        if not all(a.size for a in outs):
            continue
        kinds = dict(rel.reduced)
        for f, size in enumerate(rel.sizes):
            if size < 2 or f in rel.whole:
                continue
            if isinstance(case.op, Iota) and f == rel.results[0][case.op.dimension][0]:
                continue  # numbers of places are the same in no two parts
            if f not in kinds:
                found, wanted = parts_of(case, rel, f, slice(1, None))
                assert_close(found, wanted, case)
            else:
                halves = [slice(0, 1), slice(1, None)]
                terms = [parts_of(case, rel, f, rows)[0] for rows in halves]
                for i in rel.once:
                    rest = [0 * x if k == i else x for k, x in enumerate(case.args)]
                    other = type(case)(case.op, case.avals, tuple(rest), case.domains)
                    terms[1] = parts_of(other, rel, f, halves[1])[0]
                fold = functools.partial(functools.reduce, FOLDS[kinds[f]])
                found = [fold(pair) for pair in zip(*terms, strict=True)]
                assert_close(found, evaluate(case.op, case.args), case)


@pytest.mark.parametrize("cls", [Slice, Pad, Concatenate, Split])
def test_rows_of_windows(cls):
    """Where a result is made of single rows at known places, they are there."""
    for case in first_cases(cls):
        rel, outs = relation(case)
        if len(rel.windowed) != len({(w.result, w.number) for w in rel.windowed}):
            assert cls is Concatenate
        elif len(rel.windowed) > 1 and cls is not Split:
            continue  # rows of one dim are rows of another's result
        results = evaluate(case.op, case.args)
        for w in rel.windowed:
            ((i, d),) = w.operands
            x, out = case.args[i], results[w.number]
            for row in range(out.shape[w.result]):
                place, between = divmod(row * w.stride - w.low, w.dilation)
                if not between and 0 <= place < x.shape[d]:
                    np.testing.assert_array_equal(
                        np.take(out, row, w.result), np.take(x, place, d), str(case)
                    )
