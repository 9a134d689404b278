"""The suites: where each comes from, its programs, and how a program is called."""

import importlib
import importlib.util
import inspect
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

Values = list[Any]
PYHPC_SIZES = (4096, 65_536, 1_048_576, 4_194_304)
PYHPC_NAMES = ("equation_of_state", "isoneutral_mixing", "turbulent_kinetic_energy")


@dataclass(frozen=True)
class Loaded:
    """A program: its function, new arguments for a call, and its results as a list.

    `wait` is applied to the result of a timed call. `results` is given the value and
    the arguments of a call.
    """

    call: Callable[..., Any]
    fresh: Callable[[], Values]
    wait: Callable[[Any], Any]
    results: Callable[[Any, Values], Values]


@dataclass(frozen=True)
class Suite:
    """A repository (or none, for programs of this project).

    `names` lists its programs by its folder and a preset. `load` has folder, program,
    preset and library ("jax" or "numpy"), and raises if there is no such version.
    """

    repository: str
    names: Callable[[Path, str], Iterator[str]]
    load: Callable[[Path, str, str, str], Loaded]
    has_numpy: bool
    rtol: float = 1e-5


def leaves(value: Any) -> Values:
    """The arrays and numbers in nested tuples, lists and dicts, in order."""
    if value is None:
        return []
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in leaves(value[key])]
    if isinstance(value, (tuple, list)):
        return [leaf for part in value for leaf in leaves(part)]
    return [value]


def npbench_names(folder: Path, _: str) -> Iterator[str]:
    """The programs that have a version for JAX."""
    for path in sorted(folder.glob("bench_info/*.json")):
        info = json.loads(path.read_text())["benchmark"]
        if npbench_files(folder, info, "jax"):
            yield path.stem


def npbench_files(folder: Path, info: dict[str, Any], library: str) -> list[Path]:
    base = folder / "npbench" / "benchmarks" / info["relative_path"]
    names = (f"{info['module_name']}_{library}{end}.py" for end in ("", "_lib"))
    return [base / name for name in names if (base / name).exists()]


def npbench(folder: Path, name: str, preset: str, library: str) -> Loaded:
    sys.path.insert(0, str(folder))
    copy, wait = copies(library)  # before modules of programs create arrays
    benchmark = from_file(folder / "npbench" / "infrastructure" / "benchmark.py")
    made = benchmark.Benchmark(name)
    data, info = made.get_data(preset), made.info
    path = npbench_files(folder, info, library)[0]
    module = path.relative_to(folder).with_suffix("")
    function = getattr(
        importlib.import_module(".".join(module.parts)), info["func_name"]
    )
    written = [info["input_args"].index(a) for a in info.get("output_args", ())]

    def fresh() -> Values:
        arrays = info["array_args"]
        return [copy(data[k]) if k in arrays else data[k] for k in info["input_args"]]

    def results(value: Any, arguments: Values) -> Values:
        """NumPy's versions write to arguments, JAX's return them."""
        returned = leaves(value)
        if library == "jax" and returned:
            return returned
        return returned + [arguments[i] for i in written]

    return Loaded(function, fresh, wait, results)


def copies(library: str) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """How arguments are copied to the library, and how its results are waited for.

    The suites compute in float64, which their own runners enable.
    """
    if library == "numpy":
        return np.copy, lambda x: x
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    return jax.numpy.array, jax.block_until_ready


def from_file(path: Path) -> ModuleType:
    """A module without its package, which imports every framework."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pyhpc_names(folder: Path, _: str) -> Iterator[str]:
    for name in PYHPC_NAMES:
        if (folder / "benchmarks" / name).is_dir():
            yield from (f"{name}/{size}" for size in PYHPC_SIZES)


def pyhpc(folder: Path, name: str, _: str, library: str) -> Loaded:
    """Its package has the name of this one, under which it is not imported."""
    program, _, size = name.partition("/")
    for known in [m for m in sys.modules if m.partition(".")[0] == "benchmarks"]:
        del sys.modules[known]
    sys.path.insert(0, str(folder))
    _, wait = copies(library)
    module = importlib.import_module(f"benchmarks.{program}")
    call = module.get_callable(library, int(size))
    return Loaded(call, list, wait, lambda value, _: leaves(value))


GRADBENCH = {  # the evaluations of the suite, with its sizes
    "gmm": (
        ("objective", "jacobian"),
        [
            {"d": d, "k": k, "n": 1000}
            for d, k in ((2, 5), (10, 25), (32, 50), (64, 100))
        ],
    ),
    "kmeans": (
        ("cost", "dir"),
        [
            {"k": k, "n": n, "d": 16}
            for k, n in ((10, 1000), (100, 10_000), (1000, 10_000))
        ],
    ),
    "llsq": (("primal", "gradient"), [{"n": n, "m": 128} for n in (16, 1024, 16_392)]),
    "lse": (("primal", "gradient"), [{"n": n} for n in (2500, 80_000, 1_280_000)]),
    "ode": (
        ("primal", "gradient"),
        [{"n": n, "s": s} for n, s in ((1000, 1), (10_000, 10), (100_000, 100))],
    ),
}


def gradbench_names(folder: Path, _: str) -> Iterator[str]:
    for module, (functions, sizes) in GRADBENCH.items():
        if (gradbench_package(folder) / "tools" / "jax" / f"{module}.py").exists():
            for i in range(len(sizes)):
                yield from (f"{module}/{function}/{i}" for function in functions)


def gradbench_package(folder: Path) -> Path:
    return folder / "python" / "gradbench" / "gradbench"


def gradbench(folder: Path, name: str, _: str, library: str) -> Loaded:
    sys.path.insert(0, str(folder / "python" / "gradbench"))
    _, wait = copies(library)
    module, function, number = name.split("/")
    tool = importlib.import_module(f"gradbench.tools.{library}.{module}")
    wrapped = getattr(tool, function)
    size = GRADBENCH[module][1][int(number)]
    given = gradbench_input(module, **size)
    prepare = inspect.getclosurevars(wrapped.wrapped).nonlocals["pre"]
    return Loaded(
        wrapped.function,
        lambda: [prepare(given)],
        wait,
        lambda value, _: leaves(value),
    )


def gradbench_input(module: str, **size: int) -> dict[str, Any]:
    """Return random inputs of the size, under the names of the evaluation."""
    rng = np.random.default_rng(31337)
    if module == "gmm":
        d, k, n = size["d"], size["k"], size["n"]
        rows = {"q": (k, d), "l": (k, d * (d - 1) // 2), "x": (n, d), "alpha": (k,)}
        drawn = {key: rng.normal(size=shape) for key, shape in rows.items()}
        return dict(size, m=0, gamma=1.0, mu=rng.uniform(size=(k, d)), **drawn)
    if module == "kmeans":
        points = rng.random((size["n"], size["d"]))
        return {"points": points, "centroids": points[-size["k"] :]}
    n = size["m"] if module == "llsq" else size["n"]
    return dict(size, x=rng.random(n))


def complaint_names(*_: Any) -> Iterator[str]:
    cases = importlib.import_module("benchmarks.complaint_cases")
    return (case.name for case in cases.COMPLAINTS)


def complaints(_: Path, name: str, __: str, library: str) -> Loaded:
    cases = importlib.import_module("benchmarks.complaint_cases")
    jax = importlib.import_module(library)
    for submodule in cases.SUBMODULES:
        importlib.import_module(f"{library}.{submodule}")
    made = next(c.make(jax) for c in cases.COMPLAINTS if c.name == name)
    return Loaded(made, list, jax.block_until_ready, lambda value, _: leaves(value))


SUITES = {
    "npbench": Suite("spcl/npbench", npbench_names, npbench, has_numpy=True),
    "pyhpc": Suite("dionhaefner/pyhpc-benchmarks", pyhpc_names, pyhpc, has_numpy=True),
    "gradbench": Suite(
        "gradbench/gradbench", gradbench_names, gradbench, has_numpy=False
    ),
    "complaints": Suite("", complaint_names, complaints, has_numpy=False, rtol=2e-3),
}
