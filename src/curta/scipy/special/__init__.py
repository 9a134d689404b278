"""Special functions, as in `scipy.special`."""

from curta._base.on_demand import (
    elsewhere as _elsewhere,
    without_parts as _without_parts,
)
from curta.nn.normalisation import logsumexp as logsumexp
from curta.scipy.special.bessel import (
    bessel_jn as bessel_jn,
    i0 as i0,
    i0e as i0e,
    i1 as i1,
    i1e as i1e,
    sph_harm_y as sph_harm_y,
)
from curta.scipy.special.entropies import (
    boxcox as boxcox,
    boxcox1p as boxcox1p,
    entr as entr,
    expit as expit,
    kl_div as kl_div,
    log_softmax as log_softmax,
    logit as logit,
    rel_entr as rel_entr,
    softmax as softmax,
    xlog1py as xlog1py,
    xlogy as xlogy,
)
from curta.scipy.special.error_functions import (
    dawsn as dawsn,
    erf as erf,
    erfc as erfc,
    erfcx as erfcx,
    erfinv as erfinv,
    log_ndtr as log_ndtr,
    ndtr as ndtr,
    ndtri as ndtri,
    owens_t as owens_t,
    wofz as wofz,
)
from curta.scipy.special.gamma_functions import (
    bernoulli as bernoulli,
    beta as beta,
    betainc as betainc,
    betaln as betaln,
    comb as comb,
    digamma as digamma,
    factorial as factorial,
    gamma as gamma,
    gammainc as gammainc,
    gammaincc as gammaincc,
    gammaln as gammaln,
    gammasgn as gammasgn,
    loggamma as loggamma,
    multigammaln as multigammaln,
    poch as poch,
    polygamma as polygamma,
    zeta as zeta,
)
from curta.scipy.special.hypergeometric import (
    hyp1f1 as hyp1f1,
    hyp2f1 as hyp2f1,
)
from curta.scipy.special.integrals import (
    exp1 as exp1,
    expi as expi,
    expn as expn,
    fresnel as fresnel,
    sici as sici,
    spence as spence,
)
from curta.scipy.special.inverse_errors import erfcinv as erfcinv

__getattr__ = _elsewhere(
    __name__,
    {"curta.scipy.special.legendre": ("lpmn", "lpmn_values")},
    {"sph_harm": "Use curta.scipy.special.sph_harm_y."},
)
__dir__ = _without_parts(__name__)
