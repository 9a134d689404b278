"""`out_sharding` of functions that JAX 0.12 gave it, and by position."""

from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import lax


def test_out_sharding_by_position():
    mesh = curta.make_mesh((2,), ("x",), axis_types=(curta.sharding.AxisType.Explicit,))
    split = curta.NamedSharding(mesh, curta.P("x"))
    with curta.set_mesh(mesh):
        data, ids = jnp.arange(4.0), jnp.array([0, 1, 1, 3])
        options = (4, False, False, None, None)
        assert curta.ops.segment_sum(data, ids, *options, split).sharding == split
        summed = lax.reduce(jnp.ones((3, 4)), 0.0, lax.add, (0,), split)
        assert summed.sharding == split and summed.tolist() == [3] * 4
        for fold in lax.reduce_max, lax.reduce_min:
            out = fold(jnp.ones((3, 4)), (0,), out_sharding=split)
            assert out.sharding == split and out.tolist() == [1] * 4
        ones = curta.nn.one_hot(jnp.array([0, 2]), 3, out_sharding=curta.P("x", None))
        assert curta.typeof(ones).sharding.spec == curta.P("x", None)
        counts, edges = jnp.histogram(data, 2, out_sharding=split)
        assert curta.typeof(counts).sharding.spec == curta.P("x")
        assert counts.tolist() == [2, 2] and edges.tolist() == [0, 1.5, 3]
