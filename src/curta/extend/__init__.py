"""The machinery, for those who build on it: jaxprs, primitives, generators of keys."""

from curta.extend import (
    backend as backend,
    core as core,
    ifrt_programs as ifrt_programs,
    linear_util as linear_util,
    random as random,
    sharding as sharding,
    source_info_util as source_info_util,
)
