"""Eigenvalues, singular values, and the reductions that lead to them, by LAPACK."""

from __future__ import annotations

from typing import Any

from curta.compiler.library.lapack_calls import Argument, Result, Space, Work
from curta.compiler.linalg.programs import (
    conjugate_pairs,
    nan_unless,
    only_finite,
    succeeded,
)
from curta.compiler.rewrite.lapack_ops import (
    INFO,
    LETTERS,
    Lapack,
    by_columns,
    real_space,
)
from curta.core.trace import typeof
from curta.primitives.elementwise.bitwise import and_
from curta.primitives.elementwise.complex import complex_, part_dtype
from curta.primitives.linalg.matrices import columns, rows, swapped


def eigh(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    real = part_dtype(dtype)
    is_complex = dtype.kind == "c"
    works = [Work(LETTERS[t.name]) for t in ((dtype, real) if is_complex else (dtype,))]
    triangle = b"L" if op.lower_triangle else b"U"
    arguments: tuple[Argument, ...] = (
        b"V", triangle, n, Result(0), n, Result(1), *works, Work("i"), Result(2)
    )  # fmt: skip
    outs = (((n, n), dtype), ((n,), real), INFO)
    name = "heevd" if is_complex else "syevd"
    unwanted = (((0,), 0, b"N"),)
    call = Lapack(name, arguments, outs, 9 * n**3, unwanted=unwanted)
    vectors, values, info = call(swapped(a))
    vectors, values = nan_unless(succeeded(info), swapped(vectors), values)
    start, end = op.subset_by_index or (0, n)
    return [columns(vectors, start, end), columns(values, start, end)]


def svd(op: Any, a: Any) -> list[Any]:
    a, finite = only_finite(a)  # of infinities gesdd does not come to an end
    *_, m, n = typeof(a).shape
    dtype, least, most = typeof(a).dtype, min(m, n), max(m, n)
    left, right = (m, n) if op.full_matrices else (least, least)
    letter = (b"A" if op.full_matrices else b"S") if op.compute_uv else b"N"
    vectors: tuple[Argument, ...] = (Result(3), m, Result(4), right)
    x, pitch = by_columns(a)
    outs = [((least,), part_dtype(dtype)), INFO, ((n, pitch), dtype)]
    if op.compute_uv:
        outs += [((left, m), dtype), ((n, right), dtype)]
    else:
        vectors = (Space(16), 1, Space(16), 1)
    room = max(5 * least * least + 7 * least, 2 * least * (most + least) + least)
    arguments: tuple[Argument, ...] = (
        letter, m, n, Result(2), pitch, Result(0), *vectors, Work(LETTERS[dtype.name]),
        *real_space(dtype, room), Space(32 * least), Result(1),
    )  # fmt: skip
    unwanted = (((3, 4), 0, b"N"),) if op.compute_uv else ()
    each, copied = 8 * most * least**2, ((2, 0),)
    call = Lapack("gesdd", arguments, tuple(outs), each, copied, unwanted=unwanted)
    s, info, _, *both = call(x)
    result = nan_unless(and_(succeeded(info), finite), s, *map(swapped, both))
    if op.subset_by_index and not op.full_matrices:
        parts = (columns, columns, rows)
        bounds = (op.subset_by_index[0], min(op.subset_by_index[1], least))
        return [f(x, *bounds) for f, x in zip(parts, result, strict=False)]
    return result


def schur(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    values = [Space(16 * n)] * (1 if dtype.kind == "c" else 2)
    arguments: tuple[Argument, ...] = (
        b"V" if op.compute_schur_vectors else b"N", b"N", None, n, Result(0), n,
        Space(8), *values, Result(1), n, Work(LETTERS[dtype.name]),
        *real_space(dtype, n), None, Result(2),
    )  # fmt: skip
    outs = (((n, n), dtype), ((n, n), dtype), INFO)
    t, z, info = Lapack("gees", arguments, outs, 25 * n**3)(swapped(a))
    kept = [swapped(t), swapped(z)][: 1 + op.compute_schur_vectors]
    return nan_unless(succeeded(info), *kept)


def hessenberg(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    work = Work(LETTERS[dtype.name])
    arguments = (n, 1, n, Result(0), n, Result(1), work, Result(2))
    outs = (((n, n), dtype), ((n - 1,), dtype), INFO)
    packed, taus, info = Lapack("gehrd", arguments, outs, 4 * n**3)(swapped(a))
    return nan_unless(succeeded(info), swapped(packed), taus)


def tridiagonal(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    real = part_dtype(dtype)
    arguments = (
        b"L" if op.lower_triangle else b"U", n, Result(0), n, Result(1), Result(2),
        Result(3), Work(LETTERS[dtype.name]), Result(4),
    )  # fmt: skip
    shapes = ((n, n), dtype), ((n,), real), ((n - 1,), real), ((n - 1,), dtype), INFO
    name = "hetrd" if dtype.kind == "c" else "sytrd"
    packed, *others, info = Lapack(name, arguments, shapes, 2 * n**3)(swapped(a))
    return nan_unless(succeeded(info), swapped(packed), *others)


def eig(op: Any, a: Any) -> list[Any]:
    n, dtype = typeof(a).shape[-1], typeof(a).dtype
    is_complex = dtype.kind == "c"
    a, finite = only_finite(a)
    values = [Result(i) for i in range(1 if is_complex else 2)]
    wanted = op.compute_left_eigenvectors, op.compute_right_eigenvectors
    count = len(values)
    arguments: tuple[Argument, ...] = (
        *(b"V" if w else b"N" for w in wanted), n, Result(count), n, *values,
        Result(count + 1), n, Result(count + 2), n, Work(LETTERS[dtype.name]),
        *real_space(dtype, 2 * n), Result(count + 3),
    )  # fmt: skip
    outs = (*[((n,), dtype)] * count, *[((n, n), dtype)] * 3, INFO)
    unwanted = ((count + 1,), 0, b"N"), ((count + 2,), 1, b"N")
    copied = ((count, 0),)
    call = Lapack("geev", arguments, outs, 25 * n**3, copied, unwanted=unwanted)
    *parts, _, left, right, info = call(swapped(a))
    vectors = [v for v, w in zip((left, right), wanted, strict=True) if w]
    if is_complex:
        result = [*parts, *map(swapped, vectors)]
    else:
        pairs = [conjugate_pairs(parts[1], swapped(v)) for v in vectors]
        result = [complex_(*parts), *pairs]
    return nan_unless(and_(succeeded(info), finite), *result)
