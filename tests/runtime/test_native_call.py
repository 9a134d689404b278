"""Calls in native code: the same results, and no visible change of memory."""

import dataclasses
import gc
import threading
import weakref
from typing import NamedTuple

import numpy as np
import pytest

import curta
from curta import numpy as jnp, tree_util
from curta.api.jit import jit
from curta.runtime import native_call
from curta.runtime.native_call import MISS

pytestmark = pytest.mark.skipif(
    native_call._maker() is None, reason="objects are laid out in another way here"
)


def ready(fun, *args):
    """`fun` jitted, and its native call for these arguments."""
    f = jit(fun)
    for _ in range(2):  # the first one does not make it
        f(*args)
    native = f._native
    assert native(*args) is not MISS
    return f, native


def arange(n):
    return jnp.arange(n, dtype=jnp.float32)


def test_results():
    x = arange(5)
    f, native = ready(lambda x: x + 1, x)
    out = native(x)
    assert out.aval is f(x).aval
    np.testing.assert_array_equal(out, np.arange(5) + 1)


def test_trees():
    def f(a, b):
        return {"sum": a["x"] + b[0], "rest": (b[1][0], None)}

    x, y = arange(3), arange(4)
    _, native = ready(f, {"x": x, "w": y}, (x, [y], None))
    for _ in range(10):
        out = native({"w": y, "x": x}, (x, [y], None))
        assert out["sum"].tolist() == [0, 2, 4]
        assert out["rest"][0].tolist() == [0, 1, 2, 3]
        assert out["rest"][1] is None


class Pair(NamedTuple):
    left: object
    right: object


class Other(NamedTuple):
    left: object
    right: object


@tree_util.register_dataclass
@dataclasses.dataclass
class Layer:
    weight: object
    inside: object
    rate: float = dataclasses.field(default=2.0, metadata={"static": True})


class Counted:
    """A node with functions of its own, which may do anything."""

    def __init__(self, *items, about="a"):
        self.items, self.about = items, about
        self.meanwhile = lambda: None


def _taken_apart(node):
    node.meanwhile()
    return node.items, node.about


tree_util.register_pytree_node(Counted, _taken_apart, lambda a, x: Counted(*x, about=a))


def test_nodes_of_other_classes():
    def f(pair, layer, node):
        return pair.left + layer.weight * layer.rate, layer.inside[0] + node.items[0]

    x, y = arange(3), arange(4)
    args = Pair(x, None), Layer(x, (y, Pair(y, y))), Counted(y, [x], about=("a", 1))
    _, native = ready(f, *args)
    for _ in range(5):
        left, right = native(*args)
        assert left.tolist() == [0, 3, 6]
        assert right.tolist() == [0, 2, 4, 6]
    pair, layer, node = args
    for other in [
        (Other(x, None), layer, node),
        ((x, None), layer, node),
        (pair, Layer(x, layer.inside, 3.0), node),
        (pair, Layer(x, layer.inside, np.ones(2)), node),  # has no truth value
        (pair, Layer(y, layer.inside), node),
        (pair, layer, Counted(y, [x], about=("a", 2))),
        (pair, layer, Counted(y, [x], x, about=("a", 1))),
        (pair, layer, Counted(y, about=("a", 1))),
        (pair, layer, Counted()),
    ]:
        assert native(*other) is MISS
    assert native(*args) is not MISS


def test_errors_in_taking_nodes_apart_come_through():
    x = arange(3)
    f, _ = ready(lambda node: node.items[0] + 1, Counted(x))
    node = Counted(x)

    def fail():
        raise ZeroDivisionError("no parts")

    node.meanwhile = fail
    with pytest.raises(ZeroDivisionError, match="no parts"):
        f(node)
    assert f(Counted(x)).tolist() == [1, 2, 3]


def test_containers_that_change_while_nodes_are_taken_apart():
    """The found object is held, even if it has no other references."""

    def arguments():
        items = [Counted(arange(3) + 0), {"x": [arange(3) + 1]}, [arange(3) + 2]]
        return {"items": items}

    f, native = ready(lambda d: [d["items"][1]["x"][0] + d["items"][2][0]], arguments())
    for _ in range(3):
        given = arguments()

        def clear(given=given):
            given["items"].clear()
            given.clear()
            gc.collect()

        given["items"][0].meanwhile = clear
        assert native(given)[0].tolist() == [3, 5, 7]
    assert f(arguments())[0].tolist() == [3, 5, 7]


def test_donated_nodes():
    f = jit(lambda t: Layer(t.weight + 1, [x * 2 for x in t.inside]), donate_argnums=0)
    state = Layer(arange(3) + 0, [arange(4) + 0])
    for _ in range(5):
        before, state = state, f(state)
        assert before.weight.is_deleted()
    assert f._native(state) is not MISS
    assert state.weight.is_deleted()


def test_other_signatures_are_missed():
    x = arange(3)
    _, native = ready(lambda d: d["a"] + 1, {"a": x})
    for args in [
        (),
        ({"a": x}, x),
        ({"b": x},),
        ({"a": x, "b": x},),
        ({"a": arange(4)},),
        ({"a": 1.0},),
        ({"a": np.ones(3, np.float32)},),
        ({"a": None},),
        ([x],),
        (x,),
        (None,),
        ({"a": curta.device_put(x, curta.devices()[0])},),
    ]:
        assert native(*args) is MISS
    deleted = arange(3)
    deleted.delete()
    assert native({"a": deleted}) is MISS


@pytest.mark.parametrize("before", [1, 2])
def test_arrays_after_an_array_of_numpy(before):
    f = jit(lambda x: x + 1)
    for x in [arange(3)] * (before - 1) + [np.ones(3, np.float32)]:
        f(x)
    for _ in range(3):
        assert f(arange(3)).tolist() == [1, 2, 3]
    assert f._native(arange(3)) is not MISS


def test_several_signatures():
    f = jit(lambda x: x * 2)
    for n in range(1, 12):
        for _ in range(3):
            assert f(arange(n)).tolist() == [2.0 * i for i in range(n)]


def test_settings_and_transformations_are_missed():
    x = arange(3)
    f, native = ready(lambda x: x + 1, x)
    with curta.enable_x64(True):
        assert native(x) is MISS
    seen = []
    jit(lambda y: seen.append(native(x)) or y)(x)
    assert seen == [MISS]
    f.clear_cache()
    assert native(x) is MISS


LARGE = 20_000  # elements of results of which no program keeps one


class TestMemory:
    """Memory of dead results is used again, of living ones never."""

    def test_results_that_are_kept_stay(self):
        x = arange(4)
        f, _ = ready(lambda x: x + 1, x)
        kept, y = [], x
        for _ in range(20):
            y = f(y)
            kept.append(y)
        for i, y in enumerate(kept):
            np.testing.assert_array_equal(y, np.arange(4) + i + 1)

    @pytest.mark.parametrize(
        "hold",
        [
            np.asarray,
            lambda y: np.asarray(y)[1:],
            lambda y: memoryview(np.asarray(y)),
            np.from_dlpack,
            lambda y: y[1:],
            lambda y: y.reshape(2, -1),
            lambda y: curta.device_put(y, curta.devices()[0]),
            lambda y: next(iter(y)),
            lambda y: list(y[:4]),
        ],
    )
    @pytest.mark.parametrize("count", [4, LARGE])
    def test_views_of_dead_results_stay(self, hold, count):
        x = arange(count)
        f, _ = ready(lambda x: x + 1, x)
        view = hold(f(x))
        before = np.array(view)
        for i in range(10):
            f(x + i)
        np.testing.assert_array_equal(np.array(view), before)

    @pytest.mark.parametrize("count", [4, LARGE])
    def test_dead_results_are_used_again(self, count):
        x = arange(count)
        f, _ = ready(lambda x: x + 1, x)
        places = {f(x).unsafe_buffer_pointer() for _ in range(20)}
        assert len(places) <= 4

    def test_large_results_come_from_the_pool(self):
        """A step that makes one array of another takes turns between two blocks."""
        x = arange(LARGE)
        others = [x + i for i in range(6)]
        del others
        f, native = ready(lambda x: x + 1, x)
        y, places = f(x), set()
        for _ in range(20):
            y = native(y)
            places.add(y.unsafe_buffer_pointer())
        assert len(places) == 2
        assert y[0] == 21

    def test_weak_references(self):
        x = arange(4)
        f, _ = ready(lambda x: x + 1, x)
        y = f(x)
        dead = []
        reference = weakref.ref(y, lambda _: dead.append(1))
        del y
        later = f(x + 5)
        assert reference() is None or reference() is not later

    def test_deleted_results(self):
        x = arange(4)
        f, _ = ready(lambda x: x + 1, x)
        for _ in range(10):
            y = f(x)
            y.delete()
        assert f(x).tolist() == [1, 2, 3, 4]

    def test_functions_are_freed(self):
        f, _ = ready(lambda x: x + 1, arange(3))
        reference = weakref.ref(f)
        del f
        gc.collect()
        assert reference() is None


def test_errors_in_nodes_come_through():
    class Node:
        broken = False

        def __init__(self, x):
            if Node.broken:
                raise RuntimeError("no more nodes")
            self.x = x

    curta.tree_util.register_pytree_node(
        Node, lambda n: ((n.x,), None), lambda _, children: Node(*children)
    )
    x = arange(3)
    f, _ = ready(lambda x: Node(x + 1), x)
    Node.broken = True
    with pytest.raises(RuntimeError, match="no more nodes"):
        f(x)


def test_threads():
    f = jit(lambda d: {"a": d["a"] + 1, "b": d["a"] * d["b"]})
    wrong = []

    def work(seed):
        for i in range(300):
            n = 2 + (i + seed) % 3
            out = f({"a": arange(n), "b": arange(n)})
            if out["b"].tolist() != [float(j * j) for j in range(n)]:
                wrong.append((seed, i))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


def test_huge_containers_do_not_go_through_the_stack():
    x, outs = arange(3), []
    f = jit(lambda x, nothing: x + 1)

    def twice():
        for _ in range(2):
            outs.append(f(x, [None] * 300_000))

    before = threading.stack_size(1 << 21)  # less than the addresses of so many take
    try:
        thread = threading.Thread(target=twice)
        thread.start()
    finally:
        threading.stack_size(before)
    thread.join()
    np.testing.assert_array_equal(outs, [[1, 2, 3]] * 2)


def test_numbers_of_python():
    f, native = ready(lambda x, n: (x * n, n), arange(3), 2)
    x = arange(3)
    assert native(x, 5)[0].tolist() == [0, 5, 10]
    assert native(x, -(2**31))[1].tolist() == -(2**31)
    for other in (True, 2.0, 2**31, -(2**70), np.int32(2)):
        assert native(x, other) is MISS
    with pytest.raises(OverflowError):
        f(x, 2**31)


def test_floats_and_booleans():
    _, native = ready(lambda a, b: (a, b), 1.5, True)
    out = native(0.1, False)
    assert out[0].tolist() == np.float32(0.1) and out[1].tolist() is False
    assert out[0].aval.weak_type and not out[1].aval.weak_type
    assert np.isnan(native(float("nan"), True)[0])
    assert native(1e300, True) is MISS  # NumPy warns of it
    assert native(1, True) is MISS and native(1.5, 1) is MISS


def test_static_arguments():
    f = jit(lambda x, n, *, mode: x * n if mode == "times" else x + n,
            static_argnums=1, static_argnames="mode")  # fmt: skip
    x = arange(3)
    for _ in range(3):
        assert f(x, 3, mode="times").tolist() == [0, 3, 6]
    native = f._native
    assert native(x, 3, mode="ti" + "mes").tolist() == [0, 3, 6]
    for other in ((x, 3.0), (x, 4), (x, True)):
        assert native(*other, mode="times") is MISS
    assert native(x, 3, mode="plus") is MISS
    assert native(x, 3) is MISS


class Odd:
    """A static argument that cannot be compared."""

    def __init__(self, raises):
        self.raises = raises

    def __hash__(self):
        return 1

    def __eq__(self, other):
        if self.raises or other.raises:
            raise ValueError("odd")
        return True


def test_static_arguments_that_raise():
    f = jit(lambda x, n: x + 1, static_argnums=1)
    for _ in range(3):
        f(arange(2), Odd(False))
    assert f._native(arange(2), Odd(False)) is not MISS
    assert f._native(arange(2), Odd(True)) is MISS


def test_keywords():
    f = jit(lambda a, **rest: a - rest["c"] * rest["b"])
    x, y = arange(3), arange(3) + 1
    for _ in range(3):
        f(x, c=y, b=2.0)
    native = f._native
    assert native(x, c=y, b=3.0).tolist() == [-3, -5, -7]
    assert native(x, b=3.0, c=y) is MISS
    assert native(x, c=y) is MISS and native(x, c=y, d=2.0) is MISS
    assert f(x, b=3.0, c=y).tolist() == [-3, -5, -7]


def test_functions_of_the_library():
    x = arange(5)
    for _ in range(4):
        assert jnp.sum(x, axis=0).tolist() == 10
        assert jnp.where(x > 2, x, 0.0).tolist() == [0, 0, 0, 3, 4]
    gone = arange(5)
    for _ in range(4):
        jnp.sum(gone)
    gone.delete()
    with pytest.raises(RuntimeError, match="deleted"):
        jnp.sum(gone)


def test_donation_with_numbers():
    f = jit(lambda x, rate: x * rate, donate_argnums=0)
    x = arange(4)
    for _ in range(4):
        x = f(x, 2.0)
    old = x
    x = f(x, 0.5)
    assert old.is_deleted() and x.tolist() == [0, 8, 16, 24]


def test_long_calls_without_the_lock():
    """Arrays deleted during a call by other threads stay alive until its end."""

    def fun(xs):
        return [x * 2 + 1 for x in xs]

    xs = [jnp.full((64, 64), float(i)) for i in range(300)]
    f, native = ready(fun, xs)
    assert f._plans.entry_plans[0].call.run.program.long
    stop = threading.Event()

    def churn():
        while not stop.is_set():
            outs = f([x + 0 for x in xs[:300]])
            del outs

    thread = threading.Thread(target=churn)
    thread.start()
    try:
        for _ in range(20):
            own = [x + 0 for x in xs]
            out = native(own)
            assert float(out[7][0, 0]) == 15
    finally:
        stop.set()
        thread.join()
