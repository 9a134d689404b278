"""Defaults, canonical dtypes and questions about one dtype."""

import ml_dtypes
import numpy as np
import pytest

from curta import dtypes
from curta.config import enable_x64, explicit_x64_dtypes


def test_canonical_dtypes():
    halves = {"int64": "int32", "uint64": "uint32", "float64": "float32"}
    for wide, half in {**halves, "complex128": "complex64"}.items():
        assert dtypes.canonicalize_dtype(wide) == half
        assert dtypes.canonicalize_dtype(np.dtype(half)) == half
        with enable_x64(True):
            assert dtypes.canonicalize_dtype(wide) == wide
    assert dtypes.canonicalize_dtype(float) == "float32"
    assert dtypes.canonicalize_dtype(dtypes.bfloat16) == dtypes.bfloat16
    with pytest.raises(TypeError, match="data type 'spam' not understood"):
        dtypes.canonicalize_dtype("spam")


def test_canonical_keys():
    key = dtypes.KeyDType("fry")
    assert dtypes.canonicalize_dtype(key, allow_extended_dtype=True) is key
    with pytest.raises(ValueError, match="extended dtype key<fry>"):
        dtypes.canonicalize_dtype(key)


def test_python_scalars():
    assert dtypes.python_scalar_dtype(True) == "bool"
    assert dtypes.python_scalar_dtype(1) == "int32"
    assert dtypes.python_scalar_dtype(1.5) == "float32"
    assert dtypes.python_scalar_dtype(1j) == "complex64"
    with enable_x64(True):
        assert dtypes.python_scalar_dtype(2**40) == "int64"


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, 2**100])
def test_large_python_ints(value):
    message = f"Python int {value} too large to convert to int32"
    with pytest.raises(OverflowError, match=message):
        dtypes.python_scalar_dtype(value)
    assert dtypes.python_scalar_dtype(2**31 - 1) == "int32"
    assert dtypes.python_scalar_dtype(-(2**31)) == "int32"


def test_defaults_follow_the_mode():
    functions = [
        dtypes.default_int_dtype,
        dtypes.default_uint_dtype,
        dtypes.default_float_dtype,
        dtypes.default_complex_dtype,
    ]
    assert [f().name for f in functions] == ["int32", "uint32", "float32", "complex64"]
    with enable_x64(True):
        found = [f().name for f in functions]
    assert found == ["int64", "uint64", "float64", "complex128"]


def test_a_wide_dtype_asked_for_by_name():
    message = (
        r"Explicitly requested dtype float64 requested in zeros is not available, and "
        r"will be truncated to dtype float32\. To enable more dtypes, set the "
        r"jax_enable_x64 configuration option or the JAX_ENABLE_X64 shell environment "
        r"variable\."
    )
    with pytest.warns(UserWarning, match=message) as caught:
        assert dtypes.check_user_dtype(np.float64, "zeros") == "float32"
    assert caught[0].filename == __file__
    with explicit_x64_dtypes("allow"):
        assert dtypes.check_user_dtype(np.float64) == "float64"
    with explicit_x64_dtypes("error"), pytest.raises(ValueError, match="not available"):
        dtypes.check_user_dtype("int64")
    with enable_x64(True):
        assert dtypes.check_user_dtype("int64") == "int64"


@pytest.mark.filterwarnings("error")
def test_user_dtypes():
    assert dtypes.check_user_dtype(float) == "float32"
    assert dtypes.check_user_dtype(int) == "int32"
    assert dtypes.check_user_dtype("bool") == "bool"
    key = dtypes.KeyDType("rbg", words=4)
    assert dtypes.check_user_dtype(key) is key
    with pytest.raises(ValueError, match="dtype must be specified"):
        dtypes.check_user_dtype(None)
    for bad in ("S4", "O", "datetime64[s]"):
        with pytest.raises(TypeError, match="Only number, bool"):
            dtypes.check_user_dtype(bad)


def test_hierarchy():
    for name in ("bfloat16", "float8_e4m3fn", "float4_e2m1fn"):
        dtype = np.dtype(getattr(ml_dtypes, name))
        assert dtypes.issubdtype(dtype, np.floating)
        assert dtypes.issubdtype(dtype.type, np.inexact)
        assert dtypes.issubdtype(dtype, dtype)
        assert not dtypes.issubdtype(dtype, np.float32)
        assert not dtypes.issubdtype(dtype, np.integer)
    assert dtypes.issubdtype("int4", np.signedinteger)
    assert dtypes.issubdtype("uint4", np.unsignedinteger)
    assert not dtypes.issubdtype("uint4", np.signedinteger)
    assert dtypes.issubdtype(np.float32, np.floating)
    assert dtypes.issubdtype(np.dtype("complex64"), np.complexfloating)
    assert not dtypes.issubdtype(bool, np.number)
    assert dtypes.issubdtype(int, np.integer)


def test_kinds():
    assert dtypes.isdtype("float32", "real floating")
    assert dtypes.isdtype(dtypes.bfloat16, ("integral", "real floating"))
    assert not dtypes.isdtype("int8", "unsigned integer")
    assert dtypes.isdtype("int8", "int8")
    assert not dtypes.isdtype("bool", "numeric")
    with pytest.raises(ValueError, match="Unrecognized kind='spam'"):
        dtypes.isdtype("int8", "spam")
    with pytest.raises(TypeError, match="Expected kind to be a dtype"):
        dtypes.isdtype("int8", 3)


def test_names_in_jaxprs():
    names = {
        "bool": "bool",
        "int8": "i8",
        "uint32": "u32",
        "bfloat16": "bf16",
        "float32": "f32",
        "complex128": "c128",
        "float8_e5m2": "f8_e5m2",
        "int4": "i4",
    }
    for name, short in names.items():
        dtype = np.dtype(getattr(ml_dtypes, name, name))
        assert dtypes.short_name(dtype) == short
    assert dtypes.short_name(dtypes.float0) == "float0"
    assert dtypes.short_name(dtypes.KeyDType("fry")) == "key<fry>"


def test_neighbours():
    assert dtypes.to_inexact_dtype("int8") == "float32"
    assert dtypes.to_inexact_dtype("int64") == "float64"
    assert dtypes.to_inexact_dtype("float16") == "float16"
    assert dtypes.to_complex_dtype("int32") == "complex64"
    assert dtypes.to_complex_dtype("float64") == "complex128"
    assert dtypes.to_floating_dtype("complex128") == "float64"
    assert dtypes.to_numeric_dtype("bool") == "int32"
    assert dtypes.to_numeric_dtype("uint8") == "uint8"


def test_sizes_and_limits():
    assert dtypes.itemsize_bits("int4") == 4
    assert dtypes.itemsize_bits("bool") == 8
    assert dtypes.itemsize_bits("complex128") == 128
    assert dtypes.finfo(dtypes.bfloat16).bits == 16
    assert dtypes.iinfo("int4").max == 7
    assert dtypes.supports_inf("float8_e5m2")
    assert not dtypes.supports_inf("float8_e4m3fn")
    assert not dtypes.supports_inf("int32")


def test_scalar_types():
    for name, kind in {"bool": bool, "int4": int, "bfloat16": float}.items():
        assert dtypes.scalar_type_of(name) is kind
    assert dtypes.scalar_type_of(np.complex64) is complex
    with pytest.raises(TypeError):
        dtypes.scalar_type_of("S1")


def test_key_dtypes():
    fry, rbg = dtypes.KeyDType("fry"), dtypes.KeyDType("rbg", words=4)
    assert (repr(fry), str(rbg), fry.name) == ("key<fry>", "key<rbg>", "key<fry>")
    assert fry == dtypes.KeyDType("fry") != rbg
    assert hash(fry) == hash(dtypes.KeyDType("fry"))
    assert (fry.itemsize, rbg.itemsize) == (8, 16)
    assert dtypes.physical_dtype(fry) == np.uint64
    assert dtypes.physical_dtype(np.dtype("int8")) == np.int8
    for above in (dtypes.prng_key, dtypes.extended, np.generic):
        assert dtypes.issubdtype(fry, above)
    assert not dtypes.issubdtype(fry, np.number)
    assert not dtypes.issubdtype(np.float32, dtypes.prng_key)
    assert dtypes.issubdtype(fry, fry)
    assert not dtypes.issubdtype(fry, rbg)
