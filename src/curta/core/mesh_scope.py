"""The mesh in scope: what `set_mesh` and its like say, in this thread."""

from __future__ import annotations

import contextlib
import threading
from typing import Any, Final, NamedTuple

from curta._base.on_demand import late
from curta._base.user_warnings import warn
from curta._settings.options import define
from curta._settings.parsers import parse_axes
from curta.config import config, mesh_context
from curta.core.mesh import (
    EMPTY_ABSTRACT_MESH,
    EMPTY_MESH,
    AbstractMesh,
    Mesh,
    last_made,
    retyped,
)

# Loaded late, as avals, on which they are built, imports this module.
trace: Any = late("curta.core.trace")
source_info: Any = late("curta.core.source_info")

no_collectives: Final = define(
    "jax_no_collectives",
    frozenset(),
    parse_axes,
    "Mesh axes along which programs must not have collectives.",
    traced=True,
)


class MeshScope(NamedTuple):
    """What is in scope: part of the key of everything that is traced.

    `concrete` is None where only an abstract mesh is known. With `checks_varying`
    avals say over which manual axes a value varies. `resources` is the mesh of the
    older `with mesh:`. With `guesses`, types are split by a guess where it is ambiguous
    how; the caller knows better.
    """

    abstract: AbstractMesh = EMPTY_ABSTRACT_MESH
    concrete: Mesh | None = None
    checks_varying: bool = False
    resources: Mesh | None = None
    guesses: bool = False


_NOTHING = MeshScope()


def scope() -> MeshScope:
    """The mesh scope of this thread."""
    result: MeshScope = config.curta_mesh_context or _NOTHING
    return result


def get_abstract_mesh() -> AbstractMesh:
    """Return the mesh in scope without its devices; an empty mesh if there is none.

    >>> import curta
    >>> curta.sharding.get_abstract_mesh().axis_names
    ()
    >>> with curta.set_mesh(curta.make_mesh((1,), ("i",))):
    ...     print(curta.sharding.get_abstract_mesh().axis_names)
    ('i',)
    """
    return scope().abstract


def get_concrete_mesh() -> Mesh:
    """Return the mesh in scope; an empty mesh if there is none."""
    return scope().concrete or EMPTY_MESH


def concrete_mesh(abstract: AbstractMesh, given: Mesh | None = None) -> Mesh | None:
    """The devices in scope, or those `given`, with these axes.

    Where there are none, or not as many, it is the last mesh made that has the axes.
    """
    around = scope().concrete or given
    if around is not None and around.size == abstract.size:
        return retyped(around, abstract)
    return last_made(abstract)


def known_mesh(mesh: Mesh | None) -> Any:
    """A context manager within which types that name its axes are over this mesh."""
    around = scope()
    if mesh is None or around.concrete is not None:
        return contextlib.nullcontext()
    return mesh_context(around._replace(concrete=mesh))


def outside_meshes() -> Any:
    """A context manager within which no mesh is in scope."""
    if config.curta_mesh_context is None:
        return contextlib.nullcontext()
    return mesh_context(None)


def guessing() -> Any:
    """A context manager within which ambiguous splits are guessed."""
    return mesh_context(scope()._replace(guesses=True))


def within(abstract: AbstractMesh, **changes: Any) -> Any:
    """A context manager that puts an abstract mesh in scope."""
    return mesh_context(scope()._replace(abstract=abstract, **changes))


def retyped_scope(mesh: AbstractMesh) -> Any:
    """A context manager with the axes of the mesh in scope of the types of another."""
    if scope().abstract.shape_tuple != mesh.shape_tuple:
        return contextlib.nullcontext()
    return within(mesh)


class use_abstract_mesh:
    """Put an abstract mesh in scope within a `with` block.

    Raises ValueError for what is no AbstractMesh, or one of another size.

    >>> import curta
    >>> from curta.sharding import AbstractMesh, use_abstract_mesh
    >>> with use_abstract_mesh(AbstractMesh((2,), ("i",))):
    ...     print(dict(curta.sharding.get_abstract_mesh().shape))
    {'i': 2}
    """

    def __init__(self, mesh: AbstractMesh):
        if not isinstance(mesh, AbstractMesh):
            raise ValueError(
                "Expected mesh of type `jax.sharding.AbstractMesh`. Got type:"
                f" {type(mesh)}"
            )
        self.mesh = mesh

    def __enter__(self) -> None:
        before = get_abstract_mesh()
        if not before.empty and not self.mesh.empty and before.size != self.mesh.size:
            raise ValueError(
                "use_abstract_mesh cannot change the size of the mesh. Got new mesh:"
                f" {self.mesh} with size={self.mesh.size} and prev mesh: {before} with"
                f" size={before.size}"
            )
        self._entered = contextlib.ExitStack()
        if self.mesh is not before:
            self._entered.enter_context(within(self.mesh))
            self._entered.enter_context(source_info.OnMesh(self.mesh))

    def __exit__(self, *error: Any) -> None:
        self._entered.close()


# ---- `with mesh:`


class _Entered(threading.local):
    """The `with mesh:` blocks that a thread is in."""

    def __init__(self) -> None:
        self.blocks: list[Any] = []


_entered = _Entered()


def enter(mesh: Mesh) -> None:
    """Put a mesh in scope as `with mesh:` does.

    Raises ValueError for one of another size, within a function that is traced.
    """
    warn(
        "`with mesh:` context manager has been deprecated. Please use `with"
        " jax.set_mesh(mesh):` instead.",
        DeprecationWarning,
    )
    around = scope().resources
    if around is not None and around.size != mesh.size:
        if not trace.thread_state.trace.is_evaluating():
            raise ValueError(
                "`with mesh:` within a transformed function cannot change the size"
                f" of the mesh. Got new mesh: {mesh} with size={mesh.size} and"
                f" prev mesh: {around} with size={around.size}"
            )
    entered = mesh_context(scope()._replace(resources=mesh))
    entered.__enter__()
    _entered.blocks.append(entered)


def leave() -> None:
    """Undo the last `enter` of this thread."""
    _entered.blocks.pop().__exit__(None, None, None)
