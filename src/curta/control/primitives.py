"""The primitives under the names that JAX programs know: `add_p`, `scan_p`, ..."""

from curta.control.call import (
    Call,
)
from curta.control.composite import Composite
from curta.control.cond import (
    Cond,
)
from curta.control.custom_jvp import (
    CustomJVPCall,
)
from curta.control.custom_vjp import (
    CustomLinear,
    CustomVJPCall,
)
from curta.control.custom_vmap import CustomVmapCall
from curta.control.linear_call import LinearCall
from curta.control.linear_solve import LinearSolve
from curta.control.platform import PlatformIndex
from curta.control.ragged_exchange import RaggedAllToAll
from curta.control.reduction import Reduce, ReduceWindow, SelectAndScatter
from curta.control.remat import (
    Remat,
)
from curta.control.scan import (
    Scan,
)
from curta.control.shard_map import ShardMap
from curta.control.while_loop import (
    While,
)
from curta.core.primitive import Primitive, primitive_of
from curta.core.refs import RefAddUpdate, RefGet, RefSwap
from curta.primitives.approximate import ApproxTopK
from curta.primitives.barrier import OptimizationBarrier
from curta.primitives.checks import Check
from curta.primitives.collective import AxisIndex, Pmax, Pmin, Psum, PVary
from curta.primitives.convolution import ConvGeneralDilated
from curta.primitives.cumulative import (
    CumLogSumExp,
    CumMax,
    CumMin,
    CumProd,
    CumSum,
)
from curta.primitives.dot import (
    DotGeneral,
)
from curta.primitives.effects import AfterAll, CreateToken, DceSink, Empty, Stage
from curta.primitives.elementwise.arithmetic import (
    Add,
    Div,
    IntegerPow,
    Mul,
    Mulhi,
    Neg,
    Square,
    Sub,
)
from curta.primitives.elementwise.bitwise import (
    And,
    Clz,
    Not,
    Or,
    PopulationCount,
    ShiftLeft,
    ShiftRightArithmetic,
    ShiftRightLogical,
    Xor,
)
from curta.primitives.elementwise.comparison import (
    Eq,
    EqTo,
    Ge,
    Gt,
    Le,
    LeTo,
    Lt,
    LtTo,
    Ne,
)
from curta.primitives.elementwise.complex import (
    Complex,
    Conj,
    Imag,
    Real,
)
from curta.primitives.elementwise.convert import (
    BitcastConvertType,
    ConvertElementType,
    Copy,
    Name,
    StopGradient,
)
from curta.primitives.elementwise.exponential import (
    Exp,
    Exp2,
    Expm1,
    Log,
    Log1p,
    Logistic,
    Tanh,
)
from curta.primitives.elementwise.incomplete import (
    BesselI0e,
    BesselI1e,
    Betainc,
    Igamma,
    Igammac,
    IgammaGradA,
    RandomGammaGrad,
)
from curta.primitives.elementwise.magnitude import (
    Abs,
    Max,
    Min,
    Sign,
)
from curta.primitives.elementwise.powers import (
    Cbrt,
    Pow,
    Rsqrt,
    Sqrt,
)
from curta.primitives.elementwise.rounding import (
    Ceil,
    Floor,
    IsFinite,
    Nextafter,
    ReducePrecision,
    Rem,
    Round,
)
from curta.primitives.elementwise.select import (
    Clamp,
    SelectN,
)
from curta.primitives.elementwise.special import (
    Digamma,
    Erf,
    Erfc,
    ErfInv,
    Lgamma,
    Polygamma,
    Zeta,
)
from curta.primitives.elementwise.trigonometric import (
    Acos,
    Acosh,
    Asin,
    Asinh,
    Atan,
    Atan2,
    Atanh,
    Cos,
    Cosh,
    Sin,
    Sinh,
    Tan,
)
from curta.primitives.exchange import (
    AllGather,
    AllToAll,
    Pbroadcast,
    Ppermute,
    PsumScatter,
)
from curta.primitives.fft import Fft
from curta.primitives.indexing.dynamic import (
    DynamicSlice,
    DynamicUpdateSlice,
)
from curta.primitives.indexing.gather import (
    Gather,
    ScatterAdd,
)
from curta.primitives.indexing.scatter import (
    Scatter,
    ScatterMax,
    ScatterMin,
    ScatterMul,
    ScatterSub,
)
from curta.primitives.joining import (
    Concatenate,
    Split,
    Stack,
    Unstack,
)
from curta.primitives.linalg import (
    LU,
    QR,
    SVD,
    Cholesky,
    CholeskyUpdate,
    Eig,
    Eigh,
    Geqrf,
    Hessenberg,
    HouseholderProduct,
    LUPivotsToPermutation,
    Ormqr,
    Schur,
    SymmetricProduct,
    TriangularSolve,
    Tridiagonal,
    TridiagonalSolve,
)
from curta.primitives.placing import (
    DevicePut,
    LayoutConstraint,
    Reshard,
    ShardingConstraint,
)
from curta.primitives.ragged_dot import RaggedDotGeneral
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
from curta.primitives.reduction import (
    ArgMax,
    ArgMin,
    ReduceAnd,
    ReduceMax,
    ReduceMin,
    ReduceOr,
    ReduceProd,
    ReduceXor,
)
from curta.primitives.scaled_dot import ScaledDot
from curta.primitives.shape import (
    Iota,
    Rev,
    Squeeze,
    Tile,
)
from curta.primitives.slicing import (
    Pad,
    Slice,
)
from curta.primitives.sorting import (
    Sort,
    TopK,
)
from curta.primitives.structure import (
    AddAny,
    BroadcastInDim,
    ReduceSum,
    Reshape,
    Transpose,
)
from curta.primitives.windowed import (
    ReduceWindowMax,
    ReduceWindowMin,
    ReduceWindowSum,
    SelectAndGatherAdd,
    SelectAndScatterAdd,
)

abs_p: Primitive = primitive_of(Abs)
acos_p: Primitive = primitive_of(Acos)
acosh_p: Primitive = primitive_of(Acosh)
add_any_p: Primitive = primitive_of(AddAny)
add_p: Primitive = primitive_of(Add)
and_p: Primitive = primitive_of(And)
argmax_p: Primitive = primitive_of(ArgMax)
argmin_p: Primitive = primitive_of(ArgMin)
asin_p: Primitive = primitive_of(Asin)
asinh_p: Primitive = primitive_of(Asinh)
atan2_p: Primitive = primitive_of(Atan2)
atan_p: Primitive = primitive_of(Atan)
atanh_p: Primitive = primitive_of(Atanh)
bessel_i0e_p: Primitive = primitive_of(BesselI0e)
bessel_i1e_p: Primitive = primitive_of(BesselI1e)
bitcast_convert_type_p: Primitive = primitive_of(BitcastConvertType)
broadcast_in_dim_p: Primitive = primitive_of(BroadcastInDim)
cbrt_p: Primitive = primitive_of(Cbrt)
ceil_p: Primitive = primitive_of(Ceil)
check_p: Primitive = primitive_of(Check)
clamp_p: Primitive = primitive_of(Clamp)
clz_p: Primitive = primitive_of(Clz)
complex_p: Primitive = primitive_of(Complex)
concatenate_p: Primitive = primitive_of(Concatenate)
cond_p: Primitive = primitive_of(Cond)
conj_p: Primitive = primitive_of(Conj)
convert_element_type_p: Primitive = primitive_of(ConvertElementType)
copy_p: Primitive = primitive_of(Copy)
cos_p: Primitive = primitive_of(Cos)
cosh_p: Primitive = primitive_of(Cosh)
cumlogsumexp_p: Primitive = primitive_of(CumLogSumExp)
cummax_p: Primitive = primitive_of(CumMax)
cummin_p: Primitive = primitive_of(CumMin)
cumprod_p: Primitive = primitive_of(CumProd)
cumsum_p: Primitive = primitive_of(CumSum)
custom_jvp_call_p: Primitive = primitive_of(CustomJVPCall)
custom_lin_p: Primitive = primitive_of(CustomLinear)
custom_vmap_p: Primitive = primitive_of(CustomVmapCall)
linear_call_p: Primitive = primitive_of(LinearCall)
linear_solve_p: Primitive = primitive_of(LinearSolve)
get_p: Primitive = primitive_of(RefGet)
swap_p: Primitive = primitive_of(RefSwap)
addupdate_p: Primitive = primitive_of(RefAddUpdate)
optimization_barrier_p: Primitive = primitive_of(OptimizationBarrier)
platform_index_p: Primitive = primitive_of(PlatformIndex)
custom_vjp_call_p: Primitive = primitive_of(CustomVJPCall)
digamma_p: Primitive = primitive_of(Digamma)
div_p: Primitive = primitive_of(Div)
dot_general_p: Primitive = primitive_of(DotGeneral)
dynamic_slice_p: Primitive = primitive_of(DynamicSlice)
dynamic_update_slice_p: Primitive = primitive_of(DynamicUpdateSlice)
eq_p: Primitive = primitive_of(Eq)
eq_to_p: Primitive = primitive_of(EqTo)
erf_inv_p: Primitive = primitive_of(ErfInv)
erf_p: Primitive = primitive_of(Erf)
erfc_p: Primitive = primitive_of(Erfc)
exp2_p: Primitive = primitive_of(Exp2)
exp_p: Primitive = primitive_of(Exp)
expm1_p: Primitive = primitive_of(Expm1)
floor_p: Primitive = primitive_of(Floor)
gather_p: Primitive = primitive_of(Gather)
ge_p: Primitive = primitive_of(Ge)
gt_p: Primitive = primitive_of(Gt)
igamma_grad_a_p: Primitive = primitive_of(IgammaGradA)
igamma_p: Primitive = primitive_of(Igamma)
igammac_p: Primitive = primitive_of(Igammac)
imag_p: Primitive = primitive_of(Imag)
integer_pow_p: Primitive = primitive_of(IntegerPow)
iota_p: Primitive = primitive_of(Iota)
is_finite_p: Primitive = primitive_of(IsFinite)
jit_p: Primitive = primitive_of(Call)
le_p: Primitive = primitive_of(Le)
le_to_p: Primitive = primitive_of(LeTo)
lgamma_p: Primitive = primitive_of(Lgamma)
log1p_p: Primitive = primitive_of(Log1p)
log_p: Primitive = primitive_of(Log)
logistic_p: Primitive = primitive_of(Logistic)
lt_p: Primitive = primitive_of(Lt)
lt_to_p: Primitive = primitive_of(LtTo)
max_p: Primitive = primitive_of(Max)
min_p: Primitive = primitive_of(Min)
mul_p: Primitive = primitive_of(Mul)
mulhi_p: Primitive = primitive_of(Mulhi)
name_p: Primitive = primitive_of(Name)
ne_p: Primitive = primitive_of(Ne)
neg_p: Primitive = primitive_of(Neg)
nextafter_p: Primitive = primitive_of(Nextafter)
not_p: Primitive = primitive_of(Not)
or_p: Primitive = primitive_of(Or)
pad_p: Primitive = primitive_of(Pad)
polygamma_p: Primitive = primitive_of(Polygamma)
population_count_p: Primitive = primitive_of(PopulationCount)
pow_p: Primitive = primitive_of(Pow)
random_bits_p: Primitive = primitive_of(RandomBits)
random_clone_p: Primitive = primitive_of(RandomClone)
random_fold_in_p: Primitive = primitive_of(RandomFoldIn)
random_gamma_p: Primitive = primitive_of(RandomGamma)
random_gamma_grad_p: Primitive = primitive_of(RandomGammaGrad)
random_seed_p: Primitive = primitive_of(RandomSeed)
random_split_p: Primitive = primitive_of(RandomSplit)
random_unwrap_p: Primitive = primitive_of(RandomUnwrap)
random_wrap_p: Primitive = primitive_of(RandomWrap)
real_p: Primitive = primitive_of(Real)
reduce_and_p: Primitive = primitive_of(ReduceAnd)
reduce_max_p: Primitive = primitive_of(ReduceMax)
reduce_min_p: Primitive = primitive_of(ReduceMin)
reduce_or_p: Primitive = primitive_of(ReduceOr)
reduce_precision_p: Primitive = primitive_of(ReducePrecision)
reduce_prod_p: Primitive = primitive_of(ReduceProd)
reduce_sum_p: Primitive = primitive_of(ReduceSum)
reduce_xor_p: Primitive = primitive_of(ReduceXor)
regularized_incomplete_beta_p: Primitive = primitive_of(Betainc)
rem_p: Primitive = primitive_of(Rem)
remat_p: Primitive = primitive_of(Remat)
reshape_p: Primitive = primitive_of(Reshape)
rev_p: Primitive = primitive_of(Rev)
round_p: Primitive = primitive_of(Round)
rsqrt_p: Primitive = primitive_of(Rsqrt)
scan_p: Primitive = primitive_of(Scan)
scatter_add_p: Primitive = primitive_of(ScatterAdd)
scatter_max_p: Primitive = primitive_of(ScatterMax)
scatter_min_p: Primitive = primitive_of(ScatterMin)
scatter_mul_p: Primitive = primitive_of(ScatterMul)
scatter_p: Primitive = primitive_of(Scatter)
scatter_sub_p: Primitive = primitive_of(ScatterSub)
select_n_p: Primitive = primitive_of(SelectN)
shift_left_p: Primitive = primitive_of(ShiftLeft)
shift_right_arithmetic_p: Primitive = primitive_of(ShiftRightArithmetic)
shift_right_logical_p: Primitive = primitive_of(ShiftRightLogical)
sign_p: Primitive = primitive_of(Sign)
sin_p: Primitive = primitive_of(Sin)
sinh_p: Primitive = primitive_of(Sinh)
slice_p: Primitive = primitive_of(Slice)
sort_p: Primitive = primitive_of(Sort)
split_p: Primitive = primitive_of(Split)
sqrt_p: Primitive = primitive_of(Sqrt)
square_p: Primitive = primitive_of(Square)
squeeze_p: Primitive = primitive_of(Squeeze)
stack_p: Primitive = primitive_of(Stack)
stop_gradient_p: Primitive = primitive_of(StopGradient)
sub_p: Primitive = primitive_of(Sub)
tan_p: Primitive = primitive_of(Tan)
tanh_p: Primitive = primitive_of(Tanh)
threefry2x32_p: Primitive = primitive_of(Threefry2x32)
tile_p: Primitive = primitive_of(Tile)
top_k_p: Primitive = primitive_of(TopK)
transpose_p: Primitive = primitive_of(Transpose)
unstack_p: Primitive = primitive_of(Unstack)
while_p: Primitive = primitive_of(While)
xor_p: Primitive = primitive_of(Xor)
zeta_p: Primitive = primitive_of(Zeta)

conv_general_dilated_p: Primitive = primitive_of(ConvGeneralDilated)
reduce_p: Primitive = primitive_of(Reduce)
reduce_window_max_p: Primitive = primitive_of(ReduceWindowMax)
reduce_window_min_p: Primitive = primitive_of(ReduceWindowMin)
reduce_window_p: Primitive = primitive_of(ReduceWindow)
reduce_window_sum_p: Primitive = primitive_of(ReduceWindowSum)
select_and_gather_add_p: Primitive = primitive_of(SelectAndGatherAdd)
select_and_scatter_add_p: Primitive = primitive_of(SelectAndScatterAdd)
select_and_scatter_p: Primitive = primitive_of(SelectAndScatter)
approx_top_k_p: Primitive = primitive_of(ApproxTopK)
composite_p: Primitive = primitive_of(Composite)
dce_sink_p: Primitive = primitive_of(DceSink)
empty_p: Primitive = primitive_of(Empty)
fft_p: Primitive = primitive_of(Fft)
ragged_dot_general_p: Primitive = primitive_of(RaggedDotGeneral)
rng_bit_generator_p: Primitive = primitive_of(RngBitGenerator)
rng_uniform_p: Primitive = primitive_of(RngUniform)
scaled_dot_p: Primitive = primitive_of(ScaledDot)
after_all_p: Primitive = primitive_of(AfterAll)
create_token_p: Primitive = primitive_of(CreateToken)
stage_p: Primitive = primitive_of(Stage)

cholesky_p: Primitive = primitive_of(Cholesky)
cholesky_update_p: Primitive = primitive_of(CholeskyUpdate)
eig_p: Primitive = primitive_of(Eig)
eigh_p: Primitive = primitive_of(Eigh)
geqrf_p: Primitive = primitive_of(Geqrf)
hessenberg_p: Primitive = primitive_of(Hessenberg)
householder_product_p: Primitive = primitive_of(HouseholderProduct)
lu_p: Primitive = primitive_of(LU)
lu_pivots_to_permutation_p: Primitive = primitive_of(LUPivotsToPermutation)
ormqr_p: Primitive = primitive_of(Ormqr)
qr_p: Primitive = primitive_of(QR)
svd_p: Primitive = primitive_of(SVD)
schur_p: Primitive = primitive_of(Schur)
symmetric_product_p: Primitive = primitive_of(SymmetricProduct)
triangular_solve_p: Primitive = primitive_of(TriangularSolve)
tridiagonal_p: Primitive = primitive_of(Tridiagonal)
tridiagonal_solve_p: Primitive = primitive_of(TridiagonalSolve)

all_gather_p: Primitive = primitive_of(AllGather)
all_to_all_p: Primitive = primitive_of(AllToAll)
axis_index_p: Primitive = primitive_of(AxisIndex)
device_put_p: Primitive = primitive_of(DevicePut)
layout_constraint_p: Primitive = primitive_of(LayoutConstraint)
pbroadcast_p: Primitive = primitive_of(Pbroadcast)
pmax_p: Primitive = primitive_of(Pmax)
pmin_p: Primitive = primitive_of(Pmin)
ppermute_p: Primitive = primitive_of(Ppermute)
psum_p: Primitive = primitive_of(Psum)
pvary_p: Primitive = primitive_of(PVary)
ragged_all_to_all_p: Primitive = primitive_of(RaggedAllToAll)
reduce_scatter_p: Primitive = primitive_of(PsumScatter)
reshard_p: Primitive = primitive_of(Reshard)
shard_map_p: Primitive = primitive_of(ShardMap)
sharding_constraint_p: Primitive = primitive_of(ShardingConstraint)

add_jaxvals_p = add_any_p

__all__ = [name for name in globals() if name.endswith("_p")]
