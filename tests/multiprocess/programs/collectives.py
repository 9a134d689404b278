"""All collectives of an engine, in Python and in compiled programs."""

import numpy as np
from tests.hosts.engines import array, check, groups
from tests.multiprocess.programs.saying import say

import curta
import curta.numpy as jnp
from curta._settings.tuning import Tuning
from curta.config import tuning
from curta.hosts import traffic
from curta.hosts.engine import current
from curta.primitives.host_collectives import (
    HostBucket,
    HostExchange,
    HostGather,
    HostIndex,
    HostPermute,
    HostReduce,
    HostReduceScatter,
)

SMALL = Tuning(overlapped_bytes=1, overlapped_cost=1)
DTYPES = [np.dtype(c) for c in ("f4", "i4", "?", "c8", "f8", "u1")]


def ops(group, dtype):
    """Collectives along each dim of arrays of shape (2 n, 3, n)."""
    n = group.size
    yield from (HostGather(group, dim) for dim in range(3))
    for split, join in ((0, 1), (2, 0), (0, 0), (2, 1), (0, 2)):
        yield HostExchange(group, split, join)
    yield HostPermute(group, tuple((i, (i + 1) % n) for i in range(n)))
    yield HostPermute(group, ((0, n - 1),))
    yield HostPermute(group, ((0, 0),))
    for kind in ("sum", "max", "prod", "and"):
        if kind != "and" or dtype.kind not in "fc":
            yield HostReduce(group, kind)
            yield HostReduceScatter(group, kind, 0)
            yield HostReduceScatter(group, kind, 2)


def compiled(engine) -> int:
    """Compare compiled programs with `eval`, and the bytes that they count."""
    done = 0
    for group in groups(engine.count):
        for dtype in DTYPES:
            x = array(engine.index, (2 * group.size, 3, group.size), dtype)
            for op in ops(group, dtype):
                counts = [traffic.sent()]
                wanted = np.asarray(op.eval(x))
                counts.append(traffic.sent())
                found = np.asarray(curta.jit(op)(x))
                counts.append(traffic.sent())
                assert found.dtype == wanted.dtype and found.shape == wanted.shape
                assert found.tobytes() == wanted.tobytes(), (op, dtype)
                first, second, third = (c[engine.index] for c in counts)
                for name in first:
                    assert second[name] - first[name] == third[name] - second[name]
                with tuning(SMALL):
                    begun = np.asarray(curta.jit(lambda x, op=op: op(x))(x))
                assert begun.tobytes() == wanted.tobytes(), (op, dtype, "begun")
                done += 1
    return done


def overlapping(engine) -> None:
    """Collectives of several sizes go on while a loop computes."""
    group = groups(engine.count)[0]
    total, largest = HostReduce(group, "sum"), HostReduce(group, "max")
    gather = HostGather(group, 0)

    @curta.jit
    def program(x):
        def body(x, _):
            y = jnp.tanh(x @ x)
            sums, wide = total(x), gather(y)
            z = jnp.sin(y) @ y
            return total(z)[: len(x)] / group.size, (sums, wide, largest(z))

        return curta.lax.scan(body, x, None, length=4)

    for size in (3, 64, 400):
        x = array(engine.index, (size, size), np.dtype("f8")) / (7 * size)
        with tuning(SMALL):
            found = program(x)
        program.clear_cache()
        with tuning(Tuning(overlapped_bytes=1 << 60)):
            wanted = program(x)
        program.clear_cache()
        for a, b in zip(*map(curta.tree.leaves, (found, wanted)), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10)


def loops(engine) -> None:
    """Collectives in loops, joined ones, and the number of the host."""
    group = groups(engine.count)[-1]
    total = HostReduce(group, "sum")
    program = curta.jit(
        lambda x: curta.lax.fori_loop(0, 50, lambda i, x: total(x) / group.size, x)
    )
    np.testing.assert_array_equal(program(np.full(5, 3.0)), np.full(5, 3.0))
    bucket = curta.jit(lambda *args: HostBucket(HostReduce(group, "sum"))(*args))
    parts = [np.ones((2, 3)), np.arange(4.0), np.float64(engine.index)]
    a, b, c = bucket(*parts)
    np.testing.assert_array_equal(a, np.full((2, 3), group.size))
    np.testing.assert_array_equal(b, np.arange(4.0) * group.size)
    assert c == sum(group.members(engine.index))
    assert curta.jit(HostIndex(group))() == group.index(engine.index)


def narrow(engine) -> None:
    """Sums of bfloat16 are taken in float32, compiled and not."""
    group = groups(engine.count)[0]
    x = np.full(3, 256.0 if engine.index == 0 else 1.0).astype(curta.numpy.bfloat16)
    total = np.asarray(curta.jit(HostReduce(group, "sum"))(x), np.float32)
    exact = np.float32(256 + engine.count - 1).astype(x.dtype).astype(np.float32)
    np.testing.assert_array_equal(total, np.full(3, exact))


def main() -> None:
    curta.distributed.initialize()
    curta.config.update("jax_enable_x64", True)
    curta.config.update("curta_advice", "ignore")
    engine = current()
    say(f"{type(engine).__name__} {check(engine)} {compiled(engine)}")
    loops(engine)
    overlapping(engine)
    narrow(engine)


if __name__ == "__main__":
    main()
