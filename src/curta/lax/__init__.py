"""The primitive operations as functions: no promotion, no broadcasting of ranks."""

from curta.api.placing import with_sharding_constraint
from curta.control.primitives import *
from curta.dtypes import dtype
from curta.lax import linalg as linalg
from curta.lax.aliases import (
    ConvGeneralDilatedDimensionNumbers,
    DotDimensionNumbers,
    PrecisionLike,
)
from curta.lax.approximate import approx_max_k, approx_min_k
from curta.lax.arithmetic import (
    abs,
    add,
    cbrt,
    div,
    integer_pow,
    max,
    min,
    mul,
    mulhi,
    neg,
    pow,
    reciprocal,
    rem,
    rsqrt,
    sign,
    sqrt,
    square,
    sub,
)
from curta.lax.bitwise import (
    bitwise_and,
    bitwise_not,
    bitwise_or,
    bitwise_xor,
    clz,
    population_count,
    shift_left,
    shift_right_arithmetic,
    shift_right_logical,
)
from curta.lax.comparison import (
    eq,
    ge,
    gt,
    le,
    lt,
    ne,
)
from curta.lax.composites import (
    after_all,
    composite,
    create_token,
    dce_sink,
    empty,
)
from curta.lax.control_flow import (
    associative_scan,
    cond,
    custom_linear_solve,
    custom_root,
    fori_loop,
    map,
    platform_dependent,
    scan,
    switch,
    while_loop,
)
from curta.lax.conversion import (
    bitcast_convert_type,
    complex,
    conj,
    convert_element_type,
    copy,
    imag,
    optimization_barrier,
    real,
    stage,
    stop_gradient,
)
from curta.lax.convolution import (
    conv,
    conv_general_dilated,
    conv_general_dilated_local,
    conv_general_dilated_patches,
    conv_transpose,
    conv_with_general_padding,
)
from curta.lax.dimension_numbers import (
    conv_dimension_numbers,
    conv_general_permutations,
    conv_general_shape_tuple,
    conv_shape_tuple,
    conv_transpose_shape_tuple,
)
from curta.lax.dot import batch_matmul, dot, dot_general
from curta.lax.exchange import precv, psend, ragged_all_to_all
from curta.lax.exponential import (
    AccuracyMode,
    Tolerance,
    exp,
    exp2,
    expm1,
    log,
    log1p,
    logistic,
    tanh,
)
from curta.lax.fft import fft
from curta.lax.fold import reduce, reduce_window
from curta.lax.generators import rng_bit_generator, rng_uniform
from curta.lax.indexing import (
    dynamic_index_in_dim,
    dynamic_slice,
    dynamic_slice_in_dim,
    dynamic_update_index_in_dim,
    dynamic_update_slice,
    dynamic_update_slice_in_dim,
    gather,
    index_take,
    scatter,
    scatter_add,
    scatter_max,
    scatter_min,
    scatter_mul,
    scatter_sub,
)
from curta.lax.named_axes import axis_size
from curta.lax.parallel import (
    all_gather,
    all_to_all,
    axis_index,
    pbroadcast,
    pcast,
    pmax,
    pmean,
    pmin,
    ppermute,
    pshuffle,
    psum,
    psum_scatter,
    pswapaxes,
    pvary,
)
from curta.lax.ragged import ragged_dot, ragged_dot_general, scaled_dot
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
from curta.lax.rounding import (
    RoundingMethod,
    ceil,
    floor,
    is_finite,
    nextafter,
    reduce_precision,
    round,
)
from curta.lax.scatter_apply import scatter_apply
from curta.lax.selection import (
    clamp,
    select,
    select_n,
)
from curta.lax.shape import (
    broadcast,
    broadcast_in_dim,
    broadcast_like,
    broadcast_shapes,
    broadcast_to_rank,
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
    shape_as_value,
    slice,
    slice_in_dim,
    split,
    squeeze,
    stack,
    tile,
    transpose,
    unstack,
)
from curta.lax.sorting import (
    cumlogsumexp,
    cummax,
    cummin,
    cumprod,
    cumsum,
    sort,
    sort_key_val,
    top_k,
)
from curta.lax.special import (
    bessel_i0e,
    bessel_i1e,
    betainc,
    digamma,
    erf,
    erf_inv,
    erfc,
    igamma,
    igamma_grad_a,
    igammac,
    lgamma,
    polygamma,
    random_gamma_grad,
    zeta,
)
from curta.lax.trigonometric import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    sin,
    sinh,
    tan,
)
from curta.lax.windows import padtype_to_pads, reduce_window_shape_tuple
from curta.on_demand import without_parts as _without_parts
from curta.primitives.convolution import ConvDimensionNumbers
from curta.primitives.fft import FftType
from curta.primitives.indexing import (
    GatherDimensionNumbers,
    GatherScatterMode,
    ScatterDimensionNumbers,
)
from curta.primitives.precision import DotAlgorithm, DotAlgorithmPreset, Precision
from curta.primitives.ragged_dot import RaggedDotDimensionNumbers
from curta.primitives.random_bits.generator import RandomAlgorithm

__dir__ = _without_parts(__name__, frozenset({"linalg"}))
