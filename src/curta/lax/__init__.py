"""The primitive operations as functions: no promotion, no broadcasting of ranks."""

from curta.lax.dot import batch_matmul, dot, dot_general
from curta.lax.reduction import (
    argmax,
    argmin,
    reduce_and,
    reduce_max,
    reduce_min,
    reduce_or,
    reduce_prod,
    reduce_sum,
    reduce_xor,
)
from curta.lax.shape import (
    broadcast,
    broadcast_in_dim,
    broadcast_shapes,
    broadcasted_iota,
    collapse,
    concatenate,
    expand_dims,
    full,
    full_like,
    index_in_dim,
    iota,
    pad,
    reshape,
    rev,
    slice,
    slice_in_dim,
    split,
    squeeze,
    stack,
    tile,
    transpose,
    unstack,
)
from curta.ops.dot import Precision
