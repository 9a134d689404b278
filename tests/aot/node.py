"""Built libraries called from JavaScript: a script that Node runs."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from tests.aot.harness import in_memory

from curta.aot.building import BuiltLibrary
from curta.aot.interface import SEQUENCE, LeafField, Tree
from curta.aot.wasm.typed_arrays import array_type, is_number, length

NODE = shutil.which("node")

# Calls every function once. Arguments are read from a file, results written to one.
_SCRIPT = """
import { readFileSync, writeFileSync } from "node:fs";
const [plan, given, results, module] = process.argv.slice(2);
const { load } = await import(module);
const data = readFileSync(given);
const parts = [];
function made(node) {
  if (node.items) {
    const result = node.sequence ? [] : {};
    for (const [key, child] of node.items) result[key] = made(child);
    return result;
  }
  const bytes = data.buffer.slice(
    data.byteOffset + node.at, data.byteOffset + node.at + node.bytes);
  const array = new globalThis[node.type](bytes);
  if (array.length !== node.length) throw new Error("the plan is wrong");
  if (!node.number) return array;
  return node.bool ? array[0] !== 0 : array[0];
}
function taken(node, value) {
  if (node.items) {
    const names = node.items.map(([key]) => key);
    if (String(Object.keys(value)) !== String(names)) throw new Error("wrong keys");
    for (const [key, child] of node.items) taken(child, value[key]);
    return;
  }
  const array = node.number ? globalThis[node.type].of(value) : value;
  if (array.constructor.name !== node.type || array.length !== node.length) {
    throw new Error("a result of the wrong type");
  }
  parts.push(new Uint8Array(array.buffer, array.byteOffset, array.byteLength));
}
const library = await load();
for (const { name, inputs, outputs } of JSON.parse(readFileSync(plan))) {
  taken(outputs, library[name](made(inputs)));
}
writeFileSync(results, Buffer.concat(parts));
"""


def function_name(library: BuiltLibrary, name: str) -> str:
    return "run" if name == library.name else name.removeprefix(f"{library.name}_")


def _leaf(leaf: LeafField, at: int) -> dict[str, Any]:
    return {
        "at": at, "bytes": leaf.nbytes, "type": array_type(leaf),
        "length": length(leaf), "number": is_number(leaf),
        "bool": leaf.dtype.kind == "b",
    }  # fmt: skip


def _plan(tree: Tree, at: int) -> tuple[dict[str, Any], int]:
    items = []
    for field in tree.fields:
        if isinstance(field.value, LeafField):
            node, end = _leaf(field.value, at), at + field.value.nbytes
        else:
            node, end = _plan(field.value, at)
        items.append([str(field.key), node])
        at = end
    return {"items": items, "sequence": tree.kind == SEQUENCE}, at


def called_in_node(
    library: BuiltLibrary, folder: Path, args: Mapping[str, Sequence[np.ndarray]]
) -> dict[str, list[np.ndarray]]:
    """The results of all functions of a library for arguments by their names."""
    assert NODE is not None
    plans, given, at = [], b"", 0
    for signature in library.signatures:
        inputs, at = _plan(signature.inputs, at)
        outputs, _ = _plan(signature.outputs, 0)
        if signature.single:
            outputs = outputs["items"][0][1]
        name = function_name(library, signature.name)
        plans.append({"name": name, "inputs": inputs, "outputs": outputs})
        leaves = zip(signature.arguments, args[signature.name], strict=True)
        given += b"".join(in_memory(leaf, x).tobytes() for leaf, x in leaves)
    paths = [folder / name for name in ("plan", "given", "results")]
    paths[0].write_text(json.dumps(plans))
    paths[1].write_bytes(given)
    run_in_node(_SCRIPT, folder, [*map(str, paths), library.files["module"]])
    data, at = paths[2].read_bytes(), 0
    found: dict[str, list[np.ndarray]] = {}
    for signature in library.signatures:
        outs = found[signature.name] = []
        for leaf in signature.results:
            part = np.frombuffer(data, leaf.dtype, leaf.size, at)
            outs.append(part.reshape(leaf.shape))
            at += leaf.nbytes
    assert at == len(data)
    return found


def run_in_node(script: str, folder: Path, arguments: Sequence[str] = ()) -> str:
    """Run a script of JavaScript, which may import modules; return the output."""
    path = folder / "script.mjs"
    path.write_text(script)
    made = subprocess.run(
        [str(NODE), str(path), *arguments], capture_output=True, text=True, check=False
    )
    assert made.returncode == 0, made.stderr
    return made.stdout
