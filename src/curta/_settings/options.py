"""How settings are kept: per process, and per thread where a block overrides them.

``config`` is a ``threading.local`` whose class holds the process-wide values and whose
instance holds the overrides of the current thread, so a read costs one attribute
lookup.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn, ParamSpec, TypeVar

from curta._base.lazy_dataclass import dataclass
from curta._base.nearest import did_you_mean
from curta._base.once import Lock
from curta._settings.parsers import parse_boolean
from curta._settings.tuning import DEFAULT, Tuning
from curta.errors import EnvironmentValueError

P = ParamSpec("P")
T = TypeVar("T")

_UNSET: Any = object()


@dataclass(frozen=True, eq=False)
class TraceContext:
    """The settings that decide what a trace and its compiled code look like.

    Equal settings give the identical object, so that a cache may use it as a key at
    the price of hashing a pointer.
    """

    values: tuple[Any, ...]
    names: tuple[str, ...] = ()
    debugging: bool = False
    """Whether eager operations have to be looked at."""
    tuning: Tuning = DEFAULT
    """The setting `curta_tuning`, for paths that have the context at hand."""
    places_arrays: bool = False
    """Whether new arrays may be elsewhere than on the first device."""


_DEBUGGING = {
    *("jax_debug_nans", "jax_debug_infs", "jax_debug_key_reuse"),
    *("jax_no_execution", "jax_transfer_guard_host_to_device"),
}
_PLACING = ("jax_default_device", "curta_mesh_context")
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
    curta_tuning: Tuning

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
        option = find_option(name)
        try:
            option.set_global(value)
        except ValueError as error:
            if name in str(error):
                raise
            raise type(error)(f"{name}: {error}") from None

    def read(self, name: str) -> Any:
        """The value of a setting, given its name as a string."""
        find_option(name)
        return getattr(self, name)

    @property
    def x64_enabled(self) -> bool:
        """The older name of ``jax_enable_x64``."""
        return self.jax_enable_x64

    @property
    def tuning(self) -> Tuning:
        """The limits by which one path or another is taken."""
        return self.curta_tuning

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

    def config_with_absl(self) -> None:
        """Make settings flags of `absl`, which take effect when `app.run` begins.

        Raises ImportError without the package `absl-py`.
        """
        flags = importlib.import_module("absl.flags")
        for name, option in _options.items():
            switch = option.parse is parse_boolean
            make = flags.DEFINE_boolean if switch else flags.DEFINE_string
            make(name, None, option.__doc__)
        importlib.import_module("absl.app").call_after_init(self._take_absl_flags)

    def _take_absl_flags(self) -> None:
        flags = importlib.import_module("absl.flags").FLAGS
        for name in _options:
            if flags[name].present:
                self.update(name, flags[name].value)

    def trace_context(self) -> TraceContext:
        """The part of a cache key that stands for the settings."""
        return self.context


config: Config = Config()
trace_context: Callable[[], TraceContext] = config.trace_context

_options: dict[str, Option] = {}
_traced: list[str] = []
_lock = Lock()
if hasattr(os, "register_at_fork"):
    # A fork waits for who changes a setting: the child would have it half changed.
    os.register_at_fork(before=_lock.acquire, after_in_parent=_lock.release)
    os.register_at_fork(after_in_child=_lock.release)
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

    def __init__(
        self,
        name: str,
        parse: Callable[[Any], Any],
        doc: str,
        on_change: Callable[[Any], None] | None = None,
    ) -> None:
        self.name = name
        self.parse = parse
        self.on_change = on_change
        self.on_use: Callable[[Any], None] | None = None
        """Called with every value it is given, for the process or for a block."""
        self.on_block: Callable[[Any], None] | None = None
        """Called with the value that holds, where a block begins and where it ends."""
        self.__doc__ = doc

    @property
    def value(self) -> Any:
        """The value in the current thread."""
        return getattr(config, self.name)

    def get_global(self) -> Any:
        """The value for threads that do not override it."""
        return getattr(Config, self.name)

    def set_global(self, value: Any) -> None:
        """Give it another value for the whole process."""
        with _lock:
            parsed = self.parse(value)
            changed = parsed is not getattr(Config, self.name, parsed)
            if self.on_use is not None:
                self.on_use(parsed)
            setattr(Config, self.name, parsed)
            Config.context = _make_context({})
            for overrides in _overriding:
                overrides["context"] = _make_context(overrides)
            if changed and self.on_change is not None:
                self.on_change(parsed)

    def __call__(self, new_val: Any = _UNSET) -> Override:
        if new_val is _UNSET and self.parse is parse_boolean:
            new_val = True
        if self.on_change is not None:
            raise TypeError(
                f"{self.name} is for the whole process: call"
                f" config.update({self.name!r}, value)"
            )
        if new_val is _UNSET:
            raise TypeError(
                f"Context manager for {self.name} config option requires an argument "
                "representing the new value for the config option."
            )
        parsed = self.parse(new_val)
        if self.on_use is not None:
            self.on_use(parsed)
        return Override(self, parsed)

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
        self.option: Option = option
        self.value: Any = value
        # A stack for each thread, so that one object may be entered again inside its
        # own block, and in several threads.
        self.previous: dict[int, list[Any]] = {}

    def __enter__(self) -> None:
        if self.option.on_block is not None:
            self.option.on_block(self.value)
        stack = self.previous.setdefault(threading.get_ident(), [])
        stack.append(vars(config).get(self.option.name, _UNSET))
        _set_local(self.option.name, self.value)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        thread = threading.get_ident()
        stack = self.previous[thread]
        before = stack.pop()
        if not stack:
            del self.previous[thread]
        _set_local(self.option.name, before)
        if self.option.on_block is not None:
            self.option.on_block(self.option.value)

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


def overrides_here() -> dict[str, Any]:
    """The settings that the current thread overrides, for `overriding` in another."""
    return {name: x for name, x in vars(config).items() if name != "context"}


@contextmanager
def overriding(settings: dict[str, Any]) -> Iterator[None]:
    """Override settings in this thread, which overrides none, for a block of code."""
    try:
        for name, value in settings.items():
            _set_local(name, value)
        yield
    finally:
        for name in settings:
            _set_local(name, _UNSET)


def _make_context(overrides: dict[str, Any]) -> TraceContext:
    key = tuple(
        overrides[name] if name in overrides else getattr(Config, name)
        for name in _traced
    )
    known = _contexts.get(key)
    if known is not None:
        return known
    values = dict(zip(_traced, key))
    looking = [v for name, v in values.items() if name in _DEBUGGING]
    debugging = any(v and v != "allow" for v in looking)
    tuning = values.get("curta_tuning", DEFAULT)
    placing = any(values.get(name) is not None for name in _PLACING)
    made = TraceContext(key, tuple(_traced), debugging, tuning, placing)
    return _contexts.setdefault(key, made)


def find_option(name: str) -> Option:
    """The setting of this name; AttributeError if there is none."""
    try:
        return _options[name]
    except KeyError:
        raise AttributeError(
            f"Unrecognized config option: {name}.{did_you_mean(name, _options)}"
        ) from None


def make_user_context(default_value: Any = None) -> Option:
    """Create a setting of the program, on which traced functions may depend.

    Jitted functions are traced and compiled for each of its values. Create settings
    before starting threads; using them is safe in all threads.

    Args:
      default_value: its value where none is given; any hashable object.

    Returns:
      A function that makes a context manager from a value; its `value` is the current
      one, and `set_global` changes it for the whole process.

    Example:
        >>> import curta
        >>> units = curta.make_user_context("metres")
        >>> length = curta.jit(lambda x: x if units.value == "metres" else 3.28 * x)
        >>> with units("feet"):
        ...     print(length(2.0))
        6.56
        >>> print(length(2.0))
        2.0
    """
    with _lock:
        name = f"user_context_{next(_user_contexts)}"
        option = Option(name, lambda value: value, make_user_context.__doc__ or "")
        setattr(Config, name, default_value)
        _traced.append(name)
        option.set_global(default_value)
    return option


_user_contexts = itertools.count()


def define(
    name: str,
    default: Any,
    parse: Callable[[Any], Any],
    doc: str,
    *,
    traced: bool = False,
    environment: tuple[str, ...] = (),
    on_change: Callable[[Any], None] | None = None,
) -> Option:
    """Declare a setting.

    `traced`: it decides what a trace looks like, so it is part of cache keys.
    `environment`: further variables to read it from, the first that is set wins.
    `on_change`: called with a new value; there is no context manager then.
    """
    option = Option(name, parse, doc, on_change)
    stem = name.split("_", 1)[1].upper()
    variables = (f"CURTA_{stem}", *environment, f"JAX_{stem}")
    variable = next((v for v in variables if v in os.environ), None)
    if traced:
        _traced.append(name)
    _options[name] = option
    setattr(Config, name, parse(default))
    try:
        option.set_global(default if variable is None else os.environ[variable])
    except ValueError as error:
        raise EnvironmentValueError(
            f"the environment variable {variable}: {error}"
        ) from error
    return option
