"""Ops that need whole rows: other dims are cut instead, by an all-to-all."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from curta.core.jaxpr import Eqn
from curta.core.op import Op
from curta.core.trace import typeof
from curta.partition.along import Partitioning, Parts, Splits, along_cut
from curta.partition.part import HostPart, settled
from curta.partition.windows import padded_rows, rows_of
from curta.primitives.cumulative import Cumulative
from curta.primitives.fft import Fft, FftType
from curta.primitives.host_collectives import HostExchange
from curta.primitives.linalg.family import MatrixOp
from curta.primitives.reduction import ArgReduction
from curta.primitives.relation import Factors
from curta.primitives.sorting import Sort, TopK
from curta.primitives.structure import Transpose

Axes = tuple[Any, ...]
_BY_ROWS = (ArgReduction, Cumulative, Fft, MatrixOp, Sort, TopK)


def elsewhere(
    op: Op,
    partitioner: Partitioning,
    rel: Factors,
    parts: Parts,
    axes: Mapping[int, Axes],
) -> dict[int, Axes]:
    """The axes of factors; those of dims that must be whole go to others."""
    result = dict(axes)
    if not isinstance(op, _BY_ROWS):
        return result
    kept = {dim for dims in rel.results for dim in dims}
    used = {n for own in result.values() for n in own}
    for part, dims in zip(parts, rel.operands, strict=True):
        for d, own in enumerate(part.split):
            if not own or used & {*own} or dims[d] in kept:
                continue
            for dim in dims:
                free = not any(f in rel.whole or f in result for f in dim)
                sizes = math.prod(rel.sizes[f] for f in dim[:1])
                if dim and free and sizes % partitioner.hosts.size_of(own) == 0:
                    partitioner.assign(rel, dim, own, result, used)
                    break
    return result


@along_cut.register
def _fft(
    op: Fft, partitioner: Partitioning, eqn: Eqn, parts: Parts, wanted: Splits
) -> Sequence[HostPart] | None:
    """A transform along one dim that is cut, and along others that are not.

    Those along dims that are not cut come first, but for real results; then another
    dim is cut for that along the first.
    """
    hosts = partitioner.hosts
    part = settled(parts[0], hosts)
    rank, lengths = len(part.split), op.fft_lengths
    dims = range(rank - len(lengths), rank)
    cut = [d for d in dims if part.split[d]]
    if len(cut) != 1 or len(dims) < 2 or 0 in eqn.invars[0].aval.shape:
        return None
    (d,) = cut
    real = op.fft_type in (FftType.RFFT, FftType.IRFFT)
    if real and d == rank - 1:
        return None
    group = hosts.group(part.split[d])
    batch = typeof(part.value).shape[: dims[0]]
    if any(n % group.size == 0 and not part.split[i] for i, n in enumerate(batch)):
        return None  # a batch dim can be split instead
    rest = [i for i in dims if i != d]
    sizes = [lengths[i - dims[0]] for i in rest]
    back = op.fft_type in (FftType.IFFT, FftType.IRFFT)
    single = FftType.IFFT if back else FftType.FFT
    length = lengths[d - dims[0]]
    x = part.value
    if op.fft_type != FftType.IRFFT:
        x = _transform(x, rest, op.fft_type, sizes)
    shape = typeof(x).shape
    other = next((i for i in rest if shape[i] % group.size == 0), rest[-1])
    x = padded_rows(x, other, 0, -shape[other] % group.size)
    x = HostExchange(group, other, d)(x)
    x = _transform(x, [d], single, [length])
    split = [*part.split]
    if op.fft_type == FftType.IRFFT or shape[other] % group.size:
        x = HostExchange(group, d, other)(x)
        x = rows_of(x, other, 0, shape[other])
    else:
        split[other], split[d] = split[d], ()
    if op.fft_type == FftType.IRFFT:
        x = _transform(x, rest, op.fft_type, sizes)
    return [partitioner.refined(HostPart(x, tuple(split)), wanted[0])]


def _transform(
    x: Any, dims: Sequence[int], kind: FftType, lengths: Sequence[int]
) -> Any:
    """The transform along some dims."""
    rank = typeof(x).ndim
    order = [*(i for i in range(rank) if i not in dims), *dims]
    if order == [*range(rank)]:
        return Fft(kind, tuple(lengths))(x)
    x = Fft(kind, tuple(lengths))(Transpose(tuple(order))(x))
    return Transpose(tuple(order.index(i) for i in range(rank)))(x)
