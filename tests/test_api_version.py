"""Behavior that depends on the requested version of JAX."""

import os
import subprocess
import sys
import warnings

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta._settings import api_version
from curta._settings.api_version import jax_api_version

VERSIONS = tuple(api_version.RELEASES)


def warned(function):
    """The result of `function`, and its deprecation warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        result = function()
    return result, [str(w.message) for w in caught if w.category is DeprecationWarning]


def python(code, **environment):
    run = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning:curta", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.split()


# ---- the setting


@pytest.mark.parametrize("version", VERSIONS)
def test_version_info_is_that_of_the_version_followed(version):
    with jax_api_version(version):
        release = ".".join(map(str, curta.__version_info__))
        assert release.startswith(version) and release == api_version.release()
        assert curta.version.__version_info__ == curta.__version_info__


def test_the_default_is_the_newest_and_the_environment_chooses_another():
    code = "import curta; print(curta.config.jax_api_version)"
    assert python(code) == [VERSIONS[-1]]
    for variable in "JAX_API_VERSION", "CURTA_API_VERSION":
        assert python(code, **{variable: "0.10"}) == ["0.10"]


@pytest.mark.parametrize("text", ["0.12", "0.12.0", "0.12.0.1", "v0.12"])
def test_a_version_is_named_by_its_first_two_numbers(text):
    with jax_api_version("0.11"):
        assert curta.__version_info__[:2] == (0, 11)
    before = curta.config.jax_api_version
    try:
        curta.config.update("jax_api_version", text)
        assert curta.config.jax_api_version == "0.12"
    finally:
        curta.config.update("jax_api_version", before)


@pytest.mark.parametrize("text", ["0.9", "1.0", "", None, 12])
def test_a_version_that_is_not_followed(text):
    with pytest.raises(ValueError, match=r"expected a version of JAX among 0\.10"):
        curta.config.update("jax_api_version", text)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_module_is_imported_under_every_version(version):
    code = (
        "import curta, importlib, pkgutil\n"
        "for m in pkgutil.walk_packages(curta.__path__, 'curta.'):\n"
        "    if m.name.split('.')[1] not in ('__main__', 'as_jax', 'hosts'):\n"
        "        importlib.import_module(m.name)\n"
        "print(curta.__version_info__[1])"
    )
    assert python(code, JAX_API_VERSION=version) == [version.removeprefix("0.")]


@pytest.mark.parametrize("version", VERSIONS)
def test_libraries_are_told_the_version(version):
    code = (
        "import curta.as_jax, curta, jax, jax.lib, jax.version, jaxlib.version\n"
        "from importlib.metadata import version as of\n"
        f"jax.config.update('jax_api_version', {version!r})\n"
        "told = [jax.__version__, jax.version.__version__, jax.lib.__version__]\n"
        "told += [jaxlib.__version__, jaxlib.version.__version__]\n"
        "told += [of('jax'), of('jaxlib')]\n"
        "infos = {jax.__version_info__, jax.version.__version_info__}\n"
        "infos |= {jaxlib.version.__version_info__, curta.__version_info__}\n"
        "told += ['.'.join(map(str, info)) for info in infos]\n"
        "assert curta.__version__ == '0.1.0' and jax.grad is curta.grad\n"
        "print(*told)"
    )
    assert {*python(code)} == {api_version.RELEASES[version]}


# ---- names


@pytest.mark.parametrize("name", sorted(api_version.GONE))
def test_a_name_is_there_until_the_version_that_removed_it(name):
    row = api_version.GONE[name]
    package, _, last = name.rpartition(".")
    module = __import__(package, fromlist=["?"])
    for version in VERSIONS:
        with jax_api_version(version):
            gone = VERSIONS.index(version) >= VERSIONS.index(row.removed)
            if gone:
                with pytest.raises(AttributeError, match=last):
                    getattr(module, last)
            else:
                _, texts = warned(lambda: getattr(module, last))
                assert bool(texts) == bool(row.deprecated), texts


def test_a_removed_name_tells_what_to_use():
    with jax_api_version("0.11"):
        text = r"and removed in JAX v0\.11\.0\. Use curta\.extend\.core\.gensym"
        with pytest.raises(AttributeError, match=text):
            _ = curta.core.gensym
        with pytest.raises(ImportError):
            from curta.core import gensym  # noqa: F401


# ---- functions


def test_cross_of_plane_vectors():
    x, y = jnp.array([1.0, 2.0]), jnp.array([3.0, 5.0])
    with jax_api_version("0.10"):
        assert warned(lambda: jnp.cross(x, y)) == (-1, [])
    with jax_api_version("0.11"):
        value, (text,) = warned(lambda: jnp.cross(x, y))
        assert value == -1 and text.startswith("Support for 2-dimensional vectors")
    with jax_api_version("0.12"):
        with pytest.raises(ValueError, match="Dimension must be 3 for cross product"):
            jnp.cross(x, y)
        assert warned(lambda: jnp.cross(jnp.ones(3), jnp.ones(3)).tolist())[1] == []


def test_a_compiled_function_follows_the_version_too():
    compiled = curta.jit(lambda x: jnp.cross(x, x))
    x = jnp.ones(2)
    with jax_api_version("0.10"):
        assert compiled(x) == 0
    with jax_api_version("0.12"), pytest.raises(ValueError, match="Dimension must be"):
        compiled(x)


def test_array_takes_two_arguments_by_position():
    for version in ("0.10", "0.11"):
        with jax_api_version(version):
            made, texts = warned(lambda: jnp.array([1], float, True, "K", 2))
            assert made.shape == (1, 1) and len(texts) == 1
            assert "jnp.array positionally is deprecated" in texts[0]
            assert warned(lambda: jnp.array([1], float, copy=True))[1] == []
            with pytest.raises(TypeError, match="multiple values for argument 'order'"):
                warned(lambda: jnp.array([1], float, True, "K", order="C"))
            with pytest.raises(TypeError, match="takes at most 5"):
                warned(lambda: jnp.array([1], float, True, "K", 0, None))
    with jax_api_version("0.12"):
        with pytest.raises(TypeError, match="takes from 1 to 2 positional"):
            jnp.array([1], float, True)
        assert jnp.array([1], float, ndmin=2).shape == (1, 1)


def test_the_warning_names_the_callers_line():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with jax_api_version("0.11"):
            jnp.array([1], float, True)
            jnp.cross(jnp.ones((7, 2)), jnp.ones((7, 2)))
    assert [w.filename for w in caught] == [__file__, __file__]


def test_checkpoint_has_no_argument_concrete():
    with jax_api_version("0.10"), pytest.raises(NotImplementedError, match="removed"):
        curta.checkpoint(len, concrete=True)
    for version in ("0.11", "0.12"):
        with jax_api_version(version):
            with pytest.raises(TypeError, match="unexpected keyword argument"):
                curta.checkpoint(len, concrete=True)


def test_make_mesh_says_axis_sizes():
    for version in VERSIONS:
        with jax_api_version(version):
            assert curta.make_mesh(axis_sizes=(1,), axis_names="x").shape == {"x": 1}
    with jax_api_version("0.11"):
        assert curta.make_mesh(axis_shapes=(1,), axis_names="x").shape == {"x": 1}
    with jax_api_version("0.12"):
        with pytest.raises(TypeError, match="argument 'axis_shapes'"):
            curta.make_mesh(axis_shapes=(1,), axis_names="x")


@pytest.mark.parametrize(
    ("version", "op"), [("0.10", "broadcast_in_dim"), ("0.11", "empty")]
)
def test_empty_is_not_filled(version, op):
    def make(x):
        return jnp.empty((2,), bool), jnp.empty_like(x), jnp.empty_like(x, "i4", (5,))

    with jax_api_version(version):
        closed = curta.make_jaxpr(make)(jnp.ones(3))
        assert [e.primitive.name for e in closed.jaxpr.eqns] == [op] * 3
        outs = curta.jit(make)(jnp.ones(3))
        types = [(x.shape, x.dtype.name) for x in outs]
        assert types == [((2,), "bool"), ((3,), "float32"), ((5,), "int32")]
        with pytest.raises(TypeError, match="Did you accidentally write"):
            jnp.empty(2, 3)
        assert jnp.empty(2, device=curta.devices()[0]).committed


def test_grids_are_tuples():
    x = jnp.arange(2)
    for version, kind in (("0.10", list), ("0.11", list), ("0.12", tuple)):
        with jax_api_version(version):
            made = jnp.meshgrid(x, x), jnp.broadcast_arrays(x, 1)
            assert [type(part) for part in (*made, jnp.broadcast_arrays())] == [
                kind
            ] * 3


def test_tri_makes_the_default_float():
    with curta.enable_x64(True):
        for version, dtype in (("0.11", np.float32), ("0.12", np.float64)):
            with jax_api_version(version):
                assert jnp.tri(2).dtype == dtype
    with jax_api_version("0.12"):
        assert jnp.tri(2).dtype == np.float32


def test_compute_on_is_what_was_compute_on2():
    from curta.experimental import compute_on

    space = curta.memory.Space.Device
    double = compute_on.compute_on(compute_type="device_host", out_memory_spaces=space)
    for version in VERSIONS:
        with jax_api_version(version):
            assert double(lambda x: 2 * x)(jnp.arange(3)).tolist() == [0, 2, 4]


# ---- jaxprs


PRINTED = [
    (
        lambda x: lax.reduce_max(x, (0,)),
        "b:f32[] = reduce_max[axes=(0,)] a",
        "b:f32[] = reduce_max[axes=(0,) out_sharding=None] a",
    ),
    (
        lambda x: lax.top_k(x, 1)[0],
        "b:f32[1] _:i32[1] = top_k[axis=0 k=1] a",
        "b:f32[1] _:i32[1] = top_k[axis=0 is_stable=True k=1] a",
    ),
    (
        lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, x)[1],
        " length=2 num_carry=1 num_consts=0 reverse=False unroll=1",
        "_:f32[] b:f32[2] = scan[ ft_in=((), (None,), (None,))"
        " ft_out=((None,), (RightsOnly(Right(None)),)) jaxpr=",
    ),
    (jnp.median, "is_stable=True", "is_stable=False"),
    (jnp.log2, "c:f32[] = log 2.0:f32[]", "b:f32[2] = log2 a"),
    (lambda x: jnp.polyval(x, 2.0), "scan[", "b:f32[] = polynomial d f h"),
    (
        curta.grad(lambda x: lax.tanh(x).sum()),
        "c:f32[2] = sub 1.0:f32[] b",
        "c:f32[2] = one_minus_square b",
    ),
    (
        curta.grad(lambda x: lax.max(x, 0.0).sum()),
        "= eq a b",
        "c:bool[2] = gt a 0.0:f32[] d:bool[2] = eq a 0.0:f32[]",
    ),
    (lambda x: jnp.linspace(0.0, x[0], 3), "= sub 1.0:f32[] ", "= div "),
]


@pytest.mark.parametrize(("function", "before", "after"), PRINTED)
def test_jaxprs_are_printed_as_each_version_does(function, before, after):
    x = jnp.ones(2)
    for version, wanted in (("0.10", before), ("0.11", before), ("0.12", after)):
        with jax_api_version(version):
            shown = " ".join(str(curta.make_jaxpr(function)(x)).split())
            assert wanted in shown, shown


def test_parameters_are_bound_again_under_every_version():
    closed = curta.make_jaxpr(
        lambda x: lax.scan(lambda c, a: (c + a, c), 0.0, lax.top_k(x, 2)[0])
    )(jnp.arange(3.0))
    for version in VERSIONS:
        with jax_api_version(version):
            outs = curta.core.eval_jaxpr(closed.jaxpr, closed.consts, jnp.arange(3.0))
            assert outs[0] == 3 and outs[1].tolist() == [0, 2]


# ---- derivatives


@pytest.mark.parametrize(
    ("function", "x", "slope"),
    [
        (lax.asinh, 1e30, 1e-30),
        (lax.asinh, -jnp.inf, 0.0),
        (lax.acosh, 1e30, 1e-30),
        (lax.tanh, 0.0, 1.0),
        (lax.asin, 1 - 2.0**-24, 2896.3093),
        (lax.expm1, -30.0, 9.357623e-14),
    ],
)
def test_derivatives_neither_overflow_nor_cancel(function, x, slope):
    for differentiated in curta.grad(function), curta.jit(curta.grad(function)):
        np.testing.assert_allclose(differentiated(x), slope, rtol=1e-6)


@pytest.mark.parametrize(
    "z", [1e30 + 1e30j, 1e-20 + 1j, complex(-0.0, 2.0), complex(0.0, 2.0), 0.3 - 0.4j]
)
def test_the_derivative_of_asinh_in_the_plane(z):
    """1 / sqrt(1 + z**2); on the branch cut its limit from the side of the zero."""
    z = np.complex64(z)
    slope = curta.grad(lax.asinh, holomorphic=True)(z)
    aside = np.complex128(z) + np.copysign(1e-30, z.real)
    x, y = aside.real, aside.imag
    wanted = 1 / np.sqrt(complex(x * x + (1 - y) * (1 + y), 2 * x * y))
    np.testing.assert_allclose(slope, wanted, rtol=2e-6)
