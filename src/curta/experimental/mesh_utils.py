"""Arrays of devices for meshes."""

from curta.api.meshes import create_device_mesh, create_hybrid_device_mesh

__all__ = ["create_device_mesh", "create_hybrid_device_mesh"]
