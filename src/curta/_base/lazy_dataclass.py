"""`dataclasses.dataclass`, with the methods generated at the first use of the class.

`dataclasses` compiles up to six methods for each class, at about half a millisecond
a class. Curta has hundreds of them (every op is one) and a program uses a few dozen,
so a class decorated here is left as written until something asks for its fields:
its first instance, a subclass that is a dataclass, `dataclasses.fields`, `replace`.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import os
import reprlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

from curta._base.once import Lock

_FIELDS = "__dataclass_fields__"
# A path inside this package, so that tracebacks hide generated code as our own.
_DIRECTORY = os.path.dirname(os.path.abspath(__file__))
_GENERATED_FILE = os.path.join(_DIRECTORY, "<generated>")
_completing = Lock()


if TYPE_CHECKING:  # a type checker knows the one of the standard library
    from dataclasses import dataclass as dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        eq: bool = True,
        repr: bool = True,
        kw_only: bool = False,
    ) -> Any:
        """Decorate a class as `dataclasses.dataclass` does, when it is first used.

        The options are those of `dataclasses.dataclass` without `slots`, which makes
        another class.

        >>> import dataclasses
        >>> @dataclass(frozen=True)
        ... class Point:
        ...     x: int
        ...     y: int = 0
        >>> "__eq__" in vars(Point)
        False
        >>> Point(1) == Point(1, 0)
        True
        >>> dataclasses.replace(Point(1), y=2)
        Point(x=1, y=2)
        """

        def decorate(cls: type) -> type:
            pending = _PendingFields(
                cls, frozen=frozen, eq=eq, repr=repr, kw_only=kw_only
            )
            setattr(cls, _FIELDS, pending)
            cls.__init__ = pending.first_init()  # type: ignore[misc]
            cls.__signature__ = _signature  # type: ignore[attr-defined]
            if "__setstate__" not in vars(cls):
                cls.__setstate__ = pending.first_setstate()  # type: ignore[attr-defined]
            return cls

        return decorate if cls is None else decorate(cls)


class _Signature:
    """What `inspect.signature` gives of a class, whatever `__init__` it has."""

    def __get__(self, instance: Any, owner: type) -> inspect.Signature:
        if instance is not None or _FIELDS not in vars(owner):
            # `inspect` then asks `__call__` of an instance, or the class's own
            # `__init__`.
            raise AttributeError("__signature__")
        fields = [f for f in dataclasses.fields(owner) if f.init]
        fields.sort(key=lambda f: bool(f.kw_only))
        return inspect.Signature([*map(_parameter, fields)], return_annotation=None)


def _parameter(f: dataclasses.Field[Any]) -> inspect.Parameter:
    missing = dataclasses.MISSING
    default: Any = inspect.Parameter.empty
    if f.default_factory is not missing:
        default = _FACTORY
    elif f.default is not missing:
        default = f.default
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(
        f.name,
        inspect.Parameter.KEYWORD_ONLY if f.kw_only else kind,
        default=default,
        annotation=f.type,
    )


class _Factory:
    """Stands in a signature for a default that each instance has made anew."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_signature = _Signature()


class _PendingFields:
    """Stands for the fields of a class that is not a dataclass yet, and makes it one.

    The steps leave the class usable by other threads at every moment: one that comes
    before `__init__` is in place waits for the lock.
    """

    def __init__(self, cls: type, **options: bool) -> None:
        self.cls = cls
        self.options = options

    def __get__(self, instance: Any, owner: type) -> Any:
        self.complete()
        return getattr(owner, _FIELDS)

    def complete(self) -> None:
        with _completing:
            if vars(self.cls).get(_FIELDS) is not self:
                return
            before = dict(vars(self.cls))
            try:
                self._make()
            except BaseException:  # Ctrl-C, say: the next use begins anew
                _restore(self.cls, before)
                raise

    def _make(self) -> None:
        cls = self.cls
        _make_methods(cls, **self.options)
        if getattr(vars(cls).get("__setstate__"), "pending", None) is self:
            del cls.__setstate__  # type: ignore[attr-defined]
        cls.__init__ = _rarely_called(cls)  # type: ignore[misc]

    def first_init(self) -> Callable[..., None]:
        def __init__(instance: Any, *args: Any, **kwargs: Any) -> None:
            self.complete()
            self.cls.__init__(instance, *args, **kwargs)  # type: ignore[misc]

        return __init__

    def first_setstate(self) -> Callable[..., None]:
        """An unpickled instance comes without `__init__`."""

        def __setstate__(instance: Any, state: dict[str, Any]) -> None:
            self.complete()
            vars(instance).update(state)

        __setstate__.pending = self  # type: ignore[attr-defined]
        return __setstate__


def _restore(cls: type, attributes: dict[str, Any]) -> None:
    """Give a class back the attributes that it had."""
    for name in [*vars(cls)]:
        if name not in attributes:
            delattr(cls, name)
    for name, value in attributes.items():
        if vars(cls).get(name, attributes) is not value:
            setattr(cls, name, value)


def _make_methods(
    cls: type, *, frozen: bool, eq: bool, repr: bool, kw_only: bool
) -> None:
    """What `dataclasses.dataclass` gives a class besides `__init__`.

    Methods for which it compiles text are closures here, which do and say the same;
    it insists on making those of a frozen class whose base is one.
    """
    made: Any = cls
    inherits = any(hasattr(base, _FIELDS) for base in cls.__mro__[1:])
    given = {"frozen": frozen and inherits, "kw_only": kw_only}
    _find_fields(cls, **given)
    parameters = made.__dataclass_params__
    parameters.repr, parameters.eq, parameters.frozen = repr, eq, frozen
    fields, own = dataclasses.fields(made), vars(cls)
    methods: dict[str, Any] = {}
    if frozen and not inherits:
        methods |= _refusals(cls, frozenset(f.name for f in fields))
    if repr:
        methods["__repr__"] = _repr_method([f.name for f in fields if f.repr])
    if eq:
        compared = [f for f in fields if f.compare]
        hashed = [f.name for f in compared if f.hash is not False]
        methods["__eq__"] = _eq_method(_values([f.name for f in compared]))
        methods["__hash__"] = _hash_method(_values(hashed)) if frozen else None
    for name, method in methods.items():
        # A class with `__eq__` in its text has a `__hash__` of None from Python.
        if name not in own or (name == "__hash__" and own[name] is None):
            setattr(cls, name, method)


def _find_fields(cls: type, **options: bool) -> None:
    """`dataclasses.dataclass`, which makes no methods.

    It searches each annotation that is a string for the name of `ClassVar`, for longer
    than all else takes; so the annotations are types meanwhile.

    Annotations that are not strings come from a function from Python 3.14 on, and are
    not in the namespace of the class.
    """
    texts = vars(cls).get("__annotations__")
    if texts is None:
        dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
        return
    cls.__annotations__ = {name: _as_type(text) for name, text in texts.items()}
    try:
        dataclasses.dataclass(init=False, repr=False, eq=False, **options)(cls)
    finally:
        cls.__annotations__ = texts
    for f in dataclasses.fields(cls):
        f.type = texts.get(f.name, f.type)


def _as_type(annotation: Any) -> Any:
    """A type of the same meaning to `dataclasses`."""
    if not isinstance(annotation, str) or annotation.startswith(_SPECIAL):
        return annotation
    return ClassVar if annotation.startswith("ClassVar") else object


_SPECIAL = ("InitVar", "KW_ONLY", "dataclasses.", "typing.")


def _values(names: list[str]) -> Callable[[Any], Any]:
    """The tuple of these attributes, or the value of a single one."""
    return operator.attrgetter(*names) if names else lambda instance: ()


def _eq_method(values: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    def __eq__(self: Any, other: Any) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return values(self) == values(other)

    return __eq__


def _hash_method(values: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:
        return hash(values(self))

    return __hash__


def _repr_method(names: list[str]) -> Callable[[Any], str]:
    @reprlib.recursive_repr()
    def __repr__(self: Any) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{self.__class__.__qualname__}({shown})"

    return __repr__


def _refusals(cls: Any, names: frozenset[str]) -> dict[str, Any]:
    """`__setattr__` and `__delattr__` of a frozen class."""

    def __setattr__(self: Any, name: str, value: Any) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    return {"__setattr__": __setattr__, "__delattr__": __delattr__}


_set = object.__setattr__
_absent = object()
# Calls of `__init__` from which on it is worth compiling one.
_OFTEN = 50


def _rarely_called(cls: type) -> Callable[..., None]:
    """An `__init__` that takes no time to make; after some calls another is made."""
    fields = dataclasses.fields(cls)
    positional = [f.name for f in fields if f.init and not f.kw_only]
    names = frozenset(f.name for f in fields if f.init)
    missing = dataclasses.MISSING
    defaults = {f.name: f.default for f in fields if f.default is not missing}
    factories = [f for f in fields if f.default_factory is not missing]
    stored = [f.name for f in fields if f.init or f.name in defaults or f in factories]
    follows = hasattr(cls, "__post_init__")
    calls = iter(range(_OFTEN))

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(positional, args))
        values = {**defaults, **given, **kwargs}
        for f in factories:
            if f.name not in values:
                values[f.name] = f.default_factory()  # type: ignore[operator]
        wrong = len(args) > len(positional) or not kwargs.keys() <= names
        wrong = wrong or len(values) < len(stored) or bool(given.keys() & kwargs)
        if wrong or next(calls, None) is None:
            cls.__init__ = _init_method(cls)  # type: ignore[misc]
            cls.__init__(self, *args, **kwargs)  # type: ignore[misc]
            return
        for name in stored:
            _set(self, name, values[name])
        if follows:
            self.__post_init__()

    return __init__


def _init_method(cls: type) -> Callable[..., None]:
    """`__init__(self, field, ..., *, keyword-only field, ...)` of a dataclass."""
    parameters: dict[bool, list[str]] = {False: [], True: []}
    body, names = [], {"_set": _set, "_absent": _absent}
    for f in dataclasses.fields(cls):
        given, default = f.name, ""
        if f.default_factory is not dataclasses.MISSING:
            names[f"_make_{f.name}"] = f.default_factory
            given, default = f"_make_{f.name}()", " = _absent"
            if f.init:
                given = f"{given} if {f.name} is _absent else {f.name}"
        elif f.default is not dataclasses.MISSING:
            names[f"_default_{f.name}"] = f.default
            default = f" = _default_{f.name}"
            given = f.name if f.init else f"_default_{f.name}"
        if f.init:
            parameters[bool(f.kw_only)].append(f.name + default)
        if f.init or default:
            body.append(f"_set(self, {f.name!r}, {given})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    keywords = ["*", *parameters[True]] if parameters[True] else []
    header = ", ".join(["self", *parameters[False], *keywords])
    source = f"def __init__({header}):\n " + "\n ".join(body or ["pass"])
    exec(compile(source, _GENERATED_FILE, "exec"), names)
    method: Any = names["__init__"]
    method.__qualname__ = f"{cls.__qualname__}.__init__"
    method.__module__ = cls.__module__
    return method
