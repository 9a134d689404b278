"""Tier A: programs with symbolic dims, at the sizes of actual arguments."""

import re

import numpy as np
import pytest
from tests.accelerators import xla

import curta
import curta.numpy as jnp
from curta import export


def at_sizes(text, args):
    """The text of a module that calls `@main` with arguments of these shapes."""
    [head] = re.findall(r"func.func public @main\((.*)\) -> \((.*)\) \{\n", text)
    wanted = re.findall(r"tensor<\S*>", head[0])
    results = ", ".join(re.findall(r"tensor<\S*>", head[1]))
    given = [re.sub(r"\?", "{}", t).format(*x.shape) for t, x in zip(wanted, args)]
    names = [f"%arg{i}" for i in range(len(args))]
    values = [f"%a{i}" for i in range(len(args))]
    count = results.count("tensor")
    outs = ", ".join([f"%r#{i}" for i in range(count)] if count > 1 else ["%r"])
    lines = [
        f"func.func public @main({', '.join(map(': '.join, zip(names, given)))})"
        f" -> ({results}) {{",
        *[
            f"{v} = stablehlo.convert {n} : ({g}) -> {w}"
            for v, n, g, w in zip(values, names, given, wanted)
        ],
        f"%r{f':{count}' if count > 1 else ''} = call @exported({', '.join(values)}) :"
        f" ({', '.join(wanted)}) -> ({results})",
        f"return {outs} : {results}",
        "}",
    ]
    text = text.replace("func.func public @main(", "func.func private @exported(")
    # Locations may stand before the module.
    head, first, rest = re.split(r"^(module .*\n)", text, maxsplit=1, flags=re.M)
    return head + first + "\n".join([*lines, rest])


def several(x, y):
    return (
        jnp.sin(x).reshape(-1),
        x.sum(0) * 2 + jnp.arange(x.shape[1]),
        jnp.ones(x.shape) * y.shape[0],
        jnp.concatenate([x, x]),
        x[1:],
        x.shape[0] * y + (x.shape[1] - 9) // 2 + (x.shape[1] - 9) % 4,
        jnp.pad(x, ((1, x.shape[0]), (0, 2))),
        x @ x.T,
    )


@pytest.mark.parametrize("size", [(2, 3), (5, 1)])
def test_sizes(size):
    specs = export.symbolic_args_specs(
        (jnp.ones((4, 4)), jnp.ones(3)), ("a, b", "a + b"), constraints=("a >= 2",)
    )
    text = export.export(curta.jit(several))(*specs).mlir_module(serialized=False)
    text = str(text)
    xla.parse(text)
    args = [
        np.arange(np.prod(s), dtype=np.float32).reshape(s) for s in (size, (sum(size),))
    ]
    found = xla.run(xla.refined(at_sizes(text, args)), args)
    for out, want in zip(found, several(*map(jnp.asarray, args)), strict=True):
        np.testing.assert_allclose(out, want, rtol=1e-6)


def test_wrong_sizes():
    specs = export.symbolic_args_specs((jnp.ones(4),), ("a",), constraints=("a >= 2",))
    text = export.export(curta.jit(jnp.sin))(*specs).mlir_module(serialized=False)
    with pytest.raises(Exception, match="constraint a >= 2.*but found -1"):
        xla.refined(at_sizes(str(text), [np.ones(1, np.float32)]))
