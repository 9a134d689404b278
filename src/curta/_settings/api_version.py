"""The version of JAX whose interface this is, and what else changes with it.

Curta has the names that each of the versions in `RELEASES` added under every version.
The setting `jax_api_version` decides about names that a later version removed, and
about changed behavior. The tables below list both, and the code looks up their rows.

>>> import curta
>>> curta.__version_info__
(0, 12, 0, 1)
>>> with jax_api_version("0.10"):
...     curta.__version_info__
(0, 10, 2)
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from curta._base.user_warnings import warn
from curta._settings.options import config, define

RELEASES: Final = {"0.10": "0.10.2", "0.11": "0.11.0", "0.12": "0.12.0.1"}
"""The release that each version is compared with."""

DEFAULT: Final = "0.12"
"""What is followed when a program says nothing: the newest."""


def _parse(value: Any) -> str:
    """`0.12` of "0.12", "0.12.0.1" or "v0.12"."""
    text = str(value).removeprefix("v")
    short = ".".join(text.split(".")[:2])
    if short not in RELEASES:
        raise ValueError(
            f"expected a version of JAX among {', '.join(RELEASES)}, got {value!r}"
        )
    return short


jax_api_version: Final = define(
    "jax_api_version",
    DEFAULT,
    _parse,
    "The version of JAX whose interface is followed: 0.10, 0.11 or 0.12.",
    traced=True,
)


def release() -> str:
    """The release of JAX that is followed: what `jax.__version__` says."""
    return RELEASES[config.read("jax_api_version")]


def version_info() -> tuple[int, ...]:
    """`release` as numbers, which programs compare with those of JAX."""
    return tuple(map(int, release().split(".")))


def _reached(version: str) -> bool:
    """Return True if the version followed is `version` or later."""
    return _numbers(config.read("jax_api_version")) >= _numbers(version)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


class Change(NamedTuple):
    """Something that is done otherwise from a version on."""

    since: str
    what: str

    def applies(self) -> bool:
        """Return True if it is done so in the version followed."""
        return _reached(self.since)


class Retired(NamedTuple):
    """A way to call a function that was deprecated and then removed."""

    deprecated: str
    removed: str
    what: str
    warning: str
    error: type[Exception]
    message: str

    def check(self) -> None:
        """Warn or raise as the version followed does.

        Raises:
          error: the class that JAX raises, from the version on that removed it.
        """
        if _reached(self.removed):
            raise self.error(self.message)
        if self.deprecated and _reached(self.deprecated):
            warn(self.warning, DeprecationWarning)


# ---- what is done otherwise

EMPTY_IS_NOT_FILLED: Final = Change(
    "0.11", "`numpy.empty` and `empty_like` are `lax.empty`; their elements are any"
)
GRIDS_ARE_TUPLES: Final = Change(
    "0.12", "`numpy.meshgrid` and `broadcast_arrays` give tuples, no lists"
)
ROWS_BY_UNSTACK: Final = Change(
    "0.12", "iteration over a traced array is one `unstack`, no slices"
)
TRI_HAS_DEFAULT_FLOAT: Final = Change(
    "0.12", "`numpy.tri` makes the default float: float64 where x64 is enabled"
)

MORE_PARAMETERS: Final = Change(
    "0.12",
    "Jaxprs show `out_sharding` of `reduce_max` and `reduce_min`, `is_stable` of"
    " `top_k`, `ft_in` and `ft_out` of `scan` in place of counts, and specs their"
    " `unreduced_kind`",
)
INLINE_IS_LATE: Final = Change(
    "0.12", "`jit(inline=True)` is `Inline.JAX_LATE`: jaxprs show the call"
)
LINSPACE_DIVIDES_STOP: Final = Change(
    "0.12",
    "`numpy.linspace` multiplies counts by `stop / n`, and rounds otherwise for it",
)
QUANTILES_SORT_UNSTABLY: Final = Change(
    "0.12", "`numpy.quantile` and `median` print a sort with `is_stable=False`"
)
LOG2_AND_POLYNOMIALS_ARE_OPS: Final = Change(
    "0.12", "`numpy.log2` is `lax.log2`, and `numpy.polyval` is `lax.polynomial`"
)
SELECT_N_CLAMPS: Final = Change(
    "0.12", "cotangents of `lax.select_n` reach the case to which an index is clamped"
)
STABLE_DERIVATIVES: Final = Change(
    "0.12",
    "derivatives of `tanh`, `asin`, `acos`, `atanh`, `max` and `min` by formulas that"
    " do not cancel",
)

# ---- what may no longer be called so

CROSS_OF_PLANE_VECTORS: Final = Retired(
    "0.11",
    "0.12",
    "`numpy.cross` of vectors of two components",
    "Support for 2-dimensional vectors in jnp.cross is deprecated and will be removed"
    " in JAX 0.12.0. Use arrays of 3-dimensional vectors instead.",
    ValueError,
    "Dimension must be 3 for cross product",
)
ARRAY_BY_POSITION: Final = Retired(
    "0.10",
    "0.12",
    "`numpy.array` with `copy`, `order` or `ndmin` by position",
    "Passing the copy, order, and ndmin arguments to jnp.array positionally is"
    " deprecated. Use keyword arguments instead.",
    TypeError,
    "array() takes from 1 to 2 positional arguments: pass copy, order and ndmin by"
    " keyword",
)
CHECKPOINT_CONCRETE: Final = Retired(
    "",
    "0.11",
    "`checkpoint(concrete=...)`",
    "",
    TypeError,
    "checkpoint() got an unexpected keyword argument 'concrete'",
)
AXIS_SHAPES: Final = Retired(
    "",
    "0.12",
    "`make_mesh(axis_shapes=...)`, now `axis_sizes`",
    "",
    TypeError,
    "make_mesh() got an unexpected keyword argument 'axis_shapes'",
)

# ---- names that are there no more


class Gone(NamedTuple):
    """A name that was removed, and the version that warns before."""

    removed: str
    deprecated: str = ""
    remedy: str = ""


def _gone(
    package: str, removed: str, deprecated: str, names: str, module: str = ""
) -> dict[str, Gone]:
    def row(name: str) -> Gone:
        remedy = f"Use {module}.{name}." if module else ""
        return Gone(removed, deprecated, remedy)

    return {f"{package}.{name}": row(name) for name in names.split()}


GONE: Final[dict[str, Gone]] = {
    **_gone(
        "curta.core",
        "0.11",
        "0.10",
        "CallPrimitive DebugInfo DropVar Effect Effects check_jaxpr concrete_or_error"
        " find_top_trace gensym get_opaque_trace_state jaxprs_in_params new_jaxpr_eqn"
        " no_effects primal_dtype_to_tangent_dtype valid_jaxtype",
        "curta.extend.core",
    ),
    **_gone(
        "curta.core",
        "0.11",
        "0.10",
        "InconclusiveDimensionOperation JaxprTypeError",
        "curta.errors",
    ),
    **_gone(
        "curta.core",
        "0.11",
        "0.10",
        "is_concrete nonempty_axis_env_DO_NOT_USE unsafe_am_i_under_a_jit_DO_NOT_USE"
        " unsafe_am_i_under_a_vmap_DO_NOT_USE unsafe_get_axis_names_DO_NOT_USE",
    ),
    **_gone("curta.extend.core", "0.12", "", "CallPrimitive call_impl"),
    **_gone("curta.experimental", "0.12", "", "cur_qdd"),
    **_gone("curta.experimental.shard_alike", "0.12", "", "shard_alike"),
    **_gone("curta.experimental.compute_on", "0.12", "", "compute_on2"),
    **_gone(
        "curta.experimental.hijax",
        "0.12",
        "",
        "AvalMutableQDD AvalQDD HiPrimitive MutableHiType VJPHiPrimitive cur_qdd",
    ),
    **_gone("curta.lax", "0.12", "", "dce_sink_p"),
}


def check_name(package: str, name: str) -> None:
    """Refuse a name that the version followed has no more.

    Raises:
      AttributeError: as a module raises for a name that it has not.
    """
    row = GONE.get(f"{package}.{name}")
    if row is None or not _reached(row.removed):
        return
    if not row.deprecated:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    remedy = f" {row.remedy}" if row.remedy else ""
    raise AttributeError(
        f"{package}.{name} was deprecated in JAX v{row.deprecated}.0 and removed in JAX"
        f" v{row.removed}.0.{remedy}"
    )
