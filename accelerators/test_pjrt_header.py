"""The tables of the interface against the header in C, where there is one.

The header comes with tensorflow-cpu (PJRT_HEADER may name another); it is compiled
into a program that prints offsets and sizes.
"""

import subprocess

from accelerators.shim import compiler, header
from curta.runtime.pjrt.abi import FUNCTIONS, FUNCTIONS_OFFSET, structs


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
        if name.startswith(("Get_Stream", "Wait_Until", "Gpu_")):
            continue  # of an extension
        size = f"sizeof(PJRT_{name})" if name in BARE else f"PJRT_{name}_STRUCT_SIZE"
        yield f'printf("{name}: %zu\\n", (size_t){size});'
        for field, in_c in members(name, cls):
            offset = f"offsetof(PJRT_{name}, {in_c})"
            yield f'printf("{name}.{field} %zu\\n", {offset});'
    yield "}"


def test_offsets_and_sizes_are_those_of_the_header(tmp_path):
    source, binary = tmp_path / "layout.cc", tmp_path / "layout"
    text = header().read_text()
    known = sum(f"FIELD(PJRT_{name});" in text for name in FUNCTIONS)
    assert known > 120
    source.write_text("\n".join(program(known)))
    subprocess.run([compiler(), "-w", "-o", binary, source], check=True)
    said = subprocess.run([binary], check=True, capture_output=True, text=True).stdout
    rows = (row.rsplit(" ", 1) for row in said.splitlines())
    found = {key: int(n) for key, n in rows}
    expected = {n: FUNCTIONS_OFFSET + 8 * i for i, n in enumerate(FUNCTIONS[:known])}
    for name, cls in structs().items():
        if f"{name}:" in found:
            expected[f"{name}:"] = cls.c_size
            for field, _ in members(name, cls):
                expected[f"{name}.{field}"] = getattr(cls, field).offset
    assert found == expected
