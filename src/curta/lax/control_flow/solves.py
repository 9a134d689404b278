"""`custom_root` and `custom_linear_solve`: solvers with implicit derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from curta import tree_util
from curta.api.arguments import check_callable
from curta.api.vjp import linear_transpose, linearize
from curta.control.custom_jvp import CustomJVP
from curta.control.linear_solve import LinearSolve, SolveParts
from curta.core.jaxpr import ClosedJaxpr, DebugInfo
from curta.core.tangents import zero_tangent
from curta.core.trace import typeof
from curta.core.tracebacks import api_boundary
from curta.lax.arithmetic import neg
from curta.lax.control_flow.tracing import TracedFunction, args_tree, flat_arrays
from curta.primitives.structure import instantiate
from curta.transforms.jaxprs import run_closed
from curta.transforms.jvp import jvp

Solver = Callable[[Callable[..., Any], Any], Any]


@api_boundary
def custom_root(
    f: Callable[..., Any],
    initial_guess: Any,
    solve: Solver,
    tangent_solve: Solver,
    has_aux: bool = False,
) -> Any:
    """A root of `f`, differentiated by the implicit function theorem.

    The derivative, in what `f` closes over, does not go through the solver: with
    `f(params, x) = 0` the tangent of x solves `(df/dx) x' = -(df/dparams) params'`.

    Args:
      f: from a tree of arrays to a tree of the same structure.
      initial_guess: where the search starts.
      solve: `solve(f, initial_guess)` returns a root of f.
      tangent_solve: `tangent_solve(g, y)` returns the x of `g(x) = y` for a linear g.
        For scalars `lambda g, y: y / g(1.0)`.
      has_aux: whether `solve` returns a pair of the root and something else.

    Returns:
      The root, a tree like the guess; with `has_aux` a pair of it and something else.

    Raises:
      TypeError: if a function's result has another structure than the guess.

    >>> import curta
    >>> from curta import lax
    >>> def root(a):  # of x² = a, by Newton's method
    ...     def newton(f, x):
    ...         return lax.fori_loop(0, 20, lambda _, x: x - f(x) / (2 * x), x)
    ...     return lax.custom_root(
    ...         lambda x: x * x - a, a, newton, lambda g, y: y / g(1.0))
    >>> print(root(9.0), curta.grad(root)(9.0))
    3.0 0.16666667
    """
    for given in (f, solve, tangent_solve):
        check_callable(given)
    guess, tree = flat_arrays(initial_guess)
    avals = [typeof(x) for x in guess]
    function = TracedFunction("custom_root", f, args_tree(initial_guess), avals)
    _check_tree("f", "initial_guess", function.out_tree, tree)
    solver = TracedFunction(
        "custom_root solve",
        functools.partial(solve, f),
        args_tree(initial_guess),
        avals,
        solve,
    )
    _check_tree("solve", "initial_guess", solver.out_tree, tree, has_aux)

    def linearized_solve(x: Any, y: Any) -> Any:
        return tangent_solve(linearize(f, x)[1], y)

    tangent = TracedFunction(
        "custom_root tangent_solve",
        linearized_solve,
        args_tree(initial_guess, initial_guess),
        [*avals, *avals],
        tangent_solve,
    )
    _check_tree("tangent_solve", "x", tangent.out_tree, tree)
    functions = [function, solver, tangent]
    call = _root_call([_with_inputs(t) for t in functions], len(guess))
    outs = call(*(c for t in functions for c in t.consts), *guess)
    return tree_util.tree_unflatten(solver.out_tree, outs)


def _with_inputs(traced: TracedFunction) -> ClosedJaxpr:
    closed: ClosedJaxpr = traced.closed(
        traced.consts, [typeof(c) for c in traced.consts]
    )
    return closed


def _root_call(jaxprs: Sequence[ClosedJaxpr], count: int) -> CustomJVP:
    """The solver, of all functions' constants and the guess, with its derivative."""
    function, solver, tangent = jaxprs
    n_function = len(function.in_avals) - count
    n_solver = len(solver.in_avals) - count
    n_tangent = len(tangent.in_avals) - 2 * count

    def split(args: Sequence[Any]) -> list[Sequence[Any]]:
        ends = [n_function, n_function + n_solver, n_function + n_solver + n_tangent]
        return [args[i:j] for i, j in zip([0, *ends], [*ends, None], strict=True)]

    def run(*args: Any) -> list[Any]:
        _, consts, _, guess = split(args)
        return run_closed(solver, [*consts, *guess])

    def rule(
        primals: Sequence[Any], tangents: Sequence[Any]
    ) -> tuple[Sequence[Any], Sequence[Any]]:
        outs = list(call(*primals))
        consts, _, tangent_consts, _ = split(primals)
        root = outs[:count]
        zeros = [zero_tangent(typeof(x)) for x in root]
        dots = [*split(tangents)[0], *zeros]
        _, right = jvp(lambda *xs: run_closed(function, xs), [*consts, *root], dots)
        result = run_closed(tangent, [*tangent_consts, *root, *map(instantiate, right)])
        _check_tangents(root, result)
        aux = [instantiate(zero_tangent(typeof(x))) for x in outs[count:]]
        return outs, [*map(neg, result), *aux]

    info = DebugInfo("custom_jvp fun", "_custom_root")
    call = CustomJVP(run, rule, info, "_root_jvp")
    return call


def _check_tangents(root: Sequence[Any], tangents: Sequence[Any]) -> None:
    for x, tangent in zip(map(typeof, root), map(typeof, tangents), strict=True):
        expected = x.to_tangent_aval()
        if (tangent.shape, tangent.dtype) != (expected.shape, expected.dtype):
            raise TypeError(
                "Custom JVP rule must produce primal and tangent outputs with"
                f" corresponding shapes and dtypes. Expected {expected.str_short()}"
                f" (tangent type of {x.str_short()}) but got {tangent.str_short()}."
                " For custom_root this is what tangent_solve returns."
            )


@api_boundary
def custom_linear_solve(
    matvec: Callable[..., Any],
    b: Any,
    solve: Solver,
    transpose_solve: Solver | None = None,
    symmetric: bool = False,
    has_aux: bool = False,
) -> Any:
    """The x of `matvec(x) = b`, differentiated as such and not through the solver.

    With `A x = b` the tangent of x is the solution for `b' - A' x`, and the cotangent
    of b is the solution of the transposed system.

    Args:
      matvec: linear function from trees of arrays like b to such trees.
      b: the right-hand side, a tree of arrays.
      solve: `solve(matvec, b)` returns the solution; it need not be differentiable.
      transpose_solve: `transpose_solve(vecmat, b)` solves the transposed system, for
        reverse mode.
      symmetric: whether `matvec` is its own transpose; `solve` is then the default of
        `transpose_solve`.
      has_aux: whether the solvers return a pair of the solution and something else.

    Returns:
      A tree like b; with `has_aux` a pair of it and something else.

    Raises:
      TypeError, ValueError: if a function's result has another structure or other
        shapes than b. TypeError: in reverse mode, without `transpose_solve`.

    >>> import curta
    >>> from curta import lax, numpy as jnp
    >>> def scaled(a, b):
    ...     solver = lambda matvec, b: b / a
    ...     return lax.custom_linear_solve(
    ...         lambda x: a * x, b, solver, symmetric=True)
    >>> scaled(2.0, jnp.array([4.0, 6.0])), curta.grad(scaled)(2.0, 8.0)
    (Array([2., 3.], dtype=float32), Array(-2., dtype=float32, weak_type=True))
    """
    if transpose_solve is None and symmetric:
        transpose_solve = solve
    for given in (
        matvec,
        solve,
        *(() if transpose_solve is None else [transpose_solve]),
    ):
        check_callable(given)
    leaves, tree = flat_arrays(b)
    avals = [typeof(x) for x in leaves]
    system = _System(args_tree(b), tree, avals)
    traced: list[TracedFunction | None] = [
        system.trace("matvec", matvec, matvec),
        None,
        system.trace("solve", functools.partial(solve, matvec), solve, has_aux),
        None,
    ]
    if transpose_solve is not None:
        vecmat = matvec if symmetric else _transposed(matvec, b)
        traced[1] = traced[0] if symmetric else system.trace("vecmat", vecmat, matvec)
        traced[3] = system.trace(
            "transpose_solve",
            functools.partial(transpose_solve, vecmat),
            transpose_solve,
            has_aux,
        )
    op = LinearSolve(
        SolveParts(*(0 if t is None else len(t.consts) for t in traced)),
        SolveParts(*(None if t is None else _with_inputs(t) for t in traced)),
    )
    consts = [c for t in traced if t is not None for c in t.consts]
    outs = op(*consts, *leaves)
    last = traced[3] or traced[2]
    assert last is not None
    return tree_util.tree_unflatten(last.out_tree, outs)


class _System:
    """What the functions of a system map between: trees of arrays like b."""

    def __init__(self, in_tree: Any, tree: Any, avals: Sequence[Any]):
        self.in_tree = in_tree
        self.tree = tree
        self.avals = avals

    def trace(
        self,
        name: str,
        run: Callable[..., Any],
        fun: Callable[..., Any],
        has_aux: bool = False,
    ) -> TracedFunction:
        """Trace `run`, which users know as `fun`, and check what it returns."""

        def checked(x: Any) -> Any:
            y = run(x)
            if not has_aux:
                self._check_shapes(name, y)
            elif isinstance(y, (tuple, list)) and len(y) == 2:
                self._check_shapes(name, y[0])
            return y  # where it is no pair the check of the structure says so

        traced = TracedFunction(
            f"custom_linear_solve {name}", checked, self.in_tree, self.avals, fun
        )
        _check_tree(name, "b", traced.out_tree, self.tree, has_aux)
        return traced

    def _check_shapes(self, name: str, y: Any) -> None:
        result = [np.shape(x) for x in tree_util.tree_leaves(y)]
        expected = [a.shape for a in self.avals]
        if result != expected:
            raise ValueError(
                f"{name}() output shapes must match b, got {result} and {expected}"
            )


def _transposed(matvec: Callable[..., Any], b: Any) -> Callable[..., Any]:
    backward = linear_transpose(matvec, b)

    def vecmat(x: Any) -> Any:
        (y,) = backward(x)
        return y

    return vecmat


def _check_tree(
    name: str, expected_name: str, tree: Any, expected: Any, has_aux: bool = False
) -> None:
    if has_aux:
        children = tree_util.treedef_children(tree)
        if len(children) != 2:
            raise ValueError(
                f"{name}() produced a pytree with structure {tree}, but a pytree tuple"
                " with auxiliary output was expected because has_aux was set to True."
            )
        tree = children[0]
    if tree != expected:
        raise TypeError(
            f"{name}() output pytree structure must match {expected_name}, got {tree}"
            f" and {expected}."
        )
