"""The limits of paths: how they are read, replaced and separated."""

from __future__ import annotations

import dataclasses
import threading

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta._settings.tuning import DEFAULT, SHRUNK, parse_tuning
from curta.config import config, tuning
from curta.primitives.elementwise import neg
from curta.runtime import eager


def test_every_limit_has_a_shrunk_value_of_its_own() -> None:
    same = [
        f.name
        for f in dataclasses.fields(DEFAULT)
        if getattr(DEFAULT, f.name) == getattr(SHRUNK, f.name)
    ]
    assert same == []


def test_a_tuning_is_replaced_for_a_block_and_a_thread() -> None:
    seen = []
    with tuning("shrunk"):
        assert config.tuning is SHRUNK
        thread = threading.Thread(target=lambda: seen.append(config.tuning))
        thread.start()
        thread.join()
    assert config.tuning is DEFAULT
    assert seen == [DEFAULT]
    few = dataclasses.replace(DEFAULT, most_chunks=2)
    with tuning(few):
        assert config.tuning is few


@pytest.mark.parametrize("value", ["tiny", 3, None])
def test_what_is_no_tuning_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="expected a Tuning or one of"):
        parse_tuning(value)


def test_a_tuning_is_part_of_the_keys() -> None:
    traces = []

    @curta.jit
    def total(x):
        traces.append(config.tuning)
        return x.sum()

    x = jnp.asarray(np.linspace(0, 1, 1 << 16, dtype=np.float32))
    first = total(x)
    with tuning("shrunk"):
        other = total(x)
    again = total(x)
    assert traces == [DEFAULT, SHRUNK]
    np.testing.assert_allclose(first, other, rtol=1e-5)
    assert first == again


@pytest.mark.parametrize("wrong", [{"fewest_lanes": 64}, {"tile": 12}])
def test_limits_that_depend_on_one_another_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        dataclasses.replace(DEFAULT, **wrong)


def test_plans_of_eager_ops_follow_the_tuning() -> None:
    x = jnp.ones(3)

    def is_compiled() -> bool:
        neg(x)
        return eager._plans[config.context, type(neg), x.aval].run is None

    with tuning("default"):
        assert not is_compiled()
        with tuning("shrunk"):
            assert is_compiled()
        assert not is_compiled()


def test_a_tuning_shows_what_is_not_the_default() -> None:
    assert repr(DEFAULT) == "Tuning()"
    few = dataclasses.replace(DEFAULT, tile=4, most_chunks=2)
    assert repr(few) == "Tuning(most_chunks=2, tile=4)"
