"""The types in signatures of transformations, for type checkers.

A transformed function keeps its parameters (`P`) and its result (`R`). A derivative has
the type of the argument that it is taken in: `Gradient` and the others say so for the
first argument, which then cannot be passed by its name. Where that is a scalar or
anything like an array, the derivative is an array.
"""

from __future__ import annotations

from collections.abc import Iterable, Sized
from typing import Any, Concatenate, ParamSpec, Protocol, TypedDict, TypeVar, overload

from curta.api.compiler_options import Inline
from curta.core.array import Array, ArrayLike

P = ParamSpec("P")
P2 = ParamSpec("P2")
R = TypeVar("R")
R2 = TypeVar("R2")
T = TypeVar("T")
Aux = TypeVar("Aux")
Instance = TypeVar("Instance")
R_co = TypeVar("R_co", covariant=True)
# Arrays and containers: all that is differentiated in but numbers.
Tree = TypeVar("Tree", bound=Sized)


class Gradient(Protocol[P, R_co]):
    """`grad(fun)`, for a function with parameters P and result R."""

    @overload
    def __call__(
        self: Gradient[Concatenate[Tree, P2], Any],
        first: Tree,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> Tree: ...
    @overload
    def __call__(
        self: Gradient[Concatenate[float, P2], Any],
        first: ArrayLike,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> Array: ...
    @overload
    def __call__(
        self: Gradient[Concatenate[ArrayLike, P2], Any],
        first: ArrayLike,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> Array: ...
    @overload
    def __call__(
        self: Gradient[Concatenate[T, P2], Any],
        first: T,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> T: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class ValueAndGradient(Protocol[P, R_co]):
    """`value_and_grad(fun)`, for a function with parameters P and result R."""

    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[Tree, P2], R2],
        first: Tree,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> tuple[R2, Tree]: ...
    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[float, P2], Any],
        first: ArrayLike,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[ArrayLike, P2], Any],
        first: ArrayLike,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> tuple[Array, Array]: ...
    @overload
    def __call__(
        self: ValueAndGradient[Concatenate[T, P2], R2],
        first: T,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> tuple[R2, T]: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> tuple[R_co, Any]: ...


class Jacobian(Protocol[P, R_co]):
    """`jacfwd(fun)` or `jacrev(fun)`, for a function with parameters P and result R."""

    @overload
    def __call__(
        self: Jacobian[Concatenate[Array, P2], Array],
        first: Array,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> Array: ...
    @overload
    def __call__(
        self: Jacobian[Concatenate[float, P2], Array | float],
        first: ArrayLike,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> Array: ...
    @overload
    def __call__(
        self: Jacobian[Concatenate[ArrayLike, P2], Array],
        first: ArrayLike,
        /,
        *args: P2.args,
        **kwargs: P2.kwargs,
    ) -> Array: ...
    @overload
    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> Any: ...


class JitKeywords(TypedDict, total=False):
    """The keyword arguments of `jit`."""

    in_shardings: Any
    out_shardings: Any
    static_argnums: int | Iterable[int] | None
    static_argnames: str | Iterable[str] | None
    donate_argnums: int | Iterable[int] | None
    donate_argnames: str | Iterable[str] | None
    keep_unused: bool
    device: Any
    backend: str | None
    inline: bool | Inline
    abstracted_axes: Any
    compiler_options: dict[str, Any] | None
