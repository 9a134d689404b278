"""Small functions on jaxprs, avals and values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from curta.core.avals import ShapedArray
from curta.core.check import check_jaxpr as check_jaxpr
from curta.core.effects import Effect
from curta.core.jaxpr import Atom, Eqn, Var
from curta.core.primitive import Primitive
from curta.core.source_info import UNKNOWN, SourceInfo
from curta.core.trace import concrete_or_error as concrete_or_error, is_array_like

no_effects: Final[frozenset[Effect]] = frozenset()


def valid_jaxtype(x: Any) -> bool:
    """Return True if `x` can be an argument of a traced function: an array or a scalar.

    >>> from curta.extend.core import valid_jaxtype
    >>> valid_jaxtype(1.0), valid_jaxtype("one")
    (True, False)
    """
    return is_array_like(x)


def mapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The aval of one example of a batch along `axis`.

    Args:
      size: the number of examples.
      axis: the batch dim; None for a value that all examples share.
      aval: the type of the batch.

    Returns:
      The aval without that dim.

    Raises:
      ValueError: if the dim has another size.
      IndexError: if there is no such dim.

    >>> import curta
    >>> from curta.extend.core import mapped_aval
    >>> print(mapped_aval(3, 0, curta.typeof(curta.numpy.ones((3, 2)))))
    float32[2]
    """
    if axis is None:
        return aval
    if aval.shape[axis] != size:
        raise ValueError(
            f"axis {axis} of {aval} is mapped over, but its size is not {size}"
        )
    return aval.update(shape=aval.shape[:axis] + aval.shape[axis + 1 :])


def unmapped_aval(size: int, axis: int | None, aval: ShapedArray) -> ShapedArray:
    """The aval of a batch along `axis` of `size` examples.

    Args:
      size: the number of examples.
      axis: where the batch dim goes; None for a value that all examples share.
      aval: the type of one example.

    Returns:
      The aval with that dim.

    Raises:
      TypeError: if an axis is not an integer.

    >>> import curta
    >>> from curta.extend.core import unmapped_aval
    >>> print(unmapped_aval(3, 1, curta.typeof(curta.numpy.ones(2))))
    float32[2,3]
    """
    if axis is None:
        return aval
    return aval.update(shape=(*aval.shape[:axis], size, *aval.shape[axis:]))


def gensym(suffix: str = "") -> Callable[[ShapedArray], Var]:
    """A function that makes a new variable of an aval; variables have no names.

    >>> import curta
    >>> from curta.extend.core import gensym
    >>> gensym()(curta.typeof(1.0)).aval
    ShapedArray(float32[], weak_type=True)
    """
    return Var


def new_jaxpr_eqn(
    invars: Sequence[Atom],
    outvars: Sequence[Var],
    primitive: Primitive,
    params: dict[str, Any],
    effects: Any = no_effects,
    source_info: SourceInfo | None = None,
) -> Eqn:
    """The eqn `outvars = primitive[params] invars`.

    Args:
      invars: the operands, variables and literals.
      outvars: variables for the results.
      primitive: the operation.
      params: its parameters, by name.
      effects: some of those that the primitive has with these parameters.
      source_info: the user's line; unknown by default.

    Returns:
      The eqn.

    Raises:
      ValueError: if `effects` has others than the primitive.

    >>> import curta
    >>> from curta.extend.core import Var, new_jaxpr_eqn
    >>> x, y = Var(curta.typeof(1.0)), Var(curta.typeof(1.0))
    >>> new_jaxpr_eqn([x], [y], curta.lax.sin_p, {})
    a:f32[] = sin b
    """
    op = primitive.with_params(**params)
    if not set(effects) <= op.effects:
        raise ValueError(f"{op.name} has the effects {set(op.effects)}, not {effects}")
    return Eqn(op, tuple(invars), tuple(outvars), source_info or UNKNOWN)
