"""Signatures of JAX's public functions, and where those of Curta differ.

    python tools/signatures.py           # print what differs, and is not said below
    python tools/signatures.py --write   # with the JAX of this environment: its file

Files in this folder list the signatures of releases, a line each; the file of a later
release has only the changed ones. Invariant: a call that JAX accepts is accepted by
Curta under that version, with each parameter by the same name, position and default.
Further parameters belong to another release, or are in `OWN`.
"""

from __future__ import annotations

import ast
import contextlib
import enum
import importlib
import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from functools import cache, reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

HERE = Path(__file__).parent
LISTS = ("jax_names.txt", "jax_names_added.txt")
MISSING = object()
POSITIONAL = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
PLAIN = (bool, int, float, str, bytes, type(None))

# What users do not call: JAX's inner interfaces, whose names are there for libraries.
INNER = re.compile(
    r"(api_util|extend\.\w+|interpreters\.\w+|experimental\.hijax|profiler)\.|core\."
    r"|stages\.|(Device|Shard)\b|ref\.(AbstractRef|swap)|experimental\.EArray"
    r"|experimental\.sparse\.(JAXSparse|SparseTracer)\.|export\.Exported$"
    r"|experimental\.checkify\.Error\b|(ref\.)?Ref$|P\.to_|sharding\.ManualAxisType\."
    r"|custom_derivatives\.SymbolicZero\."
)

MEANT = {
    "custom_derivatives.custom_gradient": "it is a decorator without `fun`, as in 0.12",
    "custom_gradient": "it is a decorator without `fun`, as in 0.12",
    "experimental.layout.explicit_layout": "layouts are not part of types",
    "export.Exported.in_shardings_jax": "the mesh may be left out, as in 0.12",
    "lax.ConvGeneralDilatedDimensionNumbers": "a type",
    "lax.PrecisionLike": "a type",
    "lax.random_gamma_grad": "the operands have names",
    "make_mesh": "it takes either name, and says so as 0.12 does",
    "numpy.polyval": "None says the default too",
    "numpy.take_along_axis": "True stands for the None of 0.10",
    "typing.ArrayLike": "a type",
    "typing.DTypeLike": "a type",
}
"""Differences that are meant, and why; `find` tells which they are."""

# Parameters that Curta has and no release of JAX.
OWN = {
    "Array.argsort": ("dtype",),  # a method is the function
    "Array.dot": ("out_sharding",),
    "Array.std": ("mean",),
    "Array.var": ("mean",),
    "checking_leaks": ("new_val",),
    "experimental.sparse.csr_todense": ("transpose",),
    "export.Exported.serialize": ("for_jax",),
    "jit": ("abstracted_axes",),
    "make_jaxpr": ("abstracted_axes",),
    "numpy.from_dlpack": ("external_array",),
    "remat": ("static_argnames",),
}


class Parameter(NamedTuple):
    """A parameter as it is compared; `default` is its text, `...` for an object."""

    name: str
    kind: Any
    default: str | None


Signature = tuple[Parameter, ...]


# ---- what is there


def lists() -> Iterator[tuple[str, str]]:
    """Each namespace (without `jax.`) with each of its names."""
    for file in LISTS:
        text = (HERE / file).read_text()
        for section in re.split(r"^\[", text, flags=re.MULTILINE)[1:]:
            title, body = section.split("]\n", 1)
            for name in body.split():
                yield title.split(":")[-1], name


def lookup(package: str, namespace: str, name: str) -> Any:
    """The object of that name, or MISSING."""
    root = importlib.import_module(package)
    parts = [*filter(None, namespace.split("."))]
    for i in range(len(parts)):  # those that the package does not import itself
        with contextlib.suppress(ImportError):
            if not hasattr(reduce(_part, parts[:i], root), parts[i]):
                importlib.import_module(".".join([package, *parts[: i + 1]]))
    return _part(reduce(_part, parts, root), name)


def _part(value: Any, name: str) -> Any:
    return getattr(value, name, MISSING)


def public(package: str) -> Iterator[tuple[str, Callable[..., Any], bool]]:
    """Functions, classes that are called, and methods; of these the last is True."""
    described = set()
    for namespace, last in lists():
        value = lookup(package, namespace, last)
        name = ".".join(filter(None, [namespace, last]))
        if not callable(value):
            continue
        if not inspect.isclass(value):
            yield name, value, False
        elif not issubclass(value, (enum.Enum, np.generic, BaseException)):
            yield name, value, False
            if value not in described:
                described.add(value)
                yield from ((f"{name}.{m}", f, True) for m, f in methods(value))


def methods(cls: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public methods of a class, not those of `object` and of tuples."""
    for name in dir(cls):
        if name.startswith("_") or hasattr(tuple, name):
            continue
        static = inspect.getattr_static(cls, name)
        if inspect.isroutine(static) or isinstance(static, (classmethod, staticmethod)):
            yield name, getattr(cls, name)


def default_text(value: Any) -> str:
    """A default as it is written, or `...` for what has no short text."""
    if isinstance(value, enum.Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, PLAIN):
        return repr(value)
    if isinstance(value, tuple):
        return repr(value) if all(isinstance(v, PLAIN) for v in value) else "..."
    return value.__name__ if isinstance(value, type) else "..."


def signature(function: Callable[..., Any], method: bool = False) -> Signature | None:
    """The parameters of a function; None where Python knows none."""
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return None
    if method and parameters and parameters[0].kind in POSITIONAL:
        parameters[0] = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    empty = inspect.Parameter.empty
    return tuple(
        Parameter(
            p.name, p.kind, None if p.default is empty else default_text(p.default)
        )
        for p in parameters
    )


# ---- the files


def text_of(parameters: Signature) -> str:
    empty = inspect.Parameter.empty
    written = inspect.Signature(
        [
            inspect.Parameter(
                p.name, p.kind, default=empty if p.default is None else _Text(p.default)
            )
            for p in parameters
        ]
    )
    return str(written)


class _Text(str):
    """A default that is printed as it is."""

    def __repr__(self) -> str:
        return str(self)


def parse(line: str) -> tuple[str, Signature]:
    """The name and the parameters of a line."""
    name, rest = line.split("(", 1)
    arguments = ast.parse(f"def f({rest}: pass").body[0].args  # type: ignore[attr-defined]
    kind = inspect.Parameter
    plain = [*arguments.posonlyargs, *arguments.args]
    missing = len(plain) - len(arguments.defaults)
    defaults = [*[None] * missing, *map(ast.unparse, arguments.defaults)]
    only = len(arguments.posonlyargs)
    kinds = [POSITIONAL[i >= only] for i in range(len(plain))]
    out = [*map(Parameter, (a.arg for a in plain), kinds, defaults)]
    if arguments.vararg:
        out.append(Parameter(arguments.vararg.arg, kind.VAR_POSITIONAL, None))
    for a, default in zip(arguments.kwonlyargs, arguments.kw_defaults):
        out.append(
            Parameter(a.arg, kind.KEYWORD_ONLY, default and ast.unparse(default))
        )
    if arguments.kwarg:
        out.append(Parameter(arguments.kwarg.arg, kind.VAR_KEYWORD, None))
    return name, tuple(out)


def files() -> list[Path]:
    """The files of signatures, those of older releases first."""
    found = HERE.glob("jax_signatures_*.txt")
    return sorted(found, key=lambda f: [*map(int, re.findall(r"\d+", f.name))])


@cache
def wanted(release: str) -> dict[str, Signature]:
    """The signatures of a release."""
    out: dict[str, Signature] = {}
    for file in files():
        lines = file.read_text().splitlines()
        out |= dict(parse(line) for line in lines if "(" in line and line[0] != "#")
        for line in lines:
            if line.startswith("- "):
                del out[line[2:]]
        if file.stem.endswith(f"_{release}"):
            return out
    raise ValueError(f"no signatures of JAX {release}")


def write() -> None:
    """The file of the JAX that is installed."""
    jax = importlib.import_module("jax")
    file = HERE / f"jax_signatures_{jax.__version__}.txt"
    file.touch()
    earlier = [f.stem.rsplit("_", 1)[1] for f in files()[: files().index(file)]]
    before = wanted(earlier[-1]) if earlier else {}
    have = {n: s for n, f, m in public("jax") if (s := signature(f, m)) is not None}
    lines = [f"{n}{text_of(s)}" for n, s in have.items() if before.get(n) != s]
    lines += [f"- {name}" for name in before if name not in have]
    what = f"JAX {jax.__version__}"
    if earlier:
        what += f", where they are not those of {earlier[-1]}"
    file.write_text("\n".join([f"# Signatures of {what}.", *lines, ""]))


# ---- the comparison


def differences(ours: Signature, wanted: Signature) -> Iterator[str]:
    """List the calls of `wanted` that `ours` rejects or interprets differently."""
    kind = inspect.Parameter
    named = {p.name: p for p in ours}
    places = [p for p in ours if p.kind in POSITIONAL]
    kinds = {p.kind for p in ours}
    forwards = {kind.VAR_POSITIONAL, kind.VAR_KEYWORD} <= {p.kind for p in wanted}
    for i, p in enumerate(wanted):
        if p.kind in (kind.VAR_POSITIONAL, kind.VAR_KEYWORD):
            if p.kind not in kinds and not forwards:
                yield f"no *{p.name}"
            continue
        if p.kind is kind.POSITIONAL_ONLY:
            own = places[i] if i < len(places) else None
            if own is None and kind.VAR_POSITIONAL not in kinds:
                yield f"no place for {p.name}"
        else:
            own = named.get(p.name)
            if own is None and kind.VAR_KEYWORD not in kinds:
                yield f"no {p.name}"
            elif own is not None and p.kind is not kind.KEYWORD_ONLY:
                if own not in places or places.index(own) != i:
                    yield f"{p.name} at another place"
        if own is not None and not same(own.default, p.default):
            yield f"{p.name}={own.default}, in JAX {p.default}"


def same(ours: str | None, theirs: str | None) -> bool:
    """Whether two defaults are equal, judged by their source."""
    objects = {"...", "None", "0"}  # an object that stands for what was not given
    return ours == theirs or (theirs == "..." and ours in objects)


def extras(ours: Signature, takes: set[str]) -> Iterator[str]:
    """List the parameters that no release has."""
    for p in ours:
        if p.kind in (inspect.Parameter.KEYWORD_ONLY, POSITIONAL[1]):
            if p.name not in takes:
                yield f"{p.name} is no parameter of JAX's"


def find(release: str) -> Iterator[tuple[str, list[str]]]:
    """The names whose signatures differ from those of a release, with what differs."""
    every = [wanted(f.stem.rsplit("_", 1)[1]) for f in files()]
    for name, theirs in wanted(release).items():
        namespace, _, last = name.rpartition(".")
        value = lookup("curta", namespace, last)
        if value is MISSING:
            yield name, ["missing"]
            continue
        ours = signature(value, bool(theirs) and theirs[0].name == "self")
        if ours is None:
            yield name, ["no signature"]
            continue
        takes = {p.name for sigs in every for p in sigs.get(name, ())}
        takes.update(OWN.get(name, ()))
        open_ended = any(p.kind.name.startswith("VAR") for p in theirs)
        beside = () if open_ended else extras(ours, takes)
        if texts := [*differences(ours, theirs), *beside]:
            yield name, texts


def unexpected(version: str, release: str) -> list[str]:
    """List unintended differences from a release, under its version."""
    versions = importlib.import_module("curta._settings.api_version")
    with versions.jax_api_version(version), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [
            f"{name}: {'; '.join(texts)}"
            for name, texts in find(release)
            if not INNER.match(name) and name not in MEANT
        ]


def main() -> None:
    versions = importlib.import_module("curta._settings.api_version")
    for version, release in versions.RELEASES.items():
        print(f"JAX {release}:", *unexpected(version, release), sep="\n  ")


if __name__ == "__main__":
    write() if "--write" in sys.argv[1:] else main()
