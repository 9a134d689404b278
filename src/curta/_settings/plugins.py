"""Settings of plugins for accelerators."""

from __future__ import annotations

from curta._settings.options import define
from curta._settings.parsers import parse_plugin_options


def define_plugins() -> None:
    """Declare them."""
    define(
        "jax_pjrt_client_create_options",
        None,
        parse_plugin_options,
        "Options of plugins' clients: a dict, or text: 'key:value;key:value'.",
    )
    for name, maker in (("cuda", "NVIDIA"), ("rocm", "AMD")):
        define(
            f"jax_{name}_visible_devices",
            "all",
            str,
            f"The GPUs of {maker} to use: 'all', or their numbers, comma-separated.",
        )
