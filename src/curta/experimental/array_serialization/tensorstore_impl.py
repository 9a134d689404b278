"""Single arrays, each in a store that TensorStore opens.

A store is named by a *spec*, a dictionary that `get_tensorstore_spec` makes.
"""

from __future__ import annotations

import asyncio
import math
import os
import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from curta._base.on_demand import Listing, late, listed
from curta._base.once import once
from curta.api.devices import device_put
from curta.api.sharded_arrays import make_array_from_single_device_arrays
from curta.core.array import Array
from curta.core.array_layout import Format
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.sharding import Sharding, SingleDeviceSharding
from curta.dtypes import canonicalize_dtype

__all__ = [
    "async_deserialize",
    "async_serialize",
    "get_tensorstore_spec",
    "run_deserialization",
    "run_serialization",
]
__dir__: Listing = listed(__all__)

Spec = dict[str, Any]
ts: Any = late("tensorstore")
_BYTES_OF_A_FILE: Final = 2 << 30
_BUCKETS: Final = re.compile(r"(gs|s3)://([^/]+)/(.*)", re.DOTALL)
_DRIVERS: Final = {"gs": "gcs", "s3": "s3"}


def get_tensorstore_spec(
    ckpt_path: str | os.PathLike[str],
    ocdbt: bool = True,
    process_idx: int | None = None,
    arr: Any = None,
    driver: str = "zarr3",
) -> Spec:
    """The spec of the array kept at a path, absolute or `gs://` or `s3://`.

    With `ocdbt` one database in the folder of the path holds the array among others,
    else the path is a folder of its own. `process_idx` is for a program of several
    processes that write apart, and the spec of `arr` tells its shape and dtype.

    Raises ValueError for a relative path, and for a bucket without a path.

    >>> spec = get_tensorstore_spec("/data/weights", ocdbt=False)
    >>> spec["driver"], spec["kvstore"]
    ('zarr3', {'driver': 'file', 'path': '/data/weights'})
    """
    scheme, colon, rest = str(ckpt_path).partition("://")
    path = f"{scheme}{colon}{os.path.normpath(rest)}" if colon else scheme
    path = path if colon else os.path.normpath(path)
    if process_idx is not None:
        folder, name = os.path.split(path)
        path = os.path.join(folder, f"process_{process_idx}", name)
    if not ocdbt:
        kept: Spec = _location(path)
    else:
        folder, name = os.path.split(path)
        if not colon and not os.path.isabs(folder):
            raise ValueError(f"Checkpoint path should be absolute. Got {folder}")
        kept = {"driver": "ocdbt", "base": _location(folder), "path": name}
    spec = {"driver": driver, "kvstore": kept}
    if arr is not None:
        spec["metadata"] = _metadata(arr, driver)
    return spec


def _location(path: str) -> Spec:
    if "://" not in path:
        return {"driver": "file", "path": path}
    result = _BUCKETS.fullmatch(path)
    if result is None:
        raise ValueError(
            "The ckpt_path should contain the bucket name and the file path inside the"
            f" bucket. Got: {path}"
        )
    scheme, bucket, inside = result.groups()
    return {"driver": _DRIVERS[scheme], "bucket": bucket, "path": inside}


def _metadata(array: Any, driver: str) -> Spec:
    """Shape, dtype and the pieces in which files hold an array."""
    shape = tuple(array.shape)
    local = array.sharding.shard_shape(shape) if isinstance(array, Array) else shape
    if driver == "zarr":
        return {
            "compressor": {"id": "zstd"},
            "shape": shape,
            "chunks": [max(1, n) for n in local],
        }
    if driver != "zarr3":
        raise ValueError(f"Unsupported driver: {driver}")
    piece = _piece(local, np.dtype(array.dtype).itemsize)
    return {
        "codecs": [],
        "shape": shape,
        "data_type": np.dtype(array.dtype).name,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": piece}},
    }


def _piece(shape: Sequence[int], item: int) -> list[int]:
    """A shape that divides `shape`, halved until a file of it is small enough."""
    piece = [max(1, n) for n in shape]
    while math.prod(piece) * item > _BYTES_OF_A_FILE:
        dim = int(np.argmax(piece))
        parts = next((d for d in range(2, piece[dim] + 1) if piece[dim] % d == 0), 1)
        if parts == 1:
            break
        piece[dim] //= parts
    return piece


def _has_metadata(spec: Any) -> bool:
    if not isinstance(spec, dict):
        return False
    return "metadata" in spec or any(map(_has_metadata, spec.values()))


async def async_serialize(
    arr_inp: Any,
    tensorstore_spec: Spec,
    commit_future: list[Any] | None = None,
    context: Any = None,
    chunk_layout: Any = None,
    primary_host: int | None = None,
    replica_id: int = 0,
    transaction: Any = None,
) -> None:
    """Write an array to the store of a spec.

    The array may be changed or donated when this is done. Where `commit_future` is a
    list, futures are added to it that are done when the files are; without it this
    waits for them.
    """
    spec = tensorstore_spec
    if not _has_metadata(spec):
        spec["metadata"] = _metadata(arr_inp, spec["driver"])
    if spec["driver"] == "zarr":
        spec.setdefault("dtype", np.dtype(arr_inp.dtype).name)
    store = await ts.open(
        ts.Spec(spec),
        create=True,
        open=True,
        context=context or _context(),
        chunk_layout=chunk_layout,
        transaction=transaction,
    )
    written = [
        store[shard.index].write(np.asarray(shard.data))
        for shard in arr_inp.addressable_shards
        if shard.replica_id == replica_id
    ]
    for each in written:
        await each.copy
        if commit_future is None:
            await each.commit
        else:
            commit_future.append(each.commit)


async def async_deserialize(
    in_type: Sharding | Format | ShapeDtypeStruct,
    tensorstore_spec: Any,
    global_shape: Sequence[int] | None = None,
    dtype: Any = None,
    byte_limiter: Any = None,
    context: Any = None,
    chunk_layout: Any = None,
    assume_metadata: bool = False,
) -> Array:
    """Read the array of a spec into what `in_type` says: a sharding, by itself or in
    a format or a struct.

    Another `global_shape` cuts the array, or fills it with zeros, and `dtype` converts
    it. Raises TypeError if there is no sharding.
    """
    if isinstance(in_type, ShapeDtypeStruct) and dtype is None:
        dtype = in_type.dtype
    sharding = getattr(in_type, "sharding", in_type)
    if not isinstance(sharding, Sharding):
        raise TypeError(
            "sharding passed to deserialization should be specified, concrete and an"
            f" instance of `jax.sharding.Sharding`. Got {in_type}"
        )
    store = await ts.open(
        tensorstore_spec,
        open=True,
        assume_metadata=assume_metadata,
        context=context or _context(),
        chunk_layout=chunk_layout,
    )
    shape = tuple(store.shape if global_shape is None else global_shape)
    kept = store.dtype.numpy_dtype
    wanted = canonicalize_dtype(kept if dtype is None else dtype)
    parts = []
    for device, index in sharding.addressable_devices_indices_map(shape).items():
        part = np.zeros(sharding.shard_shape(shape), kept)
        await _read(store, shape, index, part)
        parts.append(device_put(part.astype(wanted), SingleDeviceSharding(device)))
    return make_array_from_single_device_arrays(shape, sharding, parts)


async def _read(store: Any, shape: Sequence[int], index: Any, part: Any) -> None:
    """Fill a part of an array with what the store has of it."""
    asked = ts.IndexTransform(input_shape=shape)[index].domain
    there = store.domain.intersect(asked)
    target = ts.array(part)
    if shape:
        target = target[ts.d[:].translate_to[asked.origin]]
    await target[there].write(store[there])


def run_serialization(arrays: Sequence[Any], tensorstore_specs: Sequence[Spec]) -> None:
    """Write arrays to the stores of specs, and wait for the files."""

    async def write() -> None:
        await asyncio.gather(*map(async_serialize, arrays, tensorstore_specs))

    asyncio.run(write())


def run_deserialization(
    shardings: Sequence[Any],
    tensorstore_specs: Sequence[Any],
    global_shapes: Sequence[Any] | None = None,
    dtypes: Sequence[Any] | None = None,
    concurrent_gb: int = 32,
) -> list[Array]:
    """Read the arrays of specs, several at once."""
    nothing = [None] * len(tensorstore_specs)

    async def read() -> list[Array]:
        return await asyncio.gather(
            *map(
                async_deserialize,
                shardings,
                tensorstore_specs,
                nothing if global_shapes is None else global_shapes,
                nothing if dtypes is None else dtypes,
            )
        )

    return asyncio.run(read())


@once
def _context() -> Any:
    """What all stores share: how many files are open at once."""
    return ts.Context({"file_io_concurrency": {"limit": 128}})
