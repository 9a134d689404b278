"""Making meshes, and putting one in scope."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

from curta._settings.api_version import AXIS_SHAPES
from curta.api.device_arguments import device_grid
from curta.api.signatures import P
from curta.config import mesh_context
from curta.core.mesh import EMPTY_ABSTRACT_MESH, AxisType, Mesh
from curta.core.mesh_scope import get_concrete_mesh, scope
from curta.core.trace import current_trace
from curta.runtime.devices import devices as all_devices


def _axis_shapes_too(make: Callable[P, Mesh]) -> Callable[P, Mesh]:
    """`make_mesh` that takes its first argument by its older name as well."""

    @functools.wraps(make)
    def wrapped(*args: P.args, **kwargs: P.kwargs) -> Mesh:
        if "axis_shapes" in kwargs:
            AXIS_SHAPES.check()
            kwargs["axis_sizes"] = kwargs.pop("axis_shapes")
        return make(*args, **kwargs)

    return wrapped


@_axis_shapes_too
def make_mesh(
    axis_sizes: Sequence[int],
    axis_names: Any,
    axis_types: tuple[AxisType, ...] | None = None,
    *,
    devices: Sequence[Any] | None = None,
) -> Mesh:
    """Create a mesh of the first devices.

    Args:
      axis_sizes: the sizes of the axes; before JAX 0.12 `axis_shapes`.
      axis_names: their names.
      axis_types: an `AxisType` for each; all `Explicit` if left out.
      devices: the devices to choose from; all, if left out.

    Returns:
      A `Mesh` of as many devices as the product of the sizes.

    Raises:
      ValueError: for sizes that are not integers, another number of names than of
        sizes, or too few devices.
      TypeError: for axis types that are none.

    >>> import curta
    >>> curta.make_mesh((1, 1), ("x", "y"))
    Mesh(axis_sizes=(1, 1), axis_names=('x', 'y'), axis_types=(Explicit, Explicit))
    """
    try:
        sizes = tuple(map(operator.index, axis_sizes))
    except TypeError:
        raise ValueError(
            "`axis_shapes` passed to `make_mesh` should be a sequence of ints. Got"
            f" {axis_sizes}"
        ) from None
    result = list(all_devices() if devices is None else devices)
    count = math.prod(sizes)
    if count > len(result):
        raise ValueError(
            f"Number of devices {len(result)} must be >= the product of mesh_shape"
            f" {sizes}. More CPU devices: set jax_num_cpu_devices={count}."
        )
    types = (AxisType.Explicit,) * len(sizes) if axis_types is None else axis_types
    return Mesh(device_grid(sizes, result[:count]), axis_names, types)


def create_device_mesh(
    mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    *,
    contiguous_submeshes: bool = False,
    allow_split_physical_axes: bool = False,
) -> Any:
    """An array of devices for a mesh of that shape.

    Args:
      mesh_shape: the sizes of the axes.
      devices: those to use, in this order; all by default.
      contiguous_submeshes: for networks of TPUs; changes nothing here.
      allow_split_physical_axes: for networks of TPUs; changes nothing here.

    Returns:
      A NumPy array of shape `mesh_shape` with a device as each element.

    Raises:
      ValueError: unless the product of the sizes is the number of devices.

    >>> create_device_mesh((1, 1)).shape
    (1, 1)
    """
    result = list(all_devices() if devices is None else devices)
    if math.prod(mesh_shape) != len(result):
        raise ValueError(
            f"Number of devices {len(result)} must equal the product of mesh_shape"
            f" {tuple(mesh_shape)}"
        )
    return device_grid(mesh_shape, result)


def create_hybrid_device_mesh(
    mesh_shape: Sequence[int],
    dcn_mesh_shape: Sequence[int],
    devices: Sequence[Any] | None = None,
    **options: Any,
) -> Any:
    """As `create_device_mesh`, for groups of devices with a slower network between.

    Args:
      mesh_shape: the sizes of the axes within a group.
      dcn_mesh_shape: the numbers of groups along each axis: there is one.
      devices: those to use, in this order; all by default.
      options: the options of JAX for how devices are grouped; there is one group here.

    Returns:
      A NumPy array of shape `mesh_shape` with a device as each element.

    Raises:
      ValueError: for several groups, or another number of devices.

    >>> from curta.experimental import mesh_utils
    >>> mesh_utils.create_hybrid_device_mesh((1, 1), (1, 1)).shape
    (1, 1)
    """
    if math.prod(dcn_mesh_shape) != 1:
        raise ValueError(
            "Number of slices 1 must equal the product of dcn_mesh_shape"
            f" {tuple(dcn_mesh_shape)}"
        )
    return create_device_mesh(mesh_shape, devices)


class set_mesh:
    """Set the mesh in scope, for the process or within a `with` block.

    With a mesh in scope, a bare `PartitionSpec` may stand where a sharding may.

    Raises ValueError inside of transformed functions, and if the argument is not a
    Mesh.

    >>> import curta
    >>> with curta.set_mesh(curta.make_mesh((1,), ("x",))):
    ...     curta.sharding.get_mesh().axis_names
    ('x',)
    """

    def __init__(self, mesh: Mesh | None):
        if mesh is not None and not isinstance(mesh, Mesh):
            raise ValueError(
                f"Expected mesh of type `jax.sharding.Mesh`. Got {type(mesh)}"
            )
        if not current_trace().is_evaluating():
            raise ValueError("`set_mesh` can only be used outside of `jax.jit`.")
        if mesh is not None and mesh.manual_axes:
            raise ValueError(
                f"mesh {mesh} contains manual axes which is not allowed when using"
                " `jax.set_mesh`. Please use `jax.shard_map` to enter into `Manual`"
                " mode instead."
            )
        abstract = EMPTY_ABSTRACT_MESH if mesh is None else mesh.abstract_mesh
        self._entered = mesh_context(scope()._replace(abstract=abstract, concrete=mesh))
        self._entered.__enter__()

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        self._entered.__exit__(None, None, None)


def get_mesh() -> Mesh:
    """Return the mesh in scope; an empty mesh if there is none.

    Raises ValueError inside of transformed functions.

    >>> import curta
    >>> with curta.set_mesh(curta.make_mesh((1,), ("i",))):
    ...     print(curta.sharding.get_mesh().axis_names)
    ('i',)
    """
    if not current_trace().is_evaluating():
        raise ValueError(
            "`get_mesh` can only be used outside of `jax.jit`. Maybe you want"
            " `jax.sharding.get_abstract_mesh()`?"
        )
    return get_concrete_mesh()
