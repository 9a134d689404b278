"""`ArrayImpl`: a concrete array, a NumPy array that nobody may write to."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from curta import dtypes
from curta._base.on_demand import late
from curta._base.user_warnings import warn
from curta.config import config
from curta.core.array_layout import Format, stored_format
from curta.core.avals import ShapedArray, aval_on
from curta.core.buffers import locked
from curta.core.dlpack_types import capsule_of
from curta.core.mesh_scope import get_abstract_mesh
from curta.core.sharding import MemorySpace, Sharding, default_sharding
from curta.core.trace import register_aval_rule, thread_state
from curta.errors import DeletedArrayError, JaxRuntimeError
from curta.runtime.array_text import ShownArray
from curta.runtime.device_data import DeviceData
from curta.runtime.devices import Device, first_sharding
from curta.runtime.guard import guard_transfer
from curta.runtime.host_runs import several_hosts, spans_hosts
from curta.runtime.laid_out import LaidOutData, without_order
from curta.runtime.queue import Pending
from curta.runtime.remote_data import Held, RemoteData

if TYPE_CHECKING:
    from curta.runtime.shards import Shard

_Any = np.ndarray[Any, Any]
# For arrays on devices of plugins, or several hosts, alone.
hosts_data: Any = late("curta.runtime.hosts_data")
shared_memory: Any = late("curta.runtime.shared_memory")
shards: Any = late("curta.runtime.shards")


class ArrayImpl(ShownArray):
    """An array whose elements are known.

    `_data` is a C-contiguous NumPy array of the physical dtype of `aval`. It is never
    written to, and handed out only as a view that stays read-only. It is None while the
    elements are computed in the queue, when `_pending` is a future of them;
    while they lie on devices of a plugin, on several hosts or in another order, when
    `_pending` has them; and once the array was deleted or donated. `_sharding` is None
    unless the user placed the array on devices (in JAX's words: committed it), or made
    it where a mesh is in scope. `_home` is where it was made else.
    """

    # `_pending` is absent from arrays that have always been at hand, `_home` from those
    # that were made on the first device.
    __slots__ = ("__weakref__", "_data", "_home", "_pending", "_sharding", "aval")

    aval: ShapedArray
    _data: Any
    _pending: Any  # what is `Held`, or None
    _sharding: Sharding | None
    _home: Sharding

    def __init__(self, data: Any, aval: ShapedArray, sharding: Sharding | None = None):
        self._data = data
        self.aval = aval if sharding is None else aval_on(aval, sharding)
        self._sharding = sharding
        if sharding is None and config.context.places_arrays:
            self._place_by_scope()

    def _place_by_scope(self) -> None:
        """Remember where arrays are made now: on the default device, or on a mesh."""
        if thread_state.trace.is_evaluating() and not get_abstract_mesh().manual_axes:
            where = default_sharding(self.aval)
            if where.num_devices == 1 or self._data is None and several_hosts():
                self._home = where
                return
            self._sharding = where
            self.aval = aval_on(self.aval, where)
            if spans_hosts(where.devices):
                self._pending = hosts_data.split(self._data, self.aval, where)
                self._data = None

    @property
    def __numpy_dtype__(self) -> Any:
        warn(
            "Implicit conversion of an array to a dtype is deprecated; rather than"
            " dtype=arr use dtype=arr.dtype. In the future this will be an error.",
            DeprecationWarning,
        )
        return self.dtype

    # ---- the elements

    def _storage(self) -> _Any:
        """The elements in their physical dtype, waited for; RuntimeError if deleted."""
        data = self._data
        if data is None:
            data = self._unready()
            if type(data) is Pending:
                data = self._awaited(data)
            elif isinstance(data, RemoteData):
                if type(data) is DeviceData:
                    guard_transfer("device_to_host", self.aval)
                data = data.wait()
        return data

    def _buffer(self) -> _Any | Pending | RemoteData:
        """The elements, or where they are or will be; DeletedArrayError."""
        data = self._data
        if data is not None:
            return data
        buffer = self._unready()
        if type(buffer) is Pending and buffer.is_ready():
            return self._awaited(buffer)
        return buffer

    def _stored(self) -> _Any | Pending | RemoteData:
        """The same, with the dims in the order in which they are stored."""
        own = getattr(self, "_pending", None)
        return own.stored if type(own) is LaidOutData else self._buffer()

    def _unready(self) -> _Any | Pending | RemoteData:
        buffer = getattr(self, "_pending", None)
        if buffer is None:
            buffer = self._data  # there since another thread has waited
        if buffer is None:
            raise self._deleted()
        return buffer.row_major() if type(buffer) is LaidOutData else buffer

    def _deleted(self) -> DeletedArrayError:
        return DeletedArrayError(self.aval.str_short())

    def _awaited(self, buffer: Pending) -> _Any:
        data = buffer.wait()
        if self._pending is buffer:  # not deleted meanwhile, by another thread
            self._data = data
            self._pending = None
        return data

    @property
    def _value(self) -> _Any:
        """The elements, to be read here; TypeError for random keys."""
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            raise TypeError(
                "Array with PRNGKey dtype cannot be converted to a NumPy array."
                " Use jax.random.key_data(arr) if you wish to extract the underlying"
                " integer array."
                if isinstance(self.aval.dtype, dtypes.KeyDType)
                else f"NumPy has no dtype for {self.aval.dtype}: convert the array with"
                " `astype` first."
            )
        self._refuse_terms()
        return self._storage()

    def _refuse_terms(self) -> None:
        if self._has_terms():
            raise NotImplementedError(
                "an unreduced array cannot be converted to a NumPy array: its elements"
                f" are sums of what the devices hold. Its type is {self.aval}; take the"
                " sums with jax.sharding.reshard."
            )

    # By JAX's private names, for which programs ask all the same.

    @property
    def _npy_value(self) -> _Any | None:
        return self._data

    @property
    def _arrays(self) -> list[ArrayImpl | None] | None:
        return None if self.is_deleted() else [s.data for s in self.addressable_shards]

    def _check_if_deleted(self) -> None:
        if self.is_deleted():
            raise self._deleted()

    def _has_terms(self) -> bool:
        """Whether `_data` has the terms of sums, along dims in front for each axis."""
        where = self.aval.placement
        return where is not None and bool(where.unreduced)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> _Any:
        if copy or dtype is not None:
            return np.array(locked(self._value), dtype=dtype, copy=copy)
        data, aval = self._data, self.aval
        if data is not None and data.dtype is aval.dtype and aval.placement is None:
            try:  # written out: programs read results this way
                return np.asarray(memoryview(data).toreadonly())
            except ValueError:  # buffers have no name for the type
                return locked(data)
        return locked(self._value)

    # Python asks for it from 3.12 on.
    def __buffer__(self, flags: int) -> memoryview:
        value: Any = self._value  # a buffer, as types know from 3.12 on
        try:
            return memoryview(value).toreadonly()
        except ValueError:
            name = dtypes.short_name(self.dtype).replace("_", "").upper()
            raise BufferError(
                f"Buffers of type {name} are not supported by the Python buffer"
                " protocol. Take np.asarray(x)."
            ) from None

    def __dlpack__(
        self,
        *,
        stream: Any = None,
        max_version: tuple[int, int] | None = None,
        dl_device: Any = None,
        copy: bool | None = None,
    ) -> Any:
        buffer = self._buffer()
        if type(buffer) is DeviceData and not self._asks_for_host(buffer, dl_device):
            if copy:
                buffer = buffer.copy()
            return shared_memory.capsule(buffer, (max_version or (0,)) >= (1, 0))
        given = {"max_version": max_version, "dl_device": dl_device, "copy": copy}
        given = {name: x for name, x in given.items() if x is not None}
        source = locked(self._value)
        # Only consumers of version 1 understand that a buffer is read-only.
        if max_version is None or max_version < (1, 0):
            if copy is False:
                raise BufferError(
                    "arrays are read-only, which DLPack says from version 1 on: pass"
                    " max_version=(1, 0), or leave out copy=False for a copy"
                )
            source = source.copy()
        return capsule_of(source, stream=stream, **given)

    @staticmethod
    def _asks_for_host(data: DeviceData, wanted: tuple[int, int] | None) -> bool:
        """Whether a consumer wants the elements of a device copied to the host."""
        own = shared_memory.dlpack_device(data)
        if wanted in (None, own):
            return False
        if wanted[0] != 1:  # DLPack's number of the host
            raise BufferError(
                f"the array is on device {own} of DLPack, and not brought to {wanted}:"
                " use device_put beforehand."
            )
        return True

    def __dlpack_device__(self) -> tuple[Any, int]:
        buffer = self._buffer()
        if type(buffer) is DeviceData:
            return shared_memory.dlpack_device(buffer)
        return self._storage().__dlpack_device__()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        buffer = getattr(self, "_pending", None)
        if type(buffer) is DeviceData:
            return shared_memory.cuda_array_interface(buffer)
        raise AttributeError(
            "__cuda_array_interface__ is only defined for NVidia GPU buffers."
        )

    def item(self, *args: int) -> Any:
        """The only element, or the one at an index, as a Python scalar."""
        return self._value.item(*args)

    def tolist(self) -> Any:
        """The elements as nested lists of Python scalars."""
        return self._value.tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """The elements' bytes."""
        return self._value.tobytes(order)

    def __bytes__(self) -> bytes:
        return self.tobytes()

    def __iter__(self) -> Iterator[ArrayImpl]:
        aval = self.aval
        if not aval.shape:
            raise TypeError("iteration over a 0-d array")
        row = ShapedArray(aval.shape[1:], aval.dtype, aval.weak_type)
        sharding = self._sharding
        where = aval.placement
        apart = where is not None or isinstance(self._buffer(), RemoteData)
        apart = apart or (sharding is not None and sharding.num_devices > 1)
        is_split = where is not None and where.entries and not self.is_fully_replicated
        if is_split and not self._has_terms():
            if not self.is_fully_addressable:
                raise AssertionError(  # JAX's class: its rows are refused by type
                    "rows of an array over several processes are found by"
                    " x.at[i].get(out_sharding=...), or process_allgather(x) reads it"
                )
            sharding = None
        elif apart or config.context.debugging:
            rows: list[Any] = [self[i] for i in range(aval.shape[0])]
            return iter(rows)
        data = self._storage()
        return iter([ArrayImpl(data[i, ...], row, sharding) for i in range(len(data))])

    # ---- Python scalars

    def __bool__(self) -> bool:
        if isinstance(self.aval.dtype, dtypes.ExtendedDType):
            raise TypeError("key array cannot be converted to boolean.")
        return bool(self._value)

    def __int__(self) -> int:
        return int(self._scalar())

    def __float__(self) -> float:
        return float(self._scalar())

    def __complex__(self) -> complex:
        return complex(self._scalar())

    def __index__(self) -> int:
        if self.aval.shape or not dtypes.issubdtype(self.aval.dtype, np.integer):
            raise TypeError(
                "Only integer scalar arrays can be converted to a scalar index."
            )
        return int(self._value)

    def _scalar(self) -> Any:
        if self.aval.shape:
            raise TypeError(
                "Only scalar arrays can be converted to Python scalars; got"
                f" arr.ndim={self.ndim}"
            )
        return self._value.item()

    # ---- copies

    def copy(self) -> ArrayImpl:
        """The same elements in memory of their own."""
        buffer = self._buffer()
        if isinstance(buffer, RemoteData):
            return wrap(buffer.copy(), self.aval, self._sharding)
        return ArrayImpl(self._storage().copy(), self.aval, self._sharding)

    def __copy__(self) -> ArrayImpl:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ArrayImpl:
        return self.copy()

    def __reduce__(self) -> tuple[Any, ...]:
        self._refuse_terms()
        return _unpickle, (np.array(self._storage()), self.aval)

    # ---- where the array is

    @property
    def sharding(self) -> Sharding:
        """How the array is laid out over devices."""
        if self._sharding is not None:
            return self._sharding
        own = getattr(self, "_pending", None)
        buffer = without_order(own)
        # Without a sharding an array is on one device, in whatever layout.
        if isinstance(own, RemoteData) or type(buffer) is DeviceData:
            result: Sharding = buffer.sharding
            return result
        return getattr(self, "_home", None) or first_sharding(self.aval)

    @property
    def format(self) -> Format:
        """How the array is stored: the order of its dims, and its sharding."""
        if self.is_deleted():
            return Format(None, self.sharding)
        own = getattr(self, "_pending", None)
        order = own.major_to_minor if type(own) is LaidOutData else range(self.ndim)
        return stored_format(order, self.sharding)

    @property
    def device(self) -> Device | Sharding:
        """The device that holds the array, or its sharding if there are several."""
        result = self.sharding
        return result.devices[0] if result.num_devices == 1 else result

    @property
    def committed(self) -> bool:
        """Whether the user placed the array on its devices."""
        return self._sharding is not None

    _committed = committed

    def devices(self) -> set[Device]:
        """The devices that hold a part of the array."""
        self._buffer()
        return self.sharding.device_set

    @property
    def is_fully_addressable(self) -> bool:
        """Whether this process can read all elements."""
        if self._sharding is None and not isinstance(
            getattr(self, "_pending", None), RemoteData
        ):
            return True  # nobody placed it: it is here, whatever mesh is in scope
        return self.sharding.is_fully_addressable

    @property
    def is_fully_replicated(self) -> bool:
        """Whether every device holds all elements."""
        return self.sharding.is_fully_replicated

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts of the array on this process's devices."""
        here = self.sharding.addressable_devices
        return [s for s in self.global_shards if s.device in here]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts on all devices; None is the data of those of other processes."""
        self._buffer()
        result: list[Shard] = shards.shards_of(self)
        return result

    def addressable_data(self, index: int) -> ArrayImpl:
        """The part on the device of number `index`, of as many as hold parts here.

        RuntimeError if all have all of it, and none is this process's.
        """
        here = self.addressable_shards
        if self.is_fully_replicated:
            if not here:
                raise RuntimeError(
                    "FullyReplicatedShard: Array has no addressable shards."
                )
            index = 0
        result: Any = here[index].data  # a shard of this process
        return result

    # ---- life

    def block_until_ready(self) -> ArrayImpl:
        """Wait until the elements are computed; JaxRuntimeError if deleted."""
        if self._data is not None:
            return self
        if self.is_deleted():
            raise JaxRuntimeError(
                "INVALID_ARGUMENT: BlockHostUntilReady() called on deleted or donated"
                f" buffer: Array has been deleted with shape={self.aval.str_short()}."
            )
        buffer = self._stored()
        if isinstance(buffer, RemoteData):
            buffer.block_until_ready()
        elif type(buffer) is Pending:
            self._storage()
        return self

    def is_ready(self) -> bool:
        """Whether the elements are computed."""
        buffer = self._stored()
        return buffer.is_ready() if isinstance(buffer, (Pending, RemoteData)) else True

    def copy_to_host_async(self) -> None:
        """Begin bringing the elements to the host: they are there once computed."""
        buffer = self._buffer()
        if isinstance(buffer, RemoteData):
            buffer.start_transfer()

    def is_deleted(self) -> bool:
        """Whether the array was deleted or donated."""
        return getattr(self, "_pending", None) is None and self._data is None

    def delete(self) -> None:
        """Give the memory back; the array cannot be used any more."""
        buffer = getattr(self, "_pending", None)
        self._data = self._pending = None
        if isinstance(stored := without_order(buffer), RemoteData):
            stored.delete()

    def revive(self, data: _Any | Pending | LaidOutData) -> None:
        """Undo `delete`, given the elements or where they are."""
        setattr(self, "_data" if type(data) is np.ndarray else "_pending", data)

    def on_device_size_in_bytes(self) -> int:
        """The bytes that the elements take; RuntimeError if no device is here."""
        if not self.sharding.has_addressable_devices:
            raise RuntimeError(
                "GetOnDeviceSizeInBytes() is not yet supported for arrays with no"
                " addressable devices."
            )
        buffer = self._stored()
        if isinstance(buffer, (RemoteData, np.ndarray)):
            return buffer.nbytes
        return self._storage().nbytes

    def unsafe_buffer_pointer(self) -> int:
        """The address of the elements; ValueError if they are on several devices."""
        buffer = self._stored()
        if isinstance(buffer, RemoteData):
            return buffer.address()
        data = self._storage() if isinstance(buffer, Pending) else buffer
        return data.ctypes.data


def wrap(data: Any, aval: ShapedArray, sharding: Sharding | None = None) -> ArrayImpl:
    """An array of `aval`, of elements that nobody else writes to.

    They are there, or `data` says where they are or will be.
    """
    if type(data) is np.ndarray:
        data = data if data.flags.c_contiguous else data.copy()
    elif isinstance(data, Held):
        array = ArrayImpl(None, aval, sharding)
        array._pending = data
        return array
    else:
        data = np.asarray(data)
    return ArrayImpl(data, aval, sharding)


_new: Any = object.__new__


def beside(data: _Any, aval: ShapedArray, sharding: Sharding | None) -> ArrayImpl:
    """As `ArrayImpl`, sharded as an operand, where no setting shards new arrays."""
    array: ArrayImpl = _new(ArrayImpl)
    array._data, array.aval, array._sharding = data, aval, sharding
    return array


def _unpickle(data: _Any, aval: ShapedArray) -> ArrayImpl:
    """An array as it was; of 64-bit type only where `jax_enable_x64` is on."""
    dtype = dtypes.canonicalize_dtype(aval.dtype, allow_extended_dtype=True)
    if dtype != aval.dtype:
        data, aval = data.astype(dtype), aval.update(dtype=dtype)
    return ArrayImpl(data, aval.update(memory_space=MemorySpace.Device))


register_aval_rule(ArrayImpl, lambda x: x.aval)
