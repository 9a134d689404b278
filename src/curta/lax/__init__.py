"""Primitive operations: explicit shapes and dtypes, without promotion."""

from curta._base.on_demand import retired as _retired, without_parts as _without_parts
from curta.api.placing import with_sharding_constraint as with_sharding_constraint
from curta.control.primitives import *
from curta.dtypes import dtype as dtype
from curta.lax import linalg as linalg
from curta.lax.aliases import (
    ConvGeneralDilatedDimensionNumbers as ConvGeneralDilatedDimensionNumbers,
    DotDimensionNumbers as DotDimensionNumbers,
    PrecisionLike as PrecisionLike,
)
from curta.lax.approximate import (
    approx_max_k as approx_max_k,
    approx_min_k as approx_min_k,
)
from curta.lax.arithmetic import (
    abs as abs,
    add as add,
    cbrt as cbrt,
    div as div,
    integer_pow as integer_pow,
    max as max,
    min as min,
    mul as mul,
    mulhi as mulhi,
    neg as neg,
    pow as pow,
    reciprocal as reciprocal,
    rem as rem,
    rsqrt as rsqrt,
    sign as sign,
    sqrt as sqrt,
    square as square,
    sub as sub,
)
from curta.lax.bitwise import (
    bitwise_and as bitwise_and,
    bitwise_not as bitwise_not,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    clz as clz,
    population_count as population_count,
    shift_left as shift_left,
    shift_right_arithmetic as shift_right_arithmetic,
    shift_right_logical as shift_right_logical,
)
from curta.lax.comparison import (
    eq as eq,
    ge as ge,
    gt as gt,
    le as le,
    lt as lt,
    ne as ne,
)
from curta.lax.composites import (
    after_all as after_all,
    composite as composite,
    create_token as create_token,
    dce_sink as dce_sink,
    empty as empty,
)
from curta.lax.control_flow import (
    associative_scan as associative_scan,
    cond as cond,
    custom_linear_solve as custom_linear_solve,
    custom_root as custom_root,
    fori_loop as fori_loop,
    map as map,
    platform_dependent as platform_dependent,
    scan as scan,
    switch as switch,
    while_loop as while_loop,
)
from curta.lax.conversion import (
    bitcast_convert_type as bitcast_convert_type,
    complex as complex,
    conj as conj,
    convert_element_type as convert_element_type,
    copy as copy,
    imag as imag,
    optimization_barrier as optimization_barrier,
    real as real,
    stage as stage,
    stop_gradient as stop_gradient,
)
from curta.lax.convolution import (
    conv as conv,
    conv_general_dilated as conv_general_dilated,
    conv_general_dilated_local as conv_general_dilated_local,
    conv_general_dilated_patches as conv_general_dilated_patches,
    conv_transpose as conv_transpose,
    conv_with_general_padding as conv_with_general_padding,
)
from curta.lax.creation import (
    broadcasted_iota as broadcasted_iota,
    full as full,
    full_like as full_like,
    iota as iota,
)
from curta.lax.dimension_numbers import (
    conv_dimension_numbers as conv_dimension_numbers,
    conv_general_permutations as conv_general_permutations,
    conv_general_shape_tuple as conv_general_shape_tuple,
    conv_shape_tuple as conv_shape_tuple,
    conv_transpose_shape_tuple as conv_transpose_shape_tuple,
)
from curta.lax.dot import (
    batch_matmul as batch_matmul,
    dot as dot,
    dot_general as dot_general,
)
from curta.lax.dynamic_slices import (
    dynamic_index_in_dim as dynamic_index_in_dim,
    dynamic_slice as dynamic_slice,
    dynamic_slice_in_dim as dynamic_slice_in_dim,
    dynamic_update_index_in_dim as dynamic_update_index_in_dim,
    dynamic_update_slice as dynamic_update_slice,
    dynamic_update_slice_in_dim as dynamic_update_slice_in_dim,
)
from curta.lax.exchange import (
    precv as precv,
    psend as psend,
    ragged_all_to_all as ragged_all_to_all,
)
from curta.lax.exponential import (
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    log as log,
    log1p as log1p,
    log2 as log2,
    logistic as logistic,
    tanh as tanh,
)
from curta.lax.fft import fft as fft
from curta.lax.fold import reduce as reduce, reduce_window as reduce_window
from curta.lax.generators import (
    rng_bit_generator as rng_bit_generator,
    rng_uniform as rng_uniform,
)
from curta.lax.horner import (
    one_minus_square as one_minus_square,
    polynomial as polynomial,
)
from curta.lax.indexing import (
    gather as gather,
    index_take as index_take,
    scatter as scatter,
    scatter_add as scatter_add,
    scatter_max as scatter_max,
    scatter_min as scatter_min,
    scatter_mul as scatter_mul,
    scatter_sub as scatter_sub,
)
from curta.lax.named_axes import axis_size as axis_size
from curta.lax.named_reductions import (
    pmax as pmax,
    pmean as pmean,
    pmin as pmin,
    psum as psum,
)
from curta.lax.parallel import (
    all_gather as all_gather,
    all_to_all as all_to_all,
    axis_index as axis_index,
    pbroadcast as pbroadcast,
    ppermute as ppermute,
    pshuffle as pshuffle,
    psum_scatter as psum_scatter,
    psum_scatter_start as psum_scatter_start,
    pswapaxes as pswapaxes,
)
from curta.lax.ragged import (
    ragged_dot as ragged_dot,
    ragged_dot_general as ragged_dot_general,
    scaled_dot as scaled_dot,
)
from curta.lax.reduction import (
    argmax as argmax,
    argmin as argmin,
    reduce_and as reduce_and,
    reduce_max as reduce_max,
    reduce_min as reduce_min,
    reduce_or as reduce_or,
    reduce_prod as reduce_prod,
    reduce_sum as reduce_sum,
    reduce_xor as reduce_xor,
)
from curta.lax.rounding import (
    ceil as ceil,
    floor as floor,
    is_finite as is_finite,
    nextafter as nextafter,
    reduce_precision as reduce_precision,
    round as round,
)
from curta.lax.scatter_apply import scatter_apply as scatter_apply
from curta.lax.selection import (
    clamp as clamp,
    select as select,
    select_n as select_n,
)
from curta.lax.shape import (
    broadcast as broadcast,
    broadcast_in_dim as broadcast_in_dim,
    broadcast_like as broadcast_like,
    broadcast_shapes as broadcast_shapes,
    broadcast_to_rank as broadcast_to_rank,
    collapse as collapse,
    concatenate as concatenate,
    expand_dims as expand_dims,
    index_in_dim as index_in_dim,
    pad as pad,
    reshape as reshape,
    rev as rev,
    shape_as_value as shape_as_value,
    slice as slice,
    slice_in_dim as slice_in_dim,
    split as split,
    squeeze as squeeze,
    stack as stack,
    tile as tile,
    transpose as transpose,
    unstack as unstack,
)
from curta.lax.sorting import (
    cumlogsumexp as cumlogsumexp,
    cummax as cummax,
    cummin as cummin,
    cumprod as cumprod,
    cumsum as cumsum,
    sort as sort,
    sort_key_val as sort_key_val,
    top_k as top_k,
)
from curta.lax.special import (
    bessel_i0e as bessel_i0e,
    bessel_i1e as bessel_i1e,
    betainc as betainc,
    digamma as digamma,
    erf as erf,
    erf_inv as erf_inv,
    erfc as erfc,
    igamma as igamma,
    igamma_grad_a as igamma_grad_a,
    igammac as igammac,
    lgamma as lgamma,
    polygamma as polygamma,
    random_gamma_grad as random_gamma_grad,
    zeta as zeta,
)
from curta.lax.trigonometric import (
    acos as acos,
    acosh as acosh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cos as cos,
    cosh as cosh,
    sin as sin,
    sinh as sinh,
    tan as tan,
)
from curta.lax.varying import (
    pcast as pcast,
    pvary as pvary,
)
from curta.lax.windows import (
    padtype_to_pads as padtype_to_pads,
    reduce_window_shape_tuple as reduce_window_shape_tuple,
)
from curta.primitives.convolution import ConvDimensionNumbers as ConvDimensionNumbers
from curta.primitives.elementwise import (
    AccuracyMode as AccuracyMode,
    RoundingMethod as RoundingMethod,
    Tolerance as Tolerance,
)
from curta.primitives.fft import FftType as FftType
from curta.primitives.indexing import (
    GatherDimensionNumbers as GatherDimensionNumbers,
    GatherScatterMode as GatherScatterMode,
    ScatterDimensionNumbers as ScatterDimensionNumbers,
)
from curta.primitives.precision import (
    DotAlgorithm as DotAlgorithm,
    DotAlgorithmPreset as DotAlgorithmPreset,
    Precision as Precision,
)
from curta.primitives.ragged_dot import (
    RaggedDotDimensionNumbers as RaggedDotDimensionNumbers,
)
from curta.primitives.random_bits.generator import RandomAlgorithm as RandomAlgorithm

__getattr__ = _retired(__name__)
__dir__ = _without_parts(__name__, frozenset({"linalg"}))
