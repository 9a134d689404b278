"""Which arguments of a jitted function are static and which are donated."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from curta import tree_util
from curta._base.lazy_dataclass import dataclass
from curta._base.user_warnings import warn
from curta.api.arguments import argnums_in_range
from curta.api.device_arguments import as_sharding
from curta.config import config
from curta.core.avals import ShapedArray
from curta.core.trace import typeof
from curta.runtime.array import ArrayImpl
from curta.runtime.devices import devices
from curta.runtime.native_call import CallArguments

_POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
# Types of arguments that are leaves for sure.
_PLAIN = frozenset([ArrayImpl, np.ndarray, int, float])
_Argnums = int | Iterable[int] | None
_Argnames = str | Iterable[str] | None


class _LeftOut:
    def __repr__(self) -> str:
        return "left out"


LEFT_OUT: Any = _LeftOut()
"""The function, where `jit` is to return a decorator: None is no function."""


@dataclass(frozen=True)
class JitOptions:
    """The arguments of `jit`, normalized; equal options may share a cache.

    `abstracted_axes` are an `AbstractedAxes`, if sizes are open.
    With `uses_resources`, what is left open is over the mesh of `with mesh:`. `moves`
    says that `in_shardings` are a device, to which all arguments go.
    """

    static_argnums: tuple[int, ...] = ()
    static_argnames: tuple[str, ...] = ()
    donate_argnums: tuple[int, ...] = ()
    donate_argnames: tuple[str, ...] = ()
    keep_unused: bool = False
    inline: bool = False
    in_shardings: Any = None
    out_shardings: Any = None
    abstracted_axes: Any = None
    uses_resources: bool = False
    moves: bool = False

    @property
    def has_static(self) -> bool:
        """Whether some argument may be static."""
        return bool(self.static_argnums or self.static_argnames)

    @property
    def donates(self) -> bool:
        """Whether some argument may be donated."""
        return bool(self.donate_argnums or self.donate_argnames)

    def given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> CallArguments:
        """The arguments of a call, as native code recognizes them."""
        static, _ = _static_and_dynamic(self.static_argnums, len(args))
        return CallArguments(args, kwargs, static, self.static_argnames)


def make_options(
    fun: Callable[..., Any],
    static_argnums: _Argnums,
    static_argnames: _Argnames,
    donate_argnums: _Argnums,
    donate_argnames: _Argnames,
    **others: Any,
) -> JitOptions:
    """Options checked against the signature of `fun`.

    Numbers are completed by names and the other way round, so that an argument is
    static however it is passed. Raises ValueError for arguments `fun` does not have
    and for ones both static and donated.
    """
    if all(
        x is None
        for x in (static_argnums, static_argnames, donate_argnums, donate_argnames)
    ):
        return JitOptions(**others)
    signature = _signature(fun)
    if signature is None and donate_argnames is not None:
        raise ValueError(
            f"Getting the signature of function {fun} failed. Pass donate_argnums"
            " instead of donate_argnames."
        )
    static = infer_argnums_and_argnames(signature, static_argnums, static_argnames)
    donate = infer_argnums_and_argnames(signature, donate_argnums, donate_argnames)
    if signature is not None:
        for kind, (nums, names) in (("static", static), ("donate", donate)):
            _check_argnums(signature, nums, f"{kind}_argnums")
            _check_argnames(signature, names, f"{kind}_argnames")
    if both := set(static[1]) & set(donate[1]):
        raise ValueError(
            "static_argnames and donate_argnames cannot intersect. Argument names"
            f" {both} appear in both static_argnames and donate_argnames"
        )
    return JitOptions(*static, *donate, **others)


def library_options(
    fun: Callable[..., Any], static_argnames: str | Iterable[str], **others: Any
) -> JitOptions:
    """The options of one of the library's own functions, from its code alone.

    There are hundreds of them, and `inspect.signature` of each would be a good part
    of the time of `import curta`.
    """
    static = _strings(static_argnames)
    if not static:
        return JitOptions(**others)
    code = inspect.unwrap(fun).__code__
    positional = code.co_varnames[: code.co_argcount]
    numbers = (i for i, n in enumerate(positional) if n in static)
    return JitOptions(tuple(numbers), static, **others)


def _signature(fun: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(fun)
    except (TypeError, ValueError):  # some builtins have none
        return None


def infer_argnums_and_argnames(
    signature: inspect.Signature | None, argnums: _Argnums, argnames: _Argnames
) -> tuple[tuple[int, ...], tuple[str, ...]]:
    nums = None if argnums is None else indices(argnums)
    names = None if argnames is None else _strings(argnames)
    if signature is None or (nums is None) == (names is None):
        return nums or (), names or ()
    either = [
        (i, name)
        for i, (name, p) in enumerate(signature.parameters.items())
        if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
    ]
    if nums is None:
        assert names is not None
        return tuple(i for i, name in either if name in names), names
    return nums, tuple(name for i, name in either if i in nums)


def indices(x: int | Iterable[int]) -> tuple[int, ...]:
    """One number or several as a tuple of ints; TypeError for other types."""
    try:
        return (operator.index(x),)  # type: ignore[arg-type]
    except TypeError:
        if not isinstance(x, Iterable) or isinstance(x, str):
            raise
    return tuple(map(operator.index, x))


def _strings(x: str | Iterable[str]) -> tuple[str, ...]:
    names = (x,) if isinstance(x, str) else tuple(x)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"argument {name!r} is not a string")
    return names


def _check_argnums(
    signature: inspect.Signature, argnums: Sequence[int], what: str
) -> None:
    kinds = [p.kind for p in signature.parameters.values()]
    if not argnums or inspect.Parameter.VAR_POSITIONAL in kinds:
        return
    count = sum(k in _POSITIONAL for k in kinds)
    if min(argnums) < -count or max(argnums) >= count:
        raise ValueError(
            f"Jitted function has {what}={tuple(argnums)}, but only accepts {count}"
            " positional arguments."
        )


def _check_argnames(
    signature: inspect.Signature, argnames: Sequence[str], what: str
) -> None:
    kinds = {name: p.kind for name, p in signature.parameters.items()}
    positional = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.VAR_POSITIONAL,
    )
    if wrong := {n for n in argnames if kinds.get(n) in positional}:
        raise ValueError(
            f"Jitted function has invalid argnames {wrong} in {what}. These are"
            " positional-only"
        )
    if inspect.Parameter.VAR_KEYWORD in kinds.values():
        return
    if wrong := set(argnames) - kinds.keys():
        raise ValueError(
            f"Jitted function has invalid argnames {wrong} in {what}. Function does"
            " not take these args."
        )


class Arguments(NamedTuple):
    """The arguments of one call, the static ones taken out.

    `argnums` says where each of `dynamic` was among the positional arguments.
    """

    dynamic: tuple[Any, ...]
    argnums: tuple[int, ...]
    options: dict[str, Any]
    static: Statics

    def merge(self, dynamic: Sequence[Any], options: dict[str, Any]) -> Any:
        """All positional and keyword arguments, with other dynamic ones."""
        static = self.static
        count = len(self.argnums) + len(static.argnums)
        args: list[Any] = [None] * count
        for i, x in zip(static.argnums, static.values, strict=False):
            args[i] = x
        for i, x in zip(self.argnums, dynamic, strict=True):
            args[i] = x
        named = static.values[len(static.argnums) :]
        return args, {**options, **dict(zip(static.names, named, strict=True))}


class Statics(NamedTuple):
    """The static arguments of one call: argnums, then names, with their values.

    The types take part in comparisons: 1, 1.0 and True are different constants.
    """

    argnums: tuple[int, ...]
    names: tuple[str, ...]
    types: tuple[type, ...]
    values: tuple[Any, ...]


_NO_STATICS = Statics((), (), (), ())


def split_arguments(
    options: JitOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Arguments:
    """Take the static arguments out; ValueError if one cannot be hashed."""
    if not options.has_static:
        return Arguments(args, tuple(range(len(args))), kwargs, _NO_STATICS)
    argnums, dynamic = _static_and_dynamic(options.static_argnums, len(args))
    names = tuple(sorted(kwargs.keys() & set(options.static_argnames)))
    values = (*[args[i] for i in argnums], *[kwargs[n] for n in names])
    for value in values:
        check_hashable(value)
    statics = Statics(argnums, names, tuple(map(type, values)), values)
    others = {n: x for n, x in kwargs.items() if n not in names}
    return Arguments(tuple(args[i] for i in dynamic), dynamic, others, statics)


@functools.lru_cache(4096)
def _static_and_dynamic(
    argnums: tuple[int, ...], count: int
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    static = {*argnums_in_range([i for i in argnums if i < count], count)}
    dynamic = tuple(i for i in range(count) if i not in static)
    return tuple(sorted(static)), dynamic


def static_key(
    options: JitOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[list[Any], dict[str, Any], tuple[Any, ...]]:
    """The dynamic arguments, and a key of the static ones; quicker than Arguments.

    The key cannot be hashed where an argument cannot.
    """
    static, dynamic = _static_and_dynamic(options.static_argnums, len(args))
    key: list[Any] = []
    for i in static:
        key += (type(args[i]), args[i])
    others = {}
    for name, x in sorted(kwargs.items()) if len(kwargs) > 1 else kwargs.items():
        if name in options.static_argnames:
            key += (name, type(x), x)
        else:
            others[name] = x
    return [args[i] for i in dynamic], others, tuple(key)


def plan_key(
    options: JitOptions,
    axes: tuple[Any, ...],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    type_of: Callable[[Any], ShapedArray] = typeof,
) -> tuple[Sequence[Any], Any]:
    """The leaves of the arguments, and the key of the plan of such a call.

    `axes` are the named axes in scope. The key is None for other values than arrays, or
    static and not hashable.
    """
    leaves: Sequence[Any] = args
    tree = static = None
    if options.has_static:
        leaves, kwargs, static = static_key(options, args, kwargs)
    if kwargs or not _PLAIN.issuperset(map(type, leaves)):
        given = tuple(leaves)
        leaves, tree = tree_util.tree_flatten((given, kwargs))
        alike = not kwargs and len(leaves) == len(given)
        if alike and all(map(operator.is_, leaves, given)):
            tree = None  # as where all are known to be leaves
    try:
        avals = [x.aval if type(x) is ArrayImpl else type_of(x) for x in leaves]
        hash(static)
    except (TypeError, ValueError, OverflowError):
        return leaves, None
    return leaves, (config.context, static, tree, axes, *avals)


def check_statics(
    options: JitOptions, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> None:
    """ValueError if a static argument cannot be hashed."""
    for i in options.static_argnums:
        if i < len(args):
            check_hashable(args[i])
    for name, x in kwargs.items():
        if name in options.static_argnames:
            check_hashable(x)


def wrong_call(
    fun: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
) -> TypeError | None:
    """The TypeError of Python for arguments that do not fit the function, or None."""
    try:
        fun(*args, **kwargs)
    except TypeError as error:
        return error
    return None


def check_hashable(value: Any) -> None:
    """ValueError if a static argument cannot be hashed."""
    try:
        hash(value)
    except TypeError as error:
        raise ValueError(
            "Non-hashable static arguments are not supported. An error occurred while"
            f" trying to hash an object of type {type(value)}, {value!r}. The error"
            f" was:\n{type(error).__name__}: {error}\n\nStatic arguments are part of"
            " the key under which compiled code is kept: pass a tuple instead of a"
            " list, or leave arrays out of static_argnums and static_argnames."
        ) from None


def donated_leaves(options: JitOptions, arguments: Arguments) -> tuple[bool, ...]:
    """For each leaf of the dynamic arguments, whether it is donated; () if none is."""
    if not options.donates:
        return ()
    count = len(arguments.argnums) + len(arguments.static.argnums)
    donated = {i % count for i in options.donate_argnums if -count <= i < count}
    flags = [(x, i in donated) for x, i in zip(arguments.dynamic, arguments.argnums)]
    for name in sorted(arguments.options):
        flags.append((arguments.options[name], name in options.donate_argnames))
    leaves = tuple(f for x, f in flags for _ in tree_util.tree_leaves(x))
    return leaves if any(leaves) else ()


def chosen_device(
    device: Any, backend: str | None, in_shardings: Any, out_shardings: Any
) -> Any:
    """Where the arguments `device` and `backend` of `jit` say that it is to run."""
    warn(
        "backend and device argument on jit is deprecated. You can use"
        ' `jax.device_put(..., jax.local_devices(backend="cpu")[0])` on the inputs'
        " to the jitted function to get the same behavior.",
        DeprecationWarning,
    )
    if device is not None and backend is not None:
        raise ValueError(
            "can't specify both a device and a backend for jit, got"
            f" {device=} and {backend=}"
        )
    for what, given in (("in", in_shardings), ("out", out_shardings)):
        if given is not None:
            raise ValueError(
                "If backend or device is specified on jit, then"
                f" {what}_shardings should not be specified."
            )
    return as_sharding(device if backend is None else devices(backend)[0])
