"""Functions that run where the devices of their arguments are."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from curta import tree_util
from curta.core.array import Array
from curta.core.shape_struct import ShapeDtypeStruct


class ColocatedFunction:
    """A function, with what is said in advance of its arguments and results."""

    def __init__(
        self,
        fun: Callable[..., Any],
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Any] | None = None,
    ):
        functools.update_wrapper(self, fun)
        self._fun, self._devices = fun, devices
        self._in_specs, self._out_specs_fn = in_specs, out_specs_fn

    def specialize(
        self,
        in_specs: Any = None,
        out_specs_fn: Callable[..., Any] | None = None,
        devices: Sequence[Any] | None = None,
    ) -> ColocatedFunction:
        """This function with more said of it; ValueError for what was said already.

        `in_specs` are `(args, kwargs)` as trees of ShapeDtypeStruct, and
        `out_specs_fn` gives the results so. A function without arguments needs
        `devices`.
        """
        return ColocatedFunction(
            self._fun,
            _either("in_specs", self._in_specs, in_specs),
            _either("out_specs_fn", self._out_specs_fn, out_specs_fn),
            _either("devices", self._devices, devices),
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results of the function.

        Raises ValueError where arguments or results are not arrays or not as was said,
        and for a function without arguments if there was no word of devices.
        """
        leaves = tree_util.tree_leaves((args, kwargs))
        if not leaves and self._devices is None:
            raise ValueError(
                "No devices found. colocated_python function without input arguments"
                " must be first specialized with devices."
            )
        given = tree_util.tree_map(_spec, (args, kwargs))
        if self._in_specs is not None:
            _check("arguments", self._in_specs, given)
        out = self._fun(*args, **kwargs)
        specs = tree_util.tree_map(_spec, out)
        if self._out_specs_fn is not None:
            in_args, in_kwargs = given
            _check("results", self._out_specs_fn(*in_args, **in_kwargs), specs)
        return out


def _either(name: str, known: Any, said: Any) -> Any:
    if known is not None and said is not None:
        raise ValueError(f"{name} already specified")
    return said if known is None else known


def _spec(x: Any) -> ShapeDtypeStruct:
    if not isinstance(x, Array):
        raise ValueError(
            "colocated_python only supports jax.Array as input and output, but got"
            f" {type(x)}."
        )
    return ShapeDtypeStruct(x.shape, x.dtype, sharding=x.sharding)


def _check(what: str, expected: Any, got: Any) -> None:
    """Raise ValueError unless two trees have the same shapes and dtypes."""

    def types(tree: Any) -> Any:
        return tree_util.tree_map(lambda s: (s.shape, s.dtype), tree)

    if types(expected) != types(got):
        raise ValueError(f"The {what} are to be {expected}, and are {got}.")
