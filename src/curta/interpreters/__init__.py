"""The rules that programs give to primitives of their own."""

from curta.interpreters import (
    ad as ad,
    batching as batching,
    mlir as mlir,
    partial_eval as partial_eval,
    pxla as pxla,
    xla as xla,
)
