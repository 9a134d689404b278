"""The names of JAX's bridge to TensorFlow; there is none here.

Libraries import them for what they offer besides. Calling them raises
NotImplementedError, which names `curta.export`.
"""

from __future__ import annotations

from typing import Any, NoReturn

from curta._base.on_demand import Listing, listed

__all__ = [
    "DisabledSafetyCheck",
    "PolyShape",
    "call_tf",
    "convert",
    "dtype_of_val",
    "eval_polymorphic_shape",
    "split_to_logical_devices",
]
__dir__: Listing = listed(__all__)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        f"jax2tf.{name}: Curta's compiler makes machine code and no TensorFlow graphs."
        " To keep a function and call it in another program, use curta.export; values"
        " pass between Curta and TensorFlow as NumPy arrays or by DLPack."
    )


def convert(fun_jax: Any, *args: Any, **options: Any) -> NoReturn:
    """Would give a TensorFlow function.

    Args:
      fun_jax: a function of arrays.
      args, options: JAX's.

    Returns:
      Nothing, as there are no TensorFlow graphs here.

    Raises:
      NotImplementedError: always.

    Example:
      >>> from curta.experimental import jax2tf
      >>> jax2tf.convert(lambda x: x + 1)
      Traceback (most recent call last):
      ...
      NotImplementedError: jax2tf.convert: Curta's compiler makes machine code ...
    """
    _refuse("convert")


def call_tf(callable_tf: Any, *args: Any, **options: Any) -> NoReturn:
    """Would call a TensorFlow function.

    Args:
      callable_tf: a TensorFlow function.
      args, options: JAX's.

    Returns:
      Nothing, as there are no TensorFlow graphs here.

    Raises:
      NotImplementedError: always.

    Example:
      >>> from curta.experimental import jax2tf
      >>> jax2tf.call_tf(print)
      Traceback (most recent call last):
      ...
      NotImplementedError: jax2tf.call_tf: Curta's compiler makes machine code ...
    """
    _refuse("call_tf")


def dtype_of_val(val: Any) -> NoReturn:
    """Would give the dtype of a TensorFlow value; raises NotImplementedError."""
    _refuse("dtype_of_val")


def eval_polymorphic_shape(fun_jax: Any, **options: Any) -> NoReturn:
    """Would give shapes of results; raises NotImplementedError."""
    _refuse("eval_polymorphic_shape")


def split_to_logical_devices(tensor: Any, partition_dimensions: Any) -> NoReturn:
    """Would split a TensorFlow value; raises NotImplementedError."""
    _refuse("split_to_logical_devices")


class PolyShape(tuple[str, ...]):
    """Would describe symbolic shapes; raises NotImplementedError."""

    def __new__(cls, *dim_specs: str) -> NoReturn:
        _refuse("PolyShape")


class DisabledSafetyCheck:
    """Would name a check to leave out; raises NotImplementedError."""

    def __new__(cls, *args: Any) -> NoReturn:
        _refuse("DisabledSafetyCheck")
