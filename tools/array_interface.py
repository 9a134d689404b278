"""Write src/curta/core/array_interface.pyi: the methods of arrays for type checkers.

    python tools/array_interface.py            # write the file
    python tools/array_interface.py --check    # fail if the file is not up to date

numpy/operators.py attaches arithmetic and methods to `Array`, and the runtime gives its
arrays more; no type checker sees either. The file is made from them, and read by type
checkers only.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from curta.core.array import Array
from curta.numpy import operators
from curta.numpy.index_update import IndexedUpdate, IndexUpdater
from curta.runtime.array import ArrayImpl

FILE = Path(__file__).parent.parent / "src/curta/core/array_interface.pyi"
HEADER = '''"""The methods of arrays as type checkers see them.

Made by tools/array_interface.py from what is attached to `Array`: do not edit.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from curta.core.array import {names}
'''
PLAIN = (str, int, float, type(None))
TYPES = ("Array", "ArrayLike", "DTypeLike", "Shape")
KNOWN = {
    *("Any", "Array", "ArrayLike", "Callable", "DTypeLike", "Iterator", "None"),
    *("Sequence", "Shape", "bool", "bytes", "complex", "dict", "float", "int", "list"),
    *("memoryview", "set", "str", "tuple", "IndexedUpdate", "IndexUpdater"),
}


def annotation(text: Any) -> str:
    """An annotation of the source in names that the file has, or else Any."""
    if text is inspect.Signature.empty:
        return "Any"
    text = "None" if text is None else str(text)
    text = text.replace("ArrayImpl", "Array")
    names = {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)}
    attributes = any(isinstance(n, ast.Attribute) for n in ast.walk(ast.parse(text)))
    return "Any" if attributes or names - KNOWN else text


def method(name: str, function: Callable[..., Any], returns: str = "") -> str:
    """The line that declares a method, whose first parameter is the array."""
    signature = inspect.signature(function)
    first, *rest = signature.parameters.values()
    shown, keyword_only = ["self"], False
    kinds = inspect.Parameter
    positional = [p for p in rest if p.kind is kinds.POSITIONAL_ONLY]
    for p in rest:
        kind = annotation(p.annotation)
        stars = {kinds.VAR_POSITIONAL: "*", kinds.VAR_KEYWORD: "**"}.get(p.kind, "")
        if p.kind is kinds.KEYWORD_ONLY and not keyword_only:
            shown.append("*")
        keyword_only |= p.kind in (kinds.KEYWORD_ONLY, kinds.VAR_POSITIONAL)
        default = "" if p.default is kinds.empty else f" = {value(p.default)}"
        shown.append(f"{stars}{p.name}: {kind}{default}")
        if positional and p is positional[-1]:
            shown.append("/")
    result = returns or annotation(signature.return_annotation)
    return declare(name, shown, result)


def value(default: Any) -> str:
    """A default as the stub shows it."""
    return repr(default) if isinstance(default, PLAIN) else "..."


def declare(name: str, parameters: list[str], result: str, comment: str = "") -> str:
    line = f"    def {name}({', '.join(parameters)}) -> {result}: ...{comment}"
    if len(line) <= 88:
        return line
    inside = "".join(f"        {p},\n" for p in parameters)
    return f"    def {name}(\n{inside}    ) -> {result}: ...{comment}"


def prop(name: str, result: str) -> str:
    return f"    @property\n    def {name}(self) -> {result}: ..."


def attached() -> Iterator[str]:
    """The operators that numpy/operators.py adds to `Array`."""
    for name in operators._ARITHMETIC:
        result = "tuple[Array, Array]" if name == "divmod" else "Array"
        for method_name in (f"__{name}__", f"__r{name}__"):
            yield declare(method_name, ["self", "other: ArrayLike", "/"], result)
    for name in operators._COMPARISON:
        equality = name in ("eq", "ne")
        other = "other: object" if equality else "other: ArrayLike"
        ignored = "  # type: ignore[override]" if equality else ""
        yield declare(f"__{name}__", ["self", other, "/"], "Array", ignored)
    for name, function in (operators._UNARY | operators._METHODS).items():
        yield method(name, function)
    for name, getter in operators._PROPERTIES.items():
        made = "IndexUpdater" if getter is IndexUpdater else "Array"
        yield prop(name, made)


def of_the_runtime(taken: set[str]) -> Iterator[str]:
    """Attributes of concrete arrays only; tracers raise an error with the reason."""
    for name, member in vars(ArrayImpl).items():
        wanted = not name.startswith("_") or name in CONVERSIONS
        if not wanted or name in taken or hasattr(object, name):
            continue
        if isinstance(member, property):
            getter = inspect.signature(member.fget)  # type: ignore[arg-type]
            yield prop(name, annotation(getter.return_annotation))
        elif inspect.isfunction(member):
            yield method(name, member, CONVERSIONS.get(name, ""))


CONVERSIONS = {
    "__bool__": "bool",
    "__int__": "int",
    "__float__": "float",
    "__complex__": "complex",
    "__index__": "int",
    "__iter__": "Iterator[Array]",
    "__array__": "np.ndarray[Any, Any]",
    "__dlpack__": "Any",
    "__dlpack_device__": "tuple[Any, int]",
}


def updates() -> Iterator[str]:
    """`x.at[index].set(y)` and related methods."""
    yield "\n\nclass IndexUpdater:\n" + f'    """{doc(IndexUpdater)}"""\n'
    yield method("__getitem__", IndexUpdater.__getitem__)
    yield "\n\nclass IndexedUpdate:\n" + f'    """{doc(IndexedUpdate)}"""\n'
    for name, member in vars(IndexedUpdate).items():
        if inspect.isfunction(member) and not name.startswith("_"):
            yield method(name, member, "Array")


def doc(cls: type) -> str:
    return inspect.getdoc(cls).splitlines()[0]  # type: ignore[union-attr]


def text() -> str:
    lines = [*attached()]
    taken = {line.split("def ", 1)[1].split("(")[0] for line in lines}
    lines += of_the_runtime(taken | {*vars(Array)} - {"__array__"})
    head = 'class ArrayInterface:\n    """What every array has."""\n'
    slots = "    __slots__ = ()\n"
    body = "\n" + "\n".join([head, slots, *lines, *updates()]) + "\n"
    names = [n for n in TYPES if re.search(rf"\b{n}\b", body)]
    return HEADER.format(names=", ".join(names)) + body


def main() -> int:
    if "--check" not in sys.argv[1:]:
        FILE.write_text(text())
    elif FILE.read_text() != text():
        print(f"{FILE} is not up to date: run python tools/array_interface.py")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
