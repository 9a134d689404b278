"""Primitives that apply a function given as `subfuns`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from curta.control.core_call import ClosedCoreCall, CoreCall
from curta.core.primitive import Primitive
from curta.core.stage import stage
from curta.core.trace import typeof
from curta.extend.linear_util import WrappedFun
from curta.transforms.partial_eval import residuals_as_inputs


class CallPrimitive(Primitive):
    """A primitive that calls a flat function.

    >>> import curta
    >>> from curta.extend.core.primitives import call_p
    >>> from curta.extend.linear_util import wrap_init
    >>> twice = wrap_init(lambda x: [2 * x])
    >>> call_p.bind(3.0, subfuns=(twice,))
    [Array(6., dtype=float32, weak_type=True)]
    >>> jaxpr = curta.make_jaxpr(lambda x: call_p.bind(x, subfuns=(twice,)))(1.0)
    >>> jaxpr.eqns[0].primitive
    core_call
    """

    call_primitive = True

    def bind(
        self, *args: Any, subfuns: Sequence[WrappedFun] = (), **params: Any
    ) -> Any:
        """The outputs of `subfuns[0]`, a function of flat values to a flat list."""
        if not subfuns:
            return super().bind(*args, **params)
        (fun,) = subfuns
        closed = stage(fun.call_wrapped, [typeof(x) for x in args], fun.debug_info)
        closed, consts = residuals_as_inputs(closed)
        return self.with_params(jaxpr=closed)(*consts, *args)


def call_impl(f: WrappedFun, *args: Any, **params: Any) -> Any:
    """The outputs of the function of a call; its parameters change nothing.

    >>> from curta.extend.linear_util import wrap_init
    >>> call_impl(wrap_init(lambda x: [2 * x]), 3)
    [6]
    """
    return f.call_wrapped(*args)


call_p: CallPrimitive = CallPrimitive(CoreCall)
closed_call_p: CallPrimitive = CallPrimitive(ClosedCoreCall)
