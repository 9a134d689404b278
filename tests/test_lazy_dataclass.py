"""Dataclasses made at their first use are the ones of the standard library."""

import copy
import dataclasses
import gc
import inspect
import pickle
import subprocess
import sys
import threading
from typing import ClassVar

import pytest

from curta._base.lazy_dataclass import dataclass
from curta.primitives.shape import Squeeze


def pair(decorate):
    @decorate(frozen=True)
    class Base:
        a: int
        b: int = 2

    @decorate(frozen=True)
    class Derived(Base):
        c: list = dataclasses.field(default_factory=list)
        d: int = dataclasses.field(default=4, kw_only=True)
        e: int = dataclasses.field(default=5, init=False)

        def __post_init__(self):
            self.c.append(len(self.c))

    return Base, Derived


CALLS = [
    ((1,), {}),
    ((1, 3), {}),
    ((1, 3, [7]), {"d": 8}),
    ((), {"a": 1, "c": [2]}),
    ((), {}),
    ((1, 2, [], 4), {}),
    ((1,), {"e": 3}),
    ((1,), {"a": 1}),
]


@pytest.mark.parametrize("args, kwargs", CALLS)
def test_instances_are_those_of_dataclasses(args, kwargs):
    outcomes, given = [], (args, kwargs)
    for decorate in (dataclass, dataclasses.dataclass):
        args, kwargs = copy.deepcopy(given)
        _, Derived = pair(decorate)
        try:
            made = Derived(*args, **kwargs)
        except TypeError as error:
            outcomes.append(str(error))
        else:
            copied = dataclasses.replace(made, a=9)
            assert made == dataclasses.replace(made) and made != copied
            outcomes.append((repr(made), repr(copied), dataclasses.astuple(made)))
    assert outcomes[0] == outcomes[1]


def test_nothing_is_generated_before_the_first_use():
    Base, Derived = pair(dataclass)
    assert "__eq__" not in vars(Base) and "__eq__" not in vars(Derived)
    assert [f.name for f in dataclasses.fields(Derived)] == ["a", "b", "c", "d", "e"]
    assert "__eq__" in vars(Base) and "__eq__" in vars(Derived)
    assert "__setstate__" not in vars(Base)


def test_a_plain_dataclass_may_derive_from_a_lazy_one():
    Base, _ = pair(dataclass)

    @dataclasses.dataclass(frozen=True)
    class Plain(Base):
        z: int = 0

    assert Plain(1, z=3) == Plain(1, 2, 3)
    assert hash(Base(1)) == hash(Base(1, 2))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Base(1).a = 2


@pytest.mark.parametrize("decorate", [dataclass, dataclasses.dataclass])
def test_frozen_classes_refuse_changes(decorate):
    Base, Derived = pair(decorate)
    for made in (Base(1), Derived(1)):
        with pytest.raises(
            dataclasses.FrozenInstanceError, match="assign to field 'a'"
        ):
            made.a = 2
        with pytest.raises(
            dataclasses.FrozenInstanceError, match="assign to field 'z'"
        ):
            made.z = 2
        with pytest.raises(dataclasses.FrozenInstanceError, match="delete field 'a'"):
            del made.a
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        decorate(frozen=False)(type("Melted", (Base,), {}))()


def test_the_options():
    @dataclass(eq=False)
    class Identity:
        x: int = 0

    @dataclass
    class Mutable:
        x: int = 0

    a, b = Identity(), Identity()
    assert a != b and len({a, b}) == 2
    m = Mutable(3)
    m.x = 4
    assert m == Mutable(4)
    with pytest.raises(TypeError, match="unhashable"):
        hash(m)


def test_an_instance_is_unpickled_where_the_class_was_not_used():
    read = (
        "import pickle, sys; op = pickle.loads(sys.stdin.buffer.read());"
        "from curta.primitives.shape import Squeeze;"
        "assert op == Squeeze((0,)) and hash(op) == hash(Squeeze((0,)))"
    )
    data = pickle.dumps(Squeeze((0,)))
    subprocess.run([sys.executable, "-c", read], input=data, check=True)


def test_threads_may_make_the_first_instance_together():
    for _ in range(50):
        _, Derived = pair(dataclass)
        barrier, made = threading.Barrier(4), []

        def make(Derived=Derived, barrier=barrier, made=made):
            barrier.wait()
            made.append(Derived(1))

        threads = [threading.Thread(target=make) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert made == [Derived(1)] * 4


def test_what_is_made_often_is_the_same():
    _, Derived = pair(dataclass)
    first = vars(Derived)["__init__"]
    made = [Derived(1, c=[3], d=i) for i in range(200)]
    assert vars(Derived)["__init__"] is not first
    assert [x.d for x in made] == [*range(200)]
    assert repr(made[0]).partition("d=0")[2] == repr(made[-1]).partition("d=199")[2]
    assert list(vars(made[0])) == list(vars(made[-1])) == ["a", "b", "c", "d", "e"]


def test_fields_have_the_types_that_were_written():
    @dataclass
    class Annotated:
        x: "int"
        kind: "ClassVar[str]" = "k"
        y: float = 0.0
        later: "dataclasses.InitVar[int]" = 0

    fields = {f.name: f.type for f in dataclasses.fields(Annotated)}
    assert fields == {"x": "int", "y": float}
    assert Annotated.__annotations__["kind"] == "ClassVar[str]"


def test_signatures_are_those_of_dataclasses():
    """Before the first use, after it, and after many calls."""
    signatures = []
    for decorate in (dataclass, dataclasses.dataclass):
        _, Derived = pair(decorate)

        class Own(Derived):
            def __init__(self, z):
                super().__init__(z)

            def __call__(self, y):
                return y

        shown = []
        for calls in (0, 1, 100):
            instances = [Own(i) for i in range(calls)]
            kinds = Derived, Own, *instances[-1:]
            shown.append([str(inspect.signature(k)) for k in kinds])
        signatures.append(shown)
    assert signatures[0] == signatures[1]
    assert "b: int = 2, c: list = <factory>, *, d: int = 4" in signatures[0][0][0]


class Interrupted(BaseException):
    pass


def interrupted(line, call):
    """Whether the call, in which so many lines make a class, was interrupted there."""
    before, inside, seen = sys.gettrace(), False, 0

    def trace(frame, event, arg):
        nonlocal inside, seen
        if frame.f_code.co_name == "_make_methods":
            inside = event != "return"
        seen += inside and event == "line"
        if seen == line:
            raise Interrupted
        return trace

    gc.disable()  # what it calls would be interrupted instead, of which nobody hears
    sys.settrace(trace)
    try:
        call()
    except Interrupted:
        return True
    finally:
        sys.settrace(before)
        gc.enable()
    return False


def test_a_class_whose_making_was_interrupted_is_made_anew():
    """By Ctrl-C at any moment of its first use."""
    for line in range(1, 2000, 13):
        _, Derived = pair(dataclass)
        was = interrupted(line, lambda: Derived(1))  # noqa: B023
        assert Derived(1) == Derived(1, 2) != Derived(2)
        assert repr(Derived(1)).count("=") == len(dataclasses.fields(Derived))
        assert Derived(1).c == [0]
        if not was:
            break
    assert line > 100
