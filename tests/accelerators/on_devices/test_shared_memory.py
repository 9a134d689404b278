"""Memory of devices in the hands of other libraries, and theirs in ours."""

import gc

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.runtime.device_data import DeviceData
from curta.runtime.pjrt import dlpack


@pytest.fixture
def x():
    return jnp.arange(6.0).reshape(2, 3) + 1


def kind():
    """DLPack's kind of the default device; skips the test where it has none."""
    platform = curta.devices()[0].platform_name.lower()
    if platform not in ("cpu", "cuda", "rocm"):
        pytest.skip(f"DLPack has no kind of memory for {platform}")
    return {"cpu": 1, "cuda": 2, "rocm": 10}[platform]


@pytest.fixture
def apart(monkeypatch):
    """A platform whose memory DLPack knows and the host does not read: CUDA's, for CPUs
    of a plugin."""
    if kind() == 1:
        monkeypatch.setitem(dlpack._DEVICE_TYPES, "cpu", dlpack.CUDA)
        monkeypatch.setattr(dlpack, "platform_of", lambda kind: curta.default_backend())


class Exporter:
    """Another library's array in the memory of `x`, by an old DLPack or a new one."""

    def __init__(self, x, versioned):
        self.x = x
        self.versioned = versioned

    def __dlpack__(self, **options):
        if not self.versioned and "max_version" in options:
            raise TypeError("max_version is not known")
        return self.x.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.x.__dlpack_device__()


def test_where_it_is(x):
    assert x.__dlpack_device__() == (kind(), curta.devices()[0].local_hardware_id)
    other = curta.device_put(x, curta.devices()[-1])
    assert other.__dlpack_device__()[0] == kind()


def test_others_read_the_memory_where_it_is(x):
    if kind() != 1:
        pytest.skip("NumPy reads memory of the host alone")
    shared = np.from_dlpack(x)
    assert shared.ctypes.data == x.unsafe_buffer_pointer()
    assert not shared.flags.writeable
    wanted = np.asarray(x).tolist()
    del x
    gc.collect()
    assert shared.tolist() == wanted


def test_a_copy_on_the_host_where_one_is_asked_for(x):
    if kind() == 1:
        pytest.skip("the device's memory is that of the host")
    np.testing.assert_array_equal(np.from_dlpack(x, device="cpu"), np.asarray(x))


def test_other_places_are_refused(x):
    kind()
    with pytest.raises(BufferError, match="device_put"):
        x.__dlpack__(dl_device=(8, 0))


@pytest.mark.parametrize("versioned", [False, True])
def test_there_and_back(x, versioned, apart):
    again = curta.dlpack.from_dlpack(Exporter(x, versioned))
    assert type(again._buffer()) is DeviceData
    assert again.unsafe_buffer_pointer() == x.unsafe_buffer_pointer()
    assert again.devices() == x.devices()
    np.testing.assert_array_equal(again * 2, np.asarray(x) * 2)


def test_what_others_hold_is_not_donated(x):
    kind()
    wanted = np.asarray(x).tolist()
    again = curta.dlpack.from_dlpack(x)
    y = curta.jit(lambda a: a * 3, donate_argnums=0)(x)
    assert again.tolist() == wanted
    np.testing.assert_array_equal(y, np.asarray(wanted) * 3)


def test_wide_types(apart):
    with curta.enable_x64(True):
        wide = jnp.arange(4) * 2
        assert wide.dtype == np.int64
    with pytest.raises(ValueError, match="64-bit"):
        curta.dlpack.from_dlpack(Exporter(wide, True), copy=False)
    narrow = curta.dlpack.from_dlpack(Exporter(wide, True))
    assert narrow.dtype == np.int32 and narrow.tolist() == [0, 2, 4, 6]
    assert type(narrow._buffer()) is DeviceData


def test_devices_that_are_not_there(x, apart):
    class Far(Exporter):
        def __dlpack_device__(self):
            return dlpack.CUDA, 99

    shared = Far(x, True)
    with pytest.raises(RuntimeError, match="no device 99"):
        curta.dlpack.from_dlpack(shared)


def test_copies(x):
    kind()
    again = curta.dlpack.from_dlpack(x, copy=True)
    assert again.unsafe_buffer_pointer() != x.unsafe_buffer_pointer()
    np.testing.assert_array_equal(again, x)


def test_arrays_of_the_host_are_put_on_a_device():
    given = np.arange(5, dtype=np.float32)
    device = curta.devices()[-1]
    there = curta.dlpack.from_dlpack(given, device)
    assert there.devices() == {device}
    assert type(there._buffer()) is DeviceData
    np.testing.assert_array_equal(there, given)


def test_what_cannot_be_shared(x):
    with pytest.raises(BufferError, match="key"):
        curta.random.key(0).__dlpack__()
    if len(curta.devices()) > 1:
        mesh = curta.make_mesh((2,), ("x",), devices=curta.devices()[:2])
        place = curta.NamedSharding(mesh, curta.P("x"))
        with pytest.raises(BufferError, match="one device"):
            curta.device_put(x, place).__dlpack__()


def test_cuda_array_interface(x):
    if curta.devices()[0].platform_name.lower() != "cuda":
        assert not hasattr(x, "__cuda_array_interface__")
        return
    said = x.__cuda_array_interface__
    assert said["shape"] == (2, 3) and said["typestr"] == "<f4"
    assert said["data"] == (x.unsafe_buffer_pointer(), False)
