"""The pullback that `vjp` returns, and what is asked of it for each argument."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from curta import dtypes, tree_util
from curta.api.argument_flags import argument_flags
from curta.api.linearized import LinearizedCall, LinearMap
from curta.core.avals import ShapedArray
from curta.core.jaxpr import Jaxpr
from curta.core.refs import Ref, addupdate
from curta.core.trace import typeof
from curta.tree.mismatch import first_difference


class _Mark:
    """What stands where an array would; all of one class are equal."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other)

    def __hash__(self) -> int:
        return hash(type(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class DontWant(_Mark):
    """Says to `VJP.with_refs` that the cotangent of an argument is not needed.

    >>> import curta
    >>> _, pullback = curta.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pullback.with_refs(curta.ad.DontWant(), curta.ad.GradValue())(1.0)[1]
    Array(2., dtype=float32, weak_type=True)
    """

    __slots__ = ()


class GradValue(_Mark):
    """Says to `VJP.with_refs` that the cotangent of an argument is to be returned.

    >>> import curta
    >>> _, pullback = curta.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pullback.with_refs(curta.ad.GradValue(), curta.ad.DontWant())(1.0)[0]
    Array(3., dtype=float32, weak_type=True)
    """

    __slots__ = ()


@tree_util.register_static
class DidntWant(_Mark):
    """Stands for a cotangent that was not wanted.

    >>> import curta
    >>> _, pullback = curta.vjp(lambda x, y: x * y, 2.0, 3.0)
    >>> pullback.with_refs(curta.ad.DontWant(), curta.ad.GradValue())(1.0)
    (DidntWant(), Array(2., dtype=float32, weak_type=True))
    """

    __slots__ = ()


@tree_util.register_static
class GradRef(_Mark):
    """Stands for a cotangent that was added to a reference.

    >>> import curta
    >>> total = curta.new_ref(curta.numpy.float32(10))
    >>> _, pullback = curta.vjp(lambda x: x * x, curta.numpy.float32(3))
    >>> pullback.with_refs(total)(curta.numpy.float32(1)), total[...]
    ((GradRef(),), Array(16., dtype=float32))
    """

    __slots__ = ()


@tree_util.register_static
class NotNeeded(_Mark):
    """Stands for an argument of whose value the pullback makes no use."""

    __slots__ = ()


@tree_util.register_static
class NotSaveable(_Mark):
    """A placeholder for an argument that the pullback needs but may not save.

    >>> import curta
    >>> x = curta.numpy.float32(3)
    >>> _, pullback = curta.vjp(lambda x: x * x, x, saveable_args=False)
    >>> pullback.args_res
    [NotSaveable()]
    >>> pullback.args_res = [x]
    >>> pullback(curta.numpy.float32(1))
    (Array(6., dtype=float32),)
    """

    __slots__ = ()


@tree_util.register_pytree_node_class
class VJP:
    """The pullback that `vjp` returns: output cotangents to input cotangents.

    `args_res` is a list of the arguments, with `NotNeeded` for unused arrays, and
    tuples instead of containers. It may be emptied to free memory and filled again. An
    argument that may not be saved is `NotSaveable` until the caller puts it there.
    `opaque_residuals` are the other saved values.
    """

    __slots__ = (
        "__weakref__",
        "_linear",
        "_sources",
        "args_res",
        "opaque_residuals",
        "want_logs",
    )

    def __init__(
        self,
        linear: LinearMap,
        sources: tuple[tuple[bool, int], ...],
        args_res: list[Any],
        opaque_residuals: list[Any],
        want_logs: bool = False,
    ):
        self._linear = linear
        # Of each residual: whether it is among the arguments' leaves, and its index.
        self._sources = sources
        self.args_res: list[Any] = args_res
        self.opaque_residuals: list[Any] = opaque_residuals
        self.want_logs: bool = want_logs

    @classmethod
    def of(cls, forward: LinearizedCall, saveable_args: Any = True) -> VJP:
        """The pullback of a linearized call, which keeps the `saveable_args`."""
        linear = forward.linear
        may_save = argument_flags(saveable_args, linear.in_tree, "vjp", "saveable_args")
        sources: list[tuple[bool, int]] = []
        opaque: list[Any] = []
        index = {id(x): i for i, x in enumerate(forward.leaves)}
        for x in forward.residuals:
            is_argument = id(x) in index
            sources.append((is_argument, index.get(id(x), len(opaque))))
            if not is_argument:
                opaque.append(x)
        used = {i for is_argument, i in sources if is_argument}
        kept: list[Any] = [NotNeeded()] * len(may_save)
        for i in used:
            kept[i] = forward.leaves[i] if may_save[i] else NotSaveable()
        args = _in_tuples(linear.in_tree, iter(kept))
        return cls(linear, tuple(sources), list(args), opaque)

    @property
    def out_nzs(self) -> Any:
        """Which outputs have tangents that are not zero, in containers as theirs."""
        return self._linear.out_nzs

    @property
    def jaxpr(self) -> Jaxpr:
        """The jaxpr from residuals and input tangents to output tangents."""
        return self._linear.jaxpr

    def _residuals(self) -> list[Any]:
        args = tree_util.tree_leaves(self.args_res, is_leaf=_is_left_out)
        if len(args) != self._linear.in_tree.num_leaves:
            raise ValueError(
                "the arguments were taken out of `args_res`: put them back before the"
                f" pullback of {self._linear.debug_info.name} is called."
            )
        needed = {i for is_argument, i in self._sources if is_argument}
        if missing := [i for i in sorted(needed) if type(args[i]) is NotSaveable]:
            raise ValueError(self._not_restored(missing))
        return [
            args[i] if is_argument else self.opaque_residuals[i]
            for is_argument, i in self._sources
        ]

    def _not_restored(self, missing: Sequence[int]) -> str:
        """What an error says of arguments that were not put back into `args_res`."""
        paths = [*range(self._linear.in_tree.num_leaves)]
        arguments = tree_util.tree_unflatten(self._linear.in_tree, paths)
        named, _ = tree_util.tree_flatten_with_path(arguments)
        name = self._linear.debug_info.function()
        return (
            "the VJP function was applied before restoring its not-saveable residuals."
            "\n\nBecause `saveable_args` was passed to `jax.vjp`, values of arguments"
            " were replaced with `NotSaveable()`. Put them into the VJP function's"
            " `args_res` before it is applied. Not restored yet:\n"
        ) + "\n".join(
            f"  * the argument at position args{tree_util.keystr(named[i][0])} of the"
            f" differentiated function {name};"
            for i in missing
        )

    def __call__(self, *cotangents: Any) -> tuple[Any, ...]:
        """The cotangents of the arguments, as a tuple, for one of the outputs."""
        log: dict[str, Any] = {}
        cts = self._pull(cotangents, None, log)
        return (cts, log) if self.want_logs else cts

    @property
    def with_logs(self) -> VJP:
        """The pullback that returns a pair of cotangents and logs.

        Logs are a dict of the values that backward rules name, for example those of
        `custom_vjp.defvjp_with_logs`. Plain calls drop them.

        Raises:
          NotImplementedError: when it is called, if a rule in the body of a loop or a
            branch logs something.
          ValueError: when it is called, if two rules log the same name.
        """
        rest = self._linear, self._sources, self.args_res, self.opaque_residuals
        return VJP(*rest, want_logs=True)

    def _pull(
        self,
        cotangents: tuple[Any, ...],
        wanted: Sequence[bool] | None,
        log: dict[str, Any],
    ) -> tuple[Any, ...]:
        linear = self._linear
        if len(cotangents) != 1:
            raise TypeError(
                f"The function returned by `jax.vjp` applied to"
                f" {linear.debug_info.name} was called with {len(cotangents)}"
                " arguments, but functions returned by `jax.vjp` must be called with a"
                " single argument corresponding to the single value returned by the"
                " function being differentiated (even if that returned value is a"
                " tuple or other container). Put the cotangents of several outputs"
                " into one tuple."
            )
        leaves, ct_tree = tree_util.tree_flatten(cotangents[0])
        if ct_tree != linear.out_tree:
            raise ValueError(
                "unexpected tree structure.\n\nThe argument to a VJP function returned"
                " by `jax.vjp` must match the pytree structure of the differentiated"
                f" function {linear.debug_info.function()}.\n\nBut the tree structures"
                f" differ: expected {linear.out_tree}, got {ct_tree}"
                f"{first_difference(linear.out_tree, ct_tree)}."
            )
        for ct, out in zip(leaves, linear.out_avals, strict=True):
            _check_cotangent(typeof(ct), out)
        logged = log if self.want_logs else None
        return tuple(linear.pull(self._residuals(), leaves, wanted, logged))

    def with_refs(self, *refs: Any) -> Callable[..., tuple[Any, ...]]:
        """The pullback with a destination for the cotangent of each argument.

        `refs` is a tree like the arguments. To a reference in it the cotangent is
        added; the pullback returns `GradRef()` in its place. A cotangent with
        `curta.ad.DontWant()` is not computed; `DidntWant()` is returned. With
        `curta.ad.GradValue()`, or None, it is returned as usual.

        >>> import curta
        >>> total = curta.new_ref(1.0)
        >>> _, pull = curta.vjp(lambda x, y: x * y, 2.0, 3.0)
        >>> pull.with_refs(total, curta.ad.DontWant())(1.0), total
        ((GradRef(), DidntWant()), Ref(4., dtype=float32, weak_type=True))
        """
        accumulators, accumulators_tree = tree_util.tree_flatten(
            refs, is_leaf=lambda x: x is None
        )
        tree = self._linear.in_tree
        if accumulators_tree.num_leaves != tree.num_leaves:
            raise ValueError(
                f"with_refs takes a tree like the arguments, {tree}, got"
                f" {accumulators_tree}"
            )

        wanted = [not isinstance(x, DontWant) for x in accumulators]

        def pull(*cotangents: Any) -> tuple[Any, ...]:
            log: dict[str, Any] = {}
            cts = tree.flatten_up_to(self._pull(cotangents, wanted, log))
            for i, (accumulator, ct) in enumerate(zip(accumulators, cts, strict=True)):
                if isinstance(accumulator, DontWant):
                    cts[i] = DidntWant()
                elif isinstance(accumulator, Ref):
                    _check_accumulator(accumulator, ct)
                    addupdate(accumulator, ct)
                    cts[i] = GradRef()
            result = tuple(tree_util.tree_unflatten(tree, cts))
            return (result, log) if self.want_logs else result

        return pull

    def tree_flatten(self) -> tuple[Sequence[Any], Any]:
        """The saved values, and the rest."""
        rest = self._linear, self._sources, self.want_logs
        return (self.args_res, self.opaque_residuals), rest

    @classmethod
    def tree_unflatten(cls, rest: Any, saved: Sequence[Any]) -> VJP:
        """The pullback with these saved values."""
        linear, sources, want_logs = rest
        args_res, opaque = saved
        return cls(linear, sources, args_res, opaque, want_logs)

    def __repr__(self) -> str:
        name = self._linear.debug_info.function()
        return f"VJP(fun={name}, out_tree={self._linear.out_tree})"


def _in_tuples(tree: Any, leaves: Iterator[Any]) -> Any:
    """A pytree with tuples for its containers, which do not take any leaf."""
    if tree_util.treedef_is_leaf(tree) and tree.num_leaves:  # None has no leaf
        return next(leaves)
    return tuple([_in_tuples(child, leaves) for child in tree.children()])


def _is_left_out(x: Any) -> bool:
    return isinstance(x, (NotNeeded, NotSaveable))


def _check_accumulator(ref: Ref, ct: Any) -> None:
    aval = typeof(ct)
    if (ref.shape, ref.dtype) != (aval.shape, aval.dtype):
        raise ValueError(
            f"Accumulator aval mismatch: expected a reference to {aval.str_short()},"
            f" got {ref.aval}"
        )


def _check_cotangent(ct: ShapedArray, out: ShapedArray) -> None:
    expected = out.to_cotangent_aval()
    if expected.is_high and ct == expected:
        return
    # Cotangents of integers are ignored, whatever their dtype.
    same = ct.dtype == expected.dtype or expected.dtype == dtypes.float0
    if ct.shape != expected.shape or not same:
        raise ValueError(
            "unexpected type (e.g. shape/dtype) for argument to VJP function:"
            f" got {ct.str_short()}, but expected {expected.str_short()} because"
            " the corresponding output of the differentiated function had type"
            f" {out.str_short()}"
        )
