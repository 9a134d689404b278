"""What runs a program: the interface of all executables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from curta.compiler.machine_code.native import NativeProgram
from curta.core.jaxpr import Eqn
from curta.runtime.queue import Pending


class Executable:
    """A function of the storage of arguments to that of results, ready to run.

    NumPy arrays are C-contiguous, and of the physical dtypes of the jaxpr's avals; on
    devices of a plugin storage is `DeviceData`. Any function will do: what else is
    asked of an executable is answered here as it holds for one that runs to its end
    when it is called.
    """

    is_async: bool = False
    """Whether calls are left to the queue."""
    measured: bool = False
    """Whether the last call says how long the next one takes."""
    lingers: bool = False
    """Whether calls may take so long that signals would wait for their end."""
    borrows: bool = False
    """Whether it reads NumPy arrays where they are, which may not be aligned."""
    overwrites: Mapping[int, int] = {}
    """The results that lie in the memory of an argument, and which one that is."""
    native: NativeProgram | None = None
    """The program that is all there is to a call, for native code."""
    temporary_bytes: int = 0
    """The memory of a call besides arrays; 0 where nobody knows it beforehand."""

    collectives: Sequence[Eqn] = ()
    """The collectives between hosts, in the order in which it begins them."""

    def __init__(self, run: Callable[..., Sequence[Any]], temporary_bytes: int = 0):
        self._run = run
        self.temporary_bytes = temporary_bytes

    def __call__(self, *args: Any) -> Sequence[Any]:
        return self._run(*args)

    def start(self, args: Sequence[Any], borrowed: Sequence[int] = ()) -> Sequence[Any]:
        """The results, or pending ones if the call was left to the queue.

        It is if it takes long, or if an argument is pending. `borrowed` are arguments
        that may change after the return; they are copied unless that would take long.
        """
        return self(*[x.wait() if type(x) is Pending else x for x in args])

    def on_ready(self) -> Callable[..., Sequence[Any]]:
        """A call on arguments none of which is pending; started if it may last."""
        return self
