"""The NumPy API on immutable arrays, with JAX's names and dtypes."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from curta._base.on_demand import on_demand as _on_demand
from curta.dlpack import from_dlpack as from_dlpack
from curta.numpy import linalg as linalg, operators as _operators
from curta.numpy.arithmetic import (
    abs as abs,
    absolute as absolute,
    divide as divide,
    divmod as divmod,
    fabs as fabs,
    float_power as float_power,
    floor_divide as floor_divide,
    fmod as fmod,
    heaviside as heaviside,
    hypot as hypot,
    mod as mod,
    positive as positive,
    pow as pow,
    power as power,
    reciprocal as reciprocal,
    remainder as remainder,
    sign as sign,
    square as square,
    true_divide as true_divide,
)
from curta.numpy.array_api import __array_namespace_info__ as __array_namespace_info__
from curta.numpy.array_methods import (
    ARRAY_API_VERSION as __array_api_version__,
    astype as astype,
    fill_diagonal as fill_diagonal,
)
from curta.numpy.binning import (
    bincount as bincount,
    digitize as digitize,
    searchsorted as searchsorted,
)
from curta.numpy.bitwise import (
    bitwise_count as bitwise_count,
    bitwise_invert as bitwise_invert,
    bitwise_left_shift as bitwise_left_shift,
    bitwise_not as bitwise_not,
    bitwise_right_shift as bitwise_right_shift,
    invert as invert,
    left_shift as left_shift,
    right_shift as right_shift,
)
from curta.numpy.complex_numbers import (
    angle as angle,
    conj as conj,
    conjugate as conjugate,
    imag as imag,
    real as real,
)
from curta.numpy.conditional import (
    piecewise as piecewise,
    select as select,
    where as where,
)
from curta.numpy.constructors import (
    array as array,
    asarray as asarray,
)
from curta.numpy.convolution import (
    convolve as convolve,
    correlate as correlate,
)
from curta.numpy.covariance import corrcoef as corrcoef, cov as cov
from curta.numpy.creation import (
    copy as copy,
    empty as empty,
    empty_like as empty_like,
    frombuffer as frombuffer,
    full as full,
    full_like as full_like,
    indices as indices,
    meshgrid as meshgrid,
    ones as ones,
    ones_like as ones_like,
    zeros as zeros,
    zeros_like as zeros_like,
)
from curta.numpy.cumulative import (
    cumprod as cumprod,
    cumsum as cumsum,
    cumulative_prod as cumulative_prod,
    cumulative_sum as cumulative_sum,
    nancumprod as nancumprod,
    nancumsum as nancumsum,
)
from curta.numpy.data_types import (
    ComplexWarning as ComplexWarning,
    can_cast as can_cast,
    character as character,
    complexfloating as complexfloating,
    dtype as dtype,
    e as e,
    euler_gamma as euler_gamma,
    finfo as finfo,
    flexible as flexible,
    floating as floating,
    generic as generic,
    get_printoptions as get_printoptions,
    iinfo as iinfo,
    inexact as inexact,
    inf as inf,
    integer as integer,
    isdtype as isdtype,
    issubdtype as issubdtype,
    nan as nan,
    ndarray as ndarray,
    newaxis as newaxis,
    number as number,
    object_ as object_,
    pi as pi,
    printoptions as printoptions,
    promote_types as promote_types,
    result_type as result_type,
    set_printoptions as set_printoptions,
    signedinteger as signedinteger,
    unsignedinteger as unsignedinteger,
)
from curta.numpy.diagonals import (
    diag as diag,
    diagflat as diagflat,
    diagonal as diagonal,
    trace as trace,
)
from curta.numpy.differences import (
    diff as diff,
    ediff1d as ediff1d,
    gradient as gradient,
    trapezoid as trapezoid,
    unwrap as unwrap,
)
from curta.numpy.distinct import (
    unique as unique,
    unique_all as unique_all,
    unique_counts as unique_counts,
    unique_inverse as unique_inverse,
    unique_values as unique_values,
)
from curta.numpy.einstein_summation import (
    einsum as einsum,
    einsum_path as einsum_path,
)
from curta.numpy.elementary import (
    around as around,
    cbrt as cbrt,
    ceil as ceil,
    exp as exp,
    exp2 as exp2,
    expm1 as expm1,
    floor as floor,
    log as log,
    log1p as log1p,
    log2 as log2,
    log10 as log10,
    modf as modf,
    nan_to_num as nan_to_num,
    rint as rint,
    round as round,
    sqrt as sqrt,
    trunc as trunc,
)
from curta.numpy.extrema import clip as clip, fmax as fmax, fmin as fmin
from curta.numpy.extremes import minmax as minmax, top_k as top_k
from curta.numpy.files import (
    array_repr as array_repr,
    array_str as array_str,
    fromfile as fromfile,
    fromiter as fromiter,
    fromstring as fromstring,
    iterable as iterable,
    load as load,
    save as save,
    savez as savez,
)
from curta.numpy.fitting import poly as poly, polyfit as polyfit, roots as roots
from curta.numpy.float_parts import (
    copysign as copysign,
    frexp as frexp,
    ldexp as ldexp,
    nextafter as nextafter,
    signbit as signbit,
    spacing as spacing,
)
from curta.numpy.histograms import (
    histogram as histogram,
    histogram2d as histogram2d,
    histogram_bin_edges as histogram_bin_edges,
    histogramdd as histogramdd,
    interp as interp,
)
from curta.numpy.index_tricks import (
    c_ as c_,
    diag_indices as diag_indices,
    diag_indices_from as diag_indices_from,
    index_exp as index_exp,
    ix_ as ix_,
    mask_indices as mask_indices,
    mgrid as mgrid,
    ogrid as ogrid,
    r_ as r_,
    s_ as s_,
    tril_indices as tril_indices,
    tril_indices_from as tril_indices_from,
    triu_indices as triu_indices,
    triu_indices_from as triu_indices_from,
)
from curta.numpy.insertion import delete as delete, insert as insert
from curta.numpy.joining import (
    append as append,
    array_split as array_split,
    block as block,
    column_stack as column_stack,
    concat as concat,
    concatenate as concatenate,
    dsplit as dsplit,
    dstack as dstack,
    hsplit as hsplit,
    hstack as hstack,
    split as split,
    stack as stack,
    unstack as unstack,
    vsplit as vsplit,
    vstack as vstack,
)
from curta.numpy.linear_algebra import (
    dot as dot,
    inner as inner,
    matmul as matmul,
    matvec as matvec,
    tensordot as tensordot,
    vdot as vdot,
    vecdot as vecdot,
    vecmat as vecmat,
)
from curta.numpy.logic import (
    allclose as allclose,
    array_equal as array_equal,
    array_equiv as array_equiv,
    equal as equal,
    greater as greater,
    greater_equal as greater_equal,
    isclose as isclose,
    iscomplex as iscomplex,
    iscomplexobj as iscomplexobj,
    isfinite as isfinite,
    isinf as isinf,
    isnan as isnan,
    isneginf as isneginf,
    isposinf as isposinf,
    isreal as isreal,
    isrealobj as isrealobj,
    isscalar as isscalar,
    less as less,
    less_equal as less_equal,
    logical_not as logical_not,
    not_equal as not_equal,
)
from curta.numpy.matrices import (
    eye as eye,
    identity as identity,
    tri as tri,
    tril as tril,
    triu as triu,
    vander as vander,
)
from curta.numpy.nan_reductions import (
    nanmax as nanmax,
    nanmean as nanmean,
    nanmin as nanmin,
    nanprod as nanprod,
    nanstd as nanstd,
    nansum as nansum,
    nanvar as nanvar,
)
from curta.numpy.number_theory import (
    gcd as gcd,
    lcm as lcm,
    packbits as packbits,
    unpackbits as unpackbits,
)
from curta.numpy.order_statistics import (
    median as median,
    nanmedian as nanmedian,
    nanpercentile as nanpercentile,
    nanquantile as nanquantile,
    percentile as percentile,
    quantile as quantile,
)
from curta.numpy.outer_products import cross as cross, kron as kron, outer as outer
from curta.numpy.padding import (
    pad as pad,
)
from curta.numpy.polynomials import (
    polyadd as polyadd,
    polyder as polyder,
    polydiv as polydiv,
    polyint as polyint,
    polymul as polymul,
    polysub as polysub,
    polyval as polyval,
)
from curta.numpy.putting import (
    place as place,
    put as put,
    put_along_axis as put_along_axis,
)
from curta.numpy.ranges import (
    arange as arange,
    geomspace as geomspace,
    linspace as linspace,
    logspace as logspace,
)
from curta.numpy.rearranging import (
    flip as flip,
    fliplr as fliplr,
    flipud as flipud,
    repeat as repeat,
    resize as resize,
    roll as roll,
    rot90 as rot90,
    tile as tile,
)
from curta.numpy.reductions import (
    all as all,
    amax as amax,
    amin as amin,
    any as any,
    count_nonzero as count_nonzero,
    max as max,
    min as min,
    prod as prod,
    ptp as ptp,
    sum as sum,
)
from curta.numpy.scalar_types import (
    bfloat16 as bfloat16,
    bool_ as bool_,
    cdouble as cdouble,
    complex64 as complex64,
    complex128 as complex128,
    complex_ as complex_,
    csingle as csingle,
    double as double,
    float4_e2m1fn as float4_e2m1fn,
    float6_e2m3fn as float6_e2m3fn,
    float6_e3m2fn as float6_e3m2fn,
    float8_e3m4 as float8_e3m4,
    float8_e4m3 as float8_e4m3,
    float8_e4m3b11fnuz as float8_e4m3b11fnuz,
    float8_e4m3fn as float8_e4m3fn,
    float8_e4m3fnuz as float8_e4m3fnuz,
    float8_e5m2 as float8_e5m2,
    float8_e5m2fnuz as float8_e5m2fnuz,
    float8_e8m0fnu as float8_e8m0fnu,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    float_ as float_,
    int1 as int1,
    int2 as int2,
    int4 as int4,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    int_ as int_,
    single as single,
    uint as uint,
    uint1 as uint1,
    uint2 as uint2,
    uint4 as uint4,
    uint8 as uint8,
    uint16 as uint16,
    uint32 as uint32,
    uint64 as uint64,
)
from curta.numpy.searching import (
    argmax as argmax,
    argmin as argmin,
    argwhere as argwhere,
    flatnonzero as flatnonzero,
    nanargmax as nanargmax,
    nanargmin as nanargmin,
    nonzero as nonzero,
    ravel_multi_index as ravel_multi_index,
    unravel_index as unravel_index,
)
from curta.numpy.sets import (
    intersect1d as intersect1d,
    isin as isin,
    setdiff1d as setdiff1d,
    setxor1d as setxor1d,
    trim_zeros as trim_zeros,
    union1d as union1d,
)
from curta.numpy.shapes import (
    atleast_1d as atleast_1d,
    atleast_2d as atleast_2d,
    atleast_3d as atleast_3d,
    broadcast_arrays as broadcast_arrays,
    broadcast_shapes as broadcast_shapes,
    broadcast_to as broadcast_to,
    expand_dims as expand_dims,
    matrix_transpose as matrix_transpose,
    moveaxis as moveaxis,
    ndim as ndim,
    permute_dims as permute_dims,
    ravel as ravel,
    reshape as reshape,
    rollaxis as rollaxis,
    shape as shape,
    size as size,
    squeeze as squeeze,
    swapaxes as swapaxes,
    transpose as transpose,
)
from curta.numpy.sorting import (
    argpartition as argpartition,
    argsort as argsort,
    lexsort as lexsort,
    partition as partition,
    sort as sort,
    sort_complex as sort_complex,
)
from curta.numpy.statistics import (
    average as average,
    mean as mean,
    std as std,
    var as var,
)
from curta.numpy.taking import (
    choose as choose,
    compress as compress,
    extract as extract,
    take as take,
    take_along_axis as take_along_axis,
)
from curta.numpy.trigonometry import (
    acos as acos,
    acosh as acosh,
    arccos as arccos,
    arccosh as arccosh,
    arcsin as arcsin,
    arcsinh as arcsinh,
    arctan as arctan,
    arctan2 as arctan2,
    arctanh as arctanh,
    asin as asin,
    asinh as asinh,
    atan as atan,
    atan2 as atan2,
    atanh as atanh,
    cos as cos,
    cosh as cosh,
    deg2rad as deg2rad,
    degrees as degrees,
    rad2deg as rad2deg,
    radians as radians,
    sin as sin,
    sinc as sinc,
    sinh as sinh,
    tan as tan,
    tanh as tanh,
)
from curta.numpy.ufunc import (
    frompyfunc as frompyfunc,
    ufunc as ufunc,
)
from curta.numpy.ufuncs import (
    add as add,
    bitwise_and as bitwise_and,
    bitwise_or as bitwise_or,
    bitwise_xor as bitwise_xor,
    logaddexp as logaddexp,
    logaddexp2 as logaddexp2,
    logical_and as logical_and,
    logical_or as logical_or,
    logical_xor as logical_xor,
    maximum as maximum,
    minimum as minimum,
    multiply as multiply,
    negative as negative,
    subtract as subtract,
)
from curta.numpy.vectorize import (
    apply_along_axis as apply_along_axis,
    apply_over_axes as apply_over_axes,
    fromfunction as fromfunction,
    vectorize as vectorize,
)
from curta.numpy.windows import (
    bartlett as bartlett,
    blackman as blackman,
    hamming as hamming,
    hanning as hanning,
    i0 as i0,
    kaiser as kaiser,
)

if _TYPE_CHECKING:
    from curta.numpy import fft as fft

bool = bool_

__getattr__, __dir__ = _on_demand(
    __name__,
    frozenset({"fft"}),
    removed={"fix": ("JAX v0.9.0", "trunc")},
    public=frozenset({"linalg"}),
)
