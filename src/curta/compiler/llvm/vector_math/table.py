"""Every function of this package by its name in the instruction set."""

from __future__ import annotations

from collections.abc import Callable

from curta.compiler.llvm.types import Value
from curta.compiler.llvm.vector_math import (
    bessel,
    error_function,
    exponential,
    gamma,
    hyperbolic,
    incomplete,
    inverse_trigonometric,
    logarithm,
    power,
    rounding,
    trigonometric,
    zeta,
)
from curta.compiler.loops.functions import LONG

# name -> function(builder, *values) for values of f32 or f64 with any lanes
FUNCTIONS: dict[str, Callable[..., Value]] = {
    "exp": exponential.exp,
    "exp2": exponential.exp2,
    "expm1": exponential.expm1,
    "logistic": exponential.logistic,
    "log": logarithm.log,
    "log2": logarithm.log2,
    "log1p": logarithm.log1p,
    "sin": trigonometric.sin,
    "cos": trigonometric.cos,
    "tan": trigonometric.tan,
    "asin": inverse_trigonometric.asin,
    "acos": inverse_trigonometric.acos,
    "atan": inverse_trigonometric.atan,
    "atan2": inverse_trigonometric.atan2,
    "sinh": hyperbolic.sinh,
    "cosh": hyperbolic.cosh,
    "tanh": hyperbolic.tanh,
    "asinh": hyperbolic.asinh,
    "acosh": hyperbolic.acosh,
    "atanh": hyperbolic.atanh,
    "erf": error_function.erf,
    "erfc": error_function.erfc,
    "erf_inv": error_function.erf_inv,
    "lgamma": gamma.lgamma,
    "digamma": gamma.digamma,
    "polygamma": zeta.polygamma,
    "zeta": zeta.zeta,
    "igamma": incomplete.igamma,
    "igammac": incomplete.igammac,
    "igamma_grad_a": incomplete.igamma_grad_a,
    "random_gamma_grad": incomplete.random_gamma_grad,
    "gamma_density": incomplete.gamma_density,
    "beta_density": incomplete.beta_density,
    "regularized_incomplete_beta": incomplete.regularized_incomplete_beta,
    "regularized_incomplete_beta_complement": (
        incomplete.regularized_incomplete_beta_complement
    ),
    "bessel_i0e": bessel.bessel_i0e,
    "bessel_i1e": bessel.bessel_i1e,
    "pow": power.power,
    "sqrt": power.sqrt,
    "rsqrt": power.rsqrt,
    "cbrt": power.cbrt,
    "floor": rounding.floor,
    "ceil": rounding.ceil,
    "round": rounding.round_away,
    "round_to_even": rounding.round_to_even,
    "rem": rounding.remainder,
    "nextafter": rounding.nextafter,
}

# Functions with branches, for rare arguments say; the code of others is straight.
BRANCHING = LONG | frozenset("sin cos tan digamma rem".split())
