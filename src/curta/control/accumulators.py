"""Accumulators: what backward rules of a program's own add cotangents to."""

from __future__ import annotations

from typing import Any

from curta.core.avals import ShapedArray
from curta.core.refs import AbstractRef, Ref, addupdate, invalidate, read
from curta.core.tangents import Zero
from curta.core.trace import typeof
from curta.primitives.structure import add_tangents, zeros


class GradAccum:
    """Base of the accumulators of cotangents; `aval` is the type of these."""

    aval: Any

    def accum(self, x: Any) -> None:
        """Add a cotangent; None and `Zero` add nothing."""
        raise NotImplementedError(f"{type(self).__name__}.accum")

    def freeze(self) -> Any:
        """Return the sum of all that was added: `Zero` for nothing."""
        raise NotImplementedError(f"{type(self).__name__}.freeze")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.aval})"


class ValAccum(GradAccum):
    """The sum of cotangents as a value.

    >>> import curta
    >>> from curta.experimental import hijax
    >>> total = hijax.ValAccum(curta.typeof(1.0))
    >>> total.accum(2.0), total.accum(3.0)
    (None, None)
    >>> total.freeze()
    Array(5., dtype=float32, weak_type=True)
    """

    val: Any

    def __init__(self, aval: Any, val: Any = None):
        self.aval = aval
        self.val = Zero(aval) if val is None else val
        _check(self, self.val)

    def accum(self, x: Any) -> None:
        if x is not None:
            _check(self, x)
            self.val = add_tangents(self.val, x)

    def freeze(self) -> Any:
        return self.val


class RefAccum(GradAccum):
    """The sum of cotangents in a reference, which is made when the first is added.

    >>> import curta
    >>> from curta.experimental import hijax
    >>> ref = curta.new_ref(1.0)
    >>> hijax.RefAccum(curta.typeof(1.0), ref).accum(2.0)
    >>> ref[...]
    Array(3., dtype=float32, weak_type=True)
    """

    ref: Any

    def __init__(self, aval: Any, ref: Any = None):
        self.aval = aval
        self.ref = ref

    def accum(self, x: Any) -> None:
        if x is None or isinstance(x, Zero):
            return
        if self.ref is None:
            self.ref = Ref(AbstractRef(typeof(x)), x)
        else:
            _check(self, x)
            addupdate(self.ref, x)

    def freeze(self) -> Any:
        if self.ref is None:
            return Zero(self.aval)
        value = read(self.ref)
        invalidate(self.ref)
        return value

    def inst(self) -> RefAccum:
        """Make the reference, of zeros, if there is none yet; the accumulator."""
        if self.ref is None:
            self.ref = Ref(AbstractRef(self.aval), zeros(self.aval))
        return self


class NullAccum(GradAccum):
    """What takes the place of an accumulator where no cotangent is wanted.

    >>> import curta
    >>> from curta.experimental import hijax
    >>> hijax.NullAccum(curta.typeof(1.0)).accum(2.0)
    """

    def __init__(self, aval: Any):
        self.aval = aval

    def accum(self, x: Any) -> None:
        """Drop a cotangent."""


def _check(accum: Any, ct: Any) -> None:
    """Raise ValueError for a cotangent of another type."""
    have = ct.aval if type(ct) is Zero else typeof(ct)
    want = accum.aval
    if type(have) is ShapedArray and type(want) is ShapedArray:
        same = have.shape == want.shape
    else:
        same = have == want
    if not same:
        raise ValueError(
            f"Expected cotangent type {want.str_short()} but got {have.str_short()}"
        )
