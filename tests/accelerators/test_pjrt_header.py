"""The tables of the interface against the header in C, where there is one.

The header comes with tensorflow-cpu (PJRT_HEADER may name another); it is compiled
into a program that prints offsets and sizes.
"""

import subprocess

from tests.accelerators.shim import compiler, header

from curta.runtime.pjrt.abi import FUNCTIONS, FUNCTIONS_OFFSET, structs
from curta.runtime.pjrt.call_frames import frame_structs


def members(name, cls):
    for field, _ in cls._fields_:
        if field != "spare":
            yield field, _IN_C.get((name, field), field)


_IN_C = {
    ("NamedValue", "value"): "int64_value",
    ("Buffer_MemoryLayout", "tiled_struct_size"): "tiled.struct_size",
    ("Buffer_MemoryLayout", "tiled_extension_start"): "tiled.extension_start",
    **{
        ("Buffer_MemoryLayout", field): f"tiled.{field}"
        for field in (
            *("minor_to_major", "minor_to_major_size", "tile_dims"),
            *("tile_dim_sizes", "num_tiles"),
        )
    },
}
BARE = ("SendCallbackInfo", "RecvCallbackInfo", "Chunk")


def program(known):
    yield f'#include "{header()}"\n#include <cstdio>\nint main() {{'
    for name in FUNCTIONS[:known]:
        yield f'printf("{name} %zu\\n", offsetof(PJRT_Api, PJRT_{name}));'
    for name, cls in structs().items():
        if name.startswith(("Get_Stream", "Wait_Until", "Gpu_", "FFI_")):
            continue  # of an extension
        size = f"sizeof(PJRT_{name})" if name in BARE else f"PJRT_{name}_STRUCT_SIZE"
        yield f'printf("{name}: %zu\\n", (size_t){size});'
        for field, in_c in members(name, cls):
            offset = f"offsetof(PJRT_{name}, {in_c})"
            yield f'printf("{name}.{field} %zu\\n", {offset});'
    yield "}"


# Structs that stand within others.
_WITHIN = ("args", "rets", "attrs", "api_version", "extension_base", "state_type_id")


def in_frames(field):
    """A field as C writes it."""
    within = next((w for w in _WITHIN if field.startswith(f"{w}_")), None)
    return f"{within}.{field.removeprefix(f'{within}_')}" if within else field


def frames():
    yield f'#include "{header().parents[2] / "ffi/api/c_api.h"}"'
    yield "#include <cstdio>\nint main() {"
    for name, cls in frame_structs().items():
        for field, _ in cls._fields_:
            offset = f"offsetof(XLA_FFI_{name}, {in_frames(field)})"
            yield f'printf("{name}.{field} %zu\\n", {offset});'
    yield "}"


def said_by(lines, folder):
    """The output of a program in C: numbers by names."""
    source, binary = folder / "layout.cc", folder / "layout"
    source.write_text("\n".join(lines))
    subprocess.run([compiler(), "-w", "-o", binary, source], check=True)
    said = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    rows = (row.rsplit(" ", 1) for row in said.splitlines())
    return {key: int(n) for key, n in rows}


def test_frames_are_those_of_the_header(tmp_path):
    assert said_by(frames(), tmp_path) == {
        f"{name}.{field}": getattr(cls, field).offset
        for name, cls in frame_structs().items()
        for field, _ in cls._fields_
    }


def test_offsets_and_sizes_are_those_of_the_header(tmp_path):
    text = header().read_text()
    known = sum(f"FIELD(PJRT_{name});" in text for name in FUNCTIONS)
    assert known > 120
    found = said_by(program(known), tmp_path)
    expected = {n: FUNCTIONS_OFFSET + 8 * i for i, n in enumerate(FUNCTIONS[:known])}
    for name, cls in structs().items():
        if f"{name}:" in found:
            expected[f"{name}:"] = cls.c_size
            for field, _ in members(name, cls):
                expected[f"{name}.{field}"] = getattr(cls, field).offset
    assert found == expected
