"""The names of mathematical functions of real numbers, and which of them cost much.

`llvm/vector_math/` has their code.
"""

FUNCTIONS = frozenset(
    "exp exp2 expm1 logistic log log2 log1p sin cos tan asin acos atan atan2 sinh"
    " cosh tanh asinh acosh atanh erf erfc erf_inv lgamma digamma polygamma zeta"
    " igamma igammac igamma_grad_a random_gamma_grad gamma_density beta_density"
    " regularized_incomplete_beta regularized_incomplete_beta_complement"
    " bessel_i0e bessel_i1e pow sqrt rsqrt cbrt floor ceil round round_to_even rem"
    " nextafter".split()
)

# Functions with loops, or as long.
LONG = frozenset(
    "igamma igammac igamma_grad_a random_gamma_grad regularized_incomplete_beta"
    " regularized_incomplete_beta_complement gamma_density beta_density"
    " zeta polygamma".split()
)
