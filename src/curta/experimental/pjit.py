"""`pjit`, the older name of `jit`, which heeds the mesh of `with mesh:`."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from curta._base.on_demand import Listing, listed
from curta.api.jit import PjitFunction, jit
from curta.api.jit_shardings import sharding_tree

_OPEN: Any = object()


def pjit(
    fun: Callable[..., Any],
    in_shardings: Any = _OPEN,
    out_shardings: Any = _OPEN,
    static_argnums: Any = None,
    static_argnames: Any = None,
    donate_argnums: Any = None,
    donate_argnames: Any = None,
    keep_unused: bool = False,
    device: Any = None,
    backend: str | None = None,
    inline: bool = False,
    compiler_options: dict[str, Any] | None = None,
) -> PjitFunction[..., Any]:
    """As `jit`, for programs that put a mesh in scope by `with mesh:`.

    There what is left open is over all devices of the mesh, and a sharding that is
    None means that each of them holds the whole array. New programs say `jit`, and
    `set_mesh`.

    Args:
      fun: function of pytrees of arrays.
      in_shardings: shardings of the arguments, or a tree of them; left open by default.
      out_shardings: shardings of the results, likewise.
      static_argnums: the arguments that are known when the function is compiled.
      static_argnames: those given by keyword.
      donate_argnums: the arguments whose memory the results may take.
      donate_argnames: those given by keyword.
      keep_unused: keep arguments that the function does not use.
      device: the device to run on, instead of shardings.
      backend: the name of a platform to run on, likewise.
      inline: let programs that call it have its operations in their own text.
      compiler_options: by name; see `jit`.

    Returns:
      The compiled function, which `jit` would give.

    Raises:
      TypeError: if `fun` is not callable or an argument is of another type.
      ValueError: if shardings and argnums do not fit the arguments.

    >>> import curta, curta.numpy as jnp
    >>> from curta.experimental.pjit import pjit
    >>> double = pjit(lambda x: 2 * x, in_shardings=curta.P("x"))
    >>> with curta.sharding.Mesh(curta.devices()[:1], "x"):
    ...     double(jnp.arange(3)).sharding.spec
    P('x',)
    """
    shardings = {
        "in_shardings": None if in_shardings is _OPEN else in_shardings,
        "out_shardings": None if out_shardings is _OPEN else out_shardings,
    }
    plain = jit(
        fun,
        **shardings,
        static_argnums=static_argnums,
        static_argnames=static_argnames,
        donate_argnums=donate_argnums,
        donate_argnames=donate_argnames,
        keep_unused=keep_unused,
        device=device,
        backend=backend,
        inline=inline,
        compiler_options=compiler_options,
    )
    given = ("in_shardings", in_shardings), ("out_shardings", out_shardings)
    trees: dict[str, Any] = {
        what: sharding_tree("pjit", what, x) for what, x in given if x is not _OPEN
    }
    options = dataclasses.replace(plain._options, uses_resources=True, **trees)
    return PjitFunction(fun, options)


__all__ = ["pjit"]
__dir__: Listing = listed(__all__)
