"""`Tiling`: how devices share out the elements of an array."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta._base.once import cached_property


@dataclass(frozen=True)
class Tiling:
    """How devices, in a grid without names, share out the elements of an array.

    `sizes` are those of the axes of the grid, whose devices are numbered in row-major
    order. `dims` are, for each dim of the array, the axes that it is split over, the
    first of which varies slowest. Along the axes `terms` devices hold terms of a sum,
    along all others the same. Made by `tiling`, equal ones are laid out alike.

    What is read from it has the names that XLA's shardings have, whose text it prints.

    >>> tiling((4, 2), [(1,), (0,)])
    {devices=[2,4]<=[4,2]T(1,0)}
    >>> tiling((4, 2), [(0,), ()])
    {devices=[4,1,2]<=[8] last_tile_dim_replicate}
    """

    sizes: tuple[int, ...]
    dims: tuple[tuple[int, ...], ...]
    terms: tuple[int, ...] = ()

    def _count(self, axes: Sequence[int]) -> int:
        return math.prod(self.sizes[a] for a in axes)

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """Into how many parts each dim is cut."""
        return tuple(map(self._count, self.dims))

    @cached_property
    def coordinates(self) -> list[tuple[int, ...]]:
        """For each device, which part along each dim it holds."""
        result = []
        for device in itertools.product(*map(range, self.sizes)):
            coordinate = []
            for axes in self.dims:
                index = 0
                for a in axes:
                    index = index * self.sizes[a] + device[a]
                coordinate.append(index)
            result.append(tuple(coordinate))
        return result

    # ---- in XLA's words

    @cached_property
    def _order(self) -> tuple[int, ...]:
        """The axes in the order of the tiles: of dims, of terms, of copies."""
        used = (*itertools.chain(*self.dims), *self.terms)
        return used + tuple(a for a in range(len(self.sizes)) if a not in used)

    def num_devices(self) -> int:
        """Return the number of devices."""
        return math.prod(self.sizes)

    def is_replicated(self) -> bool:
        """Whether every device holds the whole array."""
        return self.num_devices() == 1 or not (any(self.dims) or self.terms)

    def is_unreduced(self) -> bool:
        """Whether every device holds a term of the whole array."""
        return self._count(self.terms) == self.num_devices() > 1

    def is_tiled(self) -> bool:
        """Whether devices hold different parts."""
        return not (self.is_replicated() or self.is_unreduced())

    def replicate_on_last_tile_dim(self) -> bool:
        """Whether several devices hold the same part."""
        return self._copies() > 1

    def _copies(self) -> int:
        held = math.prod(self.parts) * self._count(self.terms)
        return self.num_devices() // held

    def tile_assignment_dimensions(self) -> list[int]:
        """The shape of the grid of tiles; behind it the numbers of terms and copies."""
        behind = [n for n in (self._count(self.terms), self._copies()) if n > 1]
        return [*self.parts, *behind]

    def tile_assignment_devices(self) -> list[int]:
        """The numbers of the devices in the order of the tiles that they hold."""
        grid = np.arange(self.num_devices()).reshape(self.sizes)
        return grid.transpose(self._order).ravel().tolist()

    def get_axis_sizes(self) -> list[int]:
        """The sizes of the axes of the grid."""
        return list(self.sizes)

    def __repr__(self) -> str:
        if not self.is_tiled():
            return "{replicated}" if self.is_replicated() else "{unreduced}"
        runs = _runs([self._order])
        starts = sorted(run[0] for run in runs)
        ordered = [starts.index(run[0]) for run in runs]
        sizes = [self._count(run) for run in sorted(runs)]
        text = f"{_listed(self.tile_assignment_dimensions())}<={_listed(sizes)}"
        if len(runs) > 1:
            text += f"T({','.join(map(str, ordered))})"
        copies = self.replicate_on_last_tile_dim()
        if self.terms:
            text += f" last_tile_dims={{unreduced{', replicated' * copies}}}"
        elif copies:
            text += " last_tile_dim_replicate"
        return f"{{devices={text}}}"


def tiling(
    sizes: Sequence[int], dims: Sequence[Sequence[int]], terms: Sequence[int] = ()
) -> Tiling:
    """The tiling over a grid of these sizes, with as few axes as can tell it.

    Axes of size 1 are left out, and neighbours that are used one after the other are
    one axis.
    """
    wide = [[a for a in axes if sizes[a] > 1] for axes in (*dims, terms)]
    used = set(itertools.chain(*wide))
    rest = [a for a, n in enumerate(sizes) if n > 1 and a not in used]
    order = [a for a, n in enumerate(sizes) if n > 1]
    ranks = [[order.index(a) for a in axes] for axes in (*wide, rest)]
    grouped = [_runs([axes]) for axes in ranks]
    runs = sorted(itertools.chain(*grouped))
    merged = tuple(math.prod(sizes[order[a]] for a in run) for run in runs)
    *new, new_terms = (tuple(map(runs.index, group)) for group in grouped[:-1])
    return Tiling(merged, tuple(new), new_terms)


def _runs(groups: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """The numbers of each group, in runs that count up by one."""
    runs: list[tuple[int, ...]] = []
    for group in groups:
        before = None
        for n in group:
            if before is not None and n == before + 1:
                runs[-1] += (n,)
            else:
                runs.append((n,))
            before = n
    return runs


def _listed(numbers: Sequence[int]) -> str:
    return f"[{','.join(map(str, numbers))}]"
