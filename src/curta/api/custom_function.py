"""The base of functions with custom rules: resolved arguments, checked outputs."""

from __future__ import annotations

import functools
import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Generic

from curta import tree_util
from curta._base.once import cached_property
from curta.api.signatures import P, R
from curta.core.flat import FlatFunction, function_name
from curta.core.trace import current_trace, typeof
from curta.core.wrapping import SignatureOf, update_wrapper


class CustomFunction(Generic[P, R]):
    """The base of the decorators: resolves arguments and nondiff_argnums."""

    def __init__(
        self,
        fun: Callable[P, R],
        nondiff_argnums: Sequence[int] = (),
        nondiff_argnames: Sequence[str] = (),
    ):
        update_wrapper(self, fun)
        self.fun = fun
        argnums = {self._from_front(i) for i in _argnums(nondiff_argnums)}
        if nondiff_argnames:
            argnums.update(self._argnum_of(name) for name in _names(nondiff_argnames))
        self.nondiff_argnums: tuple[int, ...] = tuple(sorted(argnums))

    def _from_front(self, argnum: int) -> int:
        """The number of an argument, which may be counted from the end."""
        if argnum >= 0:
            return argnum
        count = self._count
        if count is None or argnum < -count:
            raise ValueError(
                f"nondiff_argnums={argnum} names no argument of {self._name()}: of"
                f" {count if count is not None else 'an unknown number of'} positional"
                " arguments, count from the front."
            )
        return argnum + count

    def _argnum_of(self, name: str) -> int:
        names = list(inspect.signature(self.fun).parameters)
        if name not in names:
            raise ValueError(
                f"nondiff_argnames names {name!r}, which is not an argument of"
                f" {self._name()}; its arguments are {', '.join(names) or 'none'}."
            )
        return names.index(name)

    __signature__: ClassVar[SignatureOf] = SignatureOf("fun")

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        raise NotImplementedError(type(self).__name__)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else functools.partial(self, instance)

    def __getattr__(self, name: str) -> Any:
        """The methods of decorators below this one, `def_vmap` for example."""
        fun = self.__dict__.get("fun")
        if name.startswith("def") and isinstance(fun, CustomFunction):
            return getattr(fun, name)
        raise AttributeError(
            f"{type(self).__name__!r} object has no attribute {name!r}"
        )

    def resolve(
        self, kind: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[Any, ...]:
        """The arguments as positional ones, with defaults; TypeError if that fails."""
        if not kwargs and len(args) == self._count:
            return args
        try:
            signature = inspect.signature(self.fun)
        except ValueError:  # some builtins have none
            return args
        except TypeError as error:
            raise self._unresolved(kind, error) from None
        try:
            bound = signature.bind(*args, **kwargs)
            bound.apply_defaults()
        except TypeError as error:
            raise self._unresolved(kind, error) from error
        if any(name in kwargs for name in bound.kwargs):
            raise TypeError(
                f"The input arguments to the {kind}-decorated function"
                f" {self._name()} could not be resolved to positional-only arguments."
                " The following keyword arguments could not be resolved to positions:"
                f" {', '.join(sorted(bound.kwargs))}"
            )
        return bound.args

    @cached_property
    def _count(self) -> int | None:
        """The number of parameters, if all are plain positional ones."""
        try:
            parameters = inspect.signature(self.fun).parameters.values()
        except (ValueError, TypeError):
            return None
        kinds = inspect.Parameter
        plain = (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)
        return len(parameters) if all(p.kind in plain for p in parameters) else None

    def _unresolved(self, kind: str, error: TypeError) -> TypeError:
        return TypeError(
            f"The input arguments to the {kind}-decorated function {self._name()} could"
            " not be resolved to positional-only arguments. Binding failed with the"
            f" error:\n{error}"
        )

    def _name(self) -> str:
        return function_name(self.fun)

    def _split(self, args: tuple[Any, ...]) -> tuple[list[Any], tuple[Any, ...]]:
        fixed = [args[i] for i in self.nondiff_argnums]
        traced = tuple(x for i, x in enumerate(args) if i not in self.nondiff_argnums)
        return fixed, traced

    def _traced_argnums(self, args: tuple[Any, ...]) -> list[int]:
        return [i for i in range(len(args)) if i not in self.nondiff_argnums]

    def _merged(self, fixed: Sequence[Any]) -> Callable[..., Callable[..., Any]]:
        def with_fixed(fun: Callable[..., Any]) -> Callable[..., Any]:
            def call(*traced: Any) -> Any:
                full = list(traced)
                for i, x in zip(self.nondiff_argnums, fixed, strict=True):
                    full.insert(i, x)
                return fun(*full)

            return call

        return with_fixed


def _argnums(given: Any) -> tuple[int, ...]:
    if isinstance(given, int):
        raise TypeError(
            f"nondiff_argnums is a sequence of ints, got {given}: write ({given},)."
        )
    return tuple(map(operator.index, given or ()))


def _names(given: str | Sequence[str]) -> tuple[str, ...]:
    names = (given,) if isinstance(given, str) else tuple(given)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"argument is not a string: {name}, in nondiff_argnames={given}"
            )
    return names


class PrimalFunction(FlatFunction):
    """A function with rules, as one of flat leaves; staged, it notes its types."""

    __slots__ = ("out_avals",)

    def __init__(self, fun: Callable[..., Any], in_tree: Any):
        super().__init__(fun, in_tree)
        self.out_avals: list[Any] | None = None

    def __call__(self, *leaves: Any) -> list[Any]:
        outs = super().__call__(*leaves)
        if current_trace().records:
            self.out_avals = [typeof(x) for x in outs]
        return outs

    def check(self, out_tree: Any, outs: Sequence[Any], what: str, kind: str) -> None:
        """Raise TypeError if a rule's outputs are other than the function's.

        `what` is the message up to "but instead", `kind` how the function is called.
        """
        if self.out_tree is None or self.out_avals is None:
            return
        avals = [typeof(x) for x in outs]
        result = _type_tree(out_tree, avals)
        expected = _type_tree(self.out_tree, self.out_avals)
        if out_tree != self.out_tree:
            raise TypeError(
                f"{what} first element had container/pytree structure:\n    {result}\n"
                f"while the {kind} had output container/pytree structure:\n"
                f"    {expected}."
            )
        pairs = zip(avals, self.out_avals, strict=True)
        if any((a.shape, a.dtype) != (b.shape, b.dtype) for a, b in pairs):
            raise TypeError(
                f"{what} first element had shapes/dtypes of:\n    {result}\nwhile the"
                f" {kind} had output shapes/dtypes of:\n    {expected}"
            )


def _type_tree(tree: Any, avals: Sequence[Any]) -> str:
    shown = tree_util.tree_unflatten(tree, [a.str_short() for a in avals])
    return str(shown).replace("'", "")
