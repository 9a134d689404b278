"""Saving state to disk and restoring it, each process its parts."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from curta import dtypes, tree_util
from curta._base.lazy_dataclass import dataclass
from curta.api.safetensors import Reader, as_stored, stored_form, write
from curta.api.sharded_arrays import make_array_from_callback
from curta.api.state_index import (
    VERSION,
    ArrayPiece,
    Leaf,
    index_text,
    leaf_of,
    named_leaves,
    scalar_leaf,
    tree_of,
)
from curta.core.avals import ShapedArray
from curta.core.buffers import empty
from curta.core.shape_struct import ShapeDtypeStruct
from curta.core.sharding import Index, Sharding
from curta.core.trace import Tracer
from curta.errors import UnexpectedTracerError
from curta.hosts.engine import of_process
from curta.runtime.agreement import greatest, wait_for_all
from curta.runtime.array import ArrayImpl
from curta.runtime.hosts_data import HostsData
from curta.runtime.transfer import to_array

_INDEX = "index.json"
NDArray = np.ndarray[Any, Any]


def save(path: str | os.PathLike[str], tree: Any, *, step: int | None = None) -> None:
    """Save a pytree of arrays and Python scalars in a folder.

    The previous contents stay in place until all data is on disk: if the program is
    interrupted, `restore` returns the tree that was saved before. With several
    processes, all of them call `save`; each writes its parts into a folder that all can
    reach.

    Args:
      path: the folder, which is created if it does not exist.
      tree: arrays of any dtype and sharding, including random keys; numbers and
        strings.
      step: a number that is stored with the tree.

    Raises:
      TypeError: if a leaf has another type.
      ValueError: for unreduced arrays.
      OSError: if it cannot be written.

    Returns:
      None, when all is on the disk.

    >>> import curta, curta.numpy as jnp, tempfile
    >>> from curta import state
    >>> folder = tempfile.mkdtemp()
    >>> state.save(folder, {"w": jnp.arange(3), "lr": 0.1}, step=7)
    >>> state.restore(folder), state.step(folder)
    ({'lr': 0.1, 'w': Array([0, 1, 2], dtype=int32)}, 7)
    """
    folder = os.fspath(path)
    os.makedirs(folder, exist_ok=True)
    number = greatest(_next_number(folder) if of_process().index == 0 else 0)
    below = f"{number:08d}"
    os.makedirs(os.path.join(folder, below), exist_ok=True)
    saved = [_saved(name, x, below) for name, x in named_leaves(tree)]
    files: dict[str, dict[str, NDArray]] = {}
    for leaf, data in saved:
        for piece in leaf.pieces:
            if piece in data:
                stored = as_stored(data[piece], leaf.aval.dtype)  # type: ignore
                files.setdefault(piece.file, {})[piece.name(leaf.name)] = stored
    for file, arrays in files.items():
        write(os.path.join(folder, file), arrays)
    _sync(os.path.join(folder, below))
    wait_for_all()
    if of_process().index == 0:
        _publish(folder, index_text(step, tree, [leaf for leaf, _ in saved]))
    wait_for_all()
    if of_process().index == 0:
        _clear(folder, below)


def _next_number(folder: str) -> int:
    names = [int(n) for n in os.listdir(folder) if n.isdigit()]
    return max(names, default=0) + 1


def _publish(folder: str, text: str) -> None:
    """Make what was written what the folder has, at once."""
    beside = os.path.join(folder, _INDEX + ".new")
    with open(beside, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    os.replace(beside, os.path.join(folder, _INDEX))
    _sync(folder)


def _sync(folder: str) -> None:
    """Bring the names in a folder to the disk, where the system can do that."""
    with contextlib.suppress(OSError):  # Windows opens no folders
        number = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _clear(folder: str, kept: str) -> None:
    """Remove what was saved before, or by a program that did not finish."""
    for name in os.listdir(folder):
        if name.isdigit() and name != kept:
            shutil.rmtree(os.path.join(folder, name), ignore_errors=True)


def _saved(name: str, x: Any, below: str) -> tuple[Leaf, Mapping[ArrayPiece, NDArray]]:
    """A leaf, and the elements of the pieces that this process writes."""
    result = scalar_leaf(name, x)
    if result is not None:
        return result, {}
    if isinstance(x, Tracer):
        raise UnexpectedTracerError(f"state.save of a traced value: {name} is {x}")
    if not isinstance(x, (ArrayImpl, np.ndarray, np.generic)):
        raise TypeError(
            f"state.save takes arrays, numbers and strings; {name} is of type {type(x)}"
        )
    kind = "array" if type(x) is ArrayImpl else "numpy"
    array = x if type(x) is ArrayImpl else _as_it_is(x)
    if array._has_terms():
        raise ValueError(
            f"state.save of an unreduced array: {name} is {array.aval}. Take the sums"
            " with curta.reshard first."
        )
    aval = array.aval.unplaced()
    buffer = array._buffer()
    if type(buffer) is not HostsData:
        piece = ArrayPiece((0,) * aval.ndim, aval.shape, _file(below, 0))
        own = of_process().index == 0
        pieces = {piece: array._storage()} if own else {}
        return Leaf(name, kind, aval, (piece,)), pieces
    writers: dict[str, tuple[ArrayPiece, int]] = {}
    for host, index in sorted(buffer.layout.parts(aval.shape).items()):
        start = tuple(s.start for s in index)
        shape = tuple(s.stop - s.start for s in index)
        piece = ArrayPiece(start, shape, _file(below, host))
        writers.setdefault(str(index), (piece, host))
    data = {p: buffer.parts[h] for p, h in writers.values() if h in buffer.parts}
    return Leaf(name, kind, aval, tuple(p for p, _ in writers.values())), data


def _as_it_is(x: Any) -> ArrayImpl:
    """A NumPy array as an array of the same dtype, whatever the settings say."""
    data = np.asarray(x)
    if data.dtype.kind not in "biufcV":
        raise TypeError(f"state.save takes no arrays of {data.dtype}")
    return ArrayImpl(data, ShapedArray(data.shape, data.dtype))


def _file(below: str, host: int) -> str:
    return f"{below}/host-{host:05d}.safetensors"


# ---- reading


@dataclass(frozen=True)
class _Index:
    """The index of a folder."""

    step: int | None
    tree: Any
    leaves: tuple[Leaf, ...]


def _index(folder: str) -> _Index:
    path = os.path.join(folder, _INDEX)
    try:
        with open(path, encoding="utf-8") as file:
            text = json.load(file)
        if text["format"] != "curta.state" or text["version"] != VERSION:
            raise ValueError(
                f"{path} is of format {text['format']}, version {text['version']}"
            )
        leaves = tuple(map(leaf_of, text["leaves"]))
        return _Index(text["step"], text["tree"], leaves)
    except FileNotFoundError:
        raise FileNotFoundError(f"no state was saved in {folder}") from None
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is damaged: {error!r}") from error


def step(path: str | os.PathLike[str]) -> int | None:
    """The step that was saved with the tree in a folder; None if none was given.

    Raises FileNotFoundError if there is none.

    >>> import tempfile
    >>> from curta import state
    >>> folder = tempfile.mkdtemp()
    >>> state.save(folder, [1.5], step=100)
    >>> state.step(folder)
    100
    """
    return _index(os.fspath(path)).step


def describe(path: str | os.PathLike[str]) -> Any:
    """The tree in a folder, with `ShapeDtypeStruct`s for its arrays.

    Raises FileNotFoundError if the folder has no saved tree, and ValueError if a
    container is not a dict, list or tuple.

    >>> import curta.numpy as jnp, tempfile
    >>> from curta import state
    >>> folder = tempfile.mkdtemp()
    >>> state.save(folder, [jnp.ones(2, "bfloat16"), 3])
    >>> state.describe(folder)
    [ShapeDtypeStruct(shape=(2,), dtype=bfloat16), 3]
    """
    index = _index(os.fspath(path))
    result = [
        leaf.value
        if leaf.aval is None
        else ShapeDtypeStruct(leaf.aval.shape, leaf.aval.dtype)
        for leaf in index.leaves
    ]
    return tree_of(index.tree, result)


def restore(path: str | os.PathLike[str], like: Any = None) -> Any:
    """Return the tree that was last saved in a folder.

    Each process reads the parts that its devices hold. The number of processes and the
    meshes may differ from those that saved the tree.

    Args:
      path: the folder.
      like: a tree of the same structure that gives the placement of arrays. Its leaves
        are arrays or `ShapeDtypeStruct`s with the saved shapes and dtypes (or a Python
        number for a scalar of its kind), or shardings; a prefix of the tree is enough
        for shardings. None (default) restores dicts, lists and tuples of arrays without
        a placement.

    Returns:
      A tree like `like`, or of dicts, lists and tuples.

    Raises:
      FileNotFoundError: if nothing was saved there.
      ValueError: if files are damaged, or a tree that is not like the saved one.

    >>> import curta, curta.numpy as jnp, tempfile
    >>> from curta import state
    >>> folder = tempfile.mkdtemp()
    >>> state.save(folder, {"w": jnp.arange(4.0)})
    >>> mesh = curta.make_mesh((1,), ("x",))
    >>> state.restore(folder, curta.NamedSharding(mesh, curta.P("x")))
    {'w': Array([0., 1., 2., 3.], dtype=float32)}
    """
    folder = os.fspath(path)
    index = _index(folder)
    readers: dict[str, Reader] = {}
    wanted, tree = _wanted(index, like)
    result = [
        _read(folder, leaf, w, readers)
        for leaf, w in zip(index.leaves, wanted, strict=True)
    ]
    return tree_of(index.tree, result) if tree is None else tree.unflatten(result)


def _wanted(index: _Index, like: Any) -> tuple[Sequence[Any], Any]:
    """What is wanted of each leaf, and the structure of the result if `like` has it."""
    names = [leaf.name for leaf in index.leaves]
    if like is None:
        tree_of(index.tree, names)  # which raises before anything is read
        return [None] * len(names), None
    given = named_leaves(like)
    if [name for name, _ in given] == names:
        return [x for _, x in given], tree_util.tree_structure(like)
    if given and all(isinstance(x, Sharding) for _, x in given):
        saved = tree_of(index.tree, names)
        return tree_util.broadcast_prefix(like, saved), None
    missing = sorted({*names} - {name for name, _ in given})
    more = sorted({name for name, _ in given} - {*names})
    raise ValueError(
        "`like` has another structure than the saved tree: it lacks"
        f" {_listed(missing)}, and has {_listed(more)} that was not saved."
    )


_LISTED = 5


def _listed(names: Sequence[str]) -> str:
    rest = len(names) - _LISTED
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(names[:_LISTED]) + more if names else "nothing"


def _kind(x: Any) -> str:
    """How a leaf is named in messages: arrays by their type, not their elements."""
    if hasattr(x, "shape") and hasattr(x, "dtype"):
        return ShapedArray(tuple(x.shape), x.dtype).str_short()
    text = repr(x)
    return text if len(text) < 80 else f"{text[:77]}..."


def _read(folder: str, leaf: Leaf, like: Any, readers: dict[str, Reader]) -> Any:
    if leaf.aval is None:
        return leaf.value
    aval = leaf.aval
    sharding = like if isinstance(like, Sharding) else None
    if like is not None and sharding is None and not _is_number_for(like, aval):
        shape, dtype = getattr(like, "shape", None), getattr(like, "dtype", None)
        if (shape, dtype) != (aval.shape, aval.dtype):
            raise ValueError(
                f"{leaf.name} was saved as {aval.str_short()}, but `like` has"
                f" {_kind(like)}. Make it as the program that saved made its first"
                " state."
            )
        kept = type(like) is not ArrayImpl or like.committed
        sharding = getattr(like, "sharding", None) if kept else None

    def part(index: Index) -> NDArray:
        return _part(folder, leaf, aval, index, readers)

    if sharding is not None:
        region = lambda index: _array(part(index), aval.dtype)  # noqa: E731
        return make_array_from_callback(aval.shape, sharding, region, dtype=aval.dtype)
    data = part((slice(None),) * aval.ndim)
    if leaf.kind == "numpy":
        return data
    array = _array(data, aval.dtype)
    return ArrayImpl(array._storage(), array.aval.update(weak_type=aval.weak_type))


def _is_number_for(like: Any, aval: ShapedArray) -> bool:
    """Whether `like` is a number of Python of which steps have made a saved scalar."""
    kinds = {bool: "b", int: "iu", float: "f", complex: "c"}.get(type(like), "")
    return not aval.shape and getattr(aval.dtype, "kind", "?") in kinds


def _array(data: NDArray, dtype: Any) -> ArrayImpl:
    """Elements as an array; 64-bit ones are made narrower where these are off."""
    if isinstance(dtype, dtypes.KeyDType):
        return ArrayImpl(data, ShapedArray(data.shape, dtype))
    return to_array(data)


def _part(
    folder: str, leaf: Leaf, aval: ShapedArray, index: Index, readers: dict[str, Reader]
) -> NDArray:
    """The elements at an index, of the pieces that have some of them."""
    bounds = [s.indices(n)[:2] for s, n in zip(index, aval.shape, strict=True)]
    shape = tuple(stop - start for start, stop in bounds)
    _, kind = stored_form((), aval.dtype)
    extra = stored_form((), aval.dtype)[0]
    out = empty((*shape, *extra), kind)
    count = 0
    for piece in leaf.pieces:
        ranges = [
            (max(a, s), min(b, s + n))
            for (a, b), s, n in zip(bounds, piece.start, piece.shape, strict=True)
        ]
        if any(a >= b for a, b in ranges):
            continue
        if piece.file not in readers:
            readers[piece.file] = Reader(os.path.join(folder, piece.file))
        reader = readers[piece.file]
        stored = reader.array(piece.name(leaf.name), kind, (*piece.shape, *extra))
        source = tuple(slice(a - s, b - s) for (a, b), s in zip(ranges, piece.start))
        target = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(ranges, bounds))
        out[target] = stored[source]
        count += int(np.prod([b - a for a, b in ranges], dtype=int))
    if count != int(np.prod(shape, dtype=int)):
        raise ValueError(f"{folder} is damaged: elements of {leaf.name} are missing")
    physical = dtypes.physical_dtype(aval.dtype)
    return out.reshape(-1).view(np.uint8).view(physical).reshape(shape)
