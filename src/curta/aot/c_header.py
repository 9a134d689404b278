"""The header of a built library: C11 and C++17, with nothing else to include."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from curta._base.lazy_dataclass import dataclass
from curta.aot.entry_code import FIRST_LEAF, error_texts
from curta.aot.interface import Interface, LeafField, Tree, layout_of, unused
from curta.version import __version__

_TYPES = {
    "bool": "bool", "float32": "float", "float64": "double",
    **{f"{s}int{n}": f"{s}int{n}_t" for s in ("", "u") for n in (8, 16, 32, 64)},
    "complex64": "curta_complex64", "complex128": "curta_complex128",
}  # fmt: skip
# Elements that C has no type for, by their size.
_BITS = {1: "uint8_t", 2: "uint16_t", 4: "uint32_t", 8: "uint64_t"}

_COMPLEX = """\
#ifndef CURTA_COMPLEX
#define CURTA_COMPLEX
typedef struct { float real, imag; } curta_complex64;
typedef struct { double real, imag; } curta_complex128;
#endif
"""


_WEIGHTS = """\
/* The addresses of the arrays in {name}.safetensors. */
typedef struct {{ const void *array[{count}]; }} {name}_weights;

/* Point the weights into the bytes of the file, which the program has mapped or read to
   a multiple of 8; they must stay there. Return 0, or 4 if it is another file. */
int {name}_init({name}_weights *weights, const void *file, size_t bytes);
"""


@dataclass(frozen=True)
class LibraryText:
    """The facts about a library that its header states.

    Fields:
        name: the name of the library.
        target: the name of the target.
        links: the libraries that a program links besides (`m`, `lapack`).
        needs: for each symbol that these provide, its name.
        weights: the number of arrays in the file of weights.
    """

    name: str
    target: str
    links: tuple[str, ...]
    needs: tuple[str, ...]
    weights: int = 0


def header(library: LibraryText, signatures: Sequence[Interface], pointer: int) -> str:
    """Return the text of the header of a library.

    Args:
        library: what it says of the library.
        signatures: its functions.
        pointer: bytes of an address on the target.
    """
    guard = f"{library.name.upper()}_H"
    leaves = [x for s in signatures for x in (*s.arguments, *s.results)]
    parts = [
        _introduction(library, signatures),
        f"#ifndef {guard}\n#define {guard}\n",
        "#include <stdbool.h>\n#include <stddef.h>\n#include <stdint.h>\n",
        '#ifdef __cplusplus\nextern "C" {\n#endif\n',
    ]
    if any(x.dtype.kind == "c" for x in leaves):
        parts.append(_COMPLEX)
    if library.weights:
        parts.append(_WEIGHTS.format(name=library.name, count=library.weights))
    macros: set[str] = {guard}
    for signature in signatures:
        parts.append(_function(signature, pointer, macros))
    parts += ["#ifdef __cplusplus\n}\n#endif\n", f"#endif /* {guard} */\n"]
    return "\n".join(parts)


def _introduction(library: LibraryText, signatures: Sequence[Interface]) -> str:
    flags = " ".join([f"-l{library.name}", *(f"-l{x}" for x in library.links)])
    lines = [
        f"{library.name}: made by Curta {__version__} for {library.target}.",
        "",
        f"Link with: {flags}",
    ]
    if library.needs:
        lines += ["It calls the Fortran routines of LAPACK and BLAS:"]
        lines += _filled(library.needs)
    lines += [
        "",
        "Arrays lie row after row without gaps. The elements of different arrays do",
        "not overlap. No function allocates memory, has state, or starts a thread:",
        "any number of threads may call them, each with its own workspace.",
    ]
    return "/* " + "\n   ".join(lines).replace("*/", "* /") + " */\n"


def _filled(words: Sequence[str]) -> list[str]:
    lines = [""]
    for word in words:
        if len(lines[-1]) + len(word) > 76:
            lines.append("")
        lines[-1] += f" {word}"
    return lines


def _function(signature: Interface, pointer: int, macros: set[str]) -> str:
    name, upper = signature.name, signature.name.upper()
    lines = [f"/* ---- {_comment(signature.source)} */", ""]
    for word, tree in (("in", signature.inputs), ("out", signature.outputs)):
        lines += _sizes(f"{upper}_{word.upper()}", tree, macros)
    lines += ["", *_macro(f"{upper}_WORKSPACE", signature.workspace, macros), ""]
    for word, tree in (("in", signature.inputs), ("out", signature.outputs)):
        structs: dict[str, list[str]] = {}
        extra = signature.weights if word == "in" else ""
        _struct(f"{name}_{word}", tree, structs, word == "in", extra)
        for body in structs.values():
            lines += [*body, ""]
        size = layout_of(tree, pointer).size
        if extra:
            size = -(-size // pointer) * pointer + pointer
        if tree.fields or extra:
            lines += _assertion(f"{name}_{word}", size)
    lines += [*_errors(signature), "", *_prototypes(signature)]
    return "\n".join(lines)


def _comment(text: str) -> str:
    return text.replace("*/", "* /").replace("\n", " ")


def _macro(name: str, number: int, macros: set[str]) -> list[str]:
    return [f"#define {unused(name, macros)} {number}"]


def _sizes(prefix: str, tree: Tree, macros: set[str]) -> Iterator[str]:
    """Yield a macro with the number of elements of each array."""
    for path, leaf in tree.leaves():
        if not leaf.is_value:
            name = "_".join([prefix, *(f.name.upper() for f in path), "SIZE"])
            yield from _macro(name, leaf.size, macros)


def _struct(
    name: str, tree: Tree, structs: dict[str, list[str]], reads: bool, weights: str
) -> None:
    """Add the structs of a tree, inner ones first."""
    lines = ["typedef struct {"]
    for field in tree.fields:
        if isinstance(field.value, Tree):
            inner = f"{name}_{field.name}"
            while inner in structs:
                inner += "_"
            if not field.value.fields:
                continue
            _struct(inner, field.value, structs, reads, "")
            lines.append(f"    {inner} {field.name};")
        else:
            lines.append(f"    {_declared(field.value, field.name, reads)}")
    if weights:
        lines.append(f"    const {weights} *weights; /* set by `init` */")
    if len(lines) == 1:  # C has no empty struct
        lines.append("    char nothing;")
    structs[name] = [*lines, f"}} {name};"]


def _declared(leaf: LeafField, name: str, reads: bool) -> str:
    own = _TYPES.get(leaf.dtype.name)
    type_ = own or _BITS[leaf.dtype.itemsize]
    notes = [_aval_text(leaf)]
    if leaf.dtype.kind in "cV" or own is None:
        notes.append(_storage(leaf))
    if not leaf.is_value:
        notes.append(f"{leaf.nbytes:,} bytes")
        if len(leaf.shape) > 1:
            notes.append(f"strides {_strides(leaf)}")
    if not leaf.is_read:
        notes.append("not read; may be null")
    if leaf.is_overwritten:
        notes.append("overwritten")
    if leaf.in_place is not None:
        notes.append("set by the call to the address of an argument")
    const = "const " if reads and not leaf.is_overwritten else ""
    if leaf.is_value:
        return f"{type_} {name}; /* {'; '.join(filter(None, notes))} */"
    return f"{const}{type_} *{name}; /* {'; '.join(filter(None, notes))} */"


def _aval_text(leaf: LeafField) -> str:
    dims = ", ".join(map(str, leaf.shape))
    return f"{leaf.aval.dtype.name}[{dims}]"


def _storage(leaf: LeafField) -> str:
    if leaf.dtype.kind == "c":
        return ""
    return f"bits in {_BITS[leaf.dtype.itemsize]}"


def _strides(leaf: LeafField) -> str:
    strides, step = [], 1
    for n in reversed(leaf.shape):
        strides.append(step)
        step *= n
    return ", ".join(map(str, reversed(strides)))


def _assertion(name: str, size: int) -> list[str]:
    return [
        "#if defined __cplusplus",
        f'static_assert(sizeof({name}) == {size}, "layout of {name}");',
        "#else",
        f'_Static_assert(sizeof({name}) == {size}, "layout of {name}");',
        "#endif",
        "",
    ]


def _errors(signature: Interface) -> list[str]:
    upper = signature.name.upper()
    known = [e for e in error_texts(signature) if e.code < FIRST_LEAF]
    lines = [f"    {upper}_{_CODES[e.code]} = {e.code}, /* {e.text} */" for e in known]
    lines[-1] = lines[-1].replace(", /*", " /*")
    note = (
        f"/* Codes from {FIRST_LEAF} on name an array: see {signature.name}_error. */"
    )
    return ["enum {", *lines, "};", note]


_CODES = ["OK", "NULL_IN", "NULL_OUT", "BAD_WORKSPACE", "BAD_WEIGHTS"]


def _prototypes(signature: Interface) -> list[str]:
    name = signature.name
    given = f"const {name}_in *in, {name}_out *out,\n    void *workspace, size_t bytes"
    lines = [
        "/* The bytes of workspace that a call needs, at any address. */",
        f"size_t {name}_workspace(void);",
        "",
        "/* Compute results into the arrays of `out`; return 0 or an error code. */",
        f"int {name}_run({given});",
        "",
    ]
    if signature.parallel:
        lines += [
            "/* Call `chunk(context, i)` for each i from 0 to count - 1, in any order",
            "   and on any threads, and return when all calls have returned. */",
            f"typedef void (*{name}_chunk)(void *context, int64_t i);",
            f"typedef void (*{name}_parallel_for)(",
            f"    {name}_chunk chunk, void *context, int64_t count);",
            "",
            "/* The same with threads. The results have the same bits. */",
            f"int {name}_run_parallel({given},\n    {name}_parallel_for parallel_for);",
            "",
        ]
    lines += [
        "/* The explanation of an error code. */",
        f"const char *{name}_error(int code);",
        "",
    ]
    return lines
