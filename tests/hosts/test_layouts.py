"""Arrays over several hosts whose parts are stored in another order of their dims."""

import numpy as np
import pytest
from tests.hosts.simulated_hosts import four_hosts  # noqa: F401

import curta
import curta.numpy as jnp
from curta import NamedSharding, P
from curta.experimental.layout import Format, Layout

X = np.arange(8 * 4 * 2, dtype=np.float32).reshape(8, 4, 2)
LAST_FIRST = Layout((2, 0, 1))


def rows():
    return NamedSharding(curta.make_mesh((4, 2), ("x", "y")), P("x", "y"))


def stored(x):
    return x.format.layout.major_to_minor, x.sharding


def laid_out():
    return curta.device_put(X, Format(LAST_FIRST, rows()))


def test_parts_are_stored_so_and_read_as_ever():
    x = laid_out()
    assert stored(x) == ((2, 0, 1), rows())
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(jnp.square(x), X * X)
    for shard in x.addressable_shards:
        assert shard.data.format.layout.major_to_minor == (2, 0, 1)
        np.testing.assert_array_equal(shard.data, X[shard.index])
    back = curta.device_put(x, Format(Layout((0, 1, 2)), rows()))
    assert back.format.layout.major_to_minor == (0, 1, 2)
    np.testing.assert_array_equal(back, X)
    columns = rows().update(spec=P(None, "x", "y"))
    moved = curta.device_put(x, Format(Layout((1, 0, 2)), columns))
    assert stored(moved) == ((1, 0, 2), columns)
    np.testing.assert_array_equal(moved, X)
    here = curta.device_put(x, curta.devices()[0])
    np.testing.assert_array_equal(here, X)
    x.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.sin(x)


@pytest.mark.parametrize("given", [(0, 1, 2), (2, 0, 1)])
@pytest.mark.parametrize("wanted", [None, (1, 2, 0), (2, 1, 0)])
def test_programs_take_and_give_them(given, wanted):
    put = Format(Layout(given), rows())
    columns = rows().update(spec=P(None, "x", "y"))
    out = columns if wanted is None else Format(Layout(wanted), columns)
    f = curta.jit(
        lambda x, y: (jnp.flip(x, 0) * 2 + y, y.sum()),
        in_shardings=(put, None),
        out_shardings=(out, None),
    )
    for x in (X, curta.device_put(X, put)):
        for _ in range(2):
            got, total = f(x, X[:1])
            np.testing.assert_array_equal(got, X[::-1] * 2 + X[:1])
            assert total == X[:1].sum()
            assert stored(got) == (wanted or (0, 1, 2), columns)


def test_layouts_that_the_compiler_chooses():
    auto = Format(Layout.AUTO)
    f = curta.jit(lambda x: x.transpose(1, 0, 2) + 1, out_shardings=auto)
    x = curta.device_put(X, rows())
    compiled = f.lower(x).compile()
    assert compiled.output_formats.layout.major_to_minor == (1, 0, 2)
    for result in (compiled(x), f(x)):
        assert result.format == compiled.output_formats
        np.testing.assert_array_equal(result, X.transpose(1, 0, 2) + 1)


def test_donated_arguments():
    put = Format(LAST_FIRST, rows())
    f = curta.jit(
        lambda x: x * 2, in_shardings=put, out_shardings=put, donate_argnums=0
    )
    x = laid_out()
    np.testing.assert_array_equal(f(x), X * 2)
    assert x.is_deleted()
    x = laid_out()
    g = curta.jit(lambda x, y: x + y, in_shardings=put, donate_argnums=0)
    with pytest.raises(Exception, match="donate"):
        g(x, x)
    assert not x.is_deleted()


def test_other_layouts_than_jit_was_told():
    f = curta.jit(jnp.negative, in_shardings=Format(Layout((1, 0, 2)), rows()))
    for _ in range(2):
        with pytest.raises(ValueError, match="does not match the layout on the respec"):
            f(laid_out())
        x = curta.device_put(X, Format(Layout((1, 0, 2)), rows()))
        np.testing.assert_array_equal(f(x), -X)


def test_what_is_put_in_another_order_is_an_array_of_its_own():
    x = laid_out()
    for end in (lambda y: y.delete(), curta.jit(lambda y: y + 1, donate_argnums=0)):
        y = curta.device_put(x, Format(Layout((0, 1, 2)), rows()))
        end(y)
        assert y.is_deleted() and not x.is_deleted()
        np.testing.assert_array_equal(x, X)
        np.testing.assert_array_equal(x.addressable_shards[0].data, X[:2, :2])
