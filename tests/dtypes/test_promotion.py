"""The promotion lattice, against the table of JAX's documentation."""

import itertools

import numpy as np
import pytest

from curta import dtypes
from curta.config import enable_x64, numpy_dtype_promotion
from curta.errors import TypePromotionError

NAMES = {
    "b": "bool",
    **{f"i{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"u{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{f"f{bits}": f"float{bits}" for bits in (16, 32, 64)},
    **{f"c{bits}": f"complex{bits}" for bits in (64, 128)},
}

# The last three columns are Python's int, float and complex. A star marks the default
# dtype of that Python type.
WITH_64_BIT_TYPES = """
b    u8   u16  u32  u64  i8   i16  i32  i64  bf   f16  f32  f64  c64  c128 i*   f*   c*
u8   u8   u16  u32  u64  i16  i16  i32  i64  bf   f16  f32  f64  c64  c128 u8   f*   c*
u16  u16  u16  u32  u64  i32  i32  i32  i64  bf   f16  f32  f64  c64  c128 u16  f*   c*
u32  u32  u32  u32  u64  i64  i64  i64  i64  bf   f16  f32  f64  c64  c128 u32  f*   c*
u64  u64  u64  u64  u64  f*   f*   f*   f*   bf   f16  f32  f64  c64  c128 u64  f*   c*
i8   i16  i32  i64  f*   i8   i16  i32  i64  bf   f16  f32  f64  c64  c128 i8   f*   c*
i16  i16  i32  i64  f*   i16  i16  i32  i64  bf   f16  f32  f64  c64  c128 i16  f*   c*
i32  i32  i32  i64  f*   i32  i32  i32  i64  bf   f16  f32  f64  c64  c128 i32  f*   c*
i64  i64  i64  i64  f*   i64  i64  i64  i64  bf   f16  f32  f64  c64  c128 i64  f*   c*
bf   bf   bf   bf   bf   bf   bf   bf   bf   bf   f32  f32  f64  c64  c128 bf   bf   c64
f16  f16  f16  f16  f16  f16  f16  f16  f16  f32  f16  f32  f64  c64  c128 f16  f16  c64
f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f32  f64  c64  c128 f32  f32  c64
f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  f64  c128 c128 f64  f64  c128
c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c64  c128 c64  c128 c64  c64  c64
c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128 c128
"""

OPERANDS = ["b", "u8", "u16", "u32", "u64", "i8", "i16", "i32", "i64", "bf", "f16"]
OPERANDS += ["f32", "f64", "c64", "c128"]
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
            # Without 64-bit types, u32 and a smaller signed integer stay at 32 bits.
            if not x64 and {a, b} in ({"u32", "i8"}, {"u32", "i16"}, {"u32", "i32"}):
                expected = "i32"
            found = dtypes.promote_types(dtype_of(a), dtype_of(b))
            wanted = dtype_of(expected)
            if isinstance(wanted, type):
                wanted = dtypes.dtype(wanted)
            assert found == wanted, (a, b)


def test_promotion_is_commutative_and_associative():
    promote = dtypes.promote_types
    # uint64 with a signed integer gives a weak float, which is no dtype.
    operands = [dtype_of(name) for name in OPERANDS if name != "u64"]
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
    assert dtypes.is_weakly_typed(weak)
    assert dtypes.is_weakly_typed(1.0)
    assert not dtypes.is_weakly_typed(True)
    assert not dtypes.is_weakly_typed(np.float32(1))


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
    with pytest.raises(TypePromotionError, match=r"float8_e4m3fn.*8-bit"):
        dtypes.promote_types("float8_e4m3fn", "float32")
    with pytest.raises(TypePromotionError, match=r"4-bit"):
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
