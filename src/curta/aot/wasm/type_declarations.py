"""TypeScript's declarations of an ES module."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from curta.aot.interface import SEQUENCE, Field, Interface, LeafField, Tree
from curta.aot.wasm.typed_arrays import array_type, described, is_number, number_type

_TEXT = """\
// {name}: functions compiled by Curta. Arrays are flat, row after row.

{types}

export interface Library {{
{functions}
  /** The compiled code; a worker's `load` takes it. */
  readonly module: WebAssembly.Module;
  readonly memory: WebAssembly.Memory;
}}

export type Source =
  | string | URL | Response | ArrayBuffer | Uint8Array | WebAssembly.Module;

/** Loads the functions, from the file beside the module or another source. */
export function load(source?: Source | Promise<Source>): Promise<Library>;
export default load;
"""


def type_declarations(
    name: str, functions: Sequence[str], signatures: Sequence[Interface]
) -> str:
    """Return the text of `NAME.d.ts`."""
    types, methods = [], []
    for function, signature in zip(functions, signatures, strict=True):
        title = function[:1].upper() + function[1:]
        outputs: Tree | LeafField = signature.outputs
        if signature.single:
            value = signature.outputs.fields[0].value
            assert isinstance(value, LeafField)
            outputs = value
        types.append(f"export type {title}In = {_type(signature.inputs, '')};")
        types.append(f"export type {title}Out = {_type(outputs, '')};")
        methods.append(f"  /** {signature.source} */")
        methods.append(f"  {function}(inputs: {title}In): {title}Out;")
    return _TEXT.format(name=name, types="\n".join(types), functions="\n".join(methods))


def _type(value: Tree | LeafField, indent: str) -> str:
    if isinstance(value, LeafField):
        return number_type(value) if is_number(value) else array_type(value)
    inner = indent + "  "
    if value.kind == SEQUENCE:
        last = max(int(f.key) for f in value.fields)
        items = dict.fromkeys(range(last + 1), "null | undefined")
        items.update((int(f.key), _type(f.value, inner)) for f in value.fields)
        return f"[{', '.join(items.values())}]"
    lines = [_property(f, inner) for f in value.fields]
    return "\n".join(["{", *lines, indent + "}"]) if lines else "{}"


def _property(field: Field, indent: str) -> str:
    key = str(field.key)
    key = key if re.fullmatch(r"[A-Za-z_$][\w$]*", key) else json.dumps(key)
    note = ""
    if isinstance(field.value, LeafField):
        note = f"{indent}/** {described(field.value)} */\n"
    return f"{note}{indent}{key}: {_type(field.value, indent)};"
