"""The devices that tier B compiles for without having them."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest

from curta.runtime.pjrt.library import Library
from curta.runtime.pjrt.plugins import Plugin, discover
from curta.runtime.pjrt.topology import Topology, create

NAMES = ("cuda", "tpu")
_WHEELS = {"cuda": "jax-cuda13-pjrt==0.10.2", "tpu": "libtpu"}


@cache
def plugin(name: str) -> Plugin:
    """The plugin of a platform; skips the test where it is not installed."""
    found = discover().get(name)
    if found is None:
        pytest.skip(f"tier B not run for {name}: pip install {_WHEELS[name]}")
    return found


def library(name: str) -> Library:
    """The plugin, loaded."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    return plugin(name).library()


@cache
def topology(name: str) -> Topology:
    """Four H100 of one machine, or four TPUs v5e."""
    if name == "tpu":
        return create(library(name), "v5e:2x2")
    config = Path(__file__).with_name("h100.txtpb").read_text()
    options = {"target_config": config, "topology": "1x1x4"}
    return create(library(name), "", options)
