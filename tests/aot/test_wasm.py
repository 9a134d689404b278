"""WebAssembly: the linker, and libraries called from JavaScript in Node."""

from pathlib import Path

import numpy as np
import pytest
from tests.aot.node import NODE, called_in_node, run_in_node
from tests.aot.test_build import FUNCTIONS, leaves, network

import curta
import curta.numpy as jnp
from curta import aot
from curta.aot.wasm import encoding
from curta.aot.wasm.linking import LinkError, link
from curta.aot.wasm.objects import BinaryFormatError, read_object
from curta.compiler.code_generator import compile_text
from curta.compiler.triples import named

WASM = named("wasm32")
in_node = pytest.mark.skipif(NODE is None, reason="Node is not installed")
SECOND = """
@unread = constant [999 x i8] c"{unread}"
@numbers = internal constant [3 x i64] [i64 5, i64 7, i64 11], align 8
@third = constant ptr getelementptr (i8, ptr @numbers, i32 16), align 4
define i64 @seventh(i32 %i) {
  %p = getelementptr i64, ptr @numbers, i32 %i
  %x = load i64, ptr %p
  ret i64 %x
}
define i64 @dead(i32 %i) {
  %x = call i64 @seventh(i32 %i)
  ret i64 %x
}
"""
FIRST = """
@third = external constant ptr
@choices = internal constant [2 x ptr] [ptr @seventh, ptr @own]
declare i64 @seventh(i32)
define internal i64 @own(i32 %i) {
  %p = load ptr, ptr @third
  %x = load i64, ptr %p
  ret i64 %x
}
define i64 @chosen(i32 %which, i32 %i) {
  %p = getelementptr ptr, ptr @choices, i32 %which
  %f = load ptr, ptr %p
  %x = call i64 %f(i32 %i)
  %s = alloca i64
  store volatile i64 %x, ptr %s
  %y = load volatile i64, ptr %s
  ret i64 %y
}
"""


def compiled(ir):
    text = ir.replace("{unread}", "\\41" * 999)
    return read_object(compile_text(text, verify=True, target=WASM))


@in_node
def test_objects_are_linked(tmp_path):
    module = link([compiled(FIRST), compiled(SECOND)], {"chosen": "chosen"})
    assert b"A" * 99 not in module.data and module.heap % 64 == 0
    assert len(module.data) < 300
    (tmp_path / "a.wasm").write_bytes(module.data)
    printed = run_in_node(
        """import { readFileSync } from "node:fs";
        const { instance } = await WebAssembly.instantiate(
            readFileSync(new URL("a.wasm", import.meta.url)));
        const { chosen, memory } = instance.exports;
        console.log(Object.keys(instance.exports), memory.buffer.byteLength);
        console.log(chosen(0, 0), chosen(0, 1), chosen(1, 0));""",
        tmp_path,
    )
    pages = -(-module.heap // 65536) * 65536
    assert printed == f"[ 'chosen', 'memory' ] {pages}\n5n 7n 11n\n"


def test_objects_that_do_not_fit_are_refused():
    first, second = compiled(FIRST), compiled(SECOND)
    with pytest.raises(LinkError, match="seventh is not defined"):
        link([first], {"chosen": "chosen"})
    with pytest.raises(LinkError, match="missing is not defined"):
        link([first, second], {"missing": "missing"})
    with pytest.raises(LinkError, match="dead is defined twice"):
        link([compiled("define void @dead() {\nret void\n}"), second], {})
    other = compiled(
        "declare i64 @seventh(i64)\ndefine i64 @f() {\n"
        "%x = call i64 @seventh(i64 1)\nret i64 %x\n}"
    )
    with pytest.raises(LinkError, match="different type"):
        link([other, second], {"f": "f"})


def test_what_is_not_an_object_is_refused():
    module = link([compiled(SECOND)], {"f": "seventh"})
    with pytest.raises(BinaryFormatError, match="no section `linking`"):
        read_object(module.data)
    with pytest.raises(BinaryFormatError, match="not a module"):
        read_object(b"\x7fELF" + bytes(60))
    data = compile_text(SECOND.replace("{unread}", "\\41" * 999), target=WASM)
    for cut in range(len(encoding.HEADER), len(data) - 1, 7):
        with pytest.raises(BinaryFormatError):
            read_object(data[:cut])


def test_numbers_are_read_as_they_are_written():
    numbers = [0, 1, -1, 63, 64, -64, -65, 127, 128, 2**31 - 1, -(2**31), 2**40]
    for x in numbers:
        assert encoding.BinaryReader(encoding.signed(x)).signed() == x
        assert encoding.BinaryReader(encoding.unsigned(abs(x))).unsigned() == abs(x)


SHARED = np.random.default_rng(5).normal(size=40).astype(np.float32)
KEPT = {
    **{k: FUNCTIONS[k] for k in ("network", "recurrent", "counted")},
    "added": (lambda x: x + SHARED, SHARED[0]),
    "divided": (lambda x: x / SHARED, SHARED[1]),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wasm")
    return aot.build(KEPT, directory=folder, name="model", target="wasm32")


@in_node
def test_functions_from_javascript_give_what_jit_gives(library, tmp_path):
    given = {f"model_{k}": leaves(KEPT[k][1:]) for k in KEPT}
    for name, outs in called_in_node(library, tmp_path, given).items():
        fun, *args = KEPT[name.removeprefix("model_")]
        wanted = leaves(curta.jit(fun)(*args))
        for got, want in zip(outs, wanted, strict=True):
            if want.dtype.kind in "fc":  # sums are in the order of other vectors
                np.testing.assert_allclose(got, want, 2e-5, 2e-5, err_msg=name)
            else:
                np.testing.assert_array_equal(got, want, name)


def test_functions_share_constants_and_import_nothing(library):
    data = Path(library.files["wasm"]).read_bytes()
    assert data.count(SHARED.tobytes()) == 1
    assert library.needs == library.links == ()


def test_types_are_those_of_the_pytrees(library):
    text = Path(library.files["types"]).read_text()
    assert "    /** float32[12,5] */\n    w: Float32Array;" in text
    assert "  size: number;" in text
    assert "export type CountedOut = [Int32Array, Float32Array, Uint8Array];" in text
    assert "  counted(inputs: CountedIn): CountedOut;" in text


def numbers(b, i, n, c, h):
    return {"b": ~b, "i": i + 1, "n": n * 2, "c": c * 1j, "h": h, "none": None}


@in_node
def test_arguments_are_checked_by_name(tmp_path):
    with curta.enable_x64(True):
        library = aot.build(
            numbers, True, jnp.int64(2), jnp.arange(3), jnp.complex64(1j),
            jnp.float16(1.5), directory=tmp_path, target="wasm32",
        )  # fmt: skip
    printed = run_in_node(
        f"""import {{ load }} from {str(library.files["module"])!r};
        const {{ run, memory }} = await load();
        const c = Float32Array.of(1, 2), n = BigInt64Array.of(1n, -2n, 3n);
        const good = {{b: true, i: 2n ** 62n, n, c, h: 0x3c00}};
        console.log(JSON.stringify(run(good), (_, x) =>
            typeof x === "bigint" ? `${{x}}n` : x));
        const bad = [{{b: 2}}, {{i: 5}}, {{n: new Float64Array(3)}}, {{x: 1}},
            {{n: n.subarray(1)}}, {{n: undefined}}, {{c: 3}}, {{n: [1, 2, 3]}}];
        for (const one of bad) {{
            try {{ run({{...good, ...one}}); console.log("no error", one); }}
            catch (error) {{ console.log(`${{error.name}}: ${{error.message}}`); }}
        }}
        try {{ run(1); }} catch (error) {{ console.log(error.message); }}""",
        tmp_path,
    )
    first, *errors = printed.splitlines()
    assert first == (
        '{"b":false,"c":{"0":-2,"1":1},"h":15360,"i":"4611686018427387905n",'
        '"n":{"0":"2n","1":"-4n","2":"6n"}}'
    )
    assert errors == [
        "TypeError: b: expected a boolean (bool[]), got 2",
        "TypeError: i: expected a bigint (int64[]), got 5",
        "TypeError: n: expected BigInt64Array of length 3 (int64[3]),"
        " got Float64Array of length 3",
        "TypeError: x is not known; expected b,i,n,c,h",
        "TypeError: n: expected BigInt64Array of length 3 (int64[3]),"
        " got BigInt64Array of length 2",
        "TypeError: n is missing",
        "TypeError: c: expected Float32Array of length 2 (complex64[]), got 3",
        "TypeError: n: expected BigInt64Array of length 3 (int64[3]), got Array",
        "the argument: expected an object with b,i,n,c,h, got 1",
    ]


@in_node
def test_donated_arguments_of_the_caller_are_kept(tmp_path):
    x = curta.ShapeDtypeStruct((70_000,), jnp.float32)
    library = aot.build(
        lambda a, b: (jnp.sort(a) + b, b), x, x, directory=tmp_path, name="step",
        target="wasm32", donate_argnums=0,
    )  # fmt: skip
    printed = run_in_node(
        f"""import {{ load }} from {str(library.files["module"])!r};
        const {{ run, module }} = await load();
        const a = new Float32Array(70000).map((_, i) => 7 - i);
        const [c, d] = run({{ a, b: a }});
        const again = (await load(module)).run({{ a, b: a }});
        console.log(a[0], c[0], c[69999], d[1], again[0].every((x, i) => x === c[i]));
        """,
        tmp_path,
    )
    assert printed == "7 -69985 -69985 6 true\n"


def test_programs_that_do_not_fit_are_refused(tmp_path):
    big = curta.ShapeDtypeStruct((1 << 30,), jnp.float32)
    with pytest.raises(aot.BuildError, match="addresses of wasm32 end at"):
        aot.build(jnp.negative, big, directory=tmp_path, target="wasm32")
    with pytest.raises(aot.BuildError, match="use wasm32"):
        aot.build(network, big, directory=tmp_path, target="wasm64")


def test_lapack_is_refused(tmp_path):
    a = curta.ShapeDtypeStruct((90, 90), jnp.float32)
    with pytest.raises(aot.BuildError, match=r"eigh\(float32\[90,90\]\) at"):
        aot.build(
            lambda a: jnp.linalg.eigvalsh(a), a, name="e", directory=tmp_path,
            target="wasm32",
        )  # fmt: skip


def test_same_functions_make_the_same_files(library, tmp_path):
    again = aot.build(KEPT, directory=tmp_path, name="model", target="wasm32")
    for kind, path in library.files.items():
        assert Path(path).read_bytes() == Path(again.files[kind]).read_bytes(), kind
