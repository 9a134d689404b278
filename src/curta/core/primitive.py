"""`Primitive`: an op without its parameters, as programs that read jaxprs know it.

JAX parts an eqn into `eqn.primitive` and `eqn.params`; here one `Op` is both. There is
one `Primitive` for each class of ops, so that `eqn.primitive is lax.add_p` holds and
`eqn.primitive.bind(*args, **eqn.params)` applies the op again.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

from curta.core.op import Op


class Primitive:
    """The identity of an operation: its `name`, and how to apply it.

    >>> from curta.core.primitive import primitive_of
    >>> import curta
    >>> eqn = curta.make_jaxpr(curta.lax.sin)(1.0).eqns[0]
    >>> eqn.primitive, eqn.primitive.bind(0.0, **eqn.params)
    (sin, Array(0., dtype=float32, weak_type=True))
    """

    __slots__ = ("__weakref__", "multiple_results", "name", "op_class")

    def __init__(self, op_class: type[Op]):
        self.op_class = op_class
        self.name = op_class.name
        self.multiple_results = op_class.multiple_results

    def with_params(self, **params: Any) -> Op:
        """The op with these parameters, named as in `eqn.params`.

        Raises TypeError for parameters that the op does not have.
        """
        renamed = self.op_class.param_names
        fields: dict[str, Any] = {}
        for key, value in params.items():
            field = renamed.get(key, key)
            if field is not None:
                fields[field] = value
        op: Any = self.op_class
        declared = dataclasses.fields(op) if dataclasses.is_dataclass(op) else ()
        known = {f.name for f in declared}
        if unknown := sorted(fields.keys() - known):
            raise TypeError(
                f"{self.name} has no parameters {unknown}; it takes {sorted(known)}."
            )
        return self.op_class(**fields)

    def bind(self, *args: Any, **params: Any) -> Any:
        """Apply the operation under the current trace."""
        return self.with_params(**params)(*args)

    def get_bind_params(
        self, params: dict[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """`(leading arguments, parameters)` with which `bind` repeats an eqn."""
        return [], dict(params)

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    def __reduce__(self) -> tuple[Any, ...]:
        return primitive_of, (self.op_class,)


@functools.cache
def primitive_of(op_class: type[Op]) -> Primitive:
    """The one primitive of a class of ops."""
    return Primitive(op_class)
