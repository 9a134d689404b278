"""DLPack of types that NumPy does not know."""

import ml_dtypes
import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.core.dlpack_types import TYPES, array_from, capsule_of
from curta.dlpack import from_dlpack, is_supported_dtype

EXTENDED = [n for n in TYPES if n == "bfloat16" or n.startswith("float8")]


class Other:
    """Another library's array: it knows nothing but DLPack."""

    def __init__(self, array, versions=True):
        self.array = array
        self.versions = versions

    def __dlpack__(self, **options):
        if options and not self.versions:
            raise TypeError("unexpected keyword arguments")
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


@pytest.mark.parametrize("versions", [True, False])
@pytest.mark.parametrize("name", EXTENDED)
def test_there_and_back(name, versions):
    dtype = np.dtype(getattr(ml_dtypes, name))
    x = jnp.asarray(np.arange(1, 7).reshape(2, 3).astype(dtype))
    back = from_dlpack(Other(x, versions))
    assert back.dtype == dtype and back.shape == (2, 3)
    np.testing.assert_array_equal(np.asarray(back), np.asarray(x))
    shared = back.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert shared == versions  # the older capsules cannot say that x is read-only
    del x
    np.testing.assert_array_equal(
        np.asarray(back), np.arange(1, 7).reshape(2, 3).astype(dtype)
    )
    numpys = array_from(Other(back))
    assert numpys.dtype == dtype and numpys.flags.writeable is False


def test_names_of_capsules():
    x = jnp.ones(3, jnp.bfloat16)
    assert '"dltensor_versioned"' in repr(x.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(x.__dlpack__())
    with pytest.raises(BufferError, match="read-only"):
        x.__dlpack__(copy=False)


def test_strides_are_kept():
    x = np.arange(12).reshape(3, 4).astype(ml_dtypes.bfloat16)

    class Transposed:
        def __dlpack__(self, **options):
            return capsule_of(x.T, **options)

        def __dlpack_device__(self):
            return (1, 0)

    np.testing.assert_array_equal(np.asarray(from_dlpack(Transposed())), x.T)


def test_what_has_no_type():
    for name in "int4", "uint2", "float4_e2m1fn":
        x = jnp.ones(3, getattr(ml_dtypes, name))
        with pytest.raises(BufferError, match="DLPack only supports"):
            x.__dlpack__()
        assert not is_supported_dtype(x.dtype)
    assert is_supported_dtype(curta.numpy.bfloat16)
