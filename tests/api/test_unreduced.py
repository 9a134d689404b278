"""Arrays that are sums not yet taken, and those whose cotangents are."""

import pickle

import numpy as np
import pytest
from tests.api.eight_devices import eight_devices  # noqa: F401

import curta
import curta.numpy as jnp
from curta import P, grad, jit, lax, shard_map, vmap
from curta.errors import ShardingTypeError
from curta.sharding import AxisType

X = np.arange(8.0, dtype=np.float32)
SUM, SAME = P(unreduced={"x"}), P(reduced={"x"})


@pytest.fixture(params=[(2,), (2, 2), (1,)], ids=str)
def mesh(request):
    found = curta.make_mesh(request.param, ("x", "y")[: len(request.param)])
    with curta.set_mesh(found):
        yield found


@pytest.fixture
def two():
    with curta.set_mesh(curta.make_mesh((2,), ("x",))) as found:
        yield found


def summed(x):
    return np.asarray(curta.reshard(x, P()))


class TestArrays:
    def test_terms(self, mesh):
        u = curta.device_put(X, SUM)
        assert str(curta.typeof(u)) == "float32[8]{U:x}"
        first, *rest = [np.asarray(s.data) for s in u.addressable_shards]
        np.testing.assert_array_equal(first, X)
        assert u.shape == X.shape and all(s.shape == X.shape for s in rest)
        np.testing.assert_array_equal(summed(u), X)
        assert "unreduced={'x'}" in repr(u) == str(u) == f"{u}"
        np.testing.assert_array_equal(curta.device_put(u, P("x")), X)

    OPS = {
        "add": (lambda u: u + u, 2 * X),
        "sub": (lambda u: u - 3 * u, -2 * X),
        "number": (lambda u: u * 2.0 / 4.0, X / 2),
        "sum": (lambda u: u.sum(), X.sum()),
        "reshape": (lambda u: u.reshape(2, 4).T, X.reshape(2, 4).T),
        "slice": (lambda u: u[2:5], X[2:5]),
        "gather": (lambda u: u[jnp.array([3, 1])], X[[3, 1]]),
        "concatenate": (lambda u: jnp.concatenate([u, u]), np.tile(X, 2)),
        "convert": (lambda u: u.astype("bfloat16"), X),
        "cumsum": (lambda u: jnp.cumsum(u), np.cumsum(X)),
        "rows": (lambda u: [*u][3], X[3]),
        "vmap": (lambda u: vmap(jnp.sum)(u.reshape(2, 4)), X.reshape(2, 4).sum(1)),
        "scan": (lambda u: lax.scan(lambda c, x: (c + x, None), u[0], u)[0], X.sum()),
        "cond": (lambda u: lax.cond(True, lambda: u, lambda: u + u), X),
        "split": (lambda u: jnp.split(u, 2)[1], X[4:]),
    }

    @pytest.mark.parametrize("name", OPS)
    def test_linear_ops_go_through(self, mesh, name):
        fun, expected = self.OPS[name]
        u = curta.device_put(X, SUM)
        for call in (fun, jit(fun)):
            out = call(u)
            assert out.sharding.spec.unreduced == {"x"}
            np.testing.assert_array_equal(summed(out), expected)

    def test_factors_are_reduced(self, mesh):
        u, r = curta.device_put(X, SUM), curta.device_put(X, SAME)
        assert str(curta.typeof(jnp.sin(r) * 2 + r)) == "float32[8]{R:x}"
        np.testing.assert_array_equal(np.asarray(r), X)
        for out in (u * r, r * u, jit(lambda a, b: a * b)(r, u)):
            assert out.sharding.spec.unreduced == {"x"}
            np.testing.assert_array_equal(summed(out), X * X)

    def test_many_elements_and_constants(self, mesh):
        big = curta.reshard(np.arange(1e5, dtype=np.float32), SUM)
        np.testing.assert_array_equal(summed(big + big), 2 * np.arange(1e5))
        np.testing.assert_array_equal(summed(jit(lambda: big + big)()), summed(2 * big))
        np.testing.assert_array_equal(
            summed(jit(lambda x: -x, donate_argnums=0)(big + big)), -summed(2 * big)
        )

    def test_other_axes(self):
        with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"))):
            u = curta.reshard(X, P("y", unreduced={"x"}))
            assert str(curta.typeof(u)) == "float32[8@y]{U:x}"
            both = curta.reshard(u, P(unreduced={"x", "y"}))
            assert both.addressable_shards[3].term == (1, 1)
            assert str(curta.typeof(both)) == "float32[8]{U:(x,y)}"
            other = curta.reshard(both, P("x", unreduced={"y"}))
            np.testing.assert_array_equal(summed(other + other), 2 * X)

    def test_derivatives(self, mesh):
        u, r = curta.device_put(X, SUM), curta.device_put(X, SAME)
        assert grad(jnp.sum)(u).sharding.spec.reduced == {"x"}
        for call in (grad, lambda f: jit(grad(f))):
            found = call(lambda r: (jnp.sin(r) * r).sum())(r)
            assert found.sharding.spec.unreduced == {"x"}
            expected = np.cos(X) * X + np.sin(X)
            np.testing.assert_allclose(summed(found), expected, rtol=1e-5, atol=1e-6)

    def test_refused(self, two):
        u, r = curta.device_put(X, SUM), curta.device_put(X, SAME)
        for call, error, message in [
            (lambda: np.asarray(u), NotImplementedError, "unreduced array"),
            (lambda: float(u.sum()), NotImplementedError, "unreduced array"),
            (lambda: pickle.dumps(u), NotImplementedError, "unreduced array"),
            (lambda: np.from_dlpack(u), NotImplementedError, "unreduced array"),
            (lambda: jnp.sin(u), NotImplementedError, "unreduced rule for sin"),
            (lambda: u.max(), NotImplementedError, "unreduced rule for reduce_max"),
            (lambda: u.at[0].set(1.0), NotImplementedError, "unreduced rule for"),
            (lambda: u == u, NotImplementedError, "unreduced rule for eq"),
            (lambda: u * u, ShardingTypeError, "mul is bilinear"),
            (lambda: u * X, ShardingTypeError, "RHS should be reduced"),
            (lambda: X * u, ShardingTypeError, "LHS should be reduced"),
            (lambda: u + 1.0, ShardingTypeError, "lhs is unreduced while rhs is not"),
            (lambda: r + X, ShardingTypeError, "Inputs cannot be replicated"),
            (
                lambda: r + curta.reshard(X, P("x")),
                ShardingTypeError,
                "Inputs cannot be sharded/varying",
            ),
            (lambda: jnp.dot(u, r), ShardingTypeError, "cannot be unreduced"),
            (
                lambda: u.sharding.devices_indices_map((8,)),
                NotImplementedError,
                "device_indices_map",
            ),
            (
                lambda: curta.device_put(u, curta.devices()[0]),
                NotImplementedError,
                "unreduced array",
            ),
            (
                lambda: jit(lambda x: x, out_shardings=SUM)(X),
                NotImplementedError,
                "out_shardings of jit",
            ),
            (
                lambda: jit(lambda x: x, in_shardings=SUM)(X),
                NotImplementedError,
                "in_shardings of jit",
            ),
            (
                lambda: jit(lambda x: x, in_shardings=SUM)(jnp.array(X)),
                ValueError,
                "Sharding passed to jit does not match",
            ),
        ]:
            with pytest.raises(error, match=message):
                call()


def summing(x):
    return curta.reshard(x, P())


class TestTerms:
    """Sums left to be taken: each device has that over what it holds."""

    A, B = X.reshape(2, 4), X.reshape(4, 2)
    U = P(unreduced={"x"})

    @pytest.mark.parametrize(
        "fun",
        [
            lambda a, b, place: jnp.dot(a, b, out_sharding=place),
            lambda a, b, place: jnp.matmul(a, b, out_sharding=place),
            lambda a, b, place: jnp.matmul(a[None], b, out_sharding=place)[0],
            lambda a, b, place: jnp.tensordot(a, b, 1, out_sharding=place),
            lambda a, b, place: jnp.einsum("ij,jk", a, b, out_sharding=place),
            lambda a, b, place: lax.dot(a, b, out_sharding=place),
        ],
    )
    def test_products(self, two, fun):
        a = curta.device_put(self.A, P(None, "x"))
        b = curta.device_put(self.B, P("x"))
        for call in (fun, jit(fun, static_argnums=2)):
            out = call(a, b, self.U)
            assert str(curta.typeof(out)) == "float32[2,2]{U:x}"
            halves = [self.A[:, :2] @ self.B[:2], self.A[:, 2:] @ self.B[2:]]
            for shard, half in zip(out.addressable_shards, halves, strict=True):
                np.testing.assert_array_equal(shard.data, half)
        loss = lambda f: grad(lambda a, b: (f(a, b) * self.A[:, :2]).sum(), (0, 1))  # noqa: E731
        found = loss(lambda a, b: summing(fun(a, b, self.U)))(a, b)
        assert [x.sharding.spec for x in found] == [P(None, "x"), P("x", None)]
        for x, y in zip(found, loss(jnp.dot)(self.A, self.B), strict=True):
            np.testing.assert_array_equal(x, y)

    def test_sums_and_counts(self, two):
        x = curta.device_put(X, P("x"))
        out = lax.reduce_sum(x, (0,), out_sharding=self.U)
        assert [float(s.data) for s in out.addressable_shards] == [6, 22]
        ones = curta.device_put(np.ones(8, np.int32), P("x"))
        counts = jit(lambda x: jnp.bincount(x, length=2, out_sharding=self.U))(ones)
        for shard in counts.addressable_shards:
            np.testing.assert_array_equal(shard.data, [0, 4])
        found = jnp.bincount(ones, weights=x, length=2, out_sharding=self.U)
        np.testing.assert_array_equal(summed(found), [0, 28])
        np.testing.assert_array_equal(
            jnp.bincount(ones, length=2, out_sharding=P()), [0, 8]
        )
        with pytest.raises(ShardingTypeError, match="fully replicated or fully unred"):
            jnp.bincount(ones, length=2, out_sharding=P("x"))

    def test_sums_of_what_is_not_summed(self):
        with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"))):
            m = curta.reshard(self.A, P("x", unreduced={"y"}))
            for axes in (), ("x",), ("x", "y"):
                place = P(unreduced={*axes}) if axes else None
                out = lax.reduce_sum(m, (0,), out_sharding=place)
                assert out.sharding.spec.unreduced == {*(axes or ("y",))}
                np.testing.assert_array_equal(summed(out), self.A.sum(0))

    def test_selection(self, two):
        r = curta.device_put(X, SAME)
        cotangents = grad(lambda p, x, y: lax.select(p, x, y).sum(), (1, 2))
        for call in (cotangents, jit(cotangents)):
            for found, expected in zip(call(r > 3, r, r), (X > 3, X <= 3), strict=True):
                assert found.sharding.spec.unreduced == {"x"}
                np.testing.assert_array_equal(summed(found), expected)

    def test_three_operands_and_other_axes(self):
        with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"))):
            v = curta.device_put(X[:2], P("x"))
            m = curta.device_put(self.A, P("x", "y"))
            out = jnp.einsum("d,dh,d->h", v, m, v, out_sharding=P("y", unreduced={"x"}))
            assert str(curta.typeof(out)) == "float32[4@y]{U:x}"
            expected = np.einsum("d,dh,d->h", X[:2], self.A, X[:2])
            np.testing.assert_array_equal(curta.reshard(out, P("y")), expected)

    @pytest.mark.parametrize(
        ("specs", "axis", "message"),
        [
            ((P("x", "y"), P("y")), "x", "should be equal to the contracting specs"),
            ((P("x", "y"), P()), "y", "dims should be sharded identically"),
            ((P("x"), P()), "y", "should be equal to the contracting specs"),
        ],
    )
    def test_refused(self, specs, axis, message):
        with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"))):
            a, b = map(curta.device_put, (self.A, self.B), specs)
            with pytest.raises(ShardingTypeError, match=message):
                jnp.dot(a, b, out_sharding=P(unreduced={axis}))
            with pytest.raises(ShardingTypeError, match="specs that were summed"):
                lax.reduce_sum(b, (1,), out_sharding=P(unreduced={axis}))


def with_terms(x):
    return curta.reshard(x, SUM)


class TestLoops:
    """Sums that are taken, and made, in the bodies of loops and in branches."""

    @pytest.mark.parametrize("call", [lambda f: f, jit])
    def test_carries_and_steps(self, mesh, call):
        def step(c, x):
            total = summing(c) + summing(x)
            return with_terms(total), (total, 2 * x)

        xs = np.arange(24, dtype=np.float32).reshape(3, 8)
        end, (totals, twice) = call(lambda c, xs: lax.scan(step, c, xs))(
            with_terms(X), with_terms(xs)
        )
        np.testing.assert_array_equal(totals, X + np.cumsum(xs, 0))
        np.testing.assert_array_equal(summed(end), totals[-1])
        assert twice.sharding.spec.unreduced == {"x"}
        np.testing.assert_array_equal(summed(twice), 2 * xs)

    def test_branches_and_while_loops(self, mesh):
        def either(p, u):
            return lax.cond(p, lambda: summing(u), lambda: summing(u + u))

        u = with_terms(X)
        for p in (True, False):
            np.testing.assert_array_equal(jit(either)(p, u), X * (2 - p))

        def body(carry):
            i, u = carry
            return i + 1, with_terms(summing(u) + i)

        count, out = jit(lambda u: lax.while_loop(lambda c: c[0] < 3, body, (0, u)))(u)
        assert count == 3
        np.testing.assert_array_equal(summed(out), X + 3)

    def test_derivatives_of_what_is_reduced(self, mesh):
        r = curta.device_put(X, SAME)

        def loss(r):
            step = lambda c, _: (c + summing(jnp.sin(r)).sum(), None)  # noqa: E731
            return lax.scan(step, jnp.float32(0), None, length=3)[0]

        for found in (grad(loss)(r), jit(grad(loss))(r)):
            assert found.sharding.spec.unreduced == {"x"}
            np.testing.assert_allclose(summed(found), 3 * np.cos(X), rtol=1e-6)


class TestShardMap:
    def test_terms_of_a_product(self):
        with curta.set_mesh(curta.make_mesh((2, 2), ("x", "y"))):
            a = curta.device_put(X.reshape(2, 4), P("x", "y"))
            b = curta.device_put(X.reshape(4, 2), P("y", None))
            f = jit(shard_map(jnp.dot, out_specs=P("x", unreduced={"y"})))
            out = f(a, b)
            assert str(curta.typeof(out)) == "float32[2@x,2]{U:y}"
            shards = [np.asarray(s.data) for s in out.addressable_shards]
            np.testing.assert_array_equal(shards[1], [[26, 31]])
            expected = X.reshape(2, 4) @ X.reshape(4, 2)
            np.testing.assert_array_equal(curta.reshard(out, P("x")), expected)

            def loss(a, b):
                return jnp.sin(curta.reshard(f(a, b), P("x"))).sum()

            found = grad(loss, (0, 1))(a, b)
            plain = grad(lambda a, b: jnp.sin(a @ b).sum(), (0, 1))
            for x, y in zip(found, plain(X.reshape(2, 4), X.reshape(4, 2))):
                np.testing.assert_allclose(x, y, rtol=1e-4, atol=1e-4)

    def test_casts_and_collectives(self, two):
        a = curta.device_put(X, P("x"))
        u, r = curta.device_put(X, SUM), curta.device_put(X, SAME)
        halves = X[:4] + X[4:]
        cases = [
            (lambda x: lax.pcast(x, "x", to="unreduced"), a, SUM, halves),
            (lambda x: lax.pcast(x, "x", to="varying"), r, P("x"), np.tile(X, 2)),
            (lambda x: lax.psum(x, "x"), u, P(), X),
            (lambda x: lax.psum_scatter(x, "x", tiled=True), u, P("x"), X),
            (lambda x: lax.all_gather(x, "x", tiled=True, to="reduced"), a, SAME, X),
        ]
        for fun, x, out_spec, expected in cases:
            f = shard_map(fun, out_specs=out_spec)
            for call in (f, jit(f)):
                np.testing.assert_array_equal(summed(call(x)), expected)
                found = grad(lambda x, call=call: call(x).sum())(x)
                assert found.sharding.spec.unreduced == x.sharding.spec.reduced
                assert found.sharding.spec.reduced == x.sharding.spec.unreduced
        g = shard_map(
            lambda x: lax.pcast(x, "x", to="reduced"), in_specs=P(), out_specs=SAME
        )
        np.testing.assert_array_equal(grad(lambda x: g(x).sum())(X), np.ones(8))

    def test_types_within(self, two):
        def body(u, r, a):
            assert u.mat.unreduced == r.mat.reduced == {"x"}
            assert not u.mat.varying and a.mat.varying == {"x"}
            assert str(curta.typeof(u * r)) == "float32[8]{U:x}"
            assert (r[:4] * a).mat.varying == {"x"}
            return u * r, r

        specs = (SUM, SAME, P("x"))
        f = shard_map(body, in_specs=specs, out_specs=(SUM, SAME))
        text = str(curta.make_jaxpr(f)(*[curta.device_put(X, s) for s in specs]))
        assert "reduced_vary_cast_p" in text

    def test_dots_of_reduced_operands(self, two):
        r = curta.device_put(X, SAME)
        f = shard_map(jnp.dot, out_specs=P())
        found = grad(f)(r, r)
        assert found.sharding.spec.unreduced == {"x"}
        np.testing.assert_array_equal(summed(found), X)

    def test_without_checks_terms_are_what_devices_have(self, two):
        a = curta.device_put(X, P("x"))
        f = shard_map(lambda x: x, out_specs=SUM, check_vma=False)
        g = shard_map(lambda x: x, in_specs=SUM, out_specs=P("x"), check_vma=False)
        out = f(a)
        assert out.shape == (4,)
        np.testing.assert_array_equal(out.addressable_shards[1].data, X[4:])
        np.testing.assert_array_equal(jit(g)(out), X)
        assert grad(lambda u: g(u).sum())(out).sharding.spec.reduced == {"x"}

    def test_vmap(self, two):
        u = curta.device_put(X.reshape(2, 4), SUM)
        f = shard_map(lambda x: lax.psum(x, "x"), in_specs=SUM, out_specs=P())
        np.testing.assert_array_equal(vmap(f)(u), X.reshape(2, 4))

    def test_refused(self, two):
        a = curta.device_put(X, P("x"))
        u, r = curta.device_put(X, SUM), curta.device_put(X, SAME)
        auto = curta.make_mesh((2, 1), ("x", "y"), (AxisType.Auto,) * 2)

        def same(x):
            return x

        for fun, x, options, error, message in [
            (jnp.sin, u, {"out_specs": SUM}, NotImplementedError, "unreduced rule"),
            (same, u, {"out_specs": P()}, ValueError, "equal to the unreduced present"),
            (same, r, {"out_specs": P()}, ValueError, "equal to the reduced present"),
            (
                same,
                r,
                {"in_specs": P(), "out_specs": P()},
                ValueError,
                "in_specs passed to shard_map should be equal to the reduced",
            ),
            (
                same,
                X,
                {"in_specs": P(), "out_specs": SUM},
                ValueError,
                "vary_unreduced_cast is a Varying->Unreduced collective",
            ),
            (
                lambda x: lax.psum(x, "x"),
                r,
                {"out_specs": P()},
                ValueError,
                "cannot accept args which are reduced",
            ),
            (
                lambda x: lax.pcast(x, "x", to="reduced"),
                a,
                {"out_specs": SAME},
                ValueError,
                "Unsupported pcast from=varying",
            ),
        ]:
            with pytest.raises(error, match=message):
                shard_map(fun, **options)(x)
        with curta.set_mesh(auto):
            for names, error, message in [
                (set(), ValueError, "all of type `Explicit`"),
                ({"x"}, NotImplementedError, "full manual mode"),
            ]:
                with pytest.raises(error, match=f"unreduced.*{message}"):
                    shard_map(same, in_specs=SUM, out_specs=P(), axis_names=names)(X)
