"""Products, windows and convolutions of `curta.lax`."""

import numpy as np
from tests.functions.rows import (
    COMPLEX,
    NUMBER,
    SINGLE,
    call,
    rows,
    within,
)

PLAIN = ("float32", "int32", "complex64", "float64")


def products(source, shape):
    yield call(source((2, 3)), source((3, 4)))
    yield call(source((3,)), source((3,)))
    yield call(source((2, 3)), source((3,)))
    yield call(source((0, 3)), source((3, 2)))


def batched_products(source, shape):
    yield call(source((2, 4, 3)), source((2, 3, 5)))


def general_products(source, shape):
    """Batch and contracting dims in odd places."""
    numbers = (((0, 2), (1, 0)), ((1,), (2,)))
    yield call(source((3, 2, 4)), source((4, 3, 2)), numbers)
    yield call(source((3, 2)), source((4, 5)), (((), ()), ((), ())))


def general_product(x, y, numbers):
    (lc, rc), (lb, rb) = numbers
    letters = iter("abcdefghijkl")
    left, right = [None] * x.ndim, [None] * y.ndim
    batch = []
    for i, j in zip(lb, rb, strict=True):
        left[i] = right[j] = letter = next(letters)
        batch.append(letter)
    for i, j in zip(lc, rc, strict=True):
        left[i] = right[j] = next(letters)
    free = []
    for side in left, right:
        for i, letter in enumerate(side):
            if letter is None:
                side[i] = next(letters)
                free.append(side[i])
    text = f"{''.join(left)},{''.join(right)}->{''.join(batch + free)}"
    return np.einsum(text, x, y)


def ragged(source, shape):
    yield call(source((5, 3)), source((2, 3, 4)), np.array([2, 3], "int32"))


def by_groups(x, y, sizes):
    ends = np.cumsum(sizes)
    return np.concatenate(
        [x[e - n : e] @ m for e, n, m in zip(ends, sizes, y, strict=True)]
    )


def general_ragged(package):
    lax = package.lax
    numbers = lax.RaggedDotDimensionNumbers((((1,), (1,)), ((), ())), (0,), (0,))
    return lambda x, y, sizes: lax.ragged_dot_general(x, y, sizes, numbers)


def windows(source, shape):
    for padding in "VALID", "SAME":
        yield call(source((4, 5)), (2, 3), (1, 2), padding)


def window_sums(x, sizes, strides, padding):
    if padding == "SAME":
        counts = [-(-n // s) for n, s in zip(x.shape, strides)]
        total = [
            max((c - 1) * s + k - n, 0)
            for c, s, k, n in zip(counts, strides, sizes, x.shape)
        ]
        x = np.pad(x, [(t // 2, t - t // 2) for t in total])
    seen = np.lib.stride_tricks.sliding_window_view(x, sizes)
    return seen[:: strides[0], :: strides[1]].sum((-1, -2))


def by_adding(package):
    lax = package.lax
    return lambda x, *rest: lax.reduce_window(x, np.zeros((), x.dtype), lax.add, *rest)


def images(source, shape):
    yield call(source((2, 3, 5, 4)), source((4, 3, 2, 3)), (1, 1), "VALID")
    yield call(source((2, 3, 5, 4)), source((4, 3, 2, 3)), (2, 1), "VALID")


def dilated(source, shape):
    yield call(
        source((2, 3, 5, 4)),
        source((4, 3, 2, 3)),
        (2, 1),
        [(1, 0), (1, 2)],
        rhs_dilation=(2, 1),
    )


def correlated(x, w, strides, padding, lhs_dilation=None, rhs_dilation=(1, 1)):
    x = x if padding == "VALID" else np.pad(x, [(0, 0), (0, 0), *padding])
    taps = np.zeros(
        (
            *w.shape[:2],
            *((k - 1) * d + 1 for k, d in zip(w.shape[2:], rhs_dilation or (1, 1))),
        ),
        w.dtype,
    )
    a, b = rhs_dilation or (1, 1)
    taps[:, :, ::a, ::b] = w
    seen = np.lib.stride_tricks.sliding_window_view(x, taps.shape[2:], (2, 3))
    out = np.einsum("nihwkl,oikl->nohw", seen, taps)
    return out[:, :, :: strides[0], :: strides[1]]


def transposed(source, shape):
    yield call(source((1, 4, 2)), source((3, 2, 5)), (2,), "VALID")


def upsampled(x, w, strides, padding):
    """NHC by HIO: each element spreads its taps from its place on."""
    n, h, _ = x.shape
    k, _, o = w.shape
    out = np.zeros((n, (h - 1) * strides[0] + k, o), np.result_type(x, w))
    for i in range(h):
        out[:, i * strides[0] : i * strides[0] + k] += np.einsum(
            "ni,kio->nko", x[:, i], w[::-1]
        )
    return out


def patches(source, shape):
    yield call(source((2, 3, 4, 5)), (2, 3), (1, 2), "VALID")


def patches_of(x, sizes, strides, padding):
    seen = np.lib.stride_tricks.sliding_window_view(x, sizes, (2, 3))
    seen = seen[:, :, :: strides[0], :: strides[1]]
    n, c, h, w, *_ = seen.shape
    return np.moveaxis(seen, (4, 5), (2, 3)).reshape(n, -1, h, w)


def local(source, shape):
    yield call(source((2, 3, 5)), source((4, 6, 4)), (1,), "VALID", (2,))


def locally(x, w, strides, padding, sizes):
    seen = np.lib.stride_tricks.sliding_window_view(x, sizes, (2,))
    n, c, h, k = seen.shape
    return np.einsum("ncht,ocht->noh", seen, w.reshape(len(w), c, k, h).swapaxes(2, 3))


ONCE = {"grad": "of first order only, as in JAX"}
PRODUCTS = [
    *rows("dot", products, NUMBER, rank=(1, 1), tolerance=16),
    *rows(
        "batch_matmul",
        batched_products,
        NUMBER[:4] + COMPLEX,
        rank=(1, 1),
        tolerance=16,
        reference=np.matmul,
    ),
    *rows(
        "dot_general",
        general_products,
        NUMBER,
        rank=(1, 1),
        tolerance=30,
        reference=general_product,
    ),
    *rows(
        "ragged_dot",
        ragged,
        SINGLE,
        rank=(1, 1),
        reference=by_groups,
        tolerance=8,
        without=ONCE,
    ),
    *rows(
        "ragged_dot_general",
        ragged,
        SINGLE,
        rank=(1, 1),
        reference=by_groups,
        tolerance=8,
        of=general_ragged,
        without=ONCE,
    ),
    *rows(
        "reduce_window",
        windows,
        ("float32", "int32", "float64"),
        rank=(1, 1),
        tolerance=8,
        of=by_adding,
        reference=window_sums,
    ),
    *rows("conv", images, PLAIN, rank=(1, 1), reference=correlated, tolerance=30),
    *rows(
        "conv_general_dilated",
        dilated,
        PLAIN,
        rank=(1, 1),
        reference=correlated,
        tolerance=30,
    ),
    *rows(
        "conv_with_general_padding",
        lambda s, shape: [call(*g.args, None, None) for g in images(s, shape)],
        PLAIN,
        rank=(1, 1),
        reference=correlated,
        tolerance=30,
    ),
    *rows(
        "conv_transpose",
        transposed,
        PLAIN,
        rank=(1, 1),
        reference=upsampled,
        tolerance=16,
    ),
    *rows(
        "conv_general_dilated_patches",
        patches,
        SINGLE,
        rank=(1, 1),
        reference=patches_of,
    ),
    *rows(
        "conv_general_dilated_local",
        local,
        SINGLE,
        rank=(1, 1),
        reference=locally,
        tolerance=16,
    ),
]


TABLE = within("lax", PRODUCTS)
