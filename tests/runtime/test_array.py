"""Concrete arrays: what they show, what they convert to, what they refuse."""

import copy
import ctypes
import pickle
import warnings

import numpy as np
import pytest

from curta import lax
from curta.core.array import Array
from curta.core.avals import ShapedArray
from curta.core.sharding import SingleDeviceSharding
from curta.core.stage import stage
from curta.dtypes import KeyDType
from curta.errors import JaxRuntimeError
from curta.runtime.array import ArrayImpl
from curta.runtime.devices import devices
from curta.runtime.transfer import to_array


def array(x, dtype=np.float32):
    return to_array(np.asarray(x, dtype))


def key(*words):
    data = np.array(words, np.uint32).view(np.uint64)
    return ArrayImpl(data.reshape(()), ShapedArray((), KeyDType("fry")))


class TestText:
    def test_arrays(self):
        assert repr(array([0, 1, 2])) == "Array([0., 1., 2.], dtype=float32)"
        assert str(array([0, 1, 2])) == "[0. 1. 2.]"
        assert repr(array([[1, 2], [3, 4]], np.int32)) == (
            "Array([[1, 2],\n       [3, 4]], dtype=int32)"
        )
        assert repr(array([True, False], bool)) == "Array([ True, False], dtype=bool)"

    def test_weak_scalars(self):
        assert repr(to_array(1.0)) == "Array(1., dtype=float32, weak_type=True)"
        assert repr(to_array(True)) == "Array(True, dtype=bool)"

    def test_empty(self):
        assert repr(array(np.zeros((2, 0)))) == "Array([], shape=(2, 0), dtype=float32)"

    def test_long_lines_put_no_break_before_the_dtype(self):
        x = ArrayImpl(
            np.arange(10, dtype=np.float32) * 1.5,
            ShapedArray((10,), np.dtype(np.float32), True),
        )
        assert repr(x) == (
            "Array([ 0. ,  1.5,  3. ,  4.5,  6. ,  7.5,  9. , 10.5, 12. , 13.5],"
            "      dtype=float32, weak_type=True)"
        )

    def test_the_dtype_moves_where_it_would_not_fit_a_line(self):
        x = array(np.arange(12.0))
        assert repr(x).endswith(" 11.],      dtype=float32)")
        assert repr(x[:11]).endswith(" 10.], dtype=float32)")

    def test_summary(self):
        assert repr(array(np.arange(2000), np.int32)) == (
            "Array([   0,    1,    2, ..., 1997, 1998, 1999], dtype=int32)"
        )

    def test_keys(self):
        assert repr(key(0, 43)) == "Array((), dtype=key<fry>) overlaying:\n[ 0 43]"

    def test_format(self):
        assert f"{to_array(1.0):.3f}" == "1.000"
        assert f"{array([1, 2])}" == "[1. 2.]"
        with pytest.raises(TypeError, match="unsupported format string"):
            format(array([1, 2]), ".3f")


WRITTEN_DTYPES = ["bool", "int32", "uint8", "float16", "float32", "complex64"]
WRITTEN_DTYPES += ["bfloat16", "float8_e4m3fn", "int4", "uint2"]


def make_writeable(view):
    view.flags.writeable = True


def set_flags(view):
    view.setflags(write=True)


def store(view):
    view[...] = 1


def store_in_buffer(view):
    memoryview(view)[...] = 1


def ask_for_a_writeable_buffer(view):
    ctypes.c_char.from_buffer(view)


WAYS_TO_WRITE = [make_writeable, set_flags, store, store_in_buffer]
REFUSALS = (ValueError, TypeError, BufferError, NotImplementedError)
WAYS_TO_WRITE += [ask_for_a_writeable_buffer]


class SameMemory:
    def __init__(self, array):
        self.__array_interface__ = array.__array_interface__
        self.array = array


class FirstVersion:
    """DLPack as consumers of its first version ask for it."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, stream=None, **others):
        return self.array.__dlpack__(stream=stream)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class TestNumpy:
    def test_view_is_read_only_and_shares_memory(self):
        x = array([1, 2, 3])
        view = np.asarray(x)
        assert not view.flags.writeable
        assert np.shares_memory(view, np.asarray(x))
        with pytest.raises(ValueError):
            view[0] = 5

    def test_arrays_of_the_same_elements_have_memory_of_their_own(self):
        source = np.arange(6, dtype=np.float32)
        whole = lax.convert_element_type(source, np.float32)
        reverse = lax.convert_element_type(source[::-1], np.float32)
        single = lax.broadcast(source[:1].reshape(()), ())
        source[:] = 9
        assert whole.tolist() == [0, 1, 2, 3, 4, 5] == reverse.tolist()[::-1]
        assert reverse._data.flags.c_contiguous and single == 0

    @pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 3)])
    @pytest.mark.parametrize("dtype", WRITTEN_DTYPES)
    def test_no_view_becomes_writeable(self, shape, dtype):
        x = array(np.zeros(shape), dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            for view in (np.asarray(x), np.asarray(x).reshape(-1), np.asarray(x)[...]):
                assert (view.dtype, view.size) == (x.dtype, x.size)
                assert np.shares_memory(view, x._data) == (x.size > 0)
                for change in WAYS_TO_WRITE:
                    with pytest.raises(REFUSALS):
                        change(view)

    def test_interfaces_say_that_it_is_read_only(self):
        x = array([1, 2, 3])
        assert np.asarray(x).__array_interface__["data"] == (x._data.ctypes.data, True)
        shared = np.asarray(SameMemory(np.asarray(x)))
        with pytest.raises(ValueError):
            shared.flags.writeable = True
        buffer = x.__buffer__(0)
        for view in (np.asarray(buffer), np.frombuffer(buffer, np.float32)):
            with pytest.raises(ValueError):
                view.flags.writeable = True
        with pytest.raises(TypeError):
            buffer[0] = 9.0

    def test_dlpack_cannot_be_written_to(self):
        x = array([1, 2, 3])
        view = np.from_dlpack(x)
        assert np.shares_memory(view, x._data)
        with pytest.raises(ValueError):
            view.flags.writeable = True
        # A consumer of the first version would take the memory for its own.
        old = np.from_dlpack(FirstVersion(x))
        assert not np.shares_memory(old, x._data) and old.tolist() == [1, 2, 3]
        with pytest.raises(BufferError, match="read-only"):
            x.__dlpack__(copy=False)

    def test_whoever_has_a_view_keeps_the_memory(self):
        held = np.asarray(array([1, 2, 3]) + 1)
        half = np.asarray(array([1, 2, 3]).astype("bfloat16") + 1)
        for k in range(50):
            array([7, 8, 9]) + k
            array([7, 8, 9]).astype("bfloat16") + k
        assert held.tolist() == half.tolist() == [2, 3, 4]

    def test_copies(self):
        x = array([1, 2, 3])
        assert np.array(x).flags.writeable
        assert np.asarray(x, np.float64).dtype == np.float64
        with pytest.raises(ValueError):
            x.__array__(np.float64, copy=False)

    def test_the_source_may_change_afterwards(self):
        source = np.zeros(3, np.float32)
        x = to_array(source)
        source[0] = 1
        assert x.tolist() == [0, 0, 0]

    def test_wide_types_are_halved(self):
        assert to_array(np.arange(3.0)).dtype == np.float32
        assert to_array(np.arange(3)).dtype == np.int32

    def test_keys_refuse(self):
        with pytest.raises(TypeError, match="Array with PRNGKey dtype cannot be"):
            np.asarray(key(0, 1))

    def test_buffer(self):
        view = array([1, 2]).__buffer__(0)
        assert view.readonly and view.tolist() == [1.0, 2.0]

    def test_dlpack(self):
        x = array([1, 2, 3])
        assert np.from_dlpack(x).tolist() == [1, 2, 3]
        assert tuple(x.__dlpack_device__()) == (1, 0)

    def test_arrays_of_other_things_are_refused(self):
        with pytest.raises(TypeError, match="not a valid JAX array type"):
            to_array(np.array(["a"]))
        with pytest.raises(TypeError, match="is not a valid JAX type"):
            to_array("a")


class TestScalars:
    def test_conversions(self):
        assert int(array(3)) == 3
        assert float(array(2.5)) == 2.5
        assert complex(array(1 + 2j, np.complex64)) == 1 + 2j
        assert [1, 2, 3][array(1, np.uint8)] == 2
        assert bool(array([1]))
        assert array([[7]]).item() == 7
        assert array([[1, 2], [3, 4]]).item(1, 0) == 3

    @pytest.mark.parametrize("kind", [int, float, complex])
    def test_only_scalars(self, kind):
        with pytest.raises(TypeError, match="Only scalar arrays can be converted"):
            kind(array([1]))

    def test_index_needs_integers(self):
        for x in (array(1.0), array([1], np.int32), array(True, bool)):
            with pytest.raises(TypeError, match="Only integer scalar arrays can be"):
                x.__index__()

    def test_complex_is_no_real(self):
        with pytest.raises(TypeError):
            float(array(1j, np.complex64))

    def test_truth(self):
        with pytest.raises(ValueError, match="truth value of an array with more than"):
            bool(array([1, 2]))
        with pytest.raises(ValueError, match="truth value of an empty array"):
            bool(array([]))

    def test_item_of_many(self):
        with pytest.raises(ValueError, match="can only convert an array of size 1"):
            array([1, 2]).item()


class TestContainer:
    def test_iteration(self):
        rows = list(array([[1, 2], [3, 4]]))
        assert [type(r) for r in rows] == [ArrayImpl, ArrayImpl]
        assert [r.tolist() for r in rows] == [[1, 2], [3, 4]]
        assert repr(list(array([5]))[0]) == "Array(5., dtype=float32)"
        with pytest.raises(TypeError, match="iteration over a 0-d array"):
            iter(array(1))

    def test_length(self):
        assert len(array([1, 2])) == 2
        with pytest.raises(TypeError, match=r"len\(\) of unsized object"):
            len(array(1))

    def test_sizes(self):
        x = array(np.zeros((2, 3)))
        assert (x.shape, x.ndim, x.size, x.itemsize, x.nbytes) == ((2, 3), 2, 6, 4, 24)

    def test_no_hash(self):
        with pytest.raises(TypeError, match="unhashable type: 'ArrayImpl'"):
            hash(array(1))

    def test_no_assignment(self):
        with pytest.raises(TypeError) as error:
            array([1, 2])[0] = 5
        assert str(error.value) == (
            "Arrays are immutable and do not support in-place item assignment."
            " Instead of x[idx] = y, use x = x.at[idx].set(y) or another .at[] method."
            " See docs/sharp_bits.md#arrays-are-immutable."
        )

    def test_arrays_and_tracers_are_arrays(self):
        seen = []
        stage(lambda x: seen.append(isinstance(x, Array)) or [x], [array(1).aval])
        assert seen == [True]
        assert isinstance(array(1), Array)
        assert not isinstance(np.ones(2), Array)


class TestCopies:
    @pytest.mark.parametrize(
        "duplicate",
        [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))],
    )
    def test_round_trip(self, duplicate):
        for x in (array([1, 2]), to_array(3)):
            y = duplicate(x)
            assert y.aval is x.aval
            assert y.tolist() == x.tolist()
        assert repr(duplicate(key(1, 2))) == repr(key(1, 2))


class TestPlacement:
    def test_defaults(self):
        x = array([1])
        assert str(x.devices()) == "{CpuDevice(id=0)}"
        assert repr(x.sharding) == (
            "SingleDeviceSharding(device=CpuDevice(id=0), memory_kind=device)"
        )
        assert x.sharding == SingleDeviceSharding(devices()[0])
        assert not x.committed
        assert x.addressable_shards[0].data is x

    def test_unknown_platform(self):
        with pytest.raises(RuntimeError, match="Unknown backend: 'gpu' requested"):
            devices("gpu")


class TestDeleted:
    def test_every_use_says_so(self):
        x = array([1, 2, 3])
        x.delete()
        assert x.is_deleted() and x.shape == (3,)
        message = r"Array has been deleted with shape=float32\[3\]"
        for use in (np.asarray, list, repr, lax.neg):
            with pytest.raises(RuntimeError, match=message):
                use(x)
        with pytest.raises(JaxRuntimeError, match="deleted or donated buffer"):
            x.block_until_ready()
