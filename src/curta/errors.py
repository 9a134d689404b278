"""The exceptions that Curta raises, under JAX's names.

Every class keeps the base classes and the opening words that JAX users know, so
that ``except jax.errors.X`` and a search for the message both keep working after
the import is changed. A remedy follows as the last lines of the message.

Tracers are duck-typed here, because this module is in a lower layer than tracers: an
error asks a tracer for ``_error_repr()`` (what it is) and ``_origin_msg()`` (where it
came from, starting with a newline or empty).
"""

from __future__ import annotations

import copyreg
import math
from typing import Any, Protocol

from curta._base.on_demand import Listing, listed
from curta._base.pages import page
from curta._base.uncaught import before_shown

__all__ = [
    "ConcretizationTypeError",
    "ForbiddenCollectiveError",
    "InconclusiveDimensionOperation",
    "JAXIndexError",
    "JAXTypeError",
    "JaxRuntimeError",
    "JaxprTypeError",
    "KeyReuseError",
    "MissingRule",
    "NonConcreteBooleanIndexError",
    "ShardingTypeError",
    "TracerArrayConversionError",
    "TracerBoolConversionError",
    "TracerIntegerConversionError",
    "TypePromotionError",
    "UnexpectedTracerError",
]
__dir__: Listing = listed(__all__)


class DescribedTracer(Protocol):
    """The methods of a tracer that error messages use."""

    def _error_repr(self) -> str: ...

    def _origin_msg(self) -> str: ...


class _DocumentedError(Exception):
    """An error whose message ends with its page in the documentation and a remedy."""

    _remedy = ""

    def __init__(self, message: str) -> None:
        kinds = (k for k in type(self).__mro__ if k.__module__ == __name__)
        link = f"See {page('errors', next(kinds).__name__.lower())}"
        super().__init__("\n".join(filter(None, [message, link, self._remedy])))

    def __reduce__(self) -> tuple[Any, ...]:
        # The message is complete already; going through __init__ would extend it.
        return copyreg.__newobj__, (type(self), *self.args)  # type: ignore[attr-defined]


class JAXTypeError(_DocumentedError, TypeError):
    """A ``TypeError`` about the way values flow through a transformation.

    >>> import curta
    >>> issubclass(curta.errors.TracerArrayConversionError, curta.errors.JAXTypeError)
    True
    """


class JAXIndexError(_DocumentedError, IndexError):
    """An ``IndexError`` about the way values flow through a transformation.

    >>> import curta
    >>> class TooFar(curta.errors.JAXIndexError):
    ...     pass
    >>> issubclass(TooFar, IndexError)
    True
    """


class ConcretizationTypeError(JAXTypeError):
    """A traced value was used where its concrete value is needed.

    While a function is traced, only the shape and dtype of its arguments are known.
    Anything that needs the number itself (an axis, a shape, a Python ``if``) cannot
    be answered.

    Example:
        >>> import curta
        >>> @curta.jit
        ... def take(x, axis):
        ...     return x.min(axis)
        >>> take(curta.numpy.arange(4), 0)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        ConcretizationTypeError: Abstract tracer value encountered ...

    ``jit(take, static_argnames="axis")`` makes ``axis`` an ordinary integer.
    """

    _remedy = (
        "To fix it: mark the argument as static (static_argnums or static_argnames "
        "of jit), or compute the value outside the transformed function."
    )

    def __init__(
        self, tracer: DescribedTracer, context: str = "", remedy: str = ""
    ) -> None:
        self._remedy = remedy or self._remedy
        super().__init__(
            "Abstract tracer value encountered where concrete value is expected: "
            f"{tracer._error_repr()}\n{context}{tracer._origin_msg()}\n"
        )


class TracerBoolConversionError(ConcretizationTypeError):
    """A traced value was asked for its truth: ``if``, ``while``, ``and``, ``min`` ...

    Example:
        >>> import curta
        >>> @curta.jit
        ... def absolute(x):
        ...     return x if x > 0 else -x
        >>> absolute(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        TracerBoolConversionError: Attempted boolean conversion of traced array ...

    ``curta.numpy.where(x > 0, x, -x)`` says the same without a Python branch.
    """

    _remedy = (
        "To fix it: choose between values with curta.numpy.where, branch with "
        "lax.cond, loop with lax.while_loop, or mark the argument as static."
    )

    def __init__(self, tracer: DescribedTracer, remedy: str = "") -> None:
        self._remedy = remedy or self._remedy
        JAXTypeError.__init__(
            self,
            f"Attempted boolean conversion of {tracer._error_repr()}."
            f"{tracer._origin_msg()}",
        )


class TracerArrayConversionError(JAXTypeError):
    """A traced value was handed to a function of NumPy itself.

    Example:
        >>> import curta, numpy
        >>> curta.jit(numpy.sin)(1.0)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        TracerArrayConversionError: The numpy.ndarray conversion method ...
    """

    _remedy = (
        "To fix it: call the function of the same name in curta.numpy; to index a "
        "NumPy array with a traced value, convert the array with "
        "curta.numpy.asarray first."
    )

    def __init__(self, tracer: DescribedTracer) -> None:
        super().__init__(
            "The numpy.ndarray conversion method __array__() was called on "
            f"{tracer._error_repr()}{tracer._origin_msg()}"
        )


class TracerIntegerConversionError(JAXTypeError):
    """A traced value was used as a Python integer: a list index, a length, an axis.

    Example:
        >>> import curta
        >>> curta.jit(lambda i: [1, 2, 3][i])(0)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        TracerIntegerConversionError: The __index__() method was called on ...
    """

    _remedy = (
        "To fix it: mark the argument as static (static_argnums of jit), or turn the "
        "list that is indexed into an array of curta.numpy."
    )

    def __init__(self, tracer: DescribedTracer) -> None:
        super().__init__(
            "The __index__() method was called on "
            f"{tracer._error_repr()}{tracer._origin_msg()}"
        )


class NonConcreteBooleanIndexError(JAXIndexError):
    """A traced boolean mask was used as an index, so the result has no known shape.

    Example:
        >>> import curta
        >>> x = curta.numpy.arange(-2, 3)
        >>> curta.jit(lambda x: x[x > 0])(x)  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        NonConcreteBooleanIndexError: Array boolean indices must be concrete ...
    """

    _remedy = (
        "To fix it: keep the full shape with curta.numpy.where(mask, x, fill), or fix "
        "the size of the result with curta.numpy.nonzero(mask, size=...)."
    )

    def __init__(self, tracer: object) -> None:
        super().__init__(f"Array boolean indices must be concrete; got {tracer}\n")


class UnexpectedTracerError(JAXTypeError):
    """A tracer was used after the transformation that made it had ended.

    Example:
        >>> import curta
        >>> leaked = []
        >>> curta.jit(lambda x: leaked.append(x + 1))(1)
        >>> leaked[0] + 1  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        UnexpectedTracerError: Encountered an unexpected tracer ...
    """

    _remedy = (
        "To fix it: return the value from the transformed function instead of storing "
        "it in a global, an attribute or a list; curta.checking_leaks() finds the "
        "list or attribute where it is stored."
    )


class KeyReuseError(JAXTypeError):
    """A random key was used twice while ``jax_debug_key_reuse`` is on.

    >>> import curta
    >>> key = curta.random.key(0)
    >>> with curta.debug_key_reuse(True):
    ...     x = curta.random.normal(key)
    ...     y = curta.random.normal(key)
    Traceback (most recent call last):
        ...
    curta.errors.KeyReuseError: Previously-consumed key passed to ...
    """

    _remedy = "To fix it: make a key for every use with curta.random.split(key)."

    def __init__(self, message: str, remedy: str = "") -> None:
        self._remedy = remedy or self._remedy
        self.finding = f"{message}\n{self._remedy}"  # without the page
        super().__init__(message)


class JaxprTypeError(TypeError):
    """A jaxpr breaks its typing rules; raised by the checker, never by user input.

    >>> import curta
    >>> issubclass(curta.errors.JaxprTypeError, TypeError)
    True
    """


class ShardingTypeError(Exception):
    """How arrays are split over explicit mesh axes does not fit an operation.

    >>> import curta
    >>> from curta import numpy as jnp, P
    >>> with curta.set_mesh(curta.make_mesh((1,), ("i",))):
    ...     x = curta.device_put(jnp.ones((2, 2)), P("i"))
    ...     jnp.add(x, curta.device_put(jnp.ones((2, 2)), P(None, "i")))
    Traceback (most recent call last):
        ...
    curta.errors.ShardingTypeError: add operation with inputs: f32[2@i,2], ...
    """


class ForbiddenCollectiveError(Exception):
    """Devices would wait for each other along an axis for which that is forbidden.

    >>> import curta
    >>> issubclass(curta.errors.ForbiddenCollectiveError, Exception)
    True
    """


class JaxRuntimeError(RuntimeError):
    """A compiled computation failed while it ran.

    >>> import curta
    >>> issubclass(curta.errors.JaxRuntimeError, RuntimeError)
    True
    """


class OutOfMemoryError(JaxRuntimeError, MemoryError):
    """The system has not the memory for an array, or for what a program works in.

    `shape` and `dtype` are those of the array, None for a program's temporaries.
    """

    def __init__(
        self, size: int, shape: tuple[int, ...] | None = None, dtype: Any = None
    ):
        self.size = size
        self.shape = shape
        self.dtype = dtype
        text = f"RESOURCE_EXHAUSTED: Out of memory allocating {size} bytes"
        if shape is not None:
            text += f" for an array of {dtype}[{','.join(map(str, shape))}]"
        super().__init__(f"{text}.")

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.size, self.shape, self.dtype)


class DeletedArrayError(RuntimeError, ValueError):
    """The elements of an array are gone: it was donated to a call, or deleted.

    JAX raises RuntimeError for most uses, and ValueError, until 0.11, where such an
    array is passed to a function that was compiled before.
    """

    def __init__(self, kind: str):
        super().__init__(f"Array has been deleted with shape={kind}.")


class CancelledError(JaxRuntimeError):
    """A computation was canceled because a signal interrupted its caller."""

    def __init__(self, kind: str):
        super().__init__(
            f"CANCELLED: the computation of an array with shape={kind} was interrupted"
            " by a signal."
        )


def as_out_of_memory(error: MemoryError) -> MemoryError:
    """NumPy's error for want of memory as an `OutOfMemoryError`; others as they are."""
    shape, dtype = getattr(error, "shape", None), getattr(error, "dtype", None)
    if shape is None or dtype is None:
        return error
    return OutOfMemoryError(math.prod(shape) * dtype.itemsize, shape, dtype)


class AdviceWarning(UserWarning):
    """A program works, and is slower or less exact than it may have to be.

    The setting `curta_advice` silences or raises each kind.

    >>> import numpy as np, curta, curta.numpy as jnp
    >>> with curta.advice("float64=raise"):
    ...     jnp.asarray(np.ones(3))
    Traceback (most recent call last):
        ...
    curta.errors.AdviceWarning: A NumPy array of float64, of shape (3,), became ...
    """


@before_shown
def _show_alone(error: BaseException) -> None:
    """Where a variable of the environment was read tells the user nothing."""
    if isinstance(error, EnvironmentValueError):
        error.__traceback__ = error.__cause__ = None


class EnvironmentValueError(ValueError):
    """A variable of the environment has a value that its setting cannot have.

    Importing curta raises it. If it is not caught, it is shown without a traceback.

    >>> import curta
    >>> issubclass(curta.errors.EnvironmentValueError, ValueError)
    True
    """


class TypePromotionError(ValueError):
    """Operand dtypes have no common dtype to which they promote implicitly.

    >>> import curta
    >>> from curta import numpy as jnp
    >>> with curta.numpy_dtype_promotion("strict"):
    ...     jnp.int32(1) + jnp.float32(1)
    Traceback (most recent call last):
        ...
    curta.errors.TypePromotionError: Input dtypes ... have no available ...
    """


class CustomVJPException(Exception):
    """A `custom_vjp` function is differentiated with respect to what it closes over.

    >>> import curta
    >>> def scaled(y):
    ...     @curta.custom_vjp
    ...     def f(x):
    ...         return x * y
    ...     f.defvjp(lambda x: (x * y, None), lambda _, ct: (ct * y,))
    ...     return f(2.0)
    >>> curta.grad(curta.jit(scaled))(3.0)
    Traceback (most recent call last):
        ...
    curta.errors.CustomVJPException: Detected differentiation of a custom_vjp ...
    """

    def __init__(self) -> None:
        super().__init__(
            "Detected differentiation of a custom_vjp function with respect to a"
            " closed-over value. That isn't supported because the custom VJP rule only"
            " specifies how to differentiate the custom_vjp function with respect to"
            " explicit input parameters. Try passing the closed-over value into the"
            " custom_vjp function as an argument, and adapting the custom_vjp fwd and"
            " bwd rules."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


class InconclusiveDimensionOperation(Exception):
    """An operation on symbolic dimensions has no one answer for all their values.

    Example:
        >>> from curta import export
        >>> b, = export.symbolic_shape("b")
        >>> b >= 1  # dimension variables are at least 1
        True
        >>> b >= 2  # doctest: +IGNORE_EXCEPTION_DETAIL
        Traceback (most recent call last):
        InconclusiveDimensionOperation: Symbolic dimension comparison 'b' >= '2' ...
    """

    def __init__(self, message: str) -> None:
        super().__init__(
            f"{message}\nThis error arises for comparison operations with shapes that"
            " are non-constant, and the result of the operation cannot be represented"
            " as a boolean value for all values of the symbolic dimensions involved.\n"
            "To fix it: state what is known of the dimensions, as the `constraints` of"
            " symbolic_shape or symbolic_args_specs."
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # The message is complete already.
        return copyreg.__newobj__, (type(self), *self.args)  # type: ignore[attr-defined]


class MissingRule(NotImplementedError):
    """An op lacks the rule a transformation needs; names class, rule and file.

    >>> import curta
    >>> issubclass(curta.errors.MissingRule, NotImplementedError)
    True
    """
