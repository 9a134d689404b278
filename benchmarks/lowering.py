"""Time to lower: from a function that was not traced before to its StableHLO as text.

The programs are those of the first calls. Both libraries cache inner functions
(`jnp.matmul`, `nn.softmax`) between lowerings; the caches are not cleared here.
"""

from collections.abc import Callable
from typing import Any

from benchmarks.first_calls import HEAD, PROGRAMS
from benchmarks.harness import Case, Thunk

TARGET = 0.5


def _program(text: str, lib: Any) -> tuple[Callable[..., Any], list[Any]]:
    """The function and its arguments that a row's lines define."""
    names: dict[str, Any] = {}
    exec(HEAD.format(lib=lib.__name__) + text, names)
    return names["f"], names["args"]


def _lowering(text: str) -> Callable[[Any], Thunk]:
    def make(lib: Any) -> Thunk:
        function, args = _program(text, lib)

        def lower() -> int:
            lowered = lib.jit(lambda *xs: function(*xs)).lower(*args)
            assert lowered.as_text().startswith("module @jit")
            return len(lib.tree.leaves(lowered.out_info))

        return lower

    return make


LOWERINGS = [
    Case(f"lower: {name}", _lowering(text), TARGET) for name, text in PROGRAMS.items()
]
