"""`ds`: a slice given by its start and its size, so that the start may be traced."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from curta.tree.registration import register_pytree_node_class


@register_pytree_node_class
class Slice:
    """`size` indices from `start` on, `stride` apart. As a pytree, what is traced."""

    __slots__ = ("size", "start", "stride")

    size: Any
    stride: int

    def __init__(self, start: Any, size: Any, stride: int = 1):
        if stride < 0:
            raise ValueError(f"`stride` must be >= 0. Got {stride}")
        self.start: Any = start
        self.size: Any = size
        self.stride: int = stride

    def __repr__(self) -> str:
        return f"Slice(start={self.start}, size={self.size}, stride={self.stride})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slice):
            return NotImplemented
        own = (self.start, self.size, self.stride)
        return own == (other.start, other.size, other.stride)

    __hash__: ClassVar[None] = None  # type: ignore[assignment]  # as of a slice with arrays in it

    @property
    def is_dynamic_start(self) -> bool:
        """Whether the start is not a known integer."""
        return not isinstance(self.start, (int, np.integer))

    @property
    def is_dynamic_size(self) -> bool:
        """Whether the size is not a known integer."""
        return not isinstance(self.size, (int, np.integer))

    def tree_flatten(self) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Return traced fields as children and static fields as data."""
        start, size = (
            (x, None) if dynamic else (None, x)
            for x, dynamic in (
                (self.start, self.is_dynamic_start),
                (self.size, self.is_dynamic_size),
            )
        )
        return (start[0], size[0]), (start[1], size[1], self.stride)

    @classmethod
    def tree_unflatten(cls, data: Any, children: Any) -> Slice:
        """The slice of what `tree_flatten` gave."""
        start, size = (d if c is None else c for c, d in zip(children, data))
        return cls(start, size, data[2])


def ds(start: Any, size: Any = None, stride: int | None = None) -> slice | Slice:
    """A slice of `size` indices from `start`, which may be traced, for `x[...]`.

    `ds(i, n, s)` stands for `i : i + n * s : s`, `ds(n)` for `:n`, `ds(None)` for `:`.
    A start too near the end is moved back until the slice fits, as in
    `lax.dynamic_slice`.

    Args:
      start: an integer, which may be traced; the size, if no `size` is given.
      size: how many indices, a known integer.
      stride: how far apart, a known integer; 1 by default.

    Returns:
      An index for arrays.

    Raises:
      ValueError: for a stride that is negative or traced.
      TypeError: when it is used, for a size that is traced.

    >>> import curta
    >>> x = curta.numpy.arange(10)
    >>> curta.jit(lambda x, i: x[curta.ds(i, 2)])(x, 4)
    Array([4, 5], dtype=int32)
    """
    if start is None:
        return slice(None)
    if stride is not None and not isinstance(stride, int):
        raise ValueError(f"Non-static stride in `dslice`: {stride}")
    step = 1 if stride is None else stride
    return Slice(0, start, step) if size is None else Slice(start, size, step)
