"""Functions and classes that run on the hosts of their arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from curta.core.mesh import Mesh
from curta.experimental.colocated_python.func import ColocatedFunction


def colocated_cpu_devices(devices_or_mesh: Any) -> Any:
    """The CPU devices of the hosts of devices, or of a mesh; a CPU device is its own.

    >>> import curta
    >>> from curta.experimental import colocated_python
    >>> colocated_python.colocated_cpu_devices(curta.devices())
    (CpuDevice(id=0),)
    """
    return devices_or_mesh if isinstance(devices_or_mesh, Mesh) else (*devices_or_mesh,)


def colocated_python(fun: Callable[..., Any]) -> ColocatedFunction:
    """Run `fun`, a function of arrays to arrays, on the hosts of its arguments.

    >>> import curta
    >>> from curta.experimental import colocated_python
    >>> @colocated_python.colocated_python
    ... def twice(x):
    ...     return curta.device_put(2 * x, x.sharding)
    >>> print(twice(curta.numpy.arange(3)))
    [0 2 4]
    """
    return ColocatedFunction(fun)


def colocated_python_class(cls: type) -> type:
    """A class whose objects are created when one of their methods is first called.

    >>> import curta
    >>> from curta.experimental import colocated_python
    >>> @colocated_python.colocated_python_class
    ... class Sum:
    ...     def __init__(self):
    ...         self.total = curta.numpy.zeros(())
    ...     def add(self, x):
    ...         self.total += x
    ...         return self.total
    >>> of = Sum()
    >>> _, second = of.add(curta.numpy.ones(())), of.add(curta.numpy.ones(()))
    >>> print(second)
    2.0
    """

    class Colocated:
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made: list[Any] = []

            def method(name: str) -> ColocatedFunction:
                @functools.wraps(getattr(cls, name))
                def call(*args_: Any, **kwargs_: Any) -> Any:
                    if not made:
                        made.append(cls(*args, **kwargs))
                    return getattr(made[0], name)(*args_, **kwargs_)

                return ColocatedFunction(call)

            for name, _ in inspect.getmembers(cls, inspect.isfunction):
                if name not in ("__init__", "__del__", "__reduce__", "__reduce_ex__"):
                    setattr(self, name, method(name))

    Colocated.__name__, Colocated.__doc__ = cls.__name__, cls.__doc__
    return Colocated
