"""Backward rules that log values, add to accumulators, or rematerialize."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.config import custom_vjp3
from curta.experimental import hijax
from curta.lax import cond, scan


@curta.custom_vjp
def product(x, y):
    return x * y


product.defvjp_with_logs(
    lambda x, y: (x * y, (x, y)),
    lambda r, g: ((g * r[1], g * r[0]), {"ct": g, "of": {"x": r[0]}}),
)


def with_rule(bwd, how="defvjp_with_logs", **options):
    @curta.custom_vjp
    def f(x, y):
        return x * y

    getattr(f, how)(lambda x, y: (x * y, (x, y)), bwd, **options)
    return f


class TestLogs:
    def test_they_are_given_on_demand(self):
        for f in product, curta.jit(product), curta.checkpoint(product):
            out, pull = curta.vjp(f, 2.0, 3.0)
            assert out == 6.0 and pull(1.0) == (3.0, 2.0)
            assert pull.with_logs(1.0) == ((3.0, 2.0), {"ct": 1.0, "of": {"x": 2.0}})
        assert curta.vjp(jnp.sin, 0.0)[1].with_logs(1.0) == ((1.0,), {})

    def test_in_a_compiled_function(self):
        def f(x):
            return curta.vjp(product, x, 3.0)[1].with_logs(2.0)

        cts, logs = curta.jit(f)(2.0)
        assert cts == (6.0, 4.0) and logs == {"ct": 2.0, "of": {"x": 2.0}}
        pull = curta.jit(lambda x: curta.vjp(product, x, 3.0)[1].with_logs)(2.0)
        assert pull(1.0)[1]["ct"] == 1.0  # the wish is part of the pytree

    def test_of_a_mapped_function(self):
        _, pull = curta.vjp(
            lambda x: curta.vmap(product, (0, None))(x, 2.0), jnp.arange(3.0)
        )
        (ct,), logs = pull.with_logs(jnp.ones(3))
        assert ct.tolist() == [2.0, 2.0, 2.0] and logs["ct"].tolist() == [1.0] * 3
        assert logs["of"]["x"].tolist() == [0.0, 1.0, 2.0]

    def test_with_references(self):
        total = curta.new_ref(1.0)
        pull = curta.vjp(product, 2.0, 3.0)[1].with_logs
        cts, logs = pull.with_refs(total, curta.ad.DontWant())(1.0)
        assert total[...] == 4.0 and logs["ct"] == 1.0
        assert cts == (curta.ad.GradRef(), curta.ad.DidntWant())

    def test_names_are_unique(self):
        _, pull = curta.vjp(lambda x: product(x, product(x, 2.0)), 2.0)
        for call in pull, pull.with_logs:
            with pytest.raises(
                ValueError, match="Duplicate backward-pass log key 'ct'"
            ):
                call(1.0)

    @pytest.mark.parametrize(
        "f",
        [
            lambda x: scan(lambda c, _: (product(c, 2.0), None), x, None, length=2)[0],
            lambda x: cond(x > 0, lambda x: product(x, 4.0), lambda x: 4 * x, x),
        ],
    )
    def test_they_do_not_leave_loops_and_branches(self, f):
        _, pull = curta.vjp(f, 1.0)
        assert pull(1.0) == (4.0,)
        with pytest.raises(NotImplementedError, match="logs cannot leave it"):
            pull.with_logs(1.0)

    def test_of_primitives_of_a_program(self):
        class Twice(hijax.HiPrim):
            def __init__(self, aval):
                self.in_avals, self.out_aval, self.params = (aval,), aval, {}
                super().__init__()

            def expand(self, x):
                return 2 * x

            def vjp_fwd(self, nzs_in, x):
                return self(x), x

            def vjp_bwd(self, x, ct, accum):
                accum.accum(2 * ct)
                return {"x": x}

        _, pull = curta.vjp(Twice(curta.typeof(1.0)), 3.0)
        assert pull.with_logs(1.0) == ((2.0,), {"x": 3.0}) and pull(1.0) == (2.0,)

    @pytest.mark.parametrize("given", [lambda r, g: (g, g), lambda r, g: ((g, g), 3)])
    def test_other_results(self, given):
        with pytest.raises(TypeError, match="must be None or a dict"):
            curta.grad(with_rule(given))(2.0, 3.0)
        with pytest.raises(TypeError, match="must return a pair"):
            curta.grad(with_rule(lambda r, g: g))(2.0, 3.0)


class TestAccumulators:
    def test_rules_add_to_them(self):
        kinds = []

        def bwd(r, g, x, y):
            kinds.append((type(x).__name__, type(y).__name__))
            x.accum(g * r[1])
            x.accum(g)
            y.accum(g * r[0])

        f = with_rule(bwd, "defvjp_with_accums")
        assert curta.grad(f, (0, 1))(2.0, 3.0) == (4.0, 2.0)
        assert curta.grad(f)(2.0, 3.0) == 4.0
        assert kinds == [("ValAccum", "ValAccum"), ("ValAccum", "NullAccum")]
        mapped = curta.vmap(curta.grad(f), (0, None))(jnp.arange(2.0), 3.0)
        assert mapped.tolist() == [4.0, 4.0]

    def test_they_may_log(self):
        f = with_rule(lambda r, g, x, y: {"ct": g}, "defvjp_with_accums")
        assert curta.vjp(f, 2.0, 3.0)[1].with_logs(1.0) == ((0.0, 0.0), {"ct": 1.0})
        f = with_rule(lambda r, g, x, y: 3, "defvjp_with_accums")
        with pytest.raises(TypeError, match="must return None or a dict"):
            curta.grad(f)(2.0, 3.0)


class TestRematerialization:
    @staticmethod
    def made(how="defremat", log=None):
        @curta.custom_vjp
        def f(x):
            return jnp.sin(x)

        bwd = (lambda c, g: (c * g,)) if log is None else (lambda c, g: ((c * g,), log))
        rules = lambda x: (jnp.sin(x), None), lambda _, x: (jnp.sin(x), jnp.cos(x)), bwd
        getattr(f, how)(*rules)
        return f

    def test_it_needs_a_setting(self):
        with pytest.raises(NotImplementedError, match="jax_custom_vjp3"):
            self.made()(1.0)
        with custom_vjp3(True):
            f = self.made()
            for g in f, curta.checkpoint(f):
                assert f(1.0) == jnp.sin(1.0) and curta.grad(g)(1.0) == jnp.cos(1.0)
            f = self.made("defremat_with_logs", {"n": 3})
            assert curta.vjp(f, 0.0)[1].with_logs(1.0) == ((1.0,), {"n": 3})


class TestCustomGradient:
    def test_logs(self):
        @curta.custom_gradient(with_logs=True)
        def f(x):
            return x**2, lambda g: (g * x, {"ct": g})

        assert curta.vjp(f, 3.0)[1].with_logs(2.0) == ((6.0,), {"ct": 2.0})
        for rule, message in (
            (lambda g: g, "pair"),
            (lambda g: (g, 3), "None or a dict"),
        ):
            f = curta.custom_gradient(lambda x, rule=rule: (x, rule), with_logs=True)
            with pytest.raises(TypeError, match=message):
                curta.grad(f)(1.0)

    def test_accumulators(self):
        @curta.custom_gradient(with_accums=hijax.ValAccum)
        def f(x, n):
            return x * n, lambda g, x, n: x.accum(g * 10)

        assert curta.grad(f)(3.0, 2) == 10.0 and f(3.0, 2) == 6.0
        for kind, error in (hijax.RefAccum, NotImplementedError), (3, TypeError):
            f = curta.custom_gradient(lambda x: (x, print), with_accums=kind)
            with pytest.raises(error, match="ValAccum"):
                curta.grad(f)(1.0)
        with pytest.raises(NotImplementedError, match="together with remat"):
            curta.custom_gradient(remat=True, with_accums=hijax.ValAccum)


class TestGenericBatching:
    X = np.arange(3.0, dtype=np.float32)

    @staticmethod
    def f(generic):
        @curta.custom_vjp
        def f(x, y):
            return x * y, y

        f.defvjp(
            lambda x, y: (f(x, y), (x, y)),
            lambda r, g: (g[0] * r[1], g[0] * r[0] + g[1]),
            generic_batching=generic,
        )
        return f

    def test_shared_results_have_no_batch(self):
        f = curta.vmap(self.f(True), (0, None), (0, None))
        many, one = f(self.X, 2.0)
        assert many.tolist() == [0.0, 2.0, 4.0] and one == 2.0
        got = curta.grad(lambda x, y: f(x, y)[0].sum() + f(x, y)[1], (0, 1))(
            self.X, 2.0
        )
        assert got[0].tolist() == [2.0] * 3 and got[1] == 4.0
        with pytest.raises(ValueError, match="out_axes"):
            curta.vmap(self.f(False), (0, None), (0, None))(self.X, 2.0)

    @pytest.mark.parametrize("generic", [False, True])
    def test_results_with_a_batch(self, generic):
        f = curta.vmap(self.f(generic), (0, None))
        got = curta.grad(lambda x, y: sum(a.sum() for a in f(x, y)), (0, 1))(
            self.X, 2.0
        )
        assert got[0].tolist() == [2.0] * 3 and got[1] == 6.0
