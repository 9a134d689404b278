"""Settings: what they are called, where they are read from, who may change them.

The names are JAX's (``jax_enable_x64``), so that programs run unchanged; those of
Curta alone start with ``curta_``. A setting takes its first value from the
environment (``JAX_ENABLE_X64`` or ``CURTA_ENABLE_X64``), is changed for the whole
process with ``config.update(name, value)``, and for the current thread and a block of
code with the context manager of the same name: ``with enable_x64(True): ...``.

Reading one is an attribute: ``config.jax_enable_x64``. ``config`` is a
``threading.local`` whose class holds the process-wide values and whose instance holds
the overrides of the current thread, so a read costs one attribute lookup.
"""

from __future__ import annotations

import functools
import itertools
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from curta.config_parsers import (
    parse_boolean,
    parse_device,
    parse_never_text,
    parse_one_of,
    parse_optional_text,
    parse_positive,
    parse_unavailable,
)

P = ParamSpec("P")
T = TypeVar("T")

_UNSET: Any = object()


@dataclass(frozen=True, eq=False, slots=True)
class TraceContext:
    """The settings that decide what a trace and its compiled code look like.

    Equal settings give the identical object, so that a cache may use it as a key at
    the price of hashing a pointer.
    """

    values: tuple[Any, ...]


_contexts: dict[tuple[Any, ...], TraceContext] = {}


class Config(threading.local):
    """All settings as attributes. Assigning is refused: use ``update``."""

    # Settings that the fast paths read; the others are declared by `_define` alone.
    jax_enable_x64: bool
    jax_explicit_x64_dtypes: str
    jax_numpy_dtype_promotion: str
    jax_numpy_rank_promotion: str
    jax_disable_jit: bool
    jax_debug_nans: bool
    jax_debug_infs: bool
    jax_default_device: Any

    # The trace context of the current thread, kept up to date by every change.
    context: TraceContext = TraceContext(())

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        raise AttributeError(
            f"cannot assign to config.{name}; call config.update({name!r}, value), or "
            f"use the context manager of that name for one block of code"
        )

    def update(self, name: str, value: Any) -> None:
        """Change a setting for the whole process.

        Raises:
            AttributeError: there is no setting of that name.
            ValueError: the value is none of those the setting can have.
        """
        _option(name).set_global(value)

    def read(self, name: str) -> Any:
        """The value of a setting, given its name as a string."""
        _option(name)
        return getattr(self, name)

    @property
    def x64_enabled(self) -> bool:
        """The older name of ``jax_enable_x64``."""
        return self.jax_enable_x64

    @property
    def values(self) -> dict[str, Any]:
        """Every setting with its value in the current thread."""
        return {name: getattr(self, name) for name in _options}

    def parse_flags_with_absl(self) -> None:
        """Take settings from the command line: ``--jax_enable_x64=true``.

        ``--jax_enable_x64`` and ``--nojax_enable_x64`` switch it on and off. Other
        arguments, and those after ``--``, are left to the program.
        """
        for argument in itertools.takewhile(lambda a: a != "--", sys.argv[1:]):
            name, given, value = argument.removeprefix("--").partition("=")
            if argument.startswith("--jax_"):
                self.update(name, value if given else True)
            elif argument.startswith("--nojax_"):
                self.update(name.removeprefix("no"), False)

    def trace_context(self) -> TraceContext:
        """The part of a cache key that stands for the settings."""
        return self.context


config = Config()
trace_context = config.trace_context

_options: dict[str, Option] = {}
_traced: list[str] = []
_lock = threading.RLock()
# The instance dictionaries of `config` in the threads that override something.
_overriding: list[dict[str, Any]] = []


class Option:
    """One setting; calling it makes a context manager that overrides it.

    Switches are turned on if no value is given.

    Example:
        >>> from curta.config import config, enable_x64
        >>> with enable_x64(True):
        ...     config.jax_enable_x64
        True
    """

    def __init__(self, name: str, parse: Callable[[Any], Any], doc: str) -> None:
        self.name = name
        self.parse = parse
        self.__doc__ = doc

    @property
    def value(self) -> Any:
        """The value in the current thread."""
        return getattr(config, self.name)

    def set_global(self, value: Any) -> None:
        with _lock:
            setattr(Config, self.name, self.parse(value))
            Config.context = _make_context({})
            for overrides in _overriding:
                overrides["context"] = _make_context(overrides)

    def __call__(self, value: Any = _UNSET) -> Override:
        if value is _UNSET and self.parse is parse_boolean:
            value = True
        if value is _UNSET:
            raise TypeError(
                f"Context manager for {self.name} config option requires an argument "
                "representing the new value for the config option."
            )
        return Override(self, self.parse(value))

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the setting {self.name} has no truth of its own: read config.{self.name}"
        )

    def __repr__(self) -> str:
        return f"<setting {self.name}={self.value!r}>"


class Override:
    """Gives a setting another value within a ``with`` block or a decorated function."""

    __slots__ = ("option", "previous", "value")

    def __init__(self, option: Option, value: Any) -> None:
        self.option = option
        self.value = value
        # A stack, so that one object may be entered again inside its own block.
        self.previous: list[Any] = []

    def __enter__(self) -> None:
        self.previous.append(vars(config).get(self.option.name, _UNSET))
        _set_local(self.option.name, self.value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _set_local(self.option.name, self.previous.pop())

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        @functools.wraps(function)
        def wrapped(*args: P.args, **kwargs: P.kwargs) -> T:
            with Override(self.option, self.value):
                return function(*args, **kwargs)

        return wrapped


def _set_local(name: str, value: Any) -> None:
    overrides = vars(config)
    with _lock:
        if not overrides:
            _overriding.append(overrides)
        if value is _UNSET:
            overrides.pop(name, None)
        else:
            overrides[name] = value
        if overrides.keys() <= {"context"}:
            overrides.clear()
            _overriding[:] = [d for d in _overriding if d is not overrides]
        else:
            overrides["context"] = _make_context(overrides)


def _make_context(overrides: dict[str, Any]) -> TraceContext:
    key = tuple(
        overrides[name] if name in overrides else getattr(Config, name)
        for name in _traced
    )
    return _contexts.setdefault(key, TraceContext(key))


def _option(name: str) -> Option:
    try:
        return _options[name]
    except KeyError:
        raise AttributeError(f"Unrecognized config option: {name}") from None


def _define(
    name: str,
    default: Any,
    parse: Callable[[Any], Any],
    doc: str,
    *,
    traced: bool = False,
    environment: tuple[str, ...] = (),
) -> Option:
    """Declare a setting.

    `traced`: it decides what a trace looks like, so it is part of cache keys.
    `environment`: further variables to read it from, the first that is set wins.
    """
    option = Option(name, parse, doc)
    stem = name.split("_", 1)[1].upper()
    variables = (f"CURTA_{stem}", *environment, f"JAX_{stem}")
    given = next((os.environ[v] for v in variables if v in os.environ), default)
    if traced:
        _traced.append(name)
    _options[name] = option
    option.set_global(given)
    return option


# ---- dtypes and shapes

enable_x64 = _define(
    "jax_enable_x64",
    False,
    parse_boolean,
    "Keep 64-bit integers, floats and complex numbers instead of halving them.",
    traced=True,
)
explicit_x64_dtypes = _define(
    "jax_explicit_x64_dtypes",
    "warn",
    parse_one_of("warn", "error", "allow"),
    "What a 64-bit dtype asked for by name does while jax_enable_x64 is off.",
    traced=True,
)
numpy_dtype_promotion = _define(
    "jax_numpy_dtype_promotion",
    "standard",
    parse_one_of("standard", "strict"),
    "'strict' refuses operands of different dtypes (Python scalars excepted).",
    traced=True,
)
numpy_rank_promotion = _define(
    "jax_numpy_rank_promotion",
    "allow",
    parse_one_of("allow", "warn", "raise"),
    "What happens when operands of different rank are broadcast together.",
    traced=True,
)
default_matmul_precision = _define(
    "jax_default_matmul_precision",
    None,
    parse_one_of(
        None,
        *("default", "high", "highest", "bfloat16", "tensorfloat32", "float32"),
        *("ANY_F8_ANY_F8_F32", "ANY_F8_ANY_F8_F32_FAST_ACCUM", "ANY_F8_ANY_F8_ANY"),
        *("ANY_F8_ANY_F8_ANY_FAST_ACCUM", "F16_F16_F16", "F16_F16_F32"),
        *("BF16_BF16_BF16", "BF16_BF16_F32", "BF16_BF16_F32_X3", "BF16_BF16_F32_X6"),
        *("BF16_BF16_F32_X9", "TF32_TF32_F32", "TF32_TF32_F32_X3", "F32_F32_F32"),
        "F64_F64_F64",
    ),
    "The precision of dots and convolutions that name none.",
    traced=True,
)
softmax_custom_jvp = _define(
    "jax_softmax_custom_jvp",
    False,
    parse_boolean,
    "Differentiate softmax by its own rule instead of through its parts.",
    traced=True,
)

# ---- random numbers

default_prng_impl = _define(
    "jax_default_prng_impl",
    "threefry2x32",
    parse_one_of("threefry2x32", "rbg", "unsafe_rbg"),
    "The generator behind random.key(seed) when none is named.",
    traced=True,
)
threefry_partitionable = _define(
    "jax_threefry_partitionable",
    True,
    parse_boolean,
    "Threefry counts elements in 64 bits; False gives the bits of older releases.",
    traced=True,
)
random_seed_offset = _define(
    "jax_random_seed_offset",
    0,
    int,
    "Added to every seed, to run a program again on other random numbers.",
    traced=True,
)
high_dynamic_range_gumbel = _define(
    "jax_high_dynamic_range_gumbel",
    False,
    parse_boolean,
    "Draw Gumbel noise from two samples, to cover low probabilities better.",
    traced=True,
)
legacy_prng_key = _define(
    "jax_legacy_prng_key",
    "allow",
    parse_one_of("allow", "warn", "error"),
    "What raw uint32 keys given to functions of curta.random do.",
)
enable_custom_prng = _define(
    "jax_enable_custom_prng",
    False,
    parse_boolean,
    "PRNGKey gives typed keys, as key does.",
    traced=True,
)
debug_key_reuse = _define(
    "jax_debug_key_reuse",
    False,
    parse_unavailable,
    "Find keys that are consumed twice; not built yet, so it can only be off.",
    traced=True,
)

# ---- looking for mistakes

disable_jit = _define(
    "jax_disable_jit",
    False,
    parse_boolean,
    "Run jitted functions as the Python they are, for a debugger or print.",
    traced=True,
)
debug_nans = _define(
    "jax_debug_nans",
    False,
    parse_boolean,
    "Raise FloatingPointError where a computation yields NaN.",
    traced=True,
)
debug_infs = _define(
    "jax_debug_infs",
    False,
    parse_boolean,
    "Raise FloatingPointError where a computation yields an infinity.",
    traced=True,
)
check_tracer_leaks = _define(
    "jax_check_tracer_leaks",
    False,
    parse_boolean,
    "Raise when a traced value outlives the function that was traced.",
    traced=True,
)
check_static_indices = _define(
    "jax_check_static_indices",
    False,
    parse_boolean,
    "Raise IndexError for known indices out of bounds, instead of clamping them.",
    traced=True,
)
enable_checks = _define(
    "jax_enable_checks",
    False,
    parse_boolean,
    "Check every jaxpr that is traced: its types and its scoping; slow.",
)
log_compiles = _define(
    "jax_log_compiles",
    False,
    parse_boolean,
    "Log a warning for every function that is traced and compiled.",
)
explain_cache_misses = _define(
    "jax_explain_cache_misses",
    False,
    parse_boolean,
    "Log why a jitted function had to be traced again.",
)
no_tracing = _define(
    "jax_no_tracing",
    False,
    parse_boolean,
    "Raise where a jitted function would be traced again.",
)
traceback_filtering = _define(
    "jax_traceback_filtering",
    "auto",
    parse_one_of(
        "off", "tracebackhide", "remove_frames", "quiet_remove_frames", "auto"
    ),
    "Accepted: frames of Curta are shown whatever it says.",
)

# ---- devices, threads, compiler

default_device = _define(
    "jax_default_device",
    None,
    parse_device,
    "The device that holds new arrays: a Device, a platform's name, or None.",
    traced=True,
)
platforms = _define(
    "jax_platforms",
    None,
    parse_optional_text,
    "Accepted: there is one platform, the CPU.",
)
platform_name = _define(
    "jax_platform_name",
    "",
    str,
    "The older spelling of jax_platforms.",
)
num_cpu_devices = _define(
    "jax_num_cpu_devices",
    -1,
    int,
    "How many devices the CPU poses as; -1 is what XLA_FLAGS says, or one.",
)
mesh_context = _define(
    "curta_mesh_context",
    None,
    parse_never_text,
    "The mesh in scope; curta.set_mesh sets it.",
    traced=True,
)
async_dispatch = _define(
    "jax_cpu_enable_async_dispatch",
    True,
    parse_boolean,
    "Let calls of long programs return before these are done.",
)
backend = _define(
    "curta_backend",
    "llvm",
    parse_one_of("llvm", "numpy"),
    "'numpy' runs compiled functions through the eval rules instead of LLVM.",
    traced=True,
)
while_checkpoints = _define(
    "curta_while_checkpoints",
    64,
    parse_positive,
    "How many states of a while loop are kept in memory while it runs backwards.",
    traced=True,
)
num_threads = _define(
    "curta_num_threads",
    0,
    int,
    "Worker threads of compiled functions; 0 is one for each processor allowed.",
)
dump = _define(
    "curta_dump",
    "",
    str,
    "Comma-separated compiler stages to print, for example 'fuse,llvm'.",
)

# ---- compilation cache

enable_compilation_cache = _define(
    "jax_enable_compilation_cache",
    True,
    parse_boolean,
    "Keep compiled kernels on disk.",
    environment=("CURTA_CACHE",),
)
compilation_cache_dir = _define(
    "jax_compilation_cache_dir",
    None,
    parse_optional_text,
    "Where compiled kernels are kept; None is a folder in the user's cache.",
    environment=("CURTA_CACHE_DIR",),
)
compilation_cache_max_size = _define(
    "jax_compilation_cache_max_size",
    -1,
    int,
    "Bytes the folder may hold before the oldest kernels go; -1 is the built-in bound.",
    environment=("CURTA_CACHE_MAX_SIZE",),
)

# ---- settings of JAX that choose between implementations of which Curta has one;
# programs that set them run as they are, and read back what they set.
for _name, _default in {
    "jax_compiler_enable_remat_pass": True,
    "jax_custom_vjp3": False,
    "jax_mutable_array_checks": True,
    "jax_persistent_cache_min_compile_time_secs": 1.0,
    "jax_persistent_cache_min_entry_size_bytes": 0,
    "jax_pprint_use_color": False,
    "jax_remat3": False,
    "jax_use_direct_linearize": True,
    "jax_use_shardy_partitioner": True,
}.items():
    _parse = parse_boolean if isinstance(_default, bool) else type(_default)
    _define(_name, _default, _parse, "Accepted; there is no choice to make.")
