"""The primitives under the names that JAX programs know: `add_p`, `scan_p`, ..."""

from curta.control import (
    call,
    composite,
    cond,
    custom_jvp,
    custom_vjp,
    custom_vmap,
    linear_call,
    linear_solve,
    platform,
    ragged_exchange,
    reduction as control_reduction,
    remat,
    scan,
    shard_map,
    while_loop,
)
from curta.core import refs
from curta.core.primitive import Primitive, primitive_of
from curta.primitives import (
    approximate,
    barrier,
    checks,
    collective,
    convolution,
    cumulative,
    dot,
    effects,
    exchange,
    fft,
    joining,
    linalg,
    placing,
    ragged_dot,
    reduction,
    scaled_dot,
    shape,
    slicing,
    sorting,
    structure,
    windowed,
)
from curta.primitives.elementwise import (
    arithmetic,
    bitwise,
    comparison,
    complex,
    convert,
    exponential,
    horner,
    incomplete,
    magnitude,
    powers,
    rounding,
    special,
    trigonometric,
)
from curta.primitives.elementwise.select import Clamp, SelectN
from curta.primitives.indexing import dynamic, gather, scatter
from curta.primitives.random_bits import gamma, generator, ops

abs_p: Primitive = primitive_of(magnitude.Abs)
acos_p: Primitive = primitive_of(trigonometric.Acos)
acosh_p: Primitive = primitive_of(trigonometric.Acosh)
add_any_p: Primitive = primitive_of(structure.AddAny)
add_p: Primitive = primitive_of(arithmetic.Add)
and_p: Primitive = primitive_of(bitwise.And)
argmax_p: Primitive = primitive_of(reduction.ArgMax)
argmin_p: Primitive = primitive_of(reduction.ArgMin)
asin_p: Primitive = primitive_of(trigonometric.Asin)
asinh_p: Primitive = primitive_of(trigonometric.Asinh)
atan2_p: Primitive = primitive_of(trigonometric.Atan2)
atan_p: Primitive = primitive_of(trigonometric.Atan)
atanh_p: Primitive = primitive_of(trigonometric.Atanh)
bessel_i0e_p: Primitive = primitive_of(incomplete.BesselI0e)
bessel_i1e_p: Primitive = primitive_of(incomplete.BesselI1e)
bitcast_convert_type_p: Primitive = primitive_of(convert.BitcastConvertType)
broadcast_in_dim_p: Primitive = primitive_of(structure.BroadcastInDim)
cbrt_p: Primitive = primitive_of(powers.Cbrt)
ceil_p: Primitive = primitive_of(rounding.Ceil)
check_p: Primitive = primitive_of(checks.Check)
clamp_p: Primitive = primitive_of(Clamp)
clz_p: Primitive = primitive_of(bitwise.Clz)
complex_p: Primitive = primitive_of(complex.Complex)
concatenate_p: Primitive = primitive_of(joining.Concatenate)
cond_p: Primitive = primitive_of(cond.Cond)
conj_p: Primitive = primitive_of(complex.Conj)
convert_element_type_p: Primitive = primitive_of(convert.ConvertElementType)
copy_p: Primitive = primitive_of(convert.Copy)
cos_p: Primitive = primitive_of(trigonometric.Cos)
cosh_p: Primitive = primitive_of(trigonometric.Cosh)
cumlogsumexp_p: Primitive = primitive_of(cumulative.CumLogSumExp)
cummax_p: Primitive = primitive_of(cumulative.CumMax)
cummin_p: Primitive = primitive_of(cumulative.CumMin)
cumprod_p: Primitive = primitive_of(cumulative.CumProd)
cumsum_p: Primitive = primitive_of(cumulative.CumSum)
custom_jvp_call_p: Primitive = primitive_of(custom_jvp.CustomJVPCall)
custom_lin_p: Primitive = primitive_of(custom_vjp.CustomLinear)
custom_vmap_p: Primitive = primitive_of(custom_vmap.CustomVmapCall)
linear_call_p: Primitive = primitive_of(linear_call.LinearCall)
linear_solve_p: Primitive = primitive_of(linear_solve.LinearSolve)
get_p: Primitive = primitive_of(refs.RefGet)
swap_p: Primitive = primitive_of(refs.RefSwap)
addupdate_p: Primitive = primitive_of(refs.RefAddUpdate)
optimization_barrier_p: Primitive = primitive_of(barrier.OptimizationBarrier)
platform_index_p: Primitive = primitive_of(platform.PlatformIndex)
custom_vjp_call_p: Primitive = primitive_of(custom_vjp.CustomVJPCall)
digamma_p: Primitive = primitive_of(special.Digamma)
div_p: Primitive = primitive_of(arithmetic.Div)
dot_general_p: Primitive = primitive_of(dot.DotGeneral)
dynamic_slice_p: Primitive = primitive_of(dynamic.DynamicSlice)
dynamic_update_slice_p: Primitive = primitive_of(dynamic.DynamicUpdateSlice)
eq_p: Primitive = primitive_of(comparison.Eq)
eq_to_p: Primitive = primitive_of(comparison.EqTo)
erf_inv_p: Primitive = primitive_of(special.ErfInv)
erf_p: Primitive = primitive_of(special.Erf)
erfc_p: Primitive = primitive_of(special.Erfc)
exp2_p: Primitive = primitive_of(exponential.Exp2)
exp_p: Primitive = primitive_of(exponential.Exp)
expm1_p: Primitive = primitive_of(exponential.Expm1)
floor_p: Primitive = primitive_of(rounding.Floor)
gather_p: Primitive = primitive_of(gather.Gather)
ge_p: Primitive = primitive_of(comparison.Ge)
gt_p: Primitive = primitive_of(comparison.Gt)
igamma_grad_a_p: Primitive = primitive_of(incomplete.IgammaGradA)
igamma_p: Primitive = primitive_of(incomplete.Igamma)
igammac_p: Primitive = primitive_of(incomplete.Igammac)
imag_p: Primitive = primitive_of(complex.Imag)
integer_pow_p: Primitive = primitive_of(arithmetic.IntegerPow)
iota_p: Primitive = primitive_of(shape.Iota)
is_finite_p: Primitive = primitive_of(rounding.IsFinite)
jit_p: Primitive = primitive_of(call.JitCall)
le_p: Primitive = primitive_of(comparison.Le)
le_to_p: Primitive = primitive_of(comparison.LeTo)
lgamma_p: Primitive = primitive_of(special.Lgamma)
log2_p: Primitive = primitive_of(exponential.Log2)
log1p_p: Primitive = primitive_of(exponential.Log1p)
log_p: Primitive = primitive_of(exponential.Log)
logistic_p: Primitive = primitive_of(exponential.Logistic)
lt_p: Primitive = primitive_of(comparison.Lt)
lt_to_p: Primitive = primitive_of(comparison.LtTo)
max_p: Primitive = primitive_of(magnitude.Max)
min_p: Primitive = primitive_of(magnitude.Min)
mul_p: Primitive = primitive_of(arithmetic.Mul)
mulhi_p: Primitive = primitive_of(arithmetic.Mulhi)
name_p: Primitive = primitive_of(convert.Name)
ne_p: Primitive = primitive_of(comparison.Ne)
neg_p: Primitive = primitive_of(arithmetic.Neg)
nextafter_p: Primitive = primitive_of(rounding.Nextafter)
not_p: Primitive = primitive_of(bitwise.Not)
or_p: Primitive = primitive_of(bitwise.Or)
pad_p: Primitive = primitive_of(slicing.Pad)
polygamma_p: Primitive = primitive_of(special.Polygamma)
population_count_p: Primitive = primitive_of(bitwise.PopulationCount)
pow_p: Primitive = primitive_of(powers.Pow)
random_bits_p: Primitive = primitive_of(ops.RandomBits)
random_clone_p: Primitive = primitive_of(ops.RandomClone)
random_fold_in_p: Primitive = primitive_of(ops.RandomFoldIn)
random_gamma_p: Primitive = primitive_of(gamma.RandomGamma)
random_gamma_grad_p: Primitive = primitive_of(incomplete.RandomGammaGrad)
random_seed_p: Primitive = primitive_of(ops.RandomSeed)
random_split_p: Primitive = primitive_of(ops.RandomSplit)
random_unwrap_p: Primitive = primitive_of(ops.RandomUnwrap)
random_wrap_p: Primitive = primitive_of(ops.RandomWrap)
real_p: Primitive = primitive_of(complex.Real)
reduce_and_p: Primitive = primitive_of(reduction.ReduceAnd)
reduce_max_p: Primitive = primitive_of(reduction.ReduceMax)
reduce_min_p: Primitive = primitive_of(reduction.ReduceMin)
reduce_or_p: Primitive = primitive_of(reduction.ReduceOr)
reduce_precision_p: Primitive = primitive_of(rounding.ReducePrecision)
reduce_prod_p: Primitive = primitive_of(reduction.ReduceProd)
reduce_sum_p: Primitive = primitive_of(structure.ReduceSum)
reduce_xor_p: Primitive = primitive_of(reduction.ReduceXor)
regularized_incomplete_beta_p: Primitive = primitive_of(incomplete.Betainc)
rem_p: Primitive = primitive_of(rounding.Rem)
remat_opt_p: Primitive = primitive_of(custom_vjp.ForwardPass)
remat_p: Primitive = primitive_of(remat.Remat)
reshape_p: Primitive = primitive_of(structure.Reshape)
rev_p: Primitive = primitive_of(shape.Rev)
round_p: Primitive = primitive_of(rounding.Round)
rsqrt_p: Primitive = primitive_of(powers.Rsqrt)
scan_p: Primitive = primitive_of(scan.Scan)
scatter_add_p: Primitive = primitive_of(gather.ScatterAdd)
scatter_max_p: Primitive = primitive_of(scatter.ScatterMax)
scatter_min_p: Primitive = primitive_of(scatter.ScatterMin)
scatter_mul_p: Primitive = primitive_of(scatter.ScatterMul)
scatter_p: Primitive = primitive_of(scatter.Scatter)
scatter_sub_p: Primitive = primitive_of(scatter.ScatterSub)
select_n_p: Primitive = primitive_of(SelectN)
shift_left_p: Primitive = primitive_of(bitwise.ShiftLeft)
shift_right_arithmetic_p: Primitive = primitive_of(bitwise.ShiftRightArithmetic)
shift_right_logical_p: Primitive = primitive_of(bitwise.ShiftRightLogical)
sign_p: Primitive = primitive_of(magnitude.Sign)
sin_p: Primitive = primitive_of(trigonometric.Sin)
sinh_p: Primitive = primitive_of(trigonometric.Sinh)
slice_p: Primitive = primitive_of(slicing.Slice)
sort_p: Primitive = primitive_of(sorting.Sort)
split_p: Primitive = primitive_of(joining.Split)
sqrt_p: Primitive = primitive_of(powers.Sqrt)
one_minus_square_p: Primitive = primitive_of(arithmetic.OneMinusSquare)
polynomial_p: Primitive = primitive_of(horner.Polynomial)
square_p: Primitive = primitive_of(arithmetic.Square)
squeeze_p: Primitive = primitive_of(shape.Squeeze)
stack_p: Primitive = primitive_of(joining.Stack)
stop_gradient_p: Primitive = primitive_of(convert.StopGradient)
sub_p: Primitive = primitive_of(arithmetic.Sub)
tan_p: Primitive = primitive_of(trigonometric.Tan)
tanh_p: Primitive = primitive_of(exponential.Tanh)
threefry2x32_p: Primitive = primitive_of(ops.Threefry2x32)
tile_p: Primitive = primitive_of(shape.Tile)
top_k_p: Primitive = primitive_of(sorting.TopK)
transpose_p: Primitive = primitive_of(structure.Transpose)
unstack_p: Primitive = primitive_of(joining.Unstack)
while_p: Primitive = primitive_of(while_loop.While)
xor_p: Primitive = primitive_of(bitwise.Xor)
zeta_p: Primitive = primitive_of(special.Zeta)

conv_general_dilated_p: Primitive = primitive_of(convolution.ConvGeneralDilated)
reduce_p: Primitive = primitive_of(control_reduction.Reduce)
reduce_window_max_p: Primitive = primitive_of(windowed.ReduceWindowMax)
reduce_window_min_p: Primitive = primitive_of(windowed.ReduceWindowMin)
reduce_window_p: Primitive = primitive_of(control_reduction.ReduceWindow)
reduce_window_sum_p: Primitive = primitive_of(windowed.ReduceWindowSum)
select_and_gather_add_p: Primitive = primitive_of(windowed.SelectAndGatherAdd)
select_and_scatter_add_p: Primitive = primitive_of(windowed.SelectAndScatterAdd)
select_and_scatter_p: Primitive = primitive_of(control_reduction.SelectAndScatter)
approx_top_k_p: Primitive = primitive_of(approximate.ApproxTopK)
composite_p: Primitive = primitive_of(composite.Composite)
dce_sink_p: Primitive = primitive_of(effects.DceSink)
empty_p: Primitive = primitive_of(effects.Empty)
fft_p: Primitive = primitive_of(fft.Fft)
ragged_dot_general_p: Primitive = primitive_of(ragged_dot.RaggedDotGeneral)
rng_bit_generator_p: Primitive = primitive_of(generator.RngBitGenerator)
rng_uniform_p: Primitive = primitive_of(generator.RngUniform)
scaled_dot_p: Primitive = primitive_of(scaled_dot.ScaledDot)
after_all_p: Primitive = primitive_of(effects.AfterAll)
create_token_p: Primitive = primitive_of(effects.CreateToken)
stage_p: Primitive = primitive_of(effects.Stage)

cholesky_p: Primitive = primitive_of(linalg.Cholesky)
cholesky_update_p: Primitive = primitive_of(linalg.CholeskyUpdate)
eig_p: Primitive = primitive_of(linalg.Eig)
eigh_p: Primitive = primitive_of(linalg.Eigh)
geqrf_p: Primitive = primitive_of(linalg.Geqrf)
hessenberg_p: Primitive = primitive_of(linalg.Hessenberg)
householder_product_p: Primitive = primitive_of(linalg.HouseholderProduct)
lu_p: Primitive = primitive_of(linalg.LU)
lu_pivots_to_permutation_p: Primitive = primitive_of(linalg.LUPivotsToPermutation)
ormqr_p: Primitive = primitive_of(linalg.Ormqr)
qr_p: Primitive = primitive_of(linalg.QR)
svd_p: Primitive = primitive_of(linalg.SVD)
schur_p: Primitive = primitive_of(linalg.Schur)
symmetric_product_p: Primitive = primitive_of(linalg.SymmetricProduct)
triangular_solve_p: Primitive = primitive_of(linalg.TriangularSolve)
tridiagonal_p: Primitive = primitive_of(linalg.Tridiagonal)
tridiagonal_solve_p: Primitive = primitive_of(linalg.TridiagonalSolve)

all_gather_p: Primitive = primitive_of(exchange.AllGather)
all_to_all_p: Primitive = primitive_of(exchange.AllToAll)
axis_index_p: Primitive = primitive_of(collective.AxisIndex)
device_put_p: Primitive = primitive_of(placing.DevicePut)
layout_constraint_p: Primitive = primitive_of(placing.LayoutConstraint)
pbroadcast_p: Primitive = primitive_of(exchange.Pbroadcast)
pmax_p: Primitive = primitive_of(collective.Pmax)
pmin_p: Primitive = primitive_of(collective.Pmin)
ppermute_p: Primitive = primitive_of(exchange.Ppermute)
psum_p: Primitive = primitive_of(collective.Psum)
pvary_p: Primitive = primitive_of(collective.PVary)
ragged_all_to_all_p: Primitive = primitive_of(ragged_exchange.RaggedAllToAll)
reduce_scatter_p: Primitive = primitive_of(exchange.PsumScatter)
reshard_p: Primitive = primitive_of(placing.Reshard)
shard_map_p: Primitive = primitive_of(shard_map.ShardMap)
sharding_constraint_p: Primitive = primitive_of(placing.ShardingConstraint)

add_jaxvals_p = add_any_p

__all__ = [name for name in globals() if name.endswith("_p")]
