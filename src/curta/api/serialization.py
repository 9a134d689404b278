"""Compiled functions as bytes.

The program is stored, not its machine code: it is compiled for the current processor in
milliseconds, and its kernels are in the cache on disk.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

from curta import tree_util
from curta.api.compiled import Compiled
from curta.api.jit_cache import Staged
from curta.compiler.rewrite.inline import inline_calls
from curta.core.jaxpr import ClosedJaxpr
from curta.core.refs import Ref
from curta.runtime.devices import Device, devices


class _Saved(NamedTuple):
    """A compiled function, without its trees."""

    name: str
    closed: ClosedJaxpr
    donated: tuple[bool, ...]
    in_shardings: Any
    out_shardings: Any
    arg_names: tuple[str, ...]
    arg_shardings: tuple[Any, ...]
    in_layouts: Sequence[Any]
    out_layouts: Sequence[Any]


def serialize(compiled: Compiled) -> tuple[bytes, Any, Any]:
    """The bytes of a compiled function, and the trees of its arguments and results.

    Raises:
      ValueError: if it reads a reference that it closes over, or calls functions of
        Python's, which are not part of it.

    >>> import curta
    >>> from curta.experimental.serialize_executable import (
    ...     deserialize_and_load, serialize)
    >>> compiled = curta.jit(lambda x: 2 * x).lower(1.0).compile()
    >>> data, in_tree, out_tree = serialize(compiled)
    >>> deserialize_and_load(data, in_tree, out_tree)(4.0)
    Array(8., dtype=float32, weak_type=True)
    """
    staged: Any = compiled._staged
    if any(isinstance(x, Ref) for x in staged.captured):
        raise ValueError(
            "can't serialize with a closed-over mutable array ref: pass the reference"
            " as an argument."
        )
    saved = _Saved(
        compiled.fun_name,
        inline_calls(staged.closed),
        staged.donated,
        staged.in_shardings,
        staged.out_shardings,
        tuple(compiled._arg_names),
        tuple(compiled._arg_shardings),
        tuple(compiled.layouts),
        tuple(staged.out_layouts),
    )
    file = io.BytesIO()
    try:
        _Saver(file).dump(tuple(saved))
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise ValueError(
            f"can't serialize {compiled.fun_name}: {error}. Callbacks and other"
            " functions of Python's are not part of a compiled function."
        ) from error
    return file.getvalue(), compiled.in_tree, compiled.out_tree


def deserialize_and_load(
    serialized: bytes,
    in_tree: Any,
    out_tree: Any,
    backend: Any = None,
    execution_devices: Sequence[Device] | None = None,
) -> Compiled:
    """The compiled function with this serialized form, on the devices of a backend.

    The bytes are a pickle: never load those of somebody you do not trust.

    Args:
      serialized, in_tree, out_tree: what `serialize` gave.
      backend: the name of a platform, or a device's `client`.
      execution_devices: the devices to run on, in place of those there were.

    Raises:
      ValueError: if the devices are of another backend, or too few.

    Returns:
      The compiled function, to be called as the one that was serialized.

    >>> import curta
    >>> from curta.experimental import serialize_executable
    >>> compiled = curta.jit(lambda x: x + 1).lower(1.0).compile()
    >>> parts = serialize_executable.serialize(compiled)
    >>> again = serialize_executable.deserialize_and_load(*parts)
    >>> again(2.0)
    Array(3., dtype=float32, weak_type=True)
    """
    platform = (
        backend if isinstance(backend, str) else getattr(backend, "platform", None)
    )
    there = devices(platform)
    chosen = list(execution_devices or ())
    for device in chosen:
        if device.platform != there[0].platform:
            raise ValueError(
                "Execution devices belong to a client other than `backend`. Got backend"
                f" client {there[0].platform} and device {device}."
            )
    saved = _Saved(*_Loader(io.BytesIO(serialized), there, chosen).load())
    closed, arguments = saved.closed, in_tree.num_leaves
    staged = Staged(
        closed,
        (),
        out_tree,
        saved.donated,
        saved.in_shardings,
        saved.out_shardings,
    )
    staged.in_layouts = saved.in_layouts if any(saved.in_layouts) else ()
    staged.out_layouts = saved.out_layouts
    if len(closed.in_avals) != arguments:
        raise ValueError(
            f"{saved.name} takes {len(closed.in_avals)} arrays, but the tree of the"
            f" arguments, {in_tree}, has {arguments}."
        )
    tree_util.tree_unflatten(out_tree, closed.out_avals)
    return Compiled(saved.name, staged, in_tree, saved.arg_names, saved.arg_shardings)


class _Saver(pickle.Pickler):
    """Writes devices by their numbers: the id, and the order of appearance."""

    def __init__(self, file: io.BytesIO):
        super().__init__(file)
        self.ids: list[int] = []

    def persistent_id(self, x: Any) -> tuple[int, int] | None:
        if not isinstance(x, Device):
            return None
        if x.id not in self.ids:
            self.ids.append(x.id)
        return x.id, self.ids.index(x.id)


class _Loader(pickle.Unpickler):
    """Puts the devices at hand for those there were."""

    def __init__(self, file: io.BytesIO, there: list[Device], chosen: list[Device]):
        super().__init__(file)
        self.by_id = {d.id: d for d in there}
        self.chosen = chosen

    def persistent_load(self, pid: tuple[int, int]) -> Device:
        number, index = pid
        result = self.chosen[index : index + 1] if self.chosen else ()
        if not self.chosen and number in self.by_id:
            return self.by_id[number]
        if not result:
            raise ValueError(
                f"the function was compiled for device {number} and others, but there"
                f" are {self.chosen or list(self.by_id.values())}."
            )
        return result[0]
