"""Modules of StableHLO by hand, with operands and results, to try plugins with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np


@dataclass
class Program:
    """A module; `expected` gives its results for the operands."""

    text: str
    operands: Sequence[np.ndarray]
    expected: Callable[..., Sequence[np.ndarray]]


def module(arguments: str, results: str, body: str, head: str = "", more="") -> str:
    """A module whose function @main has a body."""
    return f"""module @{more or "m"} attributes {{{head}}} {{
  func.func public @main({arguments}) -> ({results}) {{
{body}
  }}
}}"""


def random(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def elementwise(op: str, dtype: str, shape: str = "4x") -> str:
    """`op` of two operands."""
    t = f"tensor<{shape}{dtype}>"
    body = f"%0 = stablehlo.{op} %a, %b : {t}\nreturn %0 : {t}"
    return module(f"%a: {t}, %b: {t}", t, body)


def identity(dtype: str, shape: str) -> str:
    t = f"tensor<{shape}{dtype}>"
    return module(f"%a: {t}", t, f"return %a : {t}")


ADD = elementwise("add", "f32")

PRECISION = "precision = [HIGHEST, HIGHEST]"
_MATMUL = f"""%0 = stablehlo.dot_general %a, %b, contracting_dims = [1] x [0],
  {PRECISION} : (tensor<8x16xf32>, tensor<16x4xf32>) -> tensor<8x4xf32>
%1 = stablehlo.tanh %0 : tensor<8x4xf32>
return %1 : tensor<8x4xf32>"""
MATMUL = module(
    "%a: tensor<8x16xf32>, %b: tensor<16x4xf32>", "tensor<8x4xf32>", _MATMUL
)

LOOP = module(
    "%n: tensor<i32>, %x: tensor<4xf32>",
    "tensor<i32>, tensor<4xf32>",
    """%c = stablehlo.constant dense<0> : tensor<i32>
%r:2 = stablehlo.while(%i = %c, %y = %x) : tensor<i32>, tensor<4xf32>
cond {
  %p = stablehlo.compare LT, %i, %n, SIGNED
    : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %p : tensor<i1>
} do {
  %one = stablehlo.constant dense<1> : tensor<i32>
  %j = stablehlo.add %i, %one : tensor<i32>
  %k = stablehlo.constant dense<1.5> : tensor<4xf32>
  %z = stablehlo.multiply %y, %k : tensor<4xf32>
  stablehlo.return %j, %z : tensor<i32>, tensor<4xf32>
}
return %r#0, %r#1 : tensor<i32>, tensor<4xf32>""",
)

REDUCE = module(
    "%x: tensor<3x5xf32>",
    "tensor<3xf32>",
    """%z = stablehlo.constant dense<0.0> : tensor<f32>
%0 = stablehlo.reduce(%x init: %z) applies stablehlo.add across dimensions = [1]
  : (tensor<3x5xf32>, tensor<f32>) -> tensor<3xf32>
return %0 : tensor<3xf32>""",
)

SORT = module(
    "%k: tensor<9xf32>, %v: tensor<9xi32>",
    "tensor<9xf32>, tensor<9xi32>",
    """%0:2 = "stablehlo.sort"(%k, %v) <{dimension = 0 : i64, is_stable = true}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>, %c: tensor<i32>, %d: tensor<i32>):
    %p = stablehlo.compare LT, %a, %b, TOTALORDER
      : (tensor<f32>, tensor<f32>) -> tensor<i1>
    stablehlo.return %p : tensor<i1>
}) : (tensor<9xf32>, tensor<9xi32>) -> (tensor<9xf32>, tensor<9xi32>)
return %0#0, %0#1 : tensor<9xf32>, tensor<9xi32>""",
)

GATHER = module(
    "%x: tensor<6x3xf32>, %i: tensor<4x1xi32>",
    "tensor<4x3xf32>",
    """%g = "stablehlo.gather"(%x, %i) <{dimension_numbers = #stablehlo.gather<
  offset_dims = [1], collapsed_slice_dims = [0], start_index_map = [0],
  index_vector_dim = 1>, indices_are_sorted = false,
  slice_sizes = array<i64: 1, 3>}>
  : (tensor<6x3xf32>, tensor<4x1xi32>) -> tensor<4x3xf32>
return %g : tensor<4x3xf32>""",
)

SCATTER = module(
    "%x: tensor<6x3xf32>, %i: tensor<4x1xi32>, %u: tensor<4x3xf32>",
    "tensor<6x3xf32>",
    """%s = "stablehlo.scatter"(%x, %i, %u) <{indices_are_sorted = false,
  scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1],
  inserted_window_dims = [0], scatter_dims_to_operand_dims = [0],
  index_vector_dim = 1>, unique_indices = false}> ({
  ^bb0(%a: tensor<f32>, %b: tensor<f32>):
    %t = stablehlo.add %a, %b : tensor<f32>
    stablehlo.return %t : tensor<f32>
}) : (tensor<6x3xf32>, tensor<4x1xi32>, tensor<4x3xf32>) -> tensor<6x3xf32>
return %s : tensor<6x3xf32>""",
)


def _added(x, indices, updates):
    out = x.copy()
    np.add.at(out, indices[:, 0], updates)
    return [out]


_ROWS = np.array([[5], [0], [2], [0]], np.int32)
_KEYS = random(9, seed=3)
PROGRAMS = {
    "add": Program(ADD, [random(4), random(4, seed=1)], lambda a, b: [a + b]),
    "matmul": Program(
        MATMUL, [random(8, 16), random(16, 4)], lambda a, b: [np.tanh(a @ b)]
    ),
    "loop": Program(
        LOOP,
        [np.int32(7), random(4)],
        lambda n, x: [n, x * np.float32(1.5) ** np.float32(n)],
    ),
    "reduce": Program(REDUCE, [random(3, 5)], lambda x: [x.sum(1)]),
    "sort": Program(
        SORT,
        [_KEYS, np.arange(9, dtype=np.int32)],
        lambda k, v: [np.sort(k), v[np.argsort(k, kind="stable")]],
    ),
    "gather": Program(GATHER, [random(6, 3), _ROWS], lambda x, i: [x[i[:, 0]]]),
    "scatter": Program(SCATTER, [random(6, 3), _ROWS, random(4, 3)], _added),
}

NOT_STABLEHLO = elementwise("nosuchop", "f32")
NOT_TYPED = MATMUL.replace("tensor<16x4xf32>", "tensor<15x4xf32>")

# ---- several devices

_FOUR = "mhlo.num_partitions = 4 : i32, mhlo.num_replicas = 1 : i32"


def _sharded(mesh: str, a: str, b: str, out: str) -> str:
    arguments = f"%a: tensor<8x16xf32> {{{a}}}, %b: tensor<16x4xf32> {{{b}}}"
    text = module(arguments, f"tensor<8x4xf32> {{{out}}}", _MATMUL, _FOUR)
    return text.replace("{\n  func", f"{{\n  {mesh}\n  func", 1)


#: MATMUL whose contracted dim lies on four devices, and whose result's rows do.
SHARDY = _sharded(
    'sdy.mesh @mesh = <["x"=4]>',
    'sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>',
    'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>',
    'sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>',
)
GSPMD = _sharded(
    "",
    'mhlo.sharding = "{devices=[1,4]<=[4]}"',
    'mhlo.sharding = "{devices=[4,1]<=[4]}"',
    'mhlo.sharding = "{devices=[4,1]<=[4]}"',
)

_SUM = """"stablehlo.all_reduce"(%arg) <{{{attributes}
  replica_groups = dense<[[0, 1, 2, 3]]> : tensor<1x4xi64>}}> ({{
  ^bb0(%x: tensor<f32>, %y: tensor<f32>):
    %s = stablehlo.add %x, %y : tensor<f32>
    stablehlo.return %s : tensor<f32>
}}) : (tensor<2x4xf32>) -> tensor<2x4xf32>"""
_CHANNEL = (
    "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>,"
    " use_global_device_ids,"
)

#: The sum of four blocks of rows, as `shard_map` has it.
MANUAL = module(
    "%a: tensor<8x4xf32>",
    "tensor<2x4xf32>",
    f"""%0 = sdy.manual_computation(%a) in_shardings=[<@mesh, [{{"x"}}, {{}}]>]
  out_shardings=[<@mesh, [{{}}, {{}}]>] manual_axes={{"x"}} (%arg: tensor<2x4xf32>) {{
  %r = {_SUM.format(attributes=_CHANNEL)}
  sdy.return %r : tensor<2x4xf32>
}} : (tensor<8x4xf32>) -> tensor<2x4xf32>
return %0 : tensor<2x4xf32>""",
    _FOUR,
).replace("{\n  func", '{\n  sdy.mesh @mesh = <["x"=4]>\n  func', 1)

#: The same of four replicas, as `pmap` has it, and which replica it is.
REPLICAS = module(
    "%arg: tensor<2x4xf32>",
    "tensor<2x4xf32>, tensor<ui32>",
    f"""%r = {_SUM.format(attributes="")}
%i = stablehlo.replica_id : tensor<ui32>
return %r, %i : tensor<2x4xf32>, tensor<ui32>""",
    "mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 4 : i32",
)
