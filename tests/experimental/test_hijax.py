"""Primitives and types of a program's own, under every transformation."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import export, lax
from curta._settings.api_version import jax_api_version
from curta.core.effects import Effect
from curta.experimental import checkify, hijax, jet
from curta.experimental.hijax import earlier
from curta.transforms.vmap import BatchAxis

# ---- a type: several values in one


@dataclass
class Row:
    """Values of any types."""

    parts: tuple


@dataclass(frozen=True)
class RowSpec(hijax.MappingSpec):
    dims: tuple


@dataclass(frozen=True)
class RowType(hijax.HiType):
    of: tuple

    def lo_ty(self):
        return [low for ty in self.of for low in ty.lo_ty()]

    def lower_val(self, row):
        pairs = zip(self.of, row.parts, strict=True)
        return [low for ty, x in pairs for low in ty.lower_val(x)]

    def raise_val(self, *arrays):
        given = iter(arrays)
        counts = [len(ty.lo_ty()) for ty in self.of]
        pairs = zip(self.of, counts, strict=True)
        return Row(tuple(t.raise_val(*itertools.islice(given, n)) for t, n in pairs))

    def to_tangent_aval(self):
        return RowType(tuple(ty.to_tangent_aval() for ty in self.of))

    def vspace_zero(self):
        return row(*(jnp.zeros(ty.shape, ty.dtype) for ty in self.of))

    def vspace_add(self, x, y):
        return row(*(part(x, i) + part(y, i) for i in range(len(self.of))))

    def dec_rank(self, size, spec):
        pairs = zip(self.of, spec.dims, strict=True)
        return RowType(tuple(ty.dec_rank(size, d) for ty, d in pairs))

    def inc_rank(self, size, spec):
        pairs = zip(self.of, spec.dims, strict=True)
        return RowType(tuple(ty.inc_rank(size, d) for ty, d in pairs))

    def leading_axis_spec(self):
        return RowSpec((0,) * len(self.of))

    def str_short(self, short_dtypes=False, **_):
        return f"Row[{','.join(ty.str_short(short_dtypes) for ty in self.of)}]"

    @hijax.aval_property
    def first(self):
        return part(self, 0)

    @hijax.aval_method
    def at_place(self, i):
        return part(self, i)

    def _add(self, x, other):
        return row(*(part(x, i) + other for i in range(len(self.of))))


hijax.register_hitype(Row, lambda r: RowType(tuple(map(curta.typeof, r.parts))))


class MakeRow(hijax.HiPrim):
    def __init__(self, *avals):
        self.in_avals, self.out_aval, self.params = avals, RowType(avals), {}
        super().__init__()

    def expand(self, *parts):
        return Row(parts)

    def jvp(self, primals, tangents):
        return row(*primals), row(*map(hijax.instantiate_zeros, tangents))

    vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp

    def transpose(self, ct, *accums):
        for i, accum in enumerate(accums):
            if isinstance(accum, hijax.GradAccum):
                accum.accum(part(ct, i))

    def batch(self, axis_data, args, dims):
        return row(*args), RowSpec(tuple(dims))


class Part(hijax.HiPrim):
    def __init__(self, aval, i):
        self.in_avals, self.out_aval = (aval,), aval.of[i]
        self.params = {"i": i}
        super().__init__()

    def expand(self, row):
        return row.parts[self.i]

    def jvp(self, primals, tangents):
        return self(*primals), part(tangents[0], self.i)

    def vjp_fwd(self, nzs_in, row):
        return self(row), None

    def vjp_bwd_retval(self, _, ct):
        parts = [jnp.zeros(ty.shape, ty.dtype) for ty in self.in_avals[0].of]
        parts[self.i] = ct
        return (row(*parts),)

    def transpose(self, ct, accum):
        accum.accum(self.vjp_bwd_retval(None, ct)[0])

    def batch(self, axis_data, args, dims):
        return part(args[0], self.i), dims[0].dims[self.i]


def row(*parts):
    return MakeRow(*map(curta.typeof, parts))(*parts)


def part(x, i):
    return Part(curta.typeof(x), i)(x)


def doubled(x):
    return row(part(x, 0) * 2, part(x, 1) * 3)


X = jnp.arange(3.0)
ROW = Row((X, X + 1))


def numbers(x):
    """The parts of a row, for comparison."""
    return [np.asarray(p).tolist() for p in x.parts]


def test_values_go_into_and_out_of_compiled_functions():
    expected = [[0, 2, 4], [3, 6, 9]]
    assert numbers(doubled(ROW)) == numbers(curta.jit(doubled)(ROW)) == expected
    assert curta.jit(lambda x: part(ROW, 1) + x)(1.0).tolist() == [2, 3, 4]
    assert numbers(curta.jit(lambda x: row(x, 2 * x))(X)) == [[0, 1, 2], [0, 2, 4]]
    assert curta.jit(lambda x: part(row(x, x + 1), 1))(X).tolist() == [1, 2, 3]
    once = curta.jit(doubled)
    once(ROW), once(Row((X, X)))
    assert once.cache_statistics().traces == 1


def test_jaxprs_show_types_and_primitives():
    closed = curta.make_jaxpr(lambda r: row(part(r, 1), 2.0))(ROW)
    assert str(closed) == (
        "{ lambda ; a:Row[f32[3],f32[3]]. let\n"
        "    b:f32[3] = Part[i=1] a\n"
        "    c:Row[f32[3],f32[]] = MakeRow b 2.0:f32[]\n"
        "  in (c,) }"
    )
    assert closed.is_high and closed.eqns[0].primitive.name == "call_hi_primitive"
    traced = curta.jit(doubled).trace(ROW)
    assert traced.jaxpr.is_high and not traced.lojax.jaxpr.is_high
    assert [e.op.name for e in traced.lojax.jaxpr.eqns] == ["mul", "mul"]
    assert traced.lojax.lojax.jaxpr is traced.lojax.jaxpr
    curta.core.eval_jaxpr(closed.jaxpr, closed.consts, ROW)


def test_ahead_of_time():
    lowered = curta.jit(doubled).lower(ROW)
    assert lowered.as_text().count("stablehlo.multiply") == 2
    assert numbers(lowered.compile()(ROW)) == [[0, 2, 4], [3, 6, 9]]
    with pytest.raises(TypeError, match="called with"):
        lowered.compile()(Row((X, 1.0)))
    assert curta.eval_shape(doubled, ROW) == curta.typeof(ROW)


def test_tracers_are_no_arrays_and_have_what_their_type_has():
    def f(r):
        assert isinstance(r, curta.core.Tracer) and not isinstance(r, curta.Array)
        assert not hasattr(r, "shape") and r.of == curta.typeof(ROW).of
        with pytest.raises(AttributeError, match="_mul"):
            r * 2
        return r.first + r.at_place(1), r + 1.0

    total, more = curta.jit(f)(ROW)
    assert total.tolist() == [1, 3, 5] and numbers(more) == [[1, 2, 3], [2, 3, 4]]
    assert issubclass(type(curta.core.Tracer), type)
    assert not isinstance(X, curta.core.Tracer)


def test_differentiated_in_values():
    def f(r):
        return (part(r, 0) * part(r, 1)).sum() + part(r, 0).sum()

    for g in f, curta.jit(f), curta.checkpoint(f):
        assert numbers(curta.grad(g)(ROW)) == [[2, 3, 4], [0, 1, 2]]
        assert numbers(curta.jit(curta.grad(g))(ROW)) == [[2, 3, 4], [0, 1, 2]]
    ones = Row((jnp.ones(3), jnp.ones(3)))
    assert curta.jvp(f, (ROW,), (ones,))[1] == 12
    assert curta.linearize(f, ROW)[1](ones) == 12
    out, pull = curta.vjp(doubled, ROW)
    assert numbers(pull(out)[0]) == [[0, 4, 8], [9, 18, 27]]
    with pytest.raises(TypeError, match="tangent of type Row"):
        curta.jvp(f, (ROW,), (Row((X, 1.0)),))


def test_differentiated_through_values():
    def f(x):
        return (part(doubled(row(x, x**2)), 1) * part(row(x, x), 0)).sum()

    for g in f, curta.jit(f), curta.checkpoint(f):
        np.testing.assert_allclose(curta.grad(g)(X), 9 * X**2)
        np.testing.assert_allclose(curta.jacfwd(g)(X), 9 * X**2)
        np.testing.assert_allclose(curta.hessian(g)(X), np.diag(18 * X))


def test_loops_and_branches():
    def step(c, x):
        return doubled(c), part(c, 0) + x

    for f in lax.scan, curta.jit(lax.scan, static_argnums=0):
        last, ys = f(step, ROW, jnp.ones(2))
        assert numbers(last) == [[0, 4, 8], [9, 18, 27]]
        assert ys.tolist() == [[1, 2, 3], [1, 3, 5]]
    # rows of values, and of results
    _, ys = lax.scan(lambda _, r: ((), row(part(r, 1), 2 * part(r, 0))), (), ROW, 3)
    assert numbers(ys) == [[1, 2, 3], [0, 2, 4]]
    total, _ = lax.scan(lambda c, a: (c + a[0] * part(a[1], 1), ()), 0.0, (X, ROW))
    assert total == 8
    with pytest.raises(ValueError, match="must provide `length`"):
        lax.scan(lambda c, r: (c, ()), 0.0, ROW)
    grown = lax.while_loop(lambda r: part(r, 1).sum() < 50, doubled, ROW)
    assert numbers(grown)[1] == [9, 18, 27]
    assert numbers(lax.fori_loop(0, 2, lambda _, r: doubled(r), ROW)) == numbers(last)
    for p in False, True:
        for f in lax.cond, curta.jit(lax.cond, static_argnums=(1, 2)):
            chosen = f(p, doubled, lambda r: r, ROW)
            assert numbers(chosen) == numbers(doubled(ROW) if p else ROW)


def test_derivatives_of_loops_and_branches():
    def loop(x):
        carry = row(x, x)
        last, ys = lax.scan(lambda c, s: (doubled(c), part(c, 1) * s), carry, X)
        return part(last, 0).sum() + ys.sum()

    def branch(x):
        return part(lax.cond(x[1] > 0, doubled, lambda r: r, row(x, x)), 1).sum()

    for f in loop, curta.jit(loop), curta.checkpoint(loop):
        assert curta.grad(f)(X).tolist() == [29, 29, 29]
    for f in branch, curta.jit(branch), curta.checkpoint(branch):
        assert curta.grad(f)(X).tolist() == [3, 3, 3]
        assert curta.grad(f)(-X).tolist() == [1, 1, 1]
    summed = curta.grad(
        lambda r: lax.scan(lambda c, r: (c + part(r, 0) * part(r, 1), ()), 0.0, r, 3)[0]
    )
    assert numbers(summed(ROW)) == [[1, 2, 3], [0, 1, 2]]


def test_mapped():
    swap = curta.vmap(
        lambda r: row(part(r, 1), part(r, 0)),
        in_axes=RowSpec((0, None)),
        out_axes=RowSpec((None, 0)),
        axis_size=3,
    )
    assert numbers(swap(Row((X, 5.0)))) == [5, [0, 1, 2]]
    assert curta.vmap(lambda x: part(row(x, 2 * x), 1))(X).tolist() == [0, 2, 4]
    both = RowSpec((0, 0))
    for f in doubled, curta.jit(doubled):
        mapped = curta.vmap(f, in_axes=both, out_axes=both, axis_size=3)
        assert numbers(mapped(ROW)) == [[0, 2, 4], [3, 6, 9]]
    with pytest.raises(ValueError, match="non-array type"):
        curta.vmap(doubled, axis_size=3)(ROW)
    with pytest.raises(ValueError, match="stay mapped as they are"):
        curta.vmap(doubled, in_axes=both, axis_size=3)(ROW)
    scanned = curta.vmap(lambda x: lax.scan(lambda c, _: (c + part(row(x, x), 0), ()),
                                            0.0, None, length=2)[0])  # fmt: skip
    assert scanned(X).tolist() == [0, 2, 4]


def test_references():
    def f(r):
        ref = curta.new_ref(r)
        ref[...] = doubled(ref[...])
        return ref[...]

    assert numbers(f(ROW)) == numbers(curta.jit(f)(ROW)) == numbers(doubled(ROW))
    ref = curta.new_ref(ROW)

    @curta.jit
    def double(ref):
        ref[...] = doubled(ref[...])

    double(ref), double(ref)
    assert numbers(ref[...]) == numbers(doubled(doubled(ROW)))
    with pytest.raises(ValueError, match="Invalid type for `swap`"):
        ref[...] = X


def test_primitives_on_references():
    class AddTo(hijax.HiPrim):
        def __init__(self, ref, x):
            self.in_avals, self.out_aval, self.params = (ref, x), x, {}
            super().__init__()

        def expand(self, ref, x):
            ref[...] += x
            return 2 * x

    def add_to(ref, x):
        return AddTo(curta.typeof(ref), curta.typeof(x))(ref, x)

    def f(x):
        ref = curta.new_ref(1.0)
        return add_to(ref, x) + ref[...]

    assert f(3.0) == curta.jit(f)(3.0) == 10
    total = curta.new_ref(0.0)
    for x in 1.0, 2.0:
        curta.jit(add_to)(total, x)
    assert total[...] == 3


# ---- primitives on arrays


class Power(hijax.HiPrim):
    """Every rule is given, so that which one was used shows."""

    used: list[str] = []

    def __init__(self, aval, *, n):
        self.in_avals, self.out_aval, self.params = (aval,), aval, {"n": n}
        super().__init__()

    def expand(self, x):
        return x**self.n

    def jvp(self, primals, tangents):
        self.used.append("jvp")
        (x,), (t,) = primals, tangents
        return self(x), t * self.n * power(x, self.n - 1)

    def lin(self, nzs_in, x):
        self.used.append("lin")
        return self(x), x

    def linearized(self, x, t):
        return t * self.n * power(x, self.n - 1)

    def vjp_fwd(self, nzs_in, x):
        self.used.append("vjp")
        return self(x), x

    def vjp_bwd(self, x, ct, accum):
        accum.accum(ct * self.n * power(x, self.n - 1))

    def batch(self, axis_data, args, dims):
        return power(args[0], self.n), dims[0]


def power(x, n):
    return Power(curta.typeof(x), n=n)(x)


def cube(x):
    return power(x, 3)


@pytest.mark.parametrize("f", [cube, curta.jit(cube)], ids=["eager", "jit"])
def test_each_mode_has_its_rule(f):
    def used(run):
        Power.used.clear()
        return float(run()), {*Power.used}

    curta.clear_caches()
    assert used(lambda: curta.grad(f)(2.0)) == (12, {"vjp"})
    assert used(lambda: curta.jvp(f, (2.0,), (1.0,))[1]) == (12, {"jvp"})
    assert used(lambda: curta.linearize(f, 2.0)[1](1.0)) == (12, {"lin"})
    assert curta.grad(curta.grad(f))(2.0) == 12
    assert curta.hessian(f)(2.0) == curta.jacfwd(curta.jacfwd(f))(2.0) == 12
    assert curta.vmap(curta.grad(f))(X).tolist() == [0, 3, 12]
    assert curta.grad(lambda x: curta.vmap(f)(x).sum())(X).tolist() == [0, 3, 12]


def test_rules_in_loops_branches_and_remat():
    def loop(x):
        return lax.scan(lambda c, _: (power(c, 2), None), x, None, length=3)[0]

    def branch(x):
        return lax.cond(x > 0, cube, lambda x: x, x)

    def twice(x):
        return power(power(x, 2), 2)

    for wrap in lambda f: f, curta.jit, curta.checkpoint:
        np.testing.assert_allclose(curta.grad(wrap(loop))(1.5), 8 * 1.5**7)
        np.testing.assert_allclose(curta.jvp(wrap(loop), (1.5,), (1.0,))[1], 8 * 1.5**7)
        assert curta.grad(wrap(branch))(2.0) == curta.jacfwd(wrap(branch))(2.0) == 12
        assert curta.grad(wrap(twice))(1.5) == 13.5
    whiled = curta.jacfwd(lambda x: lax.fori_loop(0, 2, lambda _, c: power(c, 2), x))
    assert whiled(1.5) == 13.5


def test_primitives_in_other_ops():
    """Each of these holds a jaxpr, which is lowered before it is compiled."""
    mesh = curta.make_mesh((1,), ("i",), (curta.sharding.AxisType.Auto,))
    spec = curta.sharding.PartitionSpec("i")
    split = curta.shard_map(cube, mesh=mesh, in_specs=spec, out_specs=spec)
    for f in split, curta.jit(split), curta.pmap(cube), lambda x: lax.map(cube, x):
        assert f(X[2:]).tolist() == [8]
    assert curta.grad(lambda x: split(x).sum())(X).tolist() == [0, 3, 12]
    times = lax.reduce(X + 1, 1.0, lambda a, b: power(a, 1) * b, (0,))
    assert times == 6
    solved = lax.custom_linear_solve(lambda x: 2 * power(x, 1), X, lambda _, b: b / 2)
    assert solved.tolist() == [0, 0.5, 1]

    @curta.custom_vjp
    def by_rule(x):
        return cube(x)

    by_rule.defvjp(lambda x: (cube(x), x), lambda x, ct: (5 * ct * power(x, 1),))

    @curta.custom_jvp
    def by_jvp(x):
        return cube(x)

    by_jvp.defjvp(lambda x, t: (cube(*x), 5 * x[0] * t[0]))
    for f in by_rule, by_jvp, curta.jit(by_rule), curta.jit(by_jvp):
        assert f(2.0) == 8 and curta.grad(f)(2.0) == 10
        assert curta.vmap(curta.grad(f))(X).tolist() == [0, 5, 10]
    _, out = checkify.checkify(curta.jit(cube))(2.0)
    _, series = jet.jet(cube, (2.0,), ((1.0, 0.0),))
    assert out == 8 and series == [12, 12]
    assert export.export(curta.jit(cube))(2.0).call(3.0) == 27
    assert curta.jit(cube).lower(2.0).cost_analysis()["flops"] > 0


def test_rules_that_follow_from_others():
    class Sine(hijax.HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

        def expand(self, x):
            return jnp.sin(x)

    class ByJvp(Sine):
        def jvp(self, primals, tangents):
            (x,), (t,) = primals, tangents
            return self(x), jnp.cos(x) * t

        lin, linearized = hijax.linearize_from_jvp
        vjp_fwd, vjp_bwd_retval = hijax.vjp_from_jvp

    class ByLin(Sine):
        def lin(self, nzs_in, x):
            return self(x), x

        def linearized(self, x, t):
            return jnp.cos(x) * t

        jvp = hijax.jvp_from_lin
        vjp_fwd, vjp_bwd_retval = hijax.vjp_from_lin

    class Round(ByJvp):
        vjp_fwd, vjp_bwd_retval = hijax.vjp_from_lin

    for kind in ByJvp, ByLin, Round:
        sine = kind(curta.typeof(2.0))
        for f in sine, curta.jit(sine):
            slopes = [curta.grad(f)(2.0), curta.jvp(f, (2.0,), (1.0,))[1]]
            slopes.append(curta.linearize(f, 2.0)[1](1.0))
            np.testing.assert_allclose(slopes, [np.cos(2)] * 3, rtol=1e-6)
            np.testing.assert_allclose(curta.grad(curta.grad(f))(2.0), -np.sin(2), 1e-6)

    class Circular(ByJvp):
        jvp = hijax.jvp_from_lin

    with pytest.raises(TypeError, match="in terms of the other"):
        curta.jvp(Circular(curta.typeof(2.0)), (2.0,), (1.0,))
    for pair in hijax.vjp_from_jvp, hijax.vjp_from_lin, hijax.linearize_from_jvp:
        with pytest.raises(TypeError, match="is a pair of rules"):
            pair(1)


class SumAndProduct(hijax.HiPrim):
    """Trees of operands and results, and cotangents that are zero."""

    def __init__(self, x, y):
        self.in_avals, self.out_aval = (x, {"y": y}), {"sum": x, "product": x}
        self.params = {}
        super().__init__()

    def expand(self, x, more):
        return {"sum": x + more["y"], "product": x * more["y"]}

    def vjp_fwd(self, nzs_in, x, more):
        assert nzs_in == (True, {"y": False})
        return self(x, more), (), True, {"y": more["y"]}

    def vjp_bwd(self, residuals, structured, ct, x_accum, more):
        assert type(ct["sum"]) is hijax.Zero and type(more["y"]) is hijax.NullAccum
        x_accum.accum(ct["product"] * structured["y"])
        more["y"].accum(1.0)

    def batch(self, axis_data, args, dims):
        x, more = hijax.bdims_at_front(axis_data, args, dims)
        return sum_and_product(x, more["y"]), {"sum": 0, "product": 0}


def sum_and_product(x, y):
    return SumAndProduct(curta.typeof(x), curta.typeof(y))(x, {"y": y})


def test_trees_zeros_and_structured_residuals():
    for f in sum_and_product, curta.jit(sum_and_product):
        assert f(2.0, 3.0) == {"sum": 5, "product": 6}
        assert curta.grad(lambda x, f=f: f(x, 3.0)["product"])(2.0) == 3
        mapped = curta.vmap(f, (0, None))(X, 2.0)
        assert mapped["product"].tolist() == [0, 2, 4]
    with pytest.raises(TypeError, match="expected a value of structure"):
        SumAndProduct(curta.typeof(1.0), curta.typeof(1.0))(1.0, 2.0)


def test_results_that_nothing_reads():
    def f(x):
        cube(x)
        return curta.vjp(lambda x: (cube(x), 2 * x)[1], x)[1](1.0)[0]

    closed = curta.make_jaxpr(f)(2.0)
    assert "linearized" not in str(closed)

    class Pair(hijax.HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), (aval, aval), {}
            super().__init__()

        def expand(self, x):
            return x, x * x

        def dce(self, used_outs, live_ins):
            if used_outs == (False, True):
                return True, used_outs, Power(self.in_avals[0], n=2)
            return super().dce(used_outs, live_ins)

    pruned = curta.make_jaxpr(
        lambda x: curta.linearize(lambda t: Pair(curta.typeof(x))(x)[1] * t, 1.0)[1](x)
    )(2.0)
    assert pruned.eqns and Pair(curta.typeof(2.0))(2.0) == (2, 4)


def test_vmap_rule_and_avals():
    axis = BatchAxis(3)
    aval = curta.typeof(1.0)
    assert hijax.unmap_avals(axis, {"x": aval, "y": aval}, {"x": 0, "y": None}) == {
        "x": curta.typeof(1.0).with_dim(0, 3),
        "y": aval,
    }

    def scale(x, zero):
        assert type(zero) is hijax.Zero and zero.aval.shape == ()
        return x * 2, zero

    whole = hijax.Zero(curta.typeof(X))
    out, zero = hijax.vmap_rule(axis, scale, (0, 0), 0)(X, whole)
    assert out.tolist() == [0, 2, 4] and zero.aval.shape == (3,)


def test_accumulators():
    aval = curta.typeof(X)
    total = hijax.ValAccum(aval)
    assert type(total.freeze()) is hijax.Zero
    for ct in X, None, hijax.Zero(aval), X:
        total.accum(ct)
    assert total.freeze().tolist() == [0, 2, 4] and isinstance(total, hijax.GradAccum)
    with pytest.raises(ValueError, match="Expected cotangent type"):
        total.accum(1.0)
    ref = hijax.RefAccum(aval)
    assert type(ref.freeze()) is hijax.Zero
    ref.accum(X), ref.accum(X)
    assert ref.freeze().tolist() == [0, 2, 4]
    assert hijax.RefAccum(aval).inst().freeze().tolist() == [0, 0, 0]
    nothing = hijax.NullAccum(aval)
    nothing.accum(X)
    assert repr(nothing) == "NullAccum(float32[3])"


def test_what_is_missing_or_wrong():
    class Bare(hijax.HiPrim):
        def __init__(self, aval):
            self.in_avals, self.out_aval, self.params = (aval,), aval, {}
            super().__init__()

    class Unset(hijax.HiPrim):
        def __init__(self):
            super().__init__()

    class Rest(Bare):
        def expand(self, x):
            return x

    class Logs(Rest):
        def vjp_fwd(self, nzs_in, x):
            return x, None

        def vjp_bwd(self, _, ct, accum):
            return [ct]

    bare, rest, logs = (kind(curta.typeof(1.0)) for kind in (Bare, Rest, Logs))
    missing = [
        (lambda: bare(1.0), "`expand`"),
        (lambda: curta.grad(rest)(1.0), "`vjp_fwd`"),
        (lambda: curta.jvp(rest, (1.0,), (1.0,)), "`jvp`"),
        (lambda: curta.linearize(rest, 1.0), "`jvp`"),
        (lambda: curta.vmap(rest)(X), "`batch`"),
    ]
    for run, name in missing:
        with pytest.raises(NotImplementedError, match=name):
            run()
    with pytest.raises(AttributeError, match=r"should set `self\.in_avals`"):
        Unset()
    with pytest.raises(TypeError, match="backward-pass log"):
        curta.grad(logs)(1.0)

    @dataclass(frozen=True)
    class OpaqueType(hijax.HiType):
        pass

    class Opaque:
        pass

    hijax.register_hitype(Opaque, lambda _: OpaqueType())
    with pytest.raises(
        NotImplementedError, match="OpaqueType to implement the `lo_ty`"
    ):
        curta.jit(lambda x: x)(Opaque())
    with pytest.raises(NotImplementedError, match="OpaqueType to implement .*_rank"):
        curta.vmap(lambda x: x, RowSpec((0,)), RowSpec((0,)), axis_size=3)(Opaque())
    place = curta.sharding.SingleDeviceSharding(curta.devices()[0])
    with pytest.raises(NotImplementedError, match="lay out the arrays"):
        curta.jit(doubled, in_shardings=place)(ROW)


def test_array_like_can_be_asked_for():
    for x in 1.0, X, np.zeros(2), np.float32(1):
        assert isinstance(x, curta.typing.ArrayLike)
    assert not isinstance(ROW, curta.typing.ArrayLike)


def test_equal_applications():
    x, y = curta.typeof(1.0), curta.typeof(X)
    assert Power(x, n=2) == Power(x, n=2) != Power(x, n=3)
    assert Power(x, n=2) != Power(y, n=2) and hash(Power(x, n=2)) == hash(Power(y, n=2))
    assert repr(Power(x, n=2)) == "Power[n=2]"


# ---- as JAX 0.10 has it


class SafeLog(earlier.HiPrimitive):
    multiple_results = True

    def abstract_eval(self, x, *, floor):
        return [x, x], set()

    def to_lojax(self, x, *, floor):
        return [jnp.log(jnp.maximum(x, floor)), x]

    def jvp(self, primals, tangents, *, floor):
        (x,), (t,) = primals, tangents
        return self.bind(x, floor=floor), [t / jnp.maximum(x, floor), t]


def test_primitives_of_earlier_versions():
    safe_log = SafeLog("safe_log")

    def fun(x):
        log, same = safe_log.bind(x, floor=0.5)
        return log + same

    for f in fun, curta.jit(fun):
        assert curta.grad(f)(0.25) == 3  # where that of its parts would be 1
        assert curta.jvp(f, (2.0,), (1.0,))[1] == 1.5
        assert curta.vmap(curta.grad(f))(jnp.array([0.25, 2.0])).tolist() == [3, 1.5]
    assert " = safe_log[floor=0.5] a" in str(curta.make_jaxpr(fun)(1.0))
    with pytest.raises(NotImplementedError, match="'abstract_eval' of bare"):
        earlier.HiPrimitive("bare").bind(1.0)


def test_mapped_by_the_rule_of_dims():
    class Product(earlier.VJPHiPrimitive):
        def __init__(self, x, y):
            self.in_avals, self.out_aval, self.params = (x, y), x, {}
            super().__init__()

        def expand(self, x, y):
            return x * y

        def jvp(self, primals, tangents):
            (x, y), (t, u) = primals, map(hijax.instantiate_zeros, tangents)
            return self(x, y), t * y + x * u

        def vjp_fwd(self, nzs_in, x, y):
            return self(x, y), (x, y)

        def vjp_bwd_retval(self, residuals, ct):
            x, y = residuals
            return ct * y, ct * x

        def batch_dim_rule(self, axis_data, dims):
            return dims[1] if dims[0] is None else dims[0]

    def product(x, y):
        return Product(curta.typeof(x), curta.typeof(y))(x, y)

    x, y = jnp.arange(6.0).reshape(2, 3), X + 1
    assert curta.vmap(product)(y, X).tolist() == [0, 2, 6]
    rows = curta.vmap(product, (0, None))
    assert rows(x, y).tolist() == (x * y).tolist()
    twice = curta.vmap(rows, (1, None), 1)(x[:, None], y)
    assert twice[:, 0].tolist() == (x * y).tolist()
    slopes = curta.grad(lambda y: rows(x, y).sum())(y)
    assert slopes.tolist() == x.sum(0).tolist()
    assert curta.jvp(lambda y: rows(x, y), (y,), (y,))[1].tolist() == (x * y).tolist()


def test_names_follow_the_version():
    with jax_api_version("0.10"):
        assert hijax.HiPrimitive is not None and hijax.cur_qdd is not None
    with jax_api_version("0.12"):
        for name in "HiPrimitive", "VJPHiPrimitive", "MutableHiType", "cur_qdd":
            with pytest.raises(AttributeError):
                getattr(hijax, name)


def test_effects():
    class Log(Effect):
        pass

    class Loud(Log):
        pass

    allowed = hijax.control_flow_allowed_effects
    assert not allowed.contains(Loud())
    allowed.add_type(Log)
    assert allowed.contains(Loud()) and str(Loud()) == "Loud"
    closed = curta.make_jaxpr(lambda x: curta.debug.print("{}", x))(1.0)
    assert all(isinstance(e, Effect) for e in closed.effects)
    assert [str(e) for e in closed.effects] == ["Debug"]
