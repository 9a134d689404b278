"""Control flow, transforms and collectives of `curta.lax`."""

import numpy as np
from tests.functions.numpy_algebra import regular, unary
from tests.functions.rows import (
    COMPLEX,
    SINGLE,
    call,
    rows,
    within,
)


def transforms(source, shape):
    yield call(source(shape), "FFT", shape[-1:])
    yield call(source(shape), "IFFT", shape[-2:])


def transformed(x, kind, lengths):
    axes = tuple(range(-len(lengths), 0))
    return {"FFT": np.fft.fftn, "IFFT": np.fft.ifftn}[kind](x, axes=axes)


def scans(source, shape):
    yield call(source((3, *shape)))


def loops(source, shape):
    yield call(source(shape), source.integers((), 1, 4))


def branches(source, shape):
    yield call(source.mask(()), source(shape))


def cases(source, shape):
    yield call(source.integers((), 0, 2), source(shape))


def elements(source, shape):
    yield call(source((3, *shape)))


def running(x):
    total, outs = x[0] * 0, []
    for y in x:
        total = total * 0.5 + y
        outs.append(total * total)
    return [total, np.stack(outs)]


def scan_of(p):
    def step(c, y):
        c = c * 0.5 + y
        return c, c * c

    return lambda x: p.lax.scan(step, x[0] * 0, x)


def systems(source, shape):
    n = 3
    yield call(regular(source, (n, n)), source((n,)))


def linear_solve(p):
    solve = lambda matvec, b: p.numpy.linalg.solve(  # noqa: E731
        p.jacobian(matvec)(b), b
    )
    return lambda a, b: p.lax.custom_linear_solve(lambda x: a @ x, b, solve, solve)


def root(p):
    def newton(f, x):
        for _ in range(8):
            x = x - f(x) / p.grad(lambda x: f(x).sum())(x)
        return x

    tangent = lambda g, y: y / g(p.numpy.ones_like(y))  # noqa: E731
    return lambda a: p.lax.custom_root(
        lambda x: x * x - a, p.lax.stop_gradient(a), newton, tangent
    )


def composed(p):
    return lambda x: p.lax.composite(lambda x: p.numpy.sin(x) * x, "my.sine")(x)


CONTROL = [
    *rows("scan", scans, SINGLE, rank=(0, 2), of=scan_of, reference=running),
    *rows(
        "associative_scan",
        scans,
        SINGLE,
        rank=(0, 2),
        tolerance=4,
        of=lambda p: lambda x: p.lax.associative_scan(p.numpy.multiply, x),
        reference=lambda x: np.cumprod(x, 0),
    ),
    *rows(
        "map",
        elements,
        SINGLE,
        rank=(0, 2),
        of=lambda p: lambda x: p.lax.map(p.numpy.sin, x),
        reference=np.sin,
    ),
    *rows(
        "cond",
        branches,
        SINGLE,
        of=lambda p: lambda c, x: p.lax.cond(c, p.numpy.sin, p.numpy.square, x),
        reference=lambda c, x: np.sin(x) if c else x * x,
    ),
    *rows(
        "switch",
        cases,
        SINGLE,
        of=lambda p: (
            lambda i, x: p.lax.switch(i, [p.numpy.sin, p.numpy.square, p.numpy.exp], x)
        ),
        reference=lambda i, x: [np.sin, np.square, np.exp][i](x),
    ),
    *rows(
        "fori_loop",
        lambda s, shape: [call(s(shape))],
        SINGLE,
        tolerance=4,
        of=lambda p: (
            lambda x: p.lax.fori_loop(0, 3, lambda i, c: c * 0.5 + p.numpy.sin(c), x)
        ),
        reference=lambda x: [x := x * 0.5 + np.sin(x) for _ in range(3)][-1],
    ),
    *rows(
        "while_loop",
        loops,
        SINGLE,
        tolerance=4,
        of=lambda p: (
            lambda x, n: p.lax.while_loop(
                lambda c: c[1] > 0, lambda c: (c[0] * 0.5 + 1, c[1] - 1), (x, n)
            )[0]
        ),
        reference=lambda x, n: [x := x * 0.5 + 1 for _ in range(n)][-1],
        without={"grad": "in forward mode only, as in JAX"},
    ),
    *rows(
        "custom_linear_solve",
        systems,
        SINGLE,
        rank=(1, 1),
        tolerance=30,
        of=linear_solve,
        reference=np.linalg.solve,
    ),
    *rows(
        "custom_root",
        unary,
        SINGLE,
        domain=(0.5, 3),
        tolerance=8,
        of=root,
        reference=np.sqrt,
    ),
    *rows(
        "composite",
        unary,
        SINGLE,
        of=composed,
        reference=lambda x: np.sin(x) * x,
        without={"grad": "only with a derivative of its own"},
    ),
    *rows(
        "platform_dependent",
        unary,
        SINGLE,
        of=lambda p: (
            lambda x: p.lax.platform_dependent(x, cpu=p.numpy.sin, default=p.numpy.cos)
        ),
        reference=np.sin,
    ),
    *rows(
        "fft",
        transforms,
        COMPLEX,
        rank=(2, 3),
        least=1,
        tolerance=8,
        reference=transformed,
    ),
]


def named(function, calls, reference, **settings):
    """A collective over the dim `i`, which `vmap` names."""
    return rows(
        function,
        calls,
        SINGLE,
        rank=(1, 3),
        reference=reference,
        of=settings.pop("of", None) or _over_names(function),
        **settings,
    )


def _over_names(name):
    return lambda p: (
        lambda x, *args, **kwargs: p.vmap(
            lambda y: getattr(p.lax, name)(y, "i", *args, **kwargs), axis_name="i"
        )(x)
    )


def along_names(source, shape):
    yield call(source((2, *shape)))


def squares(source, shape):
    yield call(source((3, 3, *shape)), 0, 0)


def everywhere(function):
    return lambda x: np.broadcast_to(function(x, 0, keepdims=True), x.shape)


def permuted(x, perm):
    out = np.zeros_like(x)
    for a, b in perm:
        out[b] = x[a]
    return out


COLLECTIVES = [
    *named("psum", along_names, everywhere(np.sum)),
    *named("pmean", along_names, everywhere(np.mean)),
    *named("pmax", along_names, everywhere(np.max), without={"grad": "none in JAX"}),
    *named("pmin", along_names, everywhere(np.min), without={"grad": "none in JAX"}),
    *named("all_gather", along_names, lambda x: np.broadcast_to(x, (len(x), *x.shape))),
    *named(
        "ppermute",
        lambda s, shape: [
            call(s((2, *shape)), [(0, 1), (1, 0)]),
            call(s((2, *shape)), [(0, 1)]),
        ],
        permuted,
    ),
    *named(
        "pshuffle",
        lambda s, shape: [call(s((2, *shape)), [1, 0])],
        lambda x, perm: x[perm],
    ),
    *named("all_to_all", squares, lambda x, *_: np.swapaxes(x, 0, 1)),
    *named(
        "pswapaxes",
        lambda s, shape: [call(s((3, 3, *shape)), 0)],
        lambda x, _: np.swapaxes(x, 0, 1),
    ),
    *named(
        "psum_scatter", lambda s, shape: [call(s((2, 2, *shape)))], lambda x: x.sum(0)
    ),
    *named(
        "pbroadcast",
        lambda s, shape: [call(s((2, *shape)), 1)],
        lambda x, i: np.broadcast_to(x[i], x.shape),
        without={"grad": "none in JAX"},
    ),
    *named(
        "axis_index",
        along_names,
        lambda x: np.arange(len(x)),
        of=lambda p: (
            lambda x: p.vmap(lambda _: p.lax.axis_index("i"), axis_name="i")(x)
        ),
    ),
    *named(
        "axis_size",
        along_names,
        lambda x: np.full(len(x), len(x)),
        of=lambda p: (
            lambda x: p.vmap(
                lambda _: p.numpy.asarray(p.lax.axis_size("i")), axis_name="i"
            )(x)
        ),
    ),
]


TABLE = within("lax", [*CONTROL, *COLLECTIVES])
