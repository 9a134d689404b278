"""Notes on errors: what to do about them, and which function they come from.

They are added where an error is shown because nobody caught it, or where its traceback
is shortened, so that nothing is asked of programs that run.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Iterable
from types import CodeType, FrameType, ModuleType, TracebackType
from typing import Any

from curta._base.substitutes import OF_ARRAYS, OF_MODULES
from curta.core.array import Array

_BESIDE_JAX = (
    "JAX itself runs in this program, beside Curta. Libraries that are written for JAX"
    " run on Curta after `import curta.as_jax`, before they are imported, or under"
    " `curta run`."
)


# Packages whose functions users do not call; those of `curta.api` are in `curta`.
_INTERNAL = frozenset(
    f"curta.{name}"
    for name in ("command_line", "control", "core", "primitives", "runtime")
)
_UPDATE = (
    "x.at[index] has methods: .set(value), .add(value), .get() and others, which give a"
    " new array."
)
# What messages of Python and NumPy do not say, by what they match.
_OF_MESSAGES: tuple[tuple[type[BaseException], str, str], ...] = (
    (TypeError, r"IndexedUpdate'|'IndexUpdater'", _UPDATE),
    (
        TypeError,
        r"unsupported format string passed to \w*Tracer\.",
        "A traced value has no digits yet: curta.debug.print('{:.2f}', x) formats it"
        " when the program runs.",
    ),
    (
        TypeError,
        r"unhashable type: 'ArrayImpl'",
        "Arrays are no keys of dicts and sets: x.item() is a number, x.tobytes() says"
        " all elements.",
    ),
    (
        TypeError,
        r"does not accept dtypes? .*key<",
        "Random keys are not numbers: curta.random.split(key) and"
        " curta.random.fold_in(key, number) make others of them.",
    ),
    (
        OverflowError,
        r"out of bounds for u?int\d+$|encountered while parsing an argument",
        "Give the array a wider dtype, or enable 64-bit types with jax_enable_x64.",
    ),
    (
        TypeError,
        r"^minimize\(\) (missing .*'method'|got an .*'(bounds|constraints|jac|hess)')",
        "The method here is BFGS. SciPy's take exact gradients:"
        " scipy.optimize.minimize(jit(value_and_grad(fun)), x0, jac=True).",
    ),
    (
        TypeError,
        r"^ufunc '\w+' did not contain a loop .*float0",
        "float0 is the type of gradients by integers, which are no numbers. Take those"
        " by floats (argnums, or x.astype(float)), or leave these leaves out.",
    ),
    (
        RuntimeError,
        r"^Array has been deleted",
        "It was donated to a call (donate_argnums), or deleted by x.delete(): use the"
        " call's result, or do not donate what is needed later.",
    ),
)


def add_remedy(error: BaseException) -> None:
    """Add a note to an error if there is something to say about it."""
    remedy = (
        _of_attribute(error)
        or _of_import(error)
        or _of_two_libraries(error)
        or _of_message(error)
    )
    if remedy and remedy not in getattr(error, "__notes__", ()):
        error.add_note(remedy)


def name_function(error: BaseException, steps: Iterable[TracebackType]) -> None:
    """Note which public function was called, unless the message has its name.

    Args:
        error: the error.
        steps: its traceback from the last line of the user on, outermost first.
    """
    name = next(filter(None, (_public_name(x.tb_frame) for x in steps)), None)
    if name is None or name.rpartition(".")[2] in re.findall(r"\w+", str(error)):
        return
    note = f"It was raised in {name}."
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


def _public_name(frame: FrameType) -> str | None:
    """The name under which users know the function of a frame, if they do."""
    module, function = str(frame.f_globals.get("__name__")), frame.f_code.co_name
    shortest = None
    while (module := module.rpartition(".")[0]) and module not in _INTERNAL:
        public = getattr(sys.modules.get(module), function, None)
        if public is not None and _code(public) is frame.f_code:
            shortest = f"{module}.{function}"
    return shortest


def _code(function: Any) -> CodeType | None:
    function = getattr(function, "_func", function)  # of a ufunc
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code if isinstance(code, CodeType) else None


def _of_attribute(error: BaseException) -> str | None:
    if not isinstance(error, AttributeError):
        return None
    if isinstance(error.obj, Array):
        return OF_ARRAYS.get(error.name or "")
    match = re.fullmatch(r"module '([\w.]*)' has no attribute '(\w+)'", str(error))
    if match is None:
        return None
    module, name = match.groups()
    if module.startswith("curta.scipy"):
        return _of_scipy(module.removeprefix("curta."), name)
    return OF_MODULES.get(module, {}).get(name)


def _of_scipy(module: str, name: str) -> str:
    return f"Where SciPy has {module}.{name}, it takes arrays of Curta, outside of jit."


def _of_import(error: BaseException) -> str | None:
    """What the package would say if the name were its attribute."""
    if not isinstance(error, ImportError) or error.name is None:
        return None
    if isinstance(error, ModuleNotFoundError):
        package, _, name = error.name.rpartition(".")
    else:
        match = re.match(r"cannot import name '(\w+)'", error.msg or "")
        package, name = error.name, match[1] if match else ""
    module = sys.modules.get(package)
    if package.startswith("curta.scipy") and name:
        return _of_scipy(package.removeprefix("curta."), name)
    if not package.startswith("curta") or module is None or not name:
        return None
    try:
        getattr(module, name)
    except AttributeError as error:
        _, dot, remedy = str(error).partition(". ")
        return remedy if dot else None
    return None


def _of_message(error: BaseException) -> str | None:
    for kind, pattern, remedy in _OF_MESSAGES:
        if isinstance(error, kind) and re.search(pattern, str(error)):
            return remedy
    return None


def _of_two_libraries(error: BaseException) -> str | None:
    jax = sys.modules.get("jax")
    if jax is None or "curta.as_jax" in sys.modules:
        return None
    is_beside = "'jaxlib." in str(error) or _in_library(error.__traceback__, jax)
    return _BESIDE_JAX if is_beside else None


def _in_library(trace: TracebackType | None, jax: ModuleType) -> bool:
    """Whether an error went through JAX, or a library that imports it."""
    while trace is not None:
        known = trace.tb_frame.f_globals
        name = str(known.get("__name__"))
        if name != "__main__" and (known.get("jax") is jax or name.startswith("jax.")):
            return True
        trace = trace.tb_next
    return False
