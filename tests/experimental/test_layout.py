"""Layouts and formats: how arrays are stored."""

import ctypes
import itertools
import pickle

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import export
from curta.experimental.layout import Format, Layout, with_layout_constraint
from curta.experimental.serialize_executable import deserialize_and_load, serialize
from curta.runtime.native_executable import NativeExecutable
from curta.sharding import Mesh, NamedSharding, PartitionSpec as P, SingleDeviceSharding

HERE = SingleDeviceSharding(curta.devices()[0])


def test_values():
    assert Layout([1, 0]) == Layout((1, 0)) != Layout((0, 1))
    assert hash(Format(Layout((0,)), HERE)) == hash(Format(Layout((0,)), HERE))
    assert Layout((1, 0)).update(tiling=[[8, 128]]).tiling == ((8, 128),)
    assert repr(Format(Layout.AUTO)) == "Format(layout=AUTO, sharding=None)"


@pytest.mark.parametrize(
    ("args", "error", "words"),
    [
        ((Layout((0,)),), ValueError, "Sharding has to be concrete when layout is"),
        ((3,), TypeError, "Invalid value received for the layout argument"),
        ((None, 3), TypeError, "Invalid value received for the sharding argument"),
    ],
)
def test_mistakes(args, error, words):
    with pytest.raises(error, match=words):
        Format(*args)


def order(x):
    return x.format.layout.major_to_minor


X = np.arange(6, dtype=np.float32).reshape(2, 3)
COLUMNS = Format(Layout((1, 0)), HERE)
AUTO = Format(Layout.AUTO)


def test_arrays_are_stored_as_is_said():
    put = curta.device_put(X, COLUMNS)
    assert put.committed
    assert put.format == Format(Layout((1, 0), ()), HERE)
    stored = (ctypes.c_float * 6).from_address(put.unsafe_buffer_pointer())
    assert [*stored] == [0, 3, 1, 4, 2, 5]
    np.testing.assert_array_equal(put, X)
    np.testing.assert_array_equal(put[:, 1], X[:, 1])
    np.testing.assert_array_equal(np.from_dlpack(put), X)
    assert put.tobytes() == X.tobytes()
    assert repr(put) == repr(jnp.array(X))


def test_layouts_that_stay_and_those_that_do_not():
    put = curta.device_put(X, COLUMNS)
    assert order(curta.device_put(put, HERE)) == (1, 0)
    assert order(curta.device_put(put, curta.devices()[0])) == (1, 0)
    for made in (
        curta.device_put(put, Format(None, HERE)),
        put.copy(),
        put + 1,
        jnp.array(put),
        pickle.loads(pickle.dumps(put)),
        curta.jit(jnp.negative)(put),
    ):
        assert order(made) == (0, 1)
    put.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        put.block_until_ready()


def test_shards_are_stored_as_the_whole():
    rows = NamedSharding(Mesh(curta.devices()[:2], "x"), P(None, "x"))
    x = curta.device_put(np.ones((3, 4), np.float32), Format(Layout((1, 0)), rows))
    assert [order(s.data) for s in x.addressable_shards] == [(1, 0)] * 2
    assert x.sharding == rows


ORDERS = [*itertools.permutations(range(3))]


@pytest.mark.parametrize("before", ORDERS)
def test_programs_take_and_give_layouts(before):
    """Whatever the orders, the numbers are the same, and stored as is said."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(2, 3, 4)).astype(np.float32)

    def f(x, y):
        return {"a": x * 2 + y, "sum": x.sum(1), "t": jnp.transpose(x, (2, 0, 1))}

    want = curta.jit(f)(x, x)
    given = Format(Layout(before), HERE)
    for after in ORDERS:
        out = Format(Layout(after), HERE)
        outs = {"a": out, "sum": None, "t": out}
        g = curta.jit(f, in_shardings=(given, None), out_shardings=outs)
        for array in (x, jnp.array(x), curta.device_put(x, given)):
            got = g(array, x)
            curta.tree.map(np.testing.assert_array_equal, got, want)
            assert [order(got[k]) for k in ("a", "sum", "t")] == [after, (0, 1), after]


def test_chosen_layouts_are_those_of_the_computation():
    """A transpose with a layout chosen by the compiler needs no copy."""
    cube = jnp.ones((2, 3, 4))
    for f, wanted in (
        (lambda x: x.T, (2, 1, 0)),
        (lambda x: jnp.sin(x.T) * 2, (2, 1, 0)),
        (lambda x: x.T.sum(0), (1, 0)),
        (lambda x: x.T.reshape(4, 6), (0, 1)),
        (lambda x: x.T[:, :, None], (3, 1, 2, 0)),
        (lambda x: curta.jit(jnp.transpose)(x), (2, 1, 0)),
        (lambda x: x.T @ x[:, 0, :3], (0, 1, 2)),
        (lambda x: x + 1, (0, 1, 2)),
        (lambda x: jnp.ones(3), (0,)),
    ):
        compiled = curta.jit(f, out_shardings=AUTO).lower(cube).compile()
        got = compiled.output_formats.layout.major_to_minor
        moved = [d for d in got if compiled.out_info.shape[d] != 1]
        assert moved == [d for d in wanted if compiled.out_info.shape[d] != 1]
        result = compiled(cube)
        assert result.format == compiled.output_formats
        np.testing.assert_array_equal(result, curta.jit(f)(cube))


def test_what_was_chosen_is_taken():
    grid = np.array(curta.devices()[:4]).reshape(2, 2)
    mesh = Mesh(grid, ("x", "y"))
    place = NamedSharding(mesh, P("x", "y"))
    x = curta.device_put(np.arange(64).reshape(8, 8), place)
    f = curta.jit(jnp.transpose, in_shardings=AUTO, out_shardings=AUTO)
    compiled = f.lower(x).compile()
    ((taken,), _), given = compiled.input_formats, compiled.output_formats
    assert taken.sharding == place
    assert taken.layout.major_to_minor == given.layout.major_to_minor[::-1]
    assert compiled(x).format == given
    init = curta.jit(lambda x: x * 2, out_shardings=taken)
    assert compiled(init(x)).format == given


def test_layouts_that_do_not_match():
    placed = curta.device_put(X, HERE)
    put = curta.device_put(X, COLUMNS)
    told = curta.jit(jnp.negative, in_shardings=COLUMNS)
    for call in (told, told.lower):
        with pytest.raises(ValueError, match="does not match the layout on the respec"):
            call(placed)
    with pytest.raises(ValueError, match="does not match.*AUTO"):
        curta.jit(jnp.negative, in_shardings=AUTO)(put)
    compiled = curta.jit(jnp.negative).lower(placed).compile()
    with pytest.raises(ValueError, match="input layouts that disagree"):
        compiled(put)
    np.testing.assert_array_equal(compiled(jnp.array(X)), -X)
    compiled = curta.jit(jnp.negative).lower(put).compile()
    assert compiled.input_formats[0][0] == put.format
    np.testing.assert_array_equal(compiled(put), -X)
    np.testing.assert_array_equal(compiled(X), -X)


def test_donation():
    for out in (COLUMNS, None):
        put = curta.device_put(X, COLUMNS)
        f = curta.jit(
            lambda x: x * 2, in_shardings=COLUMNS, out_shardings=out, donate_argnums=0
        )
        address = put.unsafe_buffer_pointer()
        result = f(put)
        np.testing.assert_array_equal(result, X * 2)
        assert put.is_deleted()
        assert (result.unsafe_buffer_pointer() == address) == (out is COLUMNS)
    for given in ({"in_shardings": AUTO}, {"out_shardings": AUTO}):
        with pytest.raises(
            ValueError, match=r"Did you mean to set the \*\*(in|out)put"
        ):
            curta.jit(jnp.negative, donate_argnums=0, **given)(jnp.array(X))
    both = {"in_shardings": AUTO, "out_shardings": AUTO, "donate_argnums": 0}
    np.testing.assert_array_equal(curta.jit(jnp.negative, **both)(jnp.array(X)), -X)


def test_donation_that_is_taken_back(monkeypatch):
    if curta.default_backend() != "cpu":
        pytest.skip("it makes native code fail, which runs on this CPU alone")
    put = curta.device_put(X, COLUMNS)
    f = curta.jit(
        lambda x: x * 2, in_shardings=COLUMNS, out_shardings=COLUMNS, donate_argnums=0
    )

    def fails(*args):
        raise MemoryError

    monkeypatch.setattr(NativeExecutable, "start", fails)
    with pytest.raises(MemoryError):
        f(put)
    monkeypatch.undo()
    assert order(put) == (1, 0)
    np.testing.assert_array_equal(f(put), X * 2)


def test_descriptions_say_the_layout():
    described = curta.ShapeDtypeStruct((2, 3), "float32", sharding=COLUMNS)
    assert described.sharding == HERE
    assert described.format == COLUMNS
    assert described.update(dtype="int32").format == COLUMNS
    assert described != curta.ShapeDtypeStruct((2, 3), "float32", sharding=HERE)
    assert f", format={COLUMNS.layout})" in repr(described)
    assert curta.ShapeDtypeStruct((2,), "int32").format == Format()
    compiled = curta.jit(jnp.negative).lower(described).compile()
    assert compiled.input_formats[0][0].layout == Layout((1, 0), ())
    f = curta.jit(jnp.transpose, out_shardings=COLUMNS)
    assert curta.eval_shape(f, X).format == COLUMNS
    assert f.lower(X).out_info.format == COLUMNS


def test_constraints():
    def f(x):
        return with_layout_constraint(x.T * 2, Layout((0, 1)))

    assert order(curta.jit(f)(X)) == (0, 1)
    assert order(curta.jit(f, out_shardings=AUTO)(X)) == (0, 1)
    assert order(with_layout_constraint(jnp.array(X), Layout((1, 0)))) == (1, 0)
    tree = with_layout_constraint({"a": X}, {"a": Layout((1, 0))})
    assert order(tree["a"]) == (1, 0)

    def columns(x):
        return with_layout_constraint(x, Layout((1, 0)))

    cube = jnp.ones((2, 3, 4))
    assert order(curta.jit(columns)(X)) == (1, 0)
    assert order(curta.jit(curta.vmap(columns))(cube)) == (0, 2, 1)
    assert order(curta.jit(curta.vmap(columns, 2))(cube)) == (0, 2, 1)
    text = str(curta.make_jaxpr(curta.grad(lambda x: columns(x).sum()))(X))
    assert text.count("layout_constraint[") == 2

    def placed(x):
        return curta.lax.with_sharding_constraint(x.T * 2, COLUMNS)

    assert order(curta.jit(placed)(X)) == (1, 0)
    assert "layout=Layout(major_to_minor=(1, 0)" in str(curta.make_jaxpr(placed)(X))
    np.testing.assert_array_equal(curta.jit(placed)(X), X.T * 2)


def test_compiled_functions_are_stored_with_layouts():
    f = curta.jit(jnp.transpose, in_shardings=COLUMNS, out_shardings=AUTO)
    again = deserialize_and_load(*serialize(f.lower(X).compile()))
    here = SingleDeviceSharding(curta.devices()[0])  # as many as there are by now
    assert again.input_formats[0][0] == Format(Layout((1, 0), ()), here)
    assert order(again(X)) == again.output_formats.layout.major_to_minor == (0, 1)
    exported = export.export(
        curta.jit(lambda x: with_layout_constraint(x, Layout([0])))
    )
    data = exported(jnp.ones(2)).serialize()
    np.testing.assert_array_equal(export.deserialize(data).call(jnp.ones(2)), [1, 1])


def test_special_values_are_looked_for():
    f = curta.jit(jnp.log, in_shardings=COLUMNS, out_shardings=COLUMNS)
    with curta.debug_nans(True), pytest.raises(FloatingPointError, match="log"):
        f(-X - 1)


def test_formats_of_compiled_functions():
    compiled = curta.jit(lambda x, y: x.sum()).lower(jnp.ones((2, 3)), y=1).compile()
    ((matrix,), others) = compiled.input_formats
    assert matrix.layout == Layout((0, 1), ())
    assert others["y"].layout == compiled.output_formats.layout == Layout((), ())


def test_constraint_of_another_rank():
    with pytest.raises(ValueError, match="Length of major_to_minor and the rank"):
        curta.jit(lambda x: with_layout_constraint(x, Layout((0, 1))))(jnp.ones(2))


def test_a_deleted_array_has_no_layout():
    x = curta.device_put(jnp.ones((4, 3)), Format(Layout((1, 0)), HERE))
    x.delete()
    assert x.format.layout is None and x.format.sharding == HERE
