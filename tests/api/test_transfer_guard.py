"""Transfers between host and device are allowed, logged or refused."""

from __future__ import annotations

import logging

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta.errors import JaxRuntimeError

IMPLICIT = [
    lambda x: curta.jit(lambda y: y)(np.ones(1, np.float32)),
    lambda x: curta.jit(lambda y: y)(2.0),
    lambda x: jnp.ones(1),
    lambda x: x + 1,
    lambda x: jnp.add(x, np.ones(3)),
    lambda x: jnp.asarray(np.ones(2)),
    lambda x: jnp.sin(1.0),
]


@pytest.fixture
def x():
    return jnp.arange(3.0)


@pytest.mark.parametrize("fun", IMPLICIT)
def test_implicit_transfers(fun, x, caplog):
    with curta.transfer_guard("allow"):
        fun(x)
    for level in "disallow", "disallow_explicit":
        with (
            curta.transfer_guard(level),
            pytest.raises(JaxRuntimeError, match="Disallowed host-to-device transfer"),
        ):
            fun(x)
    with curta.transfer_guard("log"), caplog.at_level(logging.WARNING):
        fun(x)
    assert "host-to-device transfer: aval=ShapedArray(" in caplog.text
    fun(x)


def test_explicit_transfers(x):
    for level in "log", "disallow", "log_explicit":
        with curta.transfer_guard(level):
            curta.device_put(np.ones(3))
            curta.device_put(2.0)
    with curta.transfer_guard("disallow_explicit"), pytest.raises(JaxRuntimeError):
        curta.device_put(np.ones(3))


def test_what_is_on_the_device_stays(x):
    f = curta.jit(lambda x: x + 1)
    f(x)
    with curta.transfer_guard("disallow_explicit"):
        np.testing.assert_array_equal(f(x) + x, [1, 3, 5])
        assert float(x[1]) == 1


def test_the_innermost_scope_counts(x):
    with curta.transfer_guard("disallow"):
        with curta.transfer_guard_host_to_device("allow"):
            jnp.ones(1)
        with pytest.raises(JaxRuntimeError):
            jnp.ones(1)


def test_the_setting_sets_all():
    curta.config.update("jax_transfer_guard", "disallow")
    try:
        assert curta.config.jax_transfer_guard_device_to_host == "disallow"
        with pytest.raises(JaxRuntimeError):
            jnp.ones(1)
    finally:
        curta.config.update("jax_transfer_guard", "allow")
    jnp.ones(1)


def test_unknown_levels_are_refused():
    with pytest.raises(ValueError, match="new enum value must be in"):
        curta.config.update("jax_transfer_guard", "forbid")
