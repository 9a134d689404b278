"""Public functions take what those of each release of JAX take, as tools/ has it."""

import importlib.util
from pathlib import Path

import pytest

import curta
import curta.numpy as jnp
from curta import lax, random
from curta._settings.api_version import RELEASES

FILE = Path(__file__).parent.parent / "tools" / "signatures.py"
spec = importlib.util.spec_from_file_location("signatures", FILE)
assert spec is not None and spec.loader is not None
signatures = importlib.util.module_from_spec(spec)
spec.loader.exec_module(signatures)


@pytest.mark.parametrize("version", RELEASES)
def test_signatures_are_those_of_the_release(version):
    assert not signatures.unexpected(version, RELEASES[version])


def test_what_is_said_to_differ_does():
    differing = {name for r in RELEASES.values() for name, _ in signatures.find(r)}
    assert not signatures.MEANT.keys() - differing


def signature_of(function):
    found = signatures.signature(function)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (lambda x, axis=None: x, []),
        (lambda x, axis=None, more=0: x, []),
        (lambda x, axis=0: x, ["axis=0, in JAX None"]),
        (lambda x, more=0, axis=None: x, ["axis at another place"]),
        (lambda x, *, axis=None: x, ["axis at another place"]),
        (lambda x: x, ["no axis"]),
        (lambda y, axis=None: y, ["no x"]),
    ],
)
def test_what_a_difference_is(ours, said):
    theirs = signature_of(lambda x, axis=None: x)
    assert [*signatures.differences(signature_of(ours), theirs)] == said


def test_a_line_is_read_as_it_was_written():
    def function(a, b=1, /, c="x", *args, d, e=None, **kwargs): ...

    line = f"f{signatures.text_of(signature_of(function))}"
    assert signatures.parse(line) == ("f", signature_of(function))


# ---- options of 0.12 that are nothing but names until they are used


@pytest.mark.parametrize("batch_size", [0, -1])
def test_keys_are_sorted_by_a_positive_number_at_a_time(batch_size):
    keys = jnp.array([[2, 1, 0], [1, 0, 1]])
    assert jnp.lexsort(keys, batch_size=1).tolist() == [1, 2, 0]
    with pytest.raises(ValueError, match="batch_size must be positive"):
        jnp.lexsort(keys, batch_size=batch_size)


def test_a_ufunc_has_its_own_reduceat():
    add = jnp.ufunc(lambda x, y: x + y, 2, 1, reduceat=lambda *a, **k: (a, k))
    (a, indices), options = add.reduceat(jnp.arange(3), jnp.array([0, 2]))
    assert a.tolist() == [0, 1, 2] and indices.tolist() == [0, 2]
    assert options == {"axis": 0, "dtype": None}


def test_erfc_takes_an_accuracy():
    highest = lax.AccuracyMode.HIGHEST
    assert lax.erfc(0.5, accuracy=highest) == lax.erfc(0.5)
    with pytest.raises(NotImplementedError, match="Accuracy 3 not supported"):
        lax.erfc(0.5, accuracy=3)  # type: ignore[arg-type]


@pytest.mark.filterwarnings("ignore:Explicitly requested dtype float64")
def test_random_sparse_arrays_are_of_the_default_float():
    from curta.experimental import sparse

    for wide in True, False:
        with curta.enable_x64(wide):
            made = sparse.random_bcoo(random.key(0), (3, 3))
            assert made.dtype == ("float64" if wide else "float32")


def test_references_are_not_pinned():
    with pytest.raises(NotImplementedError, match="pinned"):
        curta.new_ref(1.0, pin=True)
