"""Primitives of a program that apply a jaxpr: `prim.bind(*args, call_jaxpr=...)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from curta._base.lazy_dataclass import dataclass
from curta.control.call import JaxprOp
from curta.core.jaxpr import ClosedJaxpr, Jaxpr
from curta.core.primitive import Primitive
from curta.core.tangents import LinearArg


@dataclass(frozen=True)
class NamedCall(JaxprOp):
    """A jaxpr applied to its arguments, under a name; `items` are other parameters.

    Each primitive has a subclass of its own.
    """

    name: ClassVar[str] = "eval_jaxpr"
    primitive: ClassVar[Primitive]
    jaxpr: ClosedJaxpr
    items: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def of_params(cls, params: dict[str, Any]) -> NamedCall:
        """The op of these parameters; TypeError if `call_jaxpr` is missing."""
        others = {k: v for k, v in params.items() if k != "call_jaxpr"}
        jaxpr = params.get("call_jaxpr")
        if isinstance(jaxpr, Jaxpr):
            jaxpr = ClosedJaxpr(jaxpr)
        if not isinstance(jaxpr, ClosedJaxpr):
            raise TypeError(
                f"{cls.name} needs the parameter call_jaxpr, a jaxpr, got {jaxpr!r}"
            )
        return cls(jaxpr, tuple(sorted(others.items())))

    def params(self) -> dict[str, Any]:
        return {"call_jaxpr": self.jaxpr, **dict(self.items)}


def create_call_primitive(name: str, inline_jax_late: bool = True) -> Primitive:
    """A primitive that applies its parameter `call_jaxpr`.

    It is evaluated, compiled, differentiated and batched as the jaxpr is, and stays a
    call of that name in jaxprs. Other parameters are kept as they are.

    Args:
      name: the primitive's name.
      inline_jax_late: whether JAX inlines the call when lowering. The compiled code is
        the same here.

    Returns:
      The primitive.

    Raises:
      TypeError: when it is bound without a jaxpr.

    >>> import curta
    >>> from curta.extend.core import create_call_primitive
    >>> layer_p = create_call_primitive("layer")
    >>> body = curta.make_jaxpr(lambda x: [2 * x])(1.0)
    >>> layer_p.bind(3.0, call_jaxpr=body)
    [Array(6., dtype=float32, weak_type=True)]
    >>> curta.make_jaxpr(lambda x: layer_p.bind(x, call_jaxpr=body))(1.0)
    { lambda ; a:f32[]. let
        b:f32[] = layer[
          call_jaxpr={ lambda ; c:f32[]. let d:f32[] = mul 2.0:f32[] c in (d,) }
        ] a
      in (b,) }
    """
    primitive = Primitive(name)
    register_call_primitive_rules(primitive, name, inline_jax_late=inline_jax_late)
    return primitive


def register_call_primitive_rules(
    prim: Primitive,
    name: str | None = None,
    transpose_rule: Callable[..., Any] | None = None,
    inline_jax_late: bool = True,
) -> None:
    """Let `prim` apply its parameter `call_jaxpr`; see `create_call_primitive`.

    Args:
      prim: a primitive that was made from a name.
      name: the name that compiled programs show. None (default) is its own.
      transpose_rule: must be None (default): calls are transposed as their jaxprs.
      inline_jax_late: as for `create_call_primitive`.

    Returns:
      None.

    Raises:
      NotImplementedError: a `transpose_rule` is given.

    >>> import curta
    >>> from curta.extend.core import Primitive, register_call_primitive_rules
    >>> block_p = Primitive("block")
    >>> register_call_primitive_rules(block_p)
    >>> body = curta.make_jaxpr(lambda x: [x**3])(1.0)
    >>> curta.grad(lambda x: block_p.bind(x, call_jaxpr=body)[0])(2.0)
    Array(12., dtype=float32, weak_type=True)
    """
    if transpose_rule is not None:
        raise NotImplementedError(
            f"{prim.name} cannot have a transpose rule for accumulators of cotangents:"
            " calls of jaxprs are transposed by the ops in them."
        )
    body = {"name": prim.name, "primitive": prim, "__module__": "primitives"}
    prim.op_class = type(prim.name, (NamedCall,), body)


def eval_jaxpr_transpose(
    prim: Primitive, ct: Any, *args: Any, call_jaxpr: Any, **params: Any
) -> dict[Any, Any]:
    """Add the cotangents of a call's linear operands to their accumulators.

    Args:
      prim: the primitive of a call.
      ct: a cotangent for each result.
      args: the operands; for the linear ones an accumulator, an object with an `aval`
        and a method `accum`.
      call_jaxpr: the call's jaxpr.
      params: its other parameters.

    Returns:
      An empty dict: nothing is logged.

    Raises:
      TypeError: `call_jaxpr` is not a jaxpr.

    >>> import curta
    >>> from curta.extend.core import create_call_primitive, eval_jaxpr_transpose
    >>> class Total:
    ...     aval, value = curta.typeof(1.0), 0.0
    ...     def accum(self, x):
    ...         self.value += x
    >>> times_p, total = create_call_primitive("times"), Total()
    >>> body = curta.make_jaxpr(lambda x, y: [x * y])(1.0, 1.0)
    >>> eval_jaxpr_transpose(times_p, [3.0], 2.0, total, call_jaxpr=body)
    {}
    >>> print(total.value)
    6.0
    """
    op = prim.with_params(call_jaxpr=call_jaxpr, **params)
    linear = [LinearArg(x.aval) if hasattr(x, "accum") else x for x in args]
    for x, cotangent in zip(args, op.transpose(ct, *linear), strict=True):
        if hasattr(x, "accum") and cotangent is not None:
            x.accum(cotangent)
    return {}
