"""Programs on arrays that are cut over a mesh, with results in several layouts.

Any array can be cut: it is padded to a size that the mesh divides, and the program
begins by a slice. So operands have parts of unequal sizes, along any dim.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from tests.multiprocess.net.programs import Arrays, NetProgram

import curta
import curta.numpy as jnp
from curta.core.evaluate import const_as_numpy, evaluate
from curta.sharding import AxisType, Mesh, NamedSharding, PartitionSpec
from curta.transforms.partial_eval import prune

LAYOUTS = ("replicated", "split", "free")
_FILL = 3  # in the rows that are cut off


class OnMesh:
    """A program with operands and results cut over a mesh, as its name chooses."""

    def __init__(self, program: NetProgram, seed: int) -> None:
        self.program = program
        self._rng = np.random.default_rng([zlib.crc32(program.name.encode()), seed])
        self.mesh = self._mesh()
        self._ins = [self._cut(x.shape) for x in program.arguments]
        self._outs: list[tuple[PartitionSpec, tuple[int, ...]]] = []
        self._sizes: list[tuple[int, ...]] = []

    def _mesh(self) -> Mesh:
        """All devices, or one of each host, in a grid and an order of axes."""
        devices = curta.devices()
        if self._rng.random() < 0.5:
            first = {d.host: d for d in reversed(devices)}
            devices = [first[i] for i in sorted(first)]
        grids = _grids(len(devices))
        sizes = grids[self._rng.integers(len(grids))]
        names = tuple("xyz"[: len(sizes)])
        grid = np.array(devices).reshape(sizes)
        return Mesh(grid, names, (AxisType.Auto,) * len(sizes))

    def _cut(self, shape: Sequence[int]) -> tuple[PartitionSpec, tuple[int, ...]]:
        """How an array is cut, and the shape that allows it."""
        entries: list[Any] = [None] * len(shape)
        padded = [*shape]
        dims = [d for d, n in enumerate(shape) if n]
        axes = [*self._rng.permutation(self.mesh.axis_names)]
        while axes and dims:
            together = int(self._rng.integers(1, len(axes) + 1))
            names = tuple(map(str, axes[:together]))
            d = dims.pop(int(self._rng.integers(len(dims))))
            parts = math.prod(self.mesh.shape[n] for n in names)
            entries[d] = names
            padded[d] = math.ceil(shape[d] / parts) * parts
            del axes[:together]
            if self._rng.random() < 0.5:
                break
        return PartitionSpec(*entries), tuple(padded)

    @property
    def padded_arguments(self) -> Arrays:
        """The arguments with the rows that are cut off in the program."""
        pairs = zip(self.program.arguments, self._ins, strict=True)
        return [_padded(x, shape) for x, (_, shape) in pairs]

    def function(self, *padded: Any) -> Any:
        """The program on padded arguments, with padded results."""
        given = [
            x[tuple(slice(n) for n in y.shape)] if x.shape != y.shape else x
            for x, y in zip(padded, self.program.arguments, strict=True)
        ]
        outs = curta.tree.leaves(self.program.function(*given))
        if not self._outs:
            self._sizes = [x.shape for x in outs]
            self._outs = [self._cut(x.shape) for x in outs]
        pairs = zip(outs, self._outs, strict=True)
        return [_padded_inside(x, shape) for x, (_, shape) in pairs]

    def on_one_host(self, run: Callable[..., Any]) -> Arrays:
        """The results of the compiled function on this process alone."""
        return [np.array(x) for x in run(*map(jnp.asarray, self.padded_arguments))]

    @property
    def layouts(self) -> tuple[str, ...]:
        """The layouts of results that the program is run in."""
        if not self.program.quick:
            return LAYOUTS
        return (LAYOUTS[zlib.crc32(self.program.name.encode()) % len(LAYOUTS)],)

    def evaluated(self) -> Arrays:
        """The results by the `eval` rules of the traced function."""
        args = [np.array(jnp.asarray(x)) for x in self.padded_arguments]
        # What nobody reads may be a linear call without a forward rule.
        closed = prune(curta.make_jaxpr(self.function)(*args))
        pairs = zip(closed.consts, closed.jaxpr.constvars, strict=True)
        consts = [const_as_numpy(c, v.aval) for c, v in pairs]
        return [np.array(x) for x in evaluate(closed.jaxpr, consts, args)]

    def arrays(self) -> list[Any]:
        """The arguments over the mesh."""
        result = []
        for x, (spec, _) in zip(self.padded_arguments, self._ins, strict=True):
            sharding = NamedSharding(self.mesh, spec)
            x = np.array(jnp.asarray(x))
            part = curta.make_array_from_callback(x.shape, sharding, x.__getitem__)
            result.append(part)
        return result

    def jitted(self, layout: str) -> Any:
        """The compiled function with results in a layout."""
        options: dict[str, Any] = {"donate_argnums": self.program.donated}
        if layout != "free":
            whole = PartitionSpec()
            specs = [spec if layout == "split" else whole for spec, _ in self._outs]
            options["out_shardings"] = [NamedSharding(self.mesh, s) for s in specs]
        return curta.jit(self.function, **options)

    def found(self, outs: Sequence[Any], wanted: Arrays) -> Arrays:
        """The local parts of results; parts of other processes are taken from
        `wanted`."""
        result = []
        for out, want in zip(outs, wanted, strict=True):
            x = np.array(want)
            assert (out.dtype, out.shape) == (want.dtype, want.shape), (out.aval, want)
            for shard in out.addressable_shards:
                x[shard.index] = np.asarray(shard.data)
            result.append(x)
        return result

    def digests(self, outs: Sequence[Any]) -> list[int]:
        """A number for each part of results that is here, by its place and bits."""
        parts = [
            (n, shard) for n, x in enumerate(outs) for shard in x.addressable_shards
        ]
        found = {
            zlib.crc32(
                np.asarray(s.data).tobytes(), zlib.crc32(f"{n} {s.index}".encode())
            )
            for n, s in parts
        }
        return sorted(found)

    def cropped(self, padded: Arrays) -> Arrays:
        """Results without the rows that were added."""
        pairs = zip(padded, self._sizes, strict=True)
        return [x[tuple(slice(n) for n in shape)] for x, shape in pairs]


def _grids(count: int) -> list[tuple[int, ...]]:
    """Sizes of meshes of so many devices, of up to three axes."""
    result: list[tuple[int, ...]] = [(count,)]
    for a in range(2, count):
        if count % a == 0:
            rest = count // a
            result.append((a, rest))
            result += [(a, b, rest // b) for b in range(2, rest) if rest % b == 0]
    return result


def _padded(x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    if x.shape == shape:
        return x
    result = np.full(shape, _FILL, x.dtype)
    result[tuple(slice(n) for n in x.shape)] = x
    return result


def _padded_inside(x: Any, shape: tuple[int, ...]) -> Any:
    pairs = [(0, m - n) for n, m in zip(x.shape, shape, strict=True)]
    return jnp.pad(x, pairs) if any(high for _, high in pairs) else x
