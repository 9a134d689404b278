"""Random numbers over simulated hosts: of each its own, the same as in one process."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401
from tests.hosts.test_partition import check, mesh_of, normal, parted

import curta
from curta import P, random
from curta.primitives.random_bits.ops import RandomBits, RandomPart

GRID = {"x": 4, "y": 2}


def dropped(x):
    return x * random.bernoulli(random.key(3), 0.5, x.shape)


def of_steps(x):
    keys = random.split(random.key(1), x.shape[0])
    rows = curta.vmap(lambda k, r: r + random.normal(k, r.shape))(keys, x)
    return rows + random.uniform(random.fold_in(random.key(0), 7), x.shape)


def other_generators(x):
    bits = [
        random.bits(random.key(0, impl=impl), x.shape) for impl in ("rbg", "unsafe_rbg")
    ]
    return x + sum(b.astype("float32") / 2**32 for b in bits)


@pytest.mark.parametrize("count", [2, 4, 8])
@pytest.mark.parametrize("f", [dropped, of_steps, other_generators])
def test_hosts_draw_the_same_numbers(f, count):
    found = check(f, [normal(16, 8)], mesh_of(**GRID), [P("x", "y")], count)
    assert found == []


@pytest.mark.parametrize("count", [2, 4, 8])
def test_hosts_draw_their_part_alone(count):
    local = parted(dropped, [normal(64, 32)], mesh_of(**GRID), [P("x", "y")], count)
    assert "random_part" in str(local.closed)
    assert "u32[64,32]" not in str(local.closed)


@pytest.mark.parametrize("width", [8, 16, 32, 64])
def test_a_part_is_one_of_the_whole(width):
    keys = random.split(random.key(5), 2)
    op = RandomPart(RandomBits(width, (6, 5)), (2, 5), (0,))
    start = np.int32(3)
    want = np.asarray(RandomBits(width, (6, 5))(keys))[:, 3:5]
    assert np.array_equal(op(keys, start), want)
    assert np.array_equal(curta.jit(op)(keys, start), want)
