"""How devices share out arrays: `Tiling` against its meaning, and `GSPMDSharding`."""

import pickle

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P
from curta.core.tiling import tiling
from curta.extend.sharding import GSPMDSharding
from curta.sharding import AxisType, Mesh, SingleDeviceSharding

X = np.arange(64.0, dtype=np.float32).reshape(8, 8)
SPECS = {
    P("x", "y"): "{devices=[4,2]<=[8]}",
    P("y", "x"): "{devices=[2,4]<=[4,2]T(1,0)}",
    P("x"): "{devices=[4,1,2]<=[8] last_tile_dim_replicate}",
    P(None, "y"): "{devices=[1,2,4]<=[4,2]T(1,0) last_tile_dim_replicate}",
    P(("x", "y")): "{devices=[8,1]<=[8]}",
    P(("y", "x")): "{devices=[8,1]<=[4,2]T(1,0)}",
    P(): "{replicated}",
}


def mesh_of(sizes=(4, 2), names=("x", "y"), kind=AxisType.Auto):
    devices = np.array(curta.devices()).reshape(sizes)
    return Mesh(devices, names, axis_types=(kind,) * len(names))


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_tiles_of_a_mesh(spec):
    named = NamedSharding(mesh_of(), spec)
    tiles = named._to_xla_hlo_sharding(2)
    assert repr(tiles) == SPECS[spec]
    assert tiles.is_replicated() == named.is_fully_replicated == (not tiles.is_tiled())
    assert sorted(tiles.tile_assignment_devices()) == [*range(8)]
    sharding = GSPMDSharding(curta.devices(), tiles)
    assert sharding.devices_indices_map((8, 8)) == named.devices_indices_map((8, 8))
    assert sharding.is_equivalent_to(named, 2) and named.is_equivalent_to(sharding, 2)
    assert sharding.shard_shape((8, 8)) == named.shard_shape((8, 8))
    over_axes = sharding._to_sdy_sharding(2)
    assert [*map(bool, over_axes)] == [*map(bool, named._to_sdy_sharding(2))]


def test_meshes_that_cut_alike():
    rows = NamedSharding(mesh_of(), P("x"))
    finer = mesh_of((2, 2, 2), ("a", "b", "c"))
    assert rows.is_equivalent_to(NamedSharding(finer, P(("a", "b"))), 2)
    assert not rows.is_equivalent_to(NamedSharding(finer, P(("b", "a"))), 2)
    assert tiling((2, 1, 4), [(0,), (2,)]) == tiling((2, 4), [(0,), (1,)])
    one = SingleDeviceSharding(curta.devices()[0])
    alone = NamedSharding(Mesh(np.array(curta.devices()[:1]), "x"), P("x"))
    assert one.is_equivalent_to(alone, 1) and not one.is_equivalent_to(rows, 2)


def test_terms_are_no_copies():
    mesh = mesh_of(kind=AxisType.Explicit)
    terms = NamedSharding(mesh, P("x", unreduced={"y"}))
    text = "{devices=[4,2]<=[8] last_tile_dims={unreduced}}"
    assert repr(terms._to_xla_hlo_sharding(1)) == text
    assert not terms.is_equivalent_to(NamedSharding(mesh, P("x")), 1)
    whole = NamedSharding(mesh, P(unreduced={"x", "y"}))._to_xla_hlo_sharding(1)
    assert whole.is_unreduced() and repr(whole) == "{unreduced}"
    with pytest.raises(NotImplementedError, match="terms of sums"):
        GSPMDSharding(curta.devices(), whole)


def test_arrays_on_numbered_devices():
    named = NamedSharding(mesh_of(), P("x"))
    sharding = GSPMDSharding(curta.devices(), named._to_xla_hlo_sharding(2))
    x = curta.device_put(X, sharding)
    assert x.sharding == sharding == pickle.loads(pickle.dumps(sharding))
    assert x.addressable_shards[3].index == (slice(2, 4), slice(None))
    for y in (x + 1, curta.jit(jnp.sin)(x), curta.jit(lambda x: x)(x)):
        assert y.sharding.is_equivalent_to(named, 2)
    assert (x @ x.T).sharding.shard_shape((8, 8)) == (2, 8)
    for jitted in (
        curta.jit(jnp.sin, in_shardings=sharding),
        curta.jit(jnp.sin, out_shardings=sharding),
        curta.jit(lambda x: curta.lax.with_sharding_constraint(x, sharding)),
    ):
        assert jitted(X).sharding.is_equivalent_to(named, 2)
    pinned = sharding.with_memory_kind("pinned_host")
    assert pinned != sharding and not pinned.is_equivalent_to(named, 2)
    everywhere = GSPMDSharding.get_replicated(curta.devices())
    assert everywhere == GSPMDSharding(curta.devices(), tiling((4, 2), [()]))
    assert hash(everywhere) != hash(sharding) and everywhere.is_fully_replicated


def test_errors():
    tiles = NamedSharding(mesh_of(), P("x"))._to_xla_hlo_sharding(2)
    with pytest.raises(TypeError, match="takes the tiling that a sharding gives"):
        GSPMDSharding(curta.devices(), P("x"))
    with pytest.raises(ValueError, match="got 4 devices for the tiling"):
        GSPMDSharding(curta.devices()[:4], tiles)
    sharding = GSPMDSharding(curta.devices(), tiles)
    with pytest.raises(ValueError, match="only valid for values of rank at least 2"):
        sharding.shard_shape((8,))
    with pytest.raises(ValueError, match="implies that array axis 0 is partitioned 4"):
        curta.device_put(np.ones((7, 2)), sharding)
