"""Hints what to change in a program, from what its kernels cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

import numpy as np

from curta.api.explain_costs import KernelCost, ProgramCost, every, line
from curta.core.jaxpr import ClosedJaxpr, Jaxpr, jaxprs_in_params
from curta.core.source_info import SourceInfo

_LARGE_CONSTANTS = 1 << 20  # bytes
_LARGE_ARGUMENTS = 1 << 20
_WORTH_A_HINT = 0.05  # of the time
_MANY_TIMES = 200  # that one line of a program is traced
_LOOPS = {"scan", "while"}
_FAR_FROM_LIMIT = 0.25  # of memory
_LARGE_TRANSPOSE = 1 << 20  # bytes, which do not fit the first caches


def hints(cost: ProgramCost, closed: ClosedJaxpr, args: Sequence[Any]) -> Iterator[str]:
    """What to change in a program, the most expensive first; `args` are the user's."""
    kernels, constants = cost.kernels, cost.memory["constants"]
    for kernel in every(kernels):
        if kernel.reason:
            yield _python_hint(kernel)
    total = cost.sum_of_kernels or 1.0
    for kernel in sorted(kernels, key=lambda k: -k.seconds):
        if kernel.seconds / total >= _WORTH_A_HINT:
            yield from _kernel_hints(kernel, kernel.seconds / total)
    if (cost.around_kernels or 0.0) / (cost.seconds or 1.0) >= _WORTH_A_HINT:
        yield from _conversion_hints(closed, args)
    if constants >= _LARGE_CONSTANTS:
        yield (
            f"{constants:,} bytes of arrays are constants of the program, because the"
            " function closes over them: pass them as arguments, so that they are not"
            " kept twice, nor hashed and traced again when they change."
        )
    yield from _unrolled_hints(closed.jaxpr)


def _kernel_hints(kernel: KernelCost, share: float) -> Iterator[str]:
    takes = f"takes {share:.0%} of the time{_where(kernel)}"
    if kernel.only_moves:
        yield (
            f"Kernel {kernel.index} only copies ({', '.join(kernel.ops)}) and {takes}:"
            " keep the array in the order in which it is read next, or let einsum or"
            " dot_general take its dims as they are."
        )
    elif _reads_across(kernel):
        yield (
            f"Kernel {kernel.index} reads or writes an array across its rows"
            f" (transpose), at {kernel.share_of_limit:.0%} of the limit of memory, and"
            f" {takes}: keep both arrays in the same order."
        )
    elif share >= _WORTH_ADVICE and not kernel.reason:
        yield from _limit_hints(kernel, takes)
    if kernel.dtypes & {"float64", "complex128"}:
        yield (
            f"Kernel {kernel.index} computes in float64 and {takes}: float32 has half"
            " the bytes, and twice the elements fit a vector."
        )


def _limit_hints(kernel: KernelCost, takes: str) -> Iterator[str]:
    """What may bring a kernel nearer to the limits of the machine."""
    if kernel.share_of_limit >= _FAR_FROM_LIMIT:
        return
    reached = f"{kernel.share_of_limit:.0%} of the limit of {kernel.bound}"
    if inner := [k for program in kernel.inner for k in program]:
        slowest = max(inner, key=lambda k: k.seconds)
        remedy = f"most of it is {' '.join(slowest.ops)}{_where(slowest)}; do more work"
        remedy += " in each iteration, by vmap for one, or fewer iterations"
    elif kernel.seconds < _SHORT:
        remedy = "it has little work; larger arrays use the machine better"
    else:
        found = (text for ops, text in _REMEDIES if ops & {*kernel.ops})
        remedy = next(found, "read fewer bytes, or narrower dtypes")
    yield f"Kernel {kernel.index} {takes} at {reached}: {remedy}."


_WORTH_ADVICE = 0.1  # of the time
_SHORT = 2e-5  # seconds
_REMEDIES: tuple[tuple[set[str], str], ...] = (
    ({"sort", "sorted_rows"}, "top_k, min or partition do less than a sort"),
    (
        {"gather", "scatter", "scatter-add", "dynamic_slice", "scatter_add"},
        "elements are read or written at scattered places; sort the indices, or use"
        " slices where they are consecutive",
    ),
    (
        {"cumsum", "cumprod", "cummax", "cummin", "cumlogsumexp"},
        "each element waits for the one before; scan along a dim that is short",
    ),
    (
        {"dot_general", "conv_general_dilated"},
        "products of small or narrow matrices are slow; batch them into larger ones",
    ),
    (
        {"cholesky", "lu", "qr", "eigh", "svd", "triangular_solve", "eig"},
        "factorizations of small matrices are slow; batch them, and factorize once",
    ),
    (
        {"exp", "log", "tanh", "sin", "cos", "erf", "erf_inv", "pow", "logistic"}
        | {"lgamma", "digamma", "random_bits", "threefry2x32", "exp2", "log1p"},
        "transcendental functions and random bits take its time; compute them once"
        " and keep them",
    ),
    (
        {"while", "scan"},
        "its iterations depend on each other; vmap over several",
    ),
)


def _reads_across(kernel: KernelCost) -> bool:
    return (
        kernel.kind == "loops"
        and "transpose" in kernel.ops
        and kernel.bytes >= _LARGE_TRANSPOSE
        and kernel.bound == "memory"
        and kernel.share_of_limit < _FAR_FROM_LIMIT
    )


def _python_hint(kernel: KernelCost) -> str:
    if "calls a Python function" in kernel.reason:
        remedy = "write it with array operations, or call it less often"
    else:
        remedy = "convert the operands to another dtype, float32 or int32 for one"
    return (
        f"Kernel {kernel.index} runs in Python{_where(kernel)}: {kernel.reason};"
        f" {remedy}."
    )


def _where(kernel: KernelCost) -> str:
    return f" ({kernel.lines[-1]})" if kernel.lines else ""


def _conversion_hints(closed: ClosedJaxpr, args: Sequence[Any]) -> Iterator[str]:
    """Arrays of NumPy that each call converts to another dtype."""
    names = closed.jaxpr.debug_info.arg_names
    for i, (x, aval) in enumerate(zip(args, closed.in_avals)):
        if not isinstance(x, np.ndarray) or x.nbytes < _LARGE_ARGUMENTS:
            continue
        if x.dtype != aval.dtype:
            name = names[i] if i < len(names) else f"number {i}"
            yield (
                f"Argument {name} is a NumPy array of {x.dtype}, which each call"
                f" converts to {aval.dtype}: convert it once, by jnp.asarray({name})."
            )


def _unrolled_hints(jaxpr: Jaxpr) -> Iterator[str]:
    """Lines of functions that are traced again and again, as by a loop of Python."""
    counts = Counter(_traced_lines(jaxpr))
    told: set[CodeType] = set()
    for (op, code, lasti), count in counts.most_common():
        if count < _MANY_TIMES:
            break
        if code not in told:
            told.add(code)
            where = line(SourceInfo(code, lasti))
            yield (
                f"{op} is {count:,} times in the program by one line ({where}): a loop"
                " of Python is unrolled into it, which takes long to trace and to"
                " compile. lax.fori_loop or lax.scan keeps it a loop, vmap makes of it"
                " one operation on larger arrays."
            )


def _traced_lines(jaxpr: Jaxpr) -> Iterator[tuple[str, CodeType, int]]:
    for eqn in jaxpr.eqns:
        info = eqn.source_info
        if info.code is not None:
            yield eqn.op.name, info.code, info.lasti
        if eqn.op.name in _LOOPS:  # functions of libraries are traced for others too
            for inner in jaxprs_in_params(eqn.params):
                yield from _traced_lines(inner)
