"""The promotion lattice, against the table of JAX's documentation."""

import enum
import itertools

import numpy as np
import pytest

from curta import dtypes, numpy as jnp
from curta.config import enable_x64, numpy_dtype_promotion
from curta.errors import TypePromotionError

# Kind and number of bytes, as in the documentation; c4 and c8 count one component.
NAMES = {
    "b1": "bool",
    **{f"i{size}": f"int{8 * size}" for size in (1, 2, 4, 8)},
    **{f"u{size}": f"uint{8 * size}" for size in (1, 2, 4, 8)},
    **{f"f{size}": f"float{8 * size}" for size in (2, 4, 8)},
    **{f"c{size}": f"complex{16 * size}" for size in (4, 8)},
}

# The last three columns are Python's int, float and complex. A star marks the 64-bit
# dtype for which NumPy takes that Python type.
WITH_64_BIT_TYPES = """
b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c4 c8 i* f* c*
u1 u1 u2 u4 u8 i2 i2 i4 i8 bf f2 f4 f8 c4 c8 u1 f* c*
u2 u2 u2 u4 u8 i4 i4 i4 i8 bf f2 f4 f8 c4 c8 u2 f* c*
u4 u4 u4 u4 u8 i8 i8 i8 i8 bf f2 f4 f8 c4 c8 u4 f* c*
u8 u8 u8 u8 u8 f* f* f* f* bf f2 f4 f8 c4 c8 u8 f* c*
i1 i2 i4 i8 f* i1 i2 i4 i8 bf f2 f4 f8 c4 c8 i1 f* c*
i2 i2 i4 i8 f* i2 i2 i4 i8 bf f2 f4 f8 c4 c8 i2 f* c*
i4 i4 i4 i8 f* i4 i4 i4 i8 bf f2 f4 f8 c4 c8 i4 f* c*
i8 i8 i8 i8 f* i8 i8 i8 i8 bf f2 f4 f8 c4 c8 i8 f* c*
bf bf bf bf bf bf bf bf bf bf f4 f4 f8 c4 c8 bf bf c4
f2 f2 f2 f2 f2 f2 f2 f2 f2 f4 f2 f4 f8 c4 c8 f2 f2 c4
f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f4 f8 c4 c8 f4 f4 c4
f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 f8 c8 c8 f8 f8 c8
c4 c4 c4 c4 c4 c4 c4 c4 c4 c4 c4 c4 c8 c4 c8 c4 c4 c4
c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8 c8
"""

OPERANDS = "b1 u1 u2 u4 u8 i1 i2 i4 i8 bf f2 f4 f8 c4 c8".split()
ROWS = [line.split() for line in WITH_64_BIT_TYPES.strip().splitlines()]
TABLE = {
    (a, b): ROWS[i][j]
    for i, a in enumerate(OPERANDS)
    for j, b in enumerate([*OPERANDS, "i*", "f*", "c*"])
}


def dtype_of(name):
    if name.endswith("*"):
        return {"i*": int, "f*": float, "c*": complex}[name]
    return np.dtype(dtypes.bfloat16) if name == "bf" else np.dtype(NAMES[name])


@pytest.mark.parametrize("x64", [False, True])
def test_table_of_pairs(x64):
    with enable_x64(x64):
        for (a, b), expected in TABLE.items():
            # Without 64-bit types, u4 and a smaller signed integer stay at 32 bits.
            if not x64 and {a, b} in ({"u4", "i1"}, {"u4", "i2"}, {"u4", "i4"}):
                expected = "i4"
            found = dtypes.promote_types(dtype_of(a), dtype_of(b))
            assert found == np.dtype(dtype_of(expected)), (a, b)


def test_promotion_is_commutative_and_associative():
    promote = dtypes.promote_types
    # uint64 with a signed integer gives a weak float, which is no dtype.
    operands = [dtype_of(name) for name in OPERANDS if name != "u8"]
    with enable_x64(True):
        for a, b, c in itertools.product(operands, repeat=3):
            assert promote(a, b) == promote(b, a)
            assert promote(promote(a, b), c) == promote(a, promote(b, c))
            assert dtypes.result_type(a, b, c) == promote(promote(a, b), c)


WEAK_CASES = [
    # values, dtype, weak type
    ([1], "int32", True),
    ([1.0], "float32", True),
    ([1j], "complex64", True),
    ([True], "bool", False),
    ([True, 1], "int32", True),
    ([1, 1.0], "float32", True),
    ([1.0, 1j], "complex64", True),
    ([np.int8(1), 1], "int8", False),
    ([np.int8(1), 1.0], "float32", True),
    ([np.float16(1), 1.0], "float16", False),
    ([np.float16(1), 1j], "complex64", False),
    ([np.bool_(1), 1.0], "float32", True),
    ([np.float64(1), 1], "float32", False),
    ([np.uint8(1), int], "uint8", False),
    (["bfloat16", float], "bfloat16", False),
    ([int, np.int16], "int16", False),
]


@pytest.mark.parametrize("values, dtype, weak", WEAK_CASES, ids=str)
def test_python_scalars_give_way(values, dtype, weak):
    for order in itertools.permutations(values):
        found = dtypes.lattice_result_type(*order)
        assert found == (np.dtype(dtypes.canonicalize_dtype(dtype)), weak)


class Traced:
    """An array or tracer, as far as dtypes see one."""

    def __init__(self, dtype, weak_type):
        self.aval = self
        self.dtype = np.dtype(dtype)
        self.weak_type = weak_type


def test_weak_arrays():
    weak = Traced("float32", True)
    assert dtypes.lattice_result_type(weak, Traced("int8", False)) == ("float32", True)
    assert dtypes.lattice_result_type(weak, np.float16(1)) == ("float16", False)
    assert dtypes.lattice_result_type(weak, weak) == ("float32", True)
    # Two weak operands keep the dtype that they have.
    assert dtypes.lattice_result_type(Traced("int16", True), 1) == ("int32", True)


def test_wide_arrays_outlive_the_mode_they_were_made_in():
    wide = Traced("float64", False)
    assert dtypes.dtype(wide) == "float64"
    assert dtypes.result_type(wide, wide) == "float64"
    assert dtypes.result_type(wide, Traced("float32", False)) == "float32"


def test_result_type():
    assert dtypes.result_type(1) == "int32"
    assert dtypes.result_type(None, np.int8(1)) == "float32"
    assert dtypes.result_type(1, 2.0, return_weak_type_flag=True) == ("float32", True)
    assert dtypes.result_type(np.ones(2, np.int64), np.ones(2, np.float32)) == "float32"
    with enable_x64(True):
        assert dtypes.result_type(1, 2.0) == "float64"
    with pytest.raises(ValueError, match="at least one array or dtype is required"):
        dtypes.result_type()


def test_narrow_types_do_not_promote():
    with pytest.raises(TypePromotionError, match="8-bit floats do not support"):
        dtypes.promote_types("float8_e4m3fn", "float32")
    with pytest.raises(TypePromotionError, match="4-bit integers do not"):
        dtypes.promote_types("int4", "int8")
    assert dtypes.promote_types("float8_e5m2", float) == "float8_e5m2"
    assert dtypes.promote_types("int4", int) == "int4"


def test_strict_promotion():
    with numpy_dtype_promotion("strict"):
        assert dtypes.promote_types("float32", float) == "float32"
        assert dtypes.result_type(np.int8(1), 1) == "int8"
        assert dtypes.result_type(1, 2.0) == "float32"
        with pytest.raises(
            TypePromotionError,
            match=r"Input dtypes \(.*\) have no available implicit dtype promotion "
            "path when jax_numpy_dtype_promotion=strict",
        ):
            dtypes.promote_types("float32", "int32")
        with pytest.raises(TypePromotionError):
            dtypes.result_type(np.int8(1), 1.0)
    assert dtypes.promote_types("float32", "int32") == "float32"


def test_promote_pair_agrees_with_the_general_function():
    for a, b in itertools.product(map(dtype_of, OPERANDS), repeat=2):
        for weak_a, weak_b in itertools.product([False, True], repeat=2):
            weak_a &= a.kind != "b"
            weak_b &= b.kind != "b"
            assert dtypes.promote_pair(
                a, weak_a, b, weak_b
            ) == dtypes.lattice_result_type(Traced(a, weak_a), Traced(b, weak_b))


def test_safe_to_cast():
    assert dtypes.safe_to_cast("int16", "float32")
    assert not dtypes.safe_to_cast("float32", "int16")
    assert dtypes.safe_to_cast(1.0, "float16")
    assert not dtypes.safe_to_cast("complex64", "float32")


def test_keys_promote_with_themselves_only():
    key = dtypes.KeyDType("fry")
    assert dtypes.result_type(key, key) == key
    with pytest.raises(ValueError, match="not a valid dtype for JAX type promotion"):
        dtypes.result_type(key, np.float32)


def test_values_without_a_dtype():
    with pytest.raises(TypeError, match=r"not a valid JAX array type"):
        dtypes.dtype("datetime64[s]")
    with pytest.raises(TypeError, match=r"not a valid JAX array type"):
        dtypes.dtype(np.array(["a"]))
    with pytest.raises(ValueError, match="Invalid argument to dtype: None"):
        dtypes.dtype(None)
    with pytest.raises(TypeError):
        dtypes.dtype(object())


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e5m2"])
def test_numbers_too_large_for_a_narrow_float_are_infinite(dtype):
    x = jnp.ones(2, dtype)
    for found in x * 3.4e38, jnp.full(2, 3.4e38, dtype):
        assert found.dtype == dtype
        assert np.isinf(np.asarray(found, np.float32)).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["float64", "int64", "uint64", "complex128"])
def test_scalar_types_are_halved_silently(name):
    ours, halved = getattr(jnp, name), dtypes.canonicalize_dtype(name)
    assert jnp.result_type(ours) == dtypes.dtype(ours) == halved
    assert jnp.result_type(ours, jnp.bool_) == halved
    with pytest.warns(UserWarning, match=f"Explicitly requested dtype {name}"):
        jnp.result_type(getattr(np, name))


class Colour(enum.IntEnum):
    RED = 3


class Metres(float):
    pass


@pytest.mark.parametrize("value", [Colour.RED, Metres(2.5)])
def test_classes_of_numbers_are_as_weak_as_numbers(value):
    plain = float(value) if isinstance(value, float) else int(value)
    half, byte = jnp.ones(2, "float16"), jnp.ones(2, "int8")
    results = [half * value, value - half, half**value, jnp.maximum(half, value)]
    results += [jnp.stack([value, half[0]]), jnp.where(True, value, half)]
    assert {x.dtype for x in results} == {np.dtype("float16")}
    assert (byte + value).dtype == (byte + plain).dtype
    assert jnp.asarray(value).weak_type and jnp.full(2, value).weak_type
    assert not jnp.array([value]).weak_type
