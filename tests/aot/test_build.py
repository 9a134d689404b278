"""Libraries built from functions: their headers, calls from C, and what is refused."""

import ctypes
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from tests.aot.harness import (
    COMPILERS,
    SANITIZERS,
    WARNINGS,
    called,
    compiled,
    lapack_flags,
)

import curta
import curta.numpy as jnp
from curta import aot, export
from curta.aot.archive import Member, archive
from curta.aot.interface import identifier
from curta.aot.symbols import undefined_symbols
from curta.compiler.library import blas
from curta.compiler.triples import TRIPLES

pytestmark = pytest.mark.skipif(
    not COMPILERS or sys.platform != "linux", reason="no C compiler for Linux"
)
S = curta.ShapeDtypeStruct
RNG = np.random.default_rng(3)
W = RNG.normal(size=(12, 5)).astype(np.float32)


def network(params, x):
    return {"logits": jnp.tanh(x @ params["w"]) + params["b"], "size": jnp.sum(x)}


def shuffled(seed, x):
    key = curta.random.key(seed)
    return curta.random.permutation(key, x), curta.random.normal(key, (3, 5))


def transformed(x):
    return [jnp.fft.rfft(x), jnp.sort(x)[::-1], jnp.argsort(x, stable=True)]


def recurrent(x, n):
    def step(carry, row):
        carry = jnp.where(row.sum() > 0, jnp.sin(carry) @ W[:5], carry - row)
        return carry, carry.max()

    carry, maxima = curta.lax.scan(step, x[0], x)
    halved = curta.lax.while_loop(lambda c: (c > n).any(), lambda c: c / 2, carry)
    return curta.lax.cond(n > 3, lambda c: c, jnp.cos, halved), maxima


def counted(x, i):
    return jnp.zeros(6, jnp.int32).at[i].add(1), x.at[i].set(0.5), x > 0


def solved(a, b):
    return jnp.linalg.solve(a, b), jnp.linalg.svd(a, full_matrices=False)[1]


FUNCTIONS = {
    "network": (network, {"w": W, "b": W[0]}, W.T.copy()),
    "shuffled": (shuffled, 7, np.arange(50, dtype=np.int16)),
    "transformed": (transformed, RNG.normal(size=48)),
    "recurrent": (recurrent, W[:, :5].copy(), np.float32(0.25)),
    "counted": (counted, W[:, 0].copy(), np.array([1, 4, 1, -1], np.int32)),
}


def leaves(args):
    return [np.asarray(x) for x in curta.tree.leaves(args)]


def built(functions, folder, name="model", **options):
    library = aot.build(functions, directory=folder, name=name, **options)
    return library


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    return built(FUNCTIONS, tmp_path_factory.mktemp("library"))


def test_functions_from_c_give_what_jit_gives(library, tmp_path):
    program = compiled(library, tmp_path, COMPILERS[:1], SANITIZERS)
    given = {f"model_{k}": leaves(args) for k, (_, *args) in FUNCTIONS.items()}
    for name, outs in called(library, tmp_path, [str(program)], given).items():
        fun, *args = FUNCTIONS[name.removeprefix("model_")]
        wanted = leaves(curta.jit(fun)(*args))
        for got, want in zip(outs, wanted, strict=True):
            np.testing.assert_array_equal(got, want, name)


def test_header_is_that_of_c_and_of_cpp(library, tmp_path):
    text = f'#include "{library.name}.h"\n#include "{library.name}.h"\n'
    for file, standard, compiler in (("a.c", "c11", "gcc"), ("a.cpp", "c++17", "g++")):
        source = tmp_path / file
        source.write_text(text + "int main() { return model_network_workspace() > 9; }")
        command = [compiler, f"-std={standard}", *WARNINGS, "-c", str(source)]
        command += [*library.flags, "-o", str(tmp_path / "a.o")]
        subprocess.run(command, check=True)


def test_header_names_the_fields_of_pytrees(library):
    text = Path(library.files["header"]).read_text()
    assert "const float *w; /* float32[12, 5]; 240 bytes; strides 5, 1 */" in text
    assert "model_network_in_params params;" in text
    assert "float size; /* float32[] */" in text
    assert "#define MODEL_TRANSFORMED_OUT_ITEM0_SIZE 25" in text
    assert "bool *item2; /* bool[12]" in text


def test_library_shares_constants_and_needs_the_c_library_alone(library):
    data = Path(library.files["object"]).read_bytes()
    assert data.count(W[:5].tobytes()) == 1
    known = {"memcpy", "memset", "memmove", "sin", "sinf", "cos", "cosf", "fmod"}
    assert set(library.needs) <= known
    assert undefined_symbols(data, "elf") == library.needs


def test_same_functions_make_the_same_bytes(tmp_path):
    first, again = (
        built({k: FUNCTIONS[k] for k in ("network", "counted")}, tmp_path / part)
        for part in "ab"
    )
    for kind, path in first.files.items():
        assert Path(path).read_bytes() == Path(again.files[kind]).read_bytes(), kind


def test_kernels_of_every_level_have_the_bits_of_jit(tmp_path):
    def step(w, x):
        def loss(w):
            return -curta.nn.log_softmax(jnp.maximum(x @ w, 0))[:, 0].mean()

        return w - 0.1 * curta.grad(loss)(w)

    w = RNG.normal(size=(16, 40)).astype(np.float32)
    x = RNG.normal(size=(24, 16)).astype(np.float32)
    library = aot.build(step, w, x, directory=tmp_path)
    out = np.empty_like(w)
    inputs = (ctypes.c_void_p * 2)(w.ctypes.data, x.ctypes.data)
    space = np.empty(library.signatures[0].workspace + 1, np.uint8)
    room = ctypes.c_void_p(space.ctypes.data), ctypes.c_size_t(space.size)
    outputs = (ctypes.c_void_p * 1)(out.ctypes.data)
    assert loaded(library, tmp_path).step_run(inputs, outputs, *room) == 0
    np.testing.assert_array_equal(out, curta.jit(step)(w, x))


def loaded(library, folder):
    path = folder / "shared.so"
    command = ["gcc", "-shared", "-o", str(path), library.files["object"], "-lm"]
    subprocess.run([*command, "-Wl,--no-undefined"], check=True)
    code = ctypes.CDLL(str(path))
    for signature in library.signatures:
        getattr(code, f"{signature.name}_error").restype = ctypes.c_char_p
        getattr(code, f"{signature.name}_workspace").restype = ctypes.c_size_t
    return code


def scaled(x, by):
    return jnp.sort(jnp.cumsum(x * by, axis=1), axis=0) @ x.T


def test_wrong_calls_give_codes(tmp_path):
    library = aot.build(scaled, S((300, 200), "float32"), 2.0, directory=tmp_path)
    code, size = loaded(library, tmp_path), library.signatures[0].workspace
    assert code.scaled_workspace() == size > 0
    x, out = np.ones((300, 200), np.float32), np.empty((300, 300), np.float32)
    space = np.empty(size, np.uint8)

    def run(x, out, space, size, given=True):
        inputs = (ctypes.c_void_p * 2)(x, 0)
        outputs = (ctypes.c_void_p * 1)(out)
        number = code.scaled_run(
            inputs if given else None, outputs, ctypes.c_void_p(space),
            ctypes.c_size_t(size),
        )  # fmt: skip
        return number, code.scaled_error(number).decode()

    at = x.ctypes.data, out.ctypes.data, space.ctypes.data, size
    assert run(*at) == (0, "success")
    assert (out == 0).all()  # by = 0
    assert run(*at, given=False) == (1, "`in` is a null pointer")
    assert run(*at[:3], size - 1)[0] == run(*at[:2], None, size)[0] == 3
    number, text = run(None, *at[1:])
    assert number == 16 and text.startswith("x is a null pointer or not aligned")
    assert run(at[0] + 2, *at[1:]) == (16, text)
    assert run(at[0], None, *at[2:])[1].startswith("result is a null pointer")
    assert code.scaled_error(-1) == code.scaled_error(10**6) == b"unknown code"


def test_donated_arguments_are_overwritten(tmp_path):
    def step(params, x):
        return {"w": params["w"] - 0.5 * x}

    args = {"w": S((4,), "float32")}, S((4,), "float32")
    library = aot.build(step, *args, directory=tmp_path, donate_argnums=0)
    (result,) = library.signatures[0].results
    assert result.in_place == 0
    text = Path(library.files["header"]).read_text()
    assert "    float *w; /* float32[4]; 16 bytes; overwritten */" in text
    w, x = np.ones(4, np.float32), np.arange(4, dtype=np.float32)
    inputs = (ctypes.c_void_p * 2)(w.ctypes.data, x.ctypes.data)
    outputs = (ctypes.c_void_p * 1)()
    assert loaded(library, tmp_path).step_run(inputs, outputs, None, 0) == 0
    assert outputs[0] == w.ctypes.data
    np.testing.assert_array_equal(w, [1, 0.5, 0, -0.5])


def test_static_arguments_are_part_of_the_library(tmp_path):
    def power(x, n):
        return x**n

    library = aot.build(power, 2.0, 3, directory=tmp_path, static_argnums=1)
    (x,) = library.signatures[0].arguments
    assert x.path == "x" and x.is_value


def test_exported_functions_are_built(tmp_path):
    made = export.export(curta.jit(network))({"w": W, "b": W[0]}, W.T.copy())
    loaded_again = export.deserialize(made.serialize())
    library = aot.build(loaded_again, directory=tmp_path)
    assert [f.name for f in library.signatures[0].inputs.fields] == ["arg0", "arg1"]
    with pytest.raises(TypeError, match="without arguments"):
        aot.build(made, W, directory=tmp_path)


def test_calls_of_python_are_refused_with_their_line(tmp_path):
    def printing(x):
        def body(i, c):
            curta.debug.print("{}", c)
            return c * 2

        return curta.lax.fori_loop(0, 3, body, x)

    with pytest.raises(aot.BuildError, match=r"debug_print\(float32\[\]\) at .*_build"):
        aot.build(printing, 1.0, directory=tmp_path)
    library = aot.build(printing, 1.0, directory=tmp_path, debug_print="drop")
    assert library.needs == ()

    def calling(x):
        return curta.pure_callback(np.sin, x, x)

    with pytest.raises(aot.BuildError, match=r"pure_callback.*test_build.py:\d+"):
        aot.build(calling, jnp.ones(3), directory=tmp_path)


def test_mistakes_have_errors(tmp_path):
    with pytest.raises(ValueError, match="pass `name`"):
        aot.build(lambda x: x, 1.0, directory=tmp_path)
    with pytest.raises(ValueError, match="not an identifier"):
        aot.build(network, 1.0, directory=tmp_path, name="a b")
    with pytest.raises(ValueError, match="refuse` or `drop"):
        aot.build(network, 1.0, directory=tmp_path, debug_print="no")
    with pytest.raises(ValueError, match="is not known. Triples are"):
        aot.build(network, 1.0, directory=tmp_path, target="vax")
    with pytest.raises(TypeError, match="jitted already"):
        aot.build(curta.jit(scaled), W, 1.0, directory=tmp_path, static_argnums=1)
    n = export.symbolic_args_specs(W, "n, 5")
    with pytest.raises(aot.BuildError, match="symbolic size"):
        aot.build(jnp.sin, n, directory=tmp_path)


@pytest.mark.skipif(not blas.available(), reason="OpenBLAS is not installed")
def test_decompositions_call_lapack(tmp_path):
    args = [RNG.normal(size=(90, n)).astype(np.float32) for n in (90, 4)]
    library = built({"solved": (solved, *args)}, tmp_path)
    assert library.links == ("lapack", "blas")
    routines = [x for x in library.needs if x.endswith("_")]
    assert routines == ["sgesdd_", "sgetrf_", "strsm_"]
    assert "sgesdd_ sgetrf_ strsm_" in Path(library.files["header"]).read_text()
    program = compiled(
        library, tmp_path, COMPILERS[:1],
        lapack_flags(library, tmp_path, True),
        [f for f in library.flags if f not in ("-llapack", "-lblas")],
    )  # fmt: skip
    outs = called(library, tmp_path, [str(program)], {"model_solved": args})
    for got, want in zip(outs["model_solved"], curta.jit(solved)(*args), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("target", [t for t in TRIPLES if "wasm" not in t])
def test_targets_have_objects_that_need_the_c_library_alone(target, tmp_path):
    library = built({"counted": FUNCTIONS["counted"]}, tmp_path, target=target)
    assert set(library.needs) <= {"memcpy", "memset", "_fltused", "__chkstk"}
    data = Path(library.files["object"]).read_bytes()
    name = b"model_counted_run"
    assert name in data and name in Path(library.files["archive"]).read_bytes()


def test_identifiers_and_archives():
    assert identifier("a b") == "a_b" and identifier("int") == "int_"
    one = Member("one.o", b"12345", ("f", "g"))
    for kind in ("elf", "coff", "macho"):
        data = archive([one, Member("two.o", b"6", ("a",))], kind)
        assert data.startswith(b"!<arch>\n") and len(data) % 2 == 0
        first, second = data.index(b"one.o"), data.index(b"two.o")
        index = data[:first]
        order = "<" if kind == "macho" else ">"
        for place in (first, second):
            assert place.to_bytes(4, {"<": "little", ">": "big"}[order]) in index


def test_weights_lie_in_a_file_that_is_mapped(tmp_path):
    large = RNG.normal(size=(30, 30)).astype(np.float32)

    def scaled_rows(x):
        def step(c, row):
            return jnp.tanh(c @ large) + row, c.sum()

        return curta.lax.scan(step, x[0], x @ large)

    x = RNG.normal(size=(6, 30)).astype(np.float32)
    library = aot.build(scaled_rows, x, directory=tmp_path, weights="file")
    assert large.tobytes() not in Path(library.files["object"]).read_bytes()
    data = np.fromfile(library.files["weights"], np.uint8)
    assert large.tobytes() in data.tobytes()
    code = loaded(library, tmp_path)
    weights, size = (ctypes.c_void_p * 1)(), ctypes.c_size_t(data.size)
    at = ctypes.c_void_p(data.ctypes.data)
    carry, sums = np.empty(30, np.float32), np.empty(6, np.float32)
    outputs = (ctypes.c_void_p * 2)(carry.ctypes.data, sums.ctypes.data)
    space = np.empty(library.signatures[0].workspace + 1, np.uint8)

    def run():
        inputs = (ctypes.c_void_p * 2)(x.ctypes.data, ctypes.addressof(weights))
        room = ctypes.c_void_p(space.ctypes.data), ctypes.c_size_t(space.size)
        return code.scaled_rows_run(inputs, outputs, *room)

    assert run() == 4  # not initialized
    assert code.scaled_rows_init(weights, None, size) == 4
    assert code.scaled_rows_init(weights, at, ctypes.c_size_t(7)) == 4
    assert code.scaled_rows_init(weights, at, size) == 0
    assert run() == 0
    for got, want in zip((carry, sums), curta.jit(scaled_rows)(x), strict=True):
        np.testing.assert_array_equal(got, want)
    data[20] ^= 1
    assert code.scaled_rows_init(weights, at, size) == 4
