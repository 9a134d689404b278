"""Programs of many equations: what a pass does for each of them must not grow.

python -m tests.stress.compile_time [SMALL LARGE] [--family NAME] [--seconds]

Each family of programs grows with one number. Two sizes of each are traced and compiled
(up to LLVM), and steps are counted, function by function: calls, of built-in functions
too, and comparisons and hashes of variables, eqns, buffers and work items, so that a
search through a list counts for what it is. A function whose steps for an equation grow
is printed with its pass, and makes the exit status 1. `--seconds` compiles to machine
code instead, runs the programs, and prints milliseconds for an equation.
"""

from __future__ import annotations

import _lsprof
import argparse
import gc
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType
from typing import Any

import numpy as np

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler import loading
from curta.compiler.fingerprint import program_name
from curta.compiler.host_target import host
from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower import items
from curta.compiler.machine_code.linked import Linked
from curta.compiler.pipeline import compile_jaxpr
from curta.config import config
from curta.core.jaxpr import Eqn, Var
from curta.runtime.donation import find_donation

Program = tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]
"""A function, its arguments, and the options of `jit`."""

FAMILIES: dict[str, Callable[[int], Program]] = {}
LEAF = np.ones(4, np.float32)


def family(make: Callable[[int], Program]) -> Callable[[int], Program]:
    """Add a family: a function of the number of equations, more or less."""
    FAMILIES[make.__name__] = make
    return make


@family
def reductions(n: int) -> Program:
    """Independent sums."""
    xs = [np.ones(3 + i % 7, np.float32) for i in range(n // 2)]
    return (
        lambda xs: [lax.reduce_sum_p.bind(lax.sin(x), axes=(0,)) for x in xs],
        (xs,),
        {},
    )


@family
def chain(n: int) -> Program:
    """Each op reads the result of the one before."""

    def f(x):
        for i in range(n // 2):
            x = lax.add(lax.sin(x), np.float32(i))
        return x

    return f, (LEAF[0],), {}


@family
def constants(n: int) -> Program:
    """A chain with an array of its own for each op."""
    arrays = [np.full(4, i, np.float32) for i in range(n)]

    def f(x):
        for c in arrays:
            x = lax.max(x, jnp.asarray(c))
        return x

    return f, (LEAF,), {}


@family
def terms(n: int) -> Program:
    """A sum of many terms of one operand."""

    def f(x):
        found = [lax.mul(lax.cos(x), np.float32(i)) for i in range(n // 3)]
        total = found[0]
        for y in found[1:]:
            total = lax.add(total, y)
        return total

    return f, (LEAF[0],), {}


@family
def outputs(n: int) -> Program:
    """Many results of one operand."""
    return lambda x: [lax.add(x, np.float32(i)) for i in range(n)], (LEAF[0],), {}


def _adam(n: int, donate: bool) -> Program:
    size = n // 14
    tree = [np.full(3 + i % 5, 1, np.float32) for i in range(size)]

    def step(params, m, v, grads):
        m = [0.9 * a + 0.1 * g for a, g in zip(m, grads, strict=True)]
        v = [0.99 * a + 0.01 * g * g for a, g in zip(v, grads, strict=True)]
        new = [
            p - 0.01 * a / (lax.sqrt(b) + 1e-8)
            for p, a, b in zip(params, m, v, strict=True)
        ]
        return new, m, v

    options = {"donate_argnums": (0, 1, 2)} if donate else {}
    return step, tuple([jnp.array(x) for x in tree] for _ in range(4)), options


@family
def adam(n: int) -> Program:
    """A step of an optimizer over a tree of many arrays."""
    return _adam(n, False)


@family
def donated_adam(n: int) -> Program:
    """The same, with the arrays donated."""
    return _adam(n, True)


@family
def layers(n: int) -> Program:
    """The gradient of a deep network, written out."""
    depth = n // 18
    weights = [np.eye(4, dtype=np.float32) for _ in range(depth)]

    def loss(weights, x):
        for w in weights:
            x = lax.tanh(lax.dot(x, w))
        return x.sum()

    return curta.grad(loss), (weights, np.ones((2, 4), np.float32)), {}


@family
def loop(n: int) -> Program:
    """A scan that carries a large tree."""
    tree = [np.ones(3, np.float32) for _ in range(n // 2)]

    def f(tree):
        def body(c, _):
            return [lax.mul(lax.sin(x), np.float32(0.5)) for x in c], ()

        return lax.scan(body, tree, None, length=3)[0]

    return f, (tree,), {}


@family
def large_loop(n: int) -> Program:
    """A scan over many arrays that are too large for registers."""
    tree = [np.ones((2, 80), np.float32) for _ in range(n // 4)]

    def f(tree, xs):
        def body(c, x):
            new = [lax.mul(lax.sin(a), b) for a, b in zip(c, x, strict=True)]
            return new, [lax.neg(a) for a in new]

        return lax.scan(body, tree, xs)

    return f, ([x[0] for x in tree], tree), {}


@family
def calls(n: int) -> Program:
    """Calls of jitted functions, in calls of others."""
    inner = curta.jit(lambda x, y: lax.add(lax.sin(x), y))
    outer = curta.jit(lambda x, y: inner(inner(x, y), x))

    def f(x):
        for _ in range(n // 4):
            x = outer(x, x)
        return x

    return f, (LEAF[0],), {}


@family
def dots(n: int) -> Program:
    """Products of matrices, one after the other and side by side."""

    def f(x):
        y, found = x, []
        for _ in range(n // 2):
            y = lax.dot(y, x)
            found.append(lax.neg(y))
        return found

    return f, (np.eye(4, dtype=np.float32),), {}


@family
def updates(n: int) -> Program:
    """Updates of one array, an element each."""

    def f(x):
        for i in range(n):
            x = lax.dynamic_update_slice_p.bind(x, LEAF[:1], np.int32(i % 90))
        return x

    return f, (np.zeros(100, np.float32),), {}


@family
def updates_of_others(n: int) -> Program:
    """Updates of one operand, which stays as it is."""

    def f(x):
        y = lax.sort(x)
        found = [
            lax.dynamic_update_slice_p.bind(y, LEAF[:1], np.int32(i))
            for i in range(n // 2)
        ]
        return [lax.reduce_sum_p.bind(y, axes=(0,)) for y in found]

    return f, (np.zeros(100, np.float32),), {}


@family
def branches(n: int) -> Program:
    """Conditionals, one after the other."""

    def f(x, p):
        for _ in range(n // 8):
            x = lax.cond(p, lax.sin, lambda x: lax.mul(lax.cos(x), x), x)
        return x

    return f, (np.ones(100, np.float32), True), {}


@family
def joined(n: int) -> Program:
    """Many parts of one array, put together again."""

    def f(x):
        parts = [
            lax.sin(
                lax.slice_p.bind(
                    x, start_indices=(i,), limit_indices=(i + 1,), strides=None
                )
            )
            for i in range(n // 2)
        ]
        return lax.concatenate(parts, 0)

    return f, (np.zeros(n // 2, np.float32),), {}


@family
def derivatives(n: int) -> Program:
    """Derivatives of the batched chain: forward, and backward."""
    f, (x,), _ = chain(2 * n // 3)
    both = curta.grad(lambda x: curta.jvp(f, (x,), (x,))[1])
    return curta.vmap(both), (LEAF,), {}


@family
def rows(n: int) -> Program:
    """Softmax after softmax: reductions that fuse with what is around them."""

    def f(x):
        for _ in range(n // 8):
            y = lax.exp(x - x.max(1, keepdims=True))
            x = y / y.sum(1, keepdims=True)
        return x

    return f, (np.ones((4, 40), np.float32),), {}


# ------------------------------------------------------------------- counting steps

_SOURCES = str(Path(curta.__file__).parent)
_COUNTED = (Var, Eqn, Buffer, items.LoopItem, items.LibraryItem, items.RegionItem)

Steps = Counter[tuple[str, str]]
"""How often functions were called, and called built-in ones, by file and name."""


def compare(self: object, other: object) -> bool:
    """The comparison by identity, as a function of Python, which is counted."""
    return self is other


def hashed(self: object) -> int:
    """The hash by identity, as a function of Python, which is counted."""
    return object.__hash__(self)


@contextmanager
def _counted_comparisons() -> Iterator[None]:
    kept = [(kind, dict(vars(kind))) for kind in _COUNTED]
    for kind in _COUNTED:
        kind.__eq__, kind.__hash__ = compare, hashed  # type: ignore[assignment]
    try:
        yield
    finally:
        for kind, before in kept:
            for name in ("__eq__", "__hash__"):
                if name in before:
                    setattr(kind, name, before[name])
                else:
                    delattr(kind, name)


@contextmanager
def _without_llvm() -> Iterator[None]:
    """Code that is written and not compiled."""
    link = loading.link
    loading.link = lambda sources: [Linked({"": 0}, (), ()) for _ in sources]
    try:
        yield
    finally:
        loading.link = link


def _compile(name: str, n: int) -> int:
    """Trace and compile a program; the number of its eqns."""
    f, args, options = FAMILIES[name](n)
    closed = curta.make_jaxpr(f)(*args)
    given = options.get("donate_argnums", ())
    leaves = [len(curta.tree_util.tree_leaves(x)) for x in args]
    donated = [i in given for i, count in enumerate(leaves) for _ in range(count)]
    in_place = find_donation(closed, donated)
    program_name(closed, host(), (), config.context)
    compile_jaxpr(closed, in_place=in_place)
    return _eqns(closed.jaxpr)


def _eqns(jaxpr: Any) -> int:
    inner = (e.params.get("jaxpr") for e in jaxpr.eqns)
    return len(jaxpr.eqns) + sum(_eqns(j.jaxpr) for j in inner if j is not None)


def count(name: str, n: int) -> tuple[Steps, int]:
    """The steps of tracing and compiling a program, and the number of its eqns."""
    profiler = _lsprof.Profiler(builtins=True, subcalls=True)
    gc.disable()  # weak references that die are called for, sooner or later
    try:
        with _counted_comparisons(), _without_llvm():
            profiler.enable()
            eqns = _compile(name, n)
            profiler.disable()
    finally:
        gc.enable()
    steps: Steps = Counter()
    for entry in profiler.getstats():
        code = entry.code
        if not isinstance(code, CodeType) or not code.co_filename.startswith(_SOURCES):
            continue
        where = code.co_filename[len(_SOURCES) + 1 :], code.co_qualname
        steps[where] += entry.callcount
        for called in entry.calls or ():
            if not isinstance(called.code, CodeType) or called.code in _MARKS:
                steps[where] += called.callcount
    return steps, eqns


_MARKS = (compare.__code__, hashed.__code__)


def growing(name: str, small: int, large: int) -> list[str]:
    """The functions whose steps per equation grow.

    More than twice as many, and more than 4: kernels are full at some sizes and not at
    others. Also from a size between on: larger programs may be compiled another way.
    """
    count(name, 24)  # what is computed once in a process
    (before, few), (after, many) = count(name, small), count(name, large)
    found = {
        where: (before[where] / few, steps / many)
        for where, steps in after.most_common()
        if steps / many > max(2 * before[where] / few, 4)
    }
    if found:
        between, some = count(name, math.isqrt(small * large))
        found = {
            where: (first, last)
            for where, (first, last) in found.items()
            if 1.4 * first < between[where] / some < last / 1.4
        }
    return [
        f"{name}: {file}: {function} takes {last:.1f} steps for each of {many} eqns,"
        f" {first:.1f} for each of {few}"
        for (file, function), (first, last) in found.items()
    ]


# -------------------------------------------------------------------------- the run


def _seconds(name: str, n: int) -> float:
    f, args, options = FAMILIES[name](n)
    args = curta.tree_util.tree_map(jnp.asarray, args)
    begin = time.process_time()
    curta.block_until_ready(curta.jit(f, **options)(*args))
    return time.process_time() - begin


def main() -> int:
    """Count or time all families; 1 if one of them grows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("sizes", type=int, nargs="*", default=[1000, 8000])
    parser.add_argument("--family", choices=FAMILIES, action="append")
    parser.add_argument("--seconds", action="store_true")
    given = parser.parse_args()
    sys.setrecursionlimit(10**6)
    bad = 0
    for name in given.family or FAMILIES:
        if given.seconds:
            each = [f"{n}: {1e3 * _seconds(name, n) / n:.2f}" for n in given.sizes]
            print(f"{name}: ms for an eqn, {', '.join(each)}", flush=True)
            continue
        found = growing(name, *given.sizes)
        bad += bool(found)
        print("\n".join(found) or f"{name}: steady", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
