"""Callbacks for debugging in programs over several devices."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import lax
from curta.experimental import io_callback


def mesh_of(*sizes):
    return curta.make_mesh(sizes, ("x", "y")[: len(sizes)])


def auto(mesh):
    return curta.sharding.Mesh(mesh.devices, mesh.axis_names)


def split(x, *sizes, spec=None):
    mesh = auto(mesh_of(*sizes))
    spec = curta.P(*mesh.axis_names) if spec is None else spec
    return curta.device_put(x, curta.NamedSharding(mesh, spec))


def noted(seen, x, **options):
    def note(*values):
        seen.append([np.asarray(v, np.int32).tolist() for v in values])

    curta.debug.callback(note, x, **options)
    return x


PROGRAMS = {
    "argument": (lambda show, x: show(x), [[0, 1], [2, 3], [4, 5], [6, 7]]),
    "computed": (lambda show, x: show(2 * x), [[0, 2], [4, 6], [8, 10], [12, 14]]),
    "on all": (lambda show, x: show(x.sum()), [28, 28, 28, 28]),
    "in a call": (lambda show, x: curta.jit(show)(x), [[0, 1], [2, 3], [4, 5], [6, 7]]),
    "in a branch": (
        lambda show, x: lax.cond(x[0] < 1, show, lambda x: x, x),
        [[0, 1], [2, 3], [4, 5], [6, 7]],
    ),
    "in a loop": (
        lambda show, x: lax.fori_loop(0, 2, lambda _, x: show(x) + 1, x),
        [[0, 1], [2, 3], [4, 5], [6, 7], [1, 2], [3, 4], [5, 6], [7, 8]],
    ),
    "in a condition": (
        lambda show, x: lax.while_loop(lambda x: show(x)[0] > 0, lambda x: x, x),
        [[0, 1], [2, 3], [4, 5], [6, 7]],
    ),
    "under grad": (
        lambda show, x: curta.grad(lambda x: show(x).sum())(x),
        [[0, 1], [2, 3], [4, 5], [6, 7]],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_each_device_shows_its_part(name):
    program, expected = PROGRAMS[name]
    x = split(jnp.arange(8.0), 4)
    for partitioned in True, False:
        seen = []

        @curta.jit
        def f(x, seen=seen, partitioned=partitioned):
            return program(lambda y: noted(seen, y, partitioned=partitioned), x)

        for place in x, jnp.arange(8.0):  # on several devices, on one
            seen.clear()
            f(place)
            shown = [values[0] for values in seen]
            if partitioned and place is x:
                assert sorted(map(repr, shown)) == sorted(map(repr, expected))
            else:
                assert len(shown) == len(expected) // 4


def test_bodies_of_shard_map_show_parts_anyway():
    seen = []
    f = curta.shard_map(
        lambda x: noted(seen, x, partitioned=True),
        mesh=auto(mesh_of(4)), in_specs=curta.P("x"), out_specs=curta.P("x"),
    )  # fmt: skip
    curta.jit(f)(jnp.arange(4.0))
    assert sorted(seen) == [[[0]], [[1]], [[2]], [[3]]]


def test_parts_of_two_dims_and_of_several_arrays(capsys):
    x = split(np.arange(8).reshape(4, 2), 2, 2)

    @curta.jit
    def f(x, y):
        curta.debug.print("{} {y}", x, y=y, partitioned=True)

    f(x, np.arange(2))
    parts = ["[[0] [2]]", "[[1] [3]]", "[[4] [6]]", "[[5] [7]]"]
    lines = capsys.readouterr().out.replace("\n ", " ").splitlines()
    assert lines == [f"{part} [0 1]" for part in parts]
    f(split(np.arange(8).reshape(4, 2), 2, spec=curta.P("x")), np.arange(2))
    lines = capsys.readouterr().out.replace("\n ", " ").splitlines()
    assert lines == ["[[0 1] [2 3]] [0 1]", "[[4 5] [6 7]] [0 1]"]


def test_ordered_ones_are_refused():
    x = split(jnp.arange(8.0), 4)
    mesh = auto(mesh_of(4))
    for partitioned in False, True:
        options = {"ordered": True, "partitioned": partitioned}
        f = curta.jit(lambda x, o=options: noted([], x, **o))
        mapped = curta.shard_map(
            lambda x, o=options: noted([], x, **o),
            mesh=mesh, in_specs=curta.P("x"), out_specs=curta.P("x"),
        )  # fmt: skip
        for g in f, curta.jit(mapped), curta.jit(f).lower(x).compile():
            with pytest.raises(ValueError, match="ordered effects are not supported"):
                g(x)
        assert f(jnp.arange(3.0)).tolist() == [0, 1, 2]  # on one device


def test_ordered_io_callbacks_are_called_once():
    seen = []

    def note(x):
        seen.append(x.shape)
        return np.asarray(x)

    out = curta.jit(lambda x: io_callback(note, x, x, ordered=True))(
        split(jnp.arange(8.0), 4)
    )
    assert seen == [(8,)] and out.tolist() == [*range(8)]
