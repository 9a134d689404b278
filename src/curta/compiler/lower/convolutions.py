"""Convolutions as work items.

The operand is padded into a buffer of its own, unless it has no padding; then windows
of it are multiplied where they lie (library/contraction.py), whatever the layout. The
kernel is copied where its output features do not lie side by side, or panels of them
would evict one another from the cache. Where each group has few features, sums are
written out in one expression, which fuses like any other; other dtypes are folds.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from curta._base.lazy_dataclass import dataclass
from curta.compiler.library.contraction import Contraction, merged, panel_width
from curta.compiler.library.gemm import Dot
from curta.compiler.library.product_plan import Axis
from curta.compiler.loops.folds import simple_fold
from curta.compiler.loops.index import as_index
from curta.compiler.loops.lower import loop_dims, variables
from curta.compiler.loops.nodes import Buffer
from curta.compiler.lower.dots import KINDS, summing_dtype
from curta.compiler.lower.item_builder import ItemBuilder
from curta.compiler.lower.items import LibraryItem
from curta.compiler.targets import Tuning
from curta.core.avals import ShapedArray
from curta.core.dim import typical
from curta.core.jaxpr import Atom, Eqn
from curta.primitives.convolution.op import ConvGeneralDilated
from curta.primitives.convolution.shapes import taken
from curta.primitives.windowed.sliding import Sliding

Dims = tuple[int, ...]


@dataclass(frozen=True)
class _Conv:
    """A convolution with all its sizes."""

    op: ConvGeneralDilated
    lhs: Atom
    rhs: Atom
    out: ShapedArray
    working: Any

    @property
    def groups(self) -> int:
        return self.op.group_count

    @property
    def inputs(self) -> int:
        """The input features of a group."""
        return self.rhs.aval.shape[self.op.dimension_numbers.rhs_spec[1]]

    @property
    def features(self) -> int:
        """The output features of a group."""
        return self.rhs.aval.shape[self.op.dimension_numbers.rhs_spec[0]] // self.groups

    @property
    def window(self) -> Dims:
        return taken(self.rhs.aval.shape, self.op.dimension_numbers.rhs_spec[2:])

    def by_phase(self, d: int) -> bool:
        """Whether the dilation of lhs along a dim is walked, not filled with zeros."""
        return self.op.lhs_dilation[d] > 1 and self.op.window_strides[d] == 1

    @property
    def depth(self) -> int:
        """The products of one sum."""
        return self.inputs * math.prod(self.window)


def conv_items(lowering: ItemBuilder, eqn: Eqn, result: Buffer) -> None:
    """Add the items that compute a convolution into `result`."""
    op = cast(ConvGeneralDilated, eqn.op)
    (lhs, rhs), out = eqn.invars, eqn.outvars[0].aval
    working = summing_dtype(out.dtype)
    conv = _Conv(op, lhs, rhs, out, working)
    index = loop_dims(out.shape)
    if not (conv.depth and lhs.aval.size and out.size):
        return lowering.emit_map(
            result, index, lowering.builder.const(0, out.dtype), "zeros"
        )
    few = _has_few_features(conv, lowering.tuning)
    if few and conv.depth <= lowering.tuning.written_products:
        return lowering.emit_map(result, index, _sum(lowering, conv, index), op.name)
    if working in KINDS and not few:
        return _product_items(lowering, conv, result)
    return _fold(lowering, conv, index, result)


def _has_few_features(conv: _Conv, tuning: Tuning) -> bool:
    """Whether vectors run better along other dims than features."""
    if conv.groups > 1 or conv.working.kind == "i":
        return conv.features < tuning.vector_features
    many = conv.inputs >= tuning.many_inputs
    return conv.features == 1 and (
        conv.inputs == 1 or many or conv.depth <= tuning.short_sum
    )


# -------------------------------------------------------------- element by element


def _term(
    lowering: ItemBuilder,
    conv: _Conv,
    index: Sequence[Any],
    i: Any,
    tap: Sequence[Any],
) -> Any:
    """One product of the sum at an index, whose first factor is zero on padding."""
    b, op = lowering.builder, conv.op
    lhs_spec, rhs_spec, out_spec = op.dimension_numbers
    batch, feature = as_index(index[out_spec[0]]), as_index(index[out_spec[1]])
    group = feature // conv.features
    source: list[Any] = [None] * len(lhs_spec)
    batches = conv.out.shape[out_spec[0]]
    source[lhs_spec[0]] = batch
    source[lhs_spec[1]] = as_index(i)
    if op.batch_group_count > 1:
        source[lhs_spec[0]] = group * batches + batch
    else:
        source[lhs_spec[1]] = group * conv.inputs + as_index(i)
    spatial = lhs_spec[2:]
    slides = Sliding(
        conv.window, op.window_strides, op.padding, op.lhs_dilation, op.rhs_dilation
    )
    place = [as_index(index[d]) for d in out_spec[2:]]
    sizes = taken(conv.lhs.aval.shape, spatial)
    found, inside = slides.source(b, place, [*map(as_index, tap)], sizes)
    for dim, at in zip(spatial, found, strict=True):
        source[dim] = at
    kernel: list[Any] = [None] * len(rhs_spec)
    for dim, at in zip(rhs_spec, (feature, i, *tap), strict=True):
        kernel[dim] = as_index(at)

    def element() -> Any:
        return b.convert(lowering.elements.at(conv.lhs, tuple(source)), conv.working)

    zero = b.const(0, conv.working)
    x = b.guarded(inside, element, zero)
    y = lowering.elements.at(conv.rhs, tuple(kernel))
    return b.mul(x, b.convert(y, conv.working))


def _sum(lowering: ItemBuilder, conv: _Conv, index: Sequence[Any]) -> Any:
    """The whole sum as one expression."""
    b, total = lowering.builder, None
    for i in range(conv.inputs):
        for tap in np.ndindex(*conv.window):
            term = _term(lowering, conv, index, i, tap)
            total = term if total is None else b.add(total, term)
    return b.convert(total, conv.out.dtype)


def _fold(
    lowering: ItemBuilder, conv: _Conv, index: tuple[Any, ...], result: Buffer
) -> None:
    """The sums as loops over the window and the input features."""
    b = lowering.builder
    reduced = loop_dims((*conv.window, conv.inputs), len(variables(index)))
    *tap, i = reduced
    code = simple_fold(b, conv.working, conv.out.dtype, b.sum)
    term = _term(lowering, conv, index, i, tap)
    lowering.emit_fold(result, index, reduced, (term,), code, conv.op.name)


# ------------------------------------------------------------------ as a product


@dataclass(frozen=True)
class _Walk:
    """How the result, the operand and the kernel are walked along a spatial dim.

    Where the operand is dilated, the positions of the result that the same taps reach,
    a phase, are walked together: output `phase + i * step` has the elements
    `first + i * stride + j * spread` of the operand, and taps `tap + j * tap_step`.
    """

    count: int
    phase: int
    step: int
    first: int
    stride: int
    taps: int
    spread: int
    tap: int
    tap_step: int

    @property
    def last(self) -> int:
        """The last element of the operand that is read."""
        return (
            self.first + (self.count - 1) * self.stride + (self.taps - 1) * self.spread
        )


def _walks(conv: _Conv, d: int) -> list[_Walk]:
    """The phases of spatial dim d: as many as the operand's dilation."""
    op, window = conv.op, conv.window[d]
    size = conv.out.shape[op.dimension_numbers.out_spec[2 + d]]
    low, far = op.padding[d][0], op.rhs_dilation[d]
    if not conv.by_phase(d):
        stride = op.window_strides[d]
        return [_Walk(size, 0, 1, -low, stride, window, far, 0, 1)]
    holes = op.lhs_dilation[d]
    result = []
    for phase in range(min(holes, size)):
        taps = [k for k in range(window) if (phase + k * far - low) % holes == 0]
        count = -(-(size - phase) // holes)
        step = holes // math.gcd(far, holes)
        tap = taps[0] if taps else 0
        first = (phase + tap * far - low) // holes
        spread = step * far // holes
        result.append(
            _Walk(count, phase, holes, first, 1, len(taps), spread, tap, step)
        )
    return result


def _product_items(lowering: ItemBuilder, conv: _Conv, result: Buffer) -> None:
    out_spec, shape = conv.op.dimension_numbers.out_spec, conv.out.shape
    plain = order = tuple(range(len(shape)))
    if out_spec[1] != order[-1]:  # the product has features last
        order = (out_spec[0], *out_spec[2:], out_spec[1])
    product = result
    if order != plain or conv.working != conv.out.dtype:
        aval = ShapedArray(tuple(shape[d] for d in order), conv.working)
        product = lowering.new_buffer(aval, f"{result.name}.product")
    walks = [_walks(conv, d) for d in range(len(conv.window))]
    a, layout = _padded(lowering, conv, walks)
    kernel = _kernel(lowering, conv)
    strides = _strides(lowering.avals[product].shape)
    c = tuple(strides[order.index(d)] for d in plain)
    if any(not w.taps for several in walks for w in several):
        index = loop_dims(lowering.avals[product].shape)
        zero = lowering.builder.const(0, conv.working)
        lowering.emit_map(product, index, zero, "zeros")
    for along in itertools.product(*walks):
        if all(w.taps for w in along):
            dot = _pointwise(conv, along, a, kernel) or _contraction(
                conv, along, (c, layout), kernel
            )
            lowering.items.append(LibraryItem(dot, (a, kernel.buffer), (product,)))
    if product is not result:
        index = loop_dims(shape)
        value = lowering.load(product, tuple(index[d] for d in order))
        value = lowering.builder.convert(value, conv.out.dtype)
        lowering.emit_map(result, index, value, "convert")


def _strides(shape: Sequence[int]) -> Dims:
    """How far the elements of a row-major array lie apart, by dim."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


@dataclass(frozen=True)
class _Layout:
    """Where elements of the padded operand lie: strides by dim, and the first one."""

    strides: Dims
    low: Dims  # by spatial dim: how much was put in front


def _padded(
    lowering: ItemBuilder, conv: _Conv, walks: Sequence[Sequence[_Walk]]
) -> tuple[Buffer, _Layout]:
    """A buffer with all elements of the lhs that are read; dims stay in order."""
    b, op, lhs = lowering.builder, conv.op, conv.lhs
    spatial = op.dimension_numbers.lhs_spec[2:]
    shape, low = list(lhs.aval.shape), []
    for d, dim in enumerate(spatial):
        low.append(max(0, *(-w.first for w in walks[d])))
        shape[dim] = low[d] + 1 + max(w.last for w in walks[d])
    buffer, own = lowering.buffer_of(lhs), lhs.aval.shape
    spread = any(n > 1 and not conv.by_phase(d) for d, n in enumerate(op.lhs_dilation))
    fits = not any(low) and all(n <= m for n, m in zip(shape, own, strict=True))
    if fits and not spread and buffer is not None and lhs.aval.dtype == conv.working:
        return buffer, _Layout(_strides(own), tuple(low))
    layout = _Layout(_strides(shape), tuple(low))
    copy = lowering.new_buffer(
        ShapedArray(tuple(shape), conv.working), f"padded{len(lowering.items)}"
    )
    index = loop_dims(tuple(shape))
    ones, source = (1,) * len(spatial), list(map(as_index, index))
    steps = tuple(1 if conv.by_phase(d) else n for d, n in enumerate(op.lhs_dilation))
    slides = Sliding(ones, ones, tuple((n, 0) for n in low), steps, ones)
    place, sizes = [source[d] for d in spatial], taken(own, spatial)
    found, inside = slides.source(b, place, (0,) * len(spatial), sizes)
    for dim, at in zip(spatial, found, strict=True):
        source[dim] = at

    def element() -> Any:
        return b.convert(lowering.elements.at(lhs, tuple(source)), conv.working)

    zero = b.const(0, conv.working)
    value = b.guarded(inside, element, zero)
    lowering.emit_map(copy, index, value, "pad")
    return copy, layout


@dataclass(frozen=True)
class _Kernel:
    """Where the kernel lies: how far groups, panels, window and features lie apart."""

    buffer: Buffer
    group: int
    panel: int
    window: Dims
    inputs: int
    packed: bool


def _kernel(lowering: ItemBuilder, conv: _Conv) -> _Kernel:
    """The kernel in a layout with output features side by side."""
    op, rhs = conv.op, conv.rhs
    rhs_spec = op.dimension_numbers.rhs_spec
    kind, size = KINDS[conv.working], conv.working.itemsize
    width = panel_width(kind, conv.features, lowering.target.vector_bytes)
    panels = -(-conv.features // width)
    buffer, strides = lowering.buffer_of(rhs), _strides(rhs.aval.shape)
    window = tuple(strides[d] for d in rhs_spec[2:])
    row_bytes = lowering.tuning.kernel_row_bytes
    close = panels == 1 or strides[rhs_spec[1]] * size < row_bytes
    large = rhs.aval.size > conv.lhs.aval.size  # the cotangent, in a kernel's gradient
    side_by_side = rhs_spec[0] == len(rhs_spec) - 1
    if buffer is not None and rhs.aval.dtype == conv.working and side_by_side:
        if close or large:
            inputs = strides[rhs_spec[1]]
            return _Kernel(buffer, conv.features, width, window, inputs, False)
    # Steps come in the order in which the operand lies: it is read in streams.
    lhs_spec = op.dimension_numbers.lhs_spec[1:]
    order = sorted(range(len(lhs_spec)), key=lambda d: lhs_spec[d])
    depth = (conv.inputs, *conv.window)
    shape = (conv.groups, panels, *taken(depth, order), width)
    copy = lowering.new_buffer(
        ShapedArray(shape, conv.working), f"kernel{len(lowering.items)}"
    )
    b, index = lowering.builder, loop_dims(shape)
    group, panel, *steps, j = map(as_index, index)
    column = panel * width + j
    source: list[Any] = [None] * len(rhs_spec)
    at = (group * conv.features + column, *_placed(steps, order))
    for dim, where in zip(rhs_spec, at, strict=True):
        source[dim] = where

    def element() -> Any:
        return b.convert(lowering.elements.at(rhs, tuple(source)), conv.working)

    inside, zero = b.within(column, conv.features), b.const(0, conv.working)
    value = b.guarded(inside, element, zero)
    lowering.emit_map(copy, index, value, "pack")
    group_apart, panel_apart, *apart, _ = _strides(shape)
    inputs, *taps = _placed(apart, order)
    return _Kernel(copy, group_apart, panel_apart, tuple(taps), inputs, True)


def _placed(values: Sequence[Any], order: Sequence[int]) -> list[Any]:
    """Values in order of their numbers: the inverse of `taken`."""
    return [values[order.index(d)] for d in range(len(order))]


def _pointwise(
    conv: _Conv, along: Sequence[_Walk], a: Buffer, kernel: _Kernel
) -> Dot | None:
    """The product of two matrices that the convolution is, if it is one."""
    lhs_spec, _, out_spec = conv.op.dimension_numbers
    sizes = conv.lhs.aval.shape
    plain = (
        conv.groups == 1
        and all(w.taps == w.stride == w.step == 1 for w in along)
        and a.size == conv.lhs.aval.size == conv.out.size // conv.features * conv.inputs
        and not kernel.packed
        and lhs_spec == out_spec
        and lhs_spec[1] == len(lhs_spec) - 1
    )
    if not plain or min(conv.features, conv.inputs) < 2:
        return None
    rows = math.prod(sizes[:-1])
    return Dot(1, rows, conv.features, conv.inputs, KINDS[conv.working])


def _contraction(
    conv: _Conv,
    along: Sequence[_Walk],
    layout: tuple[Dims, _Layout],
    kernel: _Kernel,
) -> Contraction:
    """The product of windows read in place."""
    (c, padded), a = layout, layout[1].strides
    lhs_spec, _, out_spec = conv.op.dimension_numbers
    batches = conv.out.shape[out_spec[0]]
    free = [Axis(batches, c[out_spec[0]], a[lhs_spec[0]])]
    steps, start = [], [0, 0, 0]
    for d, w in enumerate(along):
        to, far, tap = c[out_spec[2 + d]], a[lhs_spec[2 + d]], kernel.window[d]
        free.append(Axis(w.count, w.step * to, w.stride * far))
        steps.append(Axis(w.taps, 0, w.spread * far, w.tap_step * tap))
        start[0] += w.phase * to
        start[1] += (w.first + padded.low[d]) * far
        start[2] += w.tap * tap
    steps.append(Axis(conv.inputs, 0, a[lhs_spec[1]], kernel.inputs))
    rows = max(reversed(free), key=lambda x: min(typical(x.extent), 8))
    free.remove(rows)
    if conv.groups > 1:
        apart = conv.inputs * a[lhs_spec[1]]
        if conv.op.batch_group_count > 1:
            apart = batches * a[lhs_spec[0]]
        free.append(Axis(conv.groups, conv.features, apart, kernel.group))
    return Contraction(
        KINDS[conv.working],
        merged(sorted(free, key=lambda x: -typical(x.c))),
        rows,
        conv.features,
        merged(sorted(steps, key=lambda x: -typical(x.b))) or (Axis(1),),
        kernel.panel,
        kernel.packed,
        (start[0], start[1], start[2]),
    )
