"""A program runs on one set of devices: what names them, and who names others."""

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P, ShapeDtypeStruct, lax
from curta.sharding import AxisType, Mesh, make_single_device_sharding

pytestmark = pytest.mark.filterwarnings("ignore:backend and device argument")
X = np.arange(8.0, dtype=np.float32)
OTHERS = "Received incompatible devices for jitted computation.*"


def device(i):
    return curta.devices()[i]


def on(i):
    return curta.device_put(X, device(i))


def split(kind=AxisType.Auto):
    mesh = curta.make_mesh((2, 2), ("x", "y"), (kind,) * 2)
    return curta.device_put(X, NamedSharding(mesh, P("x")))


def tripled(i):
    return curta.jit(lambda x: x * 3, device=device(i))


def jitted_for(i, *shardings):
    place = make_single_device_sharding(device(i))
    return curta.jit(lambda x: x * 2, **dict.fromkeys(shardings, place))


class TestDeviceOfJit:
    @pytest.mark.parametrize(
        "make",
        [lambda: X, lambda: jnp.asarray(X), lambda: on(0), split]
        + [lambda: split(AxisType.Explicit)],
        ids=["numpy", "array", "committed", "split", "explicit"],
    )
    def test_arguments_are_brought_there(self, make):
        out = tripled(1)(make())
        assert out.devices() == {device(1)}
        assert np.array_equal(out, 3 * X)
        outer = curta.jit(lambda x: tripled(1)(x) + 1, device=device(1))
        assert outer(make()).devices() == {device(1)}

    def test_it_holds_within_jit(self):
        outer = curta.jit(lambda x: tripled(1)(x) + 1)
        assert outer(X).devices() == {device(1)}
        assert outer(on(1)).devices() == {device(1)}
        assert curta.vmap(tripled(1))(on(0)).devices() == {device(1)}
        grad = curta.grad(lambda x: tripled(1)(x).sum())
        assert grad(on(0)).devices() == {device(1)}

    def test_others_are_refused(self):
        outer = curta.jit(lambda x: tripled(1)(x) + 1)
        with pytest.raises(ValueError, match=OTHERS + r"argument x of.*ids \[0\]"):
            outer(on(0))
        with pytest.raises(ValueError, match=OTHERS + r"jit inside jit .*ids \[1\]"):
            outer(split())
        with pytest.raises(ValueError, match=OTHERS + r"ids \[2\].*jit inside.*\[1\]"):
            curta.jit(lambda x: tripled(1)(x) + 1, device=device(2))(X)
        with pytest.raises(ValueError, match=OTHERS + r"jit inside.*jit inside jit"):
            curta.jit(lambda x: tripled(2)(tripled(1)(x)))(X)
        with pytest.raises(ValueError, match=OTHERS):
            curta.jit(lambda x: lax.cond(x[0] > 0, tripled(1), tripled(2), x))(X)


class TestNamedByShardings:
    @pytest.mark.parametrize("what", ["in_shardings", "out_shardings"])
    def test_of_nested_functions(self, what):
        outer = curta.jit(lambda x: jitted_for(1, what)(x))
        assert outer(X).devices() == outer(on(1)).devices() == {device(1)}
        with pytest.raises(ValueError, match=OTHERS + "jit inside jit with device ids"):
            outer(on(0))

    def test_of_constraints(self):
        place = make_single_device_sharding(device(1))
        f = curta.jit(lambda x: lax.with_sharding_constraint(x, place))
        assert f(X).devices() == {device(1)}
        with pytest.raises(ValueError, match=OTHERS + "sharding_constraint inside jit"):
            f(on(0))

    def test_of_results(self):
        f = jitted_for(1, "out_shardings")
        assert f(X).devices() == {device(1)}
        with pytest.raises(ValueError, match=OTHERS + "explicit output sharding"):
            f(on(0))


class TestDeviceAssignment:
    def lowered(self):
        mesh = curta.make_mesh((2,), ("x",), (AxisType.Auto,)).abstract_mesh
        struct = ShapeDtypeStruct(
            X.shape, X.dtype, sharding=NamedSharding(mesh, P("x"))
        )
        return curta.jit(lambda x: x * 2).lower(struct)

    def test_of_an_abstract_mesh(self):
        devices = curta.devices()[2:4]
        compiled = self.lowered().compile(device_assignment=devices)
        place = NamedSharding(Mesh(np.array(devices), ("x",)), P("x"))
        out = compiled(curta.device_put(X, place))
        assert out.sharding == compiled.output_shardings == place
        assert np.array_equal(out, 2 * X)

    def test_of_another_size(self):
        with pytest.raises(ValueError, match="size of abstract mesh 2 in .*: 1"):
            self.lowered().compile(device_assignment=curta.devices()[:1])

    def test_others_than_the_arguments_have(self):
        lowered = curta.jit(lambda x: x * 2).lower(on(1))
        lowered.compile(device_assignment=[device(1)])
        for one in (lowered, curta.jit(lambda x: x * 2).lower(X)):
            with pytest.raises(ValueError, match=r"must match the device_assignment"):
                one.compile(device_assignment=[device(2)])


def test_dims_that_do_not_divide():
    sharding = split().sharding
    with pytest.raises(ValueError, match="implies that array axis 0 is") as found:
        sharding.shard_shape((3,))
    assert type(found.value).__name__ == "IndivisibleError"
