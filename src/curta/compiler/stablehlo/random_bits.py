"""Random keys, and bits from them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from curta.compiler.rewrite.gamma import gamma_program
from curta.compiler.stablehlo.attributes import RawAttribute
from curta.compiler.stablehlo.generators import (
    ThreefryProgram,
    drawn,
    each_drawn,
    generator,
)
from curta.compiler.stablehlo.ir import HloValue
from curta.compiler.stablehlo.lowering import BlockBuilder, lower_closed, rule
from curta.compiler.stablehlo.types import physical
from curta.compiler.stablehlo.words import Words
from curta.primitives.random_bits.gamma import RandomGamma
from curta.primitives.random_bits.generator import RngBitGenerator, RngUniform
from curta.primitives.random_bits.ops import (
    RandomBits,
    RandomClone,
    RandomFoldIn,
    RandomSeed,
    RandomSplit,
    RandomUnwrap,
    RandomWrap,
    Threefry2x32,
)


def _words(b: BlockBuilder, *values: HloValue) -> list[Words]:
    """The operands of the eqn."""
    pairs = zip(values, b.ins, strict=True)
    return [Words(b, v, physical(a)) for v, a in pairs]


def _result(b: BlockBuilder, words: Words) -> HloValue:
    """The words as the eqn gives them."""
    out = physical(b.outs[0])
    return words.astype(out.dtype).reshape(*out.shape).value


@rule(RandomSeed, keys=True)
def _seed(b: BlockBuilder, op: RandomSeed, seeds: HloValue) -> HloValue:
    (words,) = _words(b, seeds)
    return _result(b, generator(b, op.impl).seed(words))


@rule(RandomWrap, RandomUnwrap, keys=True)
def _reshaped(b: BlockBuilder, op: RandomWrap | RandomUnwrap, x: HloValue) -> HloValue:
    (words,) = _words(b, x)
    return _result(b, words)


@rule(RandomClone, keys=True)
def _clone(b: BlockBuilder, op: RandomClone, keys: HloValue) -> HloValue:
    return keys


@rule(RandomSplit, keys=True)
def _split(b: BlockBuilder, op: RandomSplit, keys: HloValue) -> HloValue:
    (words,) = _words(b, keys)
    program = generator(b, op.impl)
    return _result(b, program.split(words, math.prod(op.shape), op.partitionable))


@rule(RandomFoldIn, keys=True)
def _fold_in(
    b: BlockBuilder, op: RandomFoldIn, keys: HloValue, data: HloValue
) -> HloValue:
    shape = b.outs[0].shape
    words, numbers = _words(b, keys, data)
    words = words.spread((*shape, words.shape[-1]), _leading(words.shape, shape))
    program = generator(b, op.impl)
    return _result(b, program.fold_in(words, numbers.spread(shape)))


def _leading(own: Sequence[int], shape: Sequence[int]) -> list[int]:
    """The dims of keys with their words among those of a shape and words."""
    return [*range(len(own) - 1), len(shape)]


@rule(RandomBits, keys=True)
def _bits(b: BlockBuilder, op: RandomBits, keys: HloValue) -> HloValue:
    (words,) = _words(b, keys)
    program = generator(b, op.impl)
    return _result(b, program.bits(words, op.bit_width, op.shape, op.partitionable))


@rule(Threefry2x32)
def _threefry(b: BlockBuilder, op: Threefry2x32, *xs: HloValue) -> Sequence[HloValue]:
    shape = b.outs[0].shape
    key0, key1, *counter = _words(b, *xs)
    key = [k if not k.shape else k.spread(shape) for k in (key0, key1)]
    result = ThreefryProgram(b, None).hash(key, [c.spread(shape) for c in counter])
    return [w.value for w in result]


_ALGORITHMS = {0: "DEFAULT", 1: "THREE_FRY", 2: "PHILOX"}


@rule(RngBitGenerator)
def _rng_bit_generator(
    b: BlockBuilder, op: RngBitGenerator, x: HloValue
) -> Sequence[HloValue]:
    (states,) = _words(b, x)
    *lead, words = states.shape
    dtype, algorithm = np.dtype(op.dtype), _ALGORITHMS[int(op.algorithm)]
    if not lead:
        return [w.value for w in drawn(states, op.shape, dtype, algorithm)]
    rows = states.reshape(math.prod(lead), words)
    after, bits = each_drawn(rows, op.shape, dtype, algorithm)
    return [after.reshape(*lead, words).value, bits.reshape(*lead, *op.shape).value]


@rule(RngUniform)
def _rng_uniform(
    b: BlockBuilder, op: RngUniform, low: HloValue, high: HloValue
) -> HloValue:
    shape = b.constant(np.asarray(op.shape, np.int64))
    distribution = RawAttribute("UNIFORM")
    operands = [low, high, shape]
    return b.op("rng", operands, b.out_type, rng_distribution=distribution)


@rule(RandomGamma, keys=True)
def _gamma(b: BlockBuilder, op: RandomGamma, *args: HloValue) -> HloValue:
    (result,) = lower_closed(b, gamma_program(op, *b.ins), args)
    return result
