"""Products of narrow numbers: by words of several where the processor has these."""

import dataclasses

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import lax
from curta.compiler.host_target import host
from curta.compiler.library.tile_shape import PACKED
from curta.compiler.lower.item_lowering import lower_to_items
from curta.compiler.lower.items import LoopItem
from curta.compiler.lower.packed_dots import packed_kind
from curta.compiler.rewrite.inline import inline_calls
from curta.compiler.targets import describe
from curta.runtime import backends


def numbers(dtype, *shape):
    info = np.iinfo(dtype)
    rng = np.random.default_rng(0)
    return rng.integers(info.min, info.max, shape, endpoint=True).astype(dtype)


def wrapped(x, dtype):
    return x.astype("int64").astype(dtype)


@pytest.fixture(params=[True, False], ids=["words", "numbers"])
def machine(request, monkeypatch):
    """The processor at hand, or one that multiplies no words."""
    words = host().words if request.param else frozenset()
    made_for = dataclasses.replace(host(), words=words)
    monkeypatch.setattr(backends, "host_with", lambda transport: made_for)


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
@pytest.mark.parametrize("m, k, n", [(8, 8, 8), (9, 11, 13), (65, 50, 33)])
def test_products(m, k, n, dtype):
    x, y = numbers(dtype, m, k), numbers(dtype, k, n)
    wanted = x.astype("int64") @ y.astype("int64")
    wide = curta.jit(lambda x, y: lax.dot(x, y, preferred_element_type=jnp.int32))
    assert np.array_equal(wide(x, y), wrapped(wanted, "int32"))
    upright = curta.jit(lambda x, y: jnp.einsum("ki,jk->ij", x, y))
    assert np.array_equal(upright(x.T, y.T), wrapped(wanted, dtype))


@pytest.mark.parametrize("kind, dtype", [("i8x4", "int8"), ("bf16x2", "bfloat16")])
def test_steps_beside_the_last_word_are_packed_without_conditions(kind, dtype):
    target = dataclasses.replace(host(), words=frozenset([kind]))
    x, y = (jnp.zeros(shape, dtype) for shape in ((100, 11), (11, 30)))
    jaxpr = inline_calls(curta.make_jaxpr(jnp.matmul)(x, y)).jaxpr
    program = lower_to_items(jaxpr, target)
    loops = [i for i in program.items if isinstance(i, LoopItem)]
    packs = [i for i in loops if i.label == "pack" and i.stores]
    conditional = [i for i in packs if any(load.where is not None for load in i.loads)]
    assert len(packs) == 4 and not conditional


@pytest.mark.usefixtures("machine")
def test_dims_of_several():
    x, y = numbers("int8", 2, 9, 4, 3), numbers("int8", 4, 3, 2, 17)
    f = curta.jit(lambda x, y: jnp.einsum("bikl,klbj->bij", x, 2 * y))
    wanted = np.einsum("bikl,klbj->bij", x.astype("int64"), 2 * y.astype("int64"))
    assert np.array_equal(f(x, y), wrapped(wanted, "int8"))


@pytest.mark.usefixtures("machine")
@pytest.mark.parametrize("sums", ["float32", "bfloat16"])
def test_products_of_bfloat16(sums):
    x, y = (numbers("int8", *shape) // 32 for shape in ((33, 50), (50, 17)))
    f = curta.jit(
        lambda x, y: jnp.einsum("ik,kj->ij", x, y, preferred_element_type=sums)
    )
    found = f(jnp.asarray(x, "bfloat16"), jnp.asarray(y, "bfloat16"))
    wanted = jnp.asarray(x.astype("float32") @ y.astype("float32"), sums)
    assert np.array_equal(found, wanted)


def test_a_precision_has_subnormal_numbers():
    x, y = (jnp.full((16, 16), value, "bfloat16") for value in (1e-39, 1e38))
    f = curta.jit(lambda x, y: lax.dot(x, y, precision="highest"))
    assert 1 < float(f(x, y)[0, 0]) < 2


@pytest.mark.parametrize(
    "dtypes, sums, kind",
    [
        ("int8 int8", "int32", "i8x4"),
        ("uint8 uint8", "int32", "i16x2"),
        ("int16 int8", "int32", "i16x2"),
        ("bfloat16 bfloat16", "float32", "bf16x2"),
        ("int8 int32", "int32", None),
        ("uint16 uint16", "int32", None),
        ("int8 int8", "float32", None),
        ("float16 float16", "float32", None),
    ],
)
def test_words(dtypes, sums, kind):
    able = dataclasses.replace(host(), words=frozenset(PACKED))
    unable = dataclasses.replace(able, words=frozenset())
    kinds = [jnp.dtype(name) for name in dtypes.split()]
    for machine, wanted in ((able, kind), (unable, None)):
        assert packed_kind(kinds, np.dtype(sums), (1, 64, 64, 64), machine) == wanted
        assert packed_kind(kinds, np.dtype(sums), (1, 1, 64, 64), machine) is None


def test_only_a_host_with_the_instructions_has_words():
    flags = ["avx512f", "avx2", "fma"]
    assert not describe("x86_64", "", flags).words
    found = describe("x86_64", "", [*flags, "avx512_vnni", "avx512_bf16"]).words
    assembles = describe("x86_64", "", flags).assembles
    assert found == (frozenset(PACKED) if assembles else frozenset())
