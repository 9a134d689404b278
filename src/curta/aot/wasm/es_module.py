"""The ES module that loads a built `.wasm` file and calls its functions.

The text has two parts: descriptions of the functions, as data, and the code that walks
over them (`calls.js`). A description is a tree like the user's pytree. Its leaves name
a typed array, a length and an address.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from curta.aot.interface import Field, Interface, LeafField, Tree
from curta.aot.wasm.page_layout import CallFrame, LeafPlace
from curta.aot.wasm.typed_arrays import (
    array_type,
    described,
    is_number,
    length,
    number_type,
)

_HEAD = """\
// {name}: functions compiled by Curta, in {name}.wasm.
//
//   import {{ load }} from "./{name}.mjs";
//   const {{ {functions} }} = await load();
//
// Arrays are flat, row after row, in the typed array of their dtype.

const FILE = () => new URL("./{name}.wasm", import.meta.url);
const END = {end}; // of the memory that calls need
const FUNCTIONS = {{
{descriptions}
}};
"""


def es_module(
    name: str, functions: Sequence[str], signatures: Sequence[Interface],
    frames: Sequence[CallFrame],
) -> str:  # fmt: skip
    """Return the text of `NAME.mjs`.

    Args:
        name: the library's name.
        functions: the names of the functions in JavaScript.
        signatures: the functions.
        frames: the addresses of their arguments and results.
    """
    rows = []
    for function, signature, frame in zip(functions, signatures, frames, strict=True):
        text = _compact(_function(signature, frame))
        rows.append(f"  // {signature.source}\n  {function}: {text},")
    head = _HEAD.format(
        name=name, functions=", ".join(functions), descriptions="\n".join(rows),
        end=max(frame.end for frame in frames),
    )  # fmt: skip
    code = files("curta.aot.wasm").joinpath("calls.js").read_text(encoding="utf-8")
    return f"{head}\n{code}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def _function(signature: Interface, frame: CallFrame) -> dict[str, Any]:
    workspace = frame.workspace, signature.workspace
    return {
        "call": [frame.inputs, frame.outputs, *workspace],
        "inputs": _tree(signature.inputs, frame.arguments),
        "outputs": _tree(signature.outputs, frame.results),
        "single": signature.single,
    }


def _tree(tree: Tree, slots: Sequence[LeafPlace]) -> dict[str, Any]:
    fields = [[str(f.key), _value(f, slots)] for f in tree.fields]
    return {"kind": tree.kind, "fields": fields}


def _value(field: Field, slots: Sequence[LeafPlace]) -> dict[str, Any]:
    if isinstance(field.value, LeafField):
        return _leaf(field.value, slots[field.value.index])
    return _tree(field.value, slots)


def _leaf(leaf: LeafField, slot: LeafPlace) -> dict[str, Any]:
    made: dict[str, Any] = {
        "type": array_type(leaf),
        "length": length(leaf),
        "at": slot.at,
        "is": described(leaf),
    }
    if slot.pointer:
        made["pointer"] = slot.pointer
    if is_number(leaf):
        made["number"] = number_type(leaf)
    return made
