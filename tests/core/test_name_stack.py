"""The scopes and transformations that eqns say they were recorded in."""

import curta
import curta.numpy as jnp
from curta import lax, nn
from curta.core import source_info
from curta.core.name_stack import NameStack, new_name_stack
from curta.extend.source_info_util import user_context


def layer(x):
    with curta.named_scope("layer"):
        return jnp.sin(x) * 2


def names(fun, *args):
    eqns = curta.make_jaxpr(fun)(*args).eqns
    return [(e.op.name, str(e.source_info.name_stack)) for e in eqns]


def test_stacks_print_as_paths():
    stack = new_name_stack("a").transform("jvp").extend("b").extend("c")
    assert str(stack) == "a/jvp(b)/c"
    assert str(stack[2:]) == "b/c"
    assert str(NameStack().transform("vmap")) == "vmap()"
    assert len(stack + new_name_stack("d")) == 5


def test_a_gradient_tells_its_passes():
    found = names(curta.named_scope("outer")(curta.grad(layer)), 1.0)
    assert ("cos", "outer/jvp(layer)") in found
    assert found[-1] == ("mul", "outer/transpose(jvp(layer))")


def test_transformations_nest():
    inner = curta.vmap(curta.vmap(layer))
    assert {n for _, n in names(inner, jnp.ones((2, 2)))} == {"vmap(vmap(layer))"}
    twice = {n for _, n in names(curta.grad(curta.grad(layer)), 1.0)}
    assert "jvp(transpose(jvp(layer)))" in twice


def test_a_pullback_takes_the_names_of_where_it_is_called():
    def fun(x):
        with curta.named_scope("forward"):
            _, pull = curta.vjp(layer, x)
        with curta.named_scope("backward"):
            return pull(1.0)

    assert names(fun, 1.0)[-1] == ("mul", "backward/transpose(jvp(layer))")


def test_names_of_bodies_are_their_own():
    @curta.named_scope("outer")
    def fun(x):
        step = curta.named_scope("step")(lambda c, _: (jnp.sin(c), None))
        return lax.scan(step, x, None, 3)[0]

    (scan,) = curta.make_jaxpr(curta.vmap(fun))(jnp.ones(2)).eqns
    assert str(scan.source_info.name_stack) == "vmap(outer)"
    assert str(scan.params["jaxpr"].eqns[0].source_info.name_stack) == "step"


def test_names_do_not_leak_out_of_a_failing_function():
    def fails(x):
        with curta.named_scope("inside"):
            raise RuntimeError(f"no {x}")

    try:
        curta.jit(curta.grad(fails))(1.0)
    except RuntimeError:
        pass
    assert names(jnp.sin, 1.0) == [("sin", "")]


def lowered(fun, *args):
    return curta.jit(fun).lower(*args).as_text("jaxpr", debug_info=True)


def test_lowered_text_has_paths_through_loops_and_calls():
    inner = curta.jit(curta.named_scope("scale")(lambda x: 2 * x))

    @curta.named_scope("model")
    def run(x):
        step = curta.named_scope("step")(lambda c, _: (jnp.sin(c), None))
        x = lax.scan(step, x, None, 3)[0]
        x = lax.while_loop(lambda x: x < 5, lambda x: x + 1, x)
        x = lax.cond(x > 6, jnp.cos, jnp.tan, x)
        return inner(x)

    text = lowered(run, 1.0)
    for path in (
        "jit(run)/model/while/body/step/sin ",
        "jit(run)/model/while/cond/lt ",
        "jit(run)/model/while/body/add ",
        "jit(run)/model/cond/branch_0_fun/tan ",
        "jit(run)/model/cond/branch_1_fun/cos ",
        "jit(run)/model/jit(<lambda>)/scale/mul ",
    ):
        assert path in text
    assert "test_name_stack.py" in text
    assert "jit(run)" not in curta.jit(run).lower(1.0).as_text("jaxpr")


def test_transformations_wrap_functions_in_paths_but_not_ops():
    text = lowered(curta.named_scope("a")(curta.vmap(curta.jit(jnp.sin))), jnp.ones(2))
    assert "/a/vmap(jit(sin))/sin " in text
    text = lowered(curta.named_scope("a")(curta.vmap(lax.sin)), jnp.ones(2))
    assert "/a/vmap()/sin " in text


def test_what_is_computed_again_is_told():
    text = lowered(curta.grad(curta.checkpoint(layer)), 1.0)
    assert "checkpoint/rematted_computation/layer/cos" in text


def test_a_context_gives_eqns_the_place_of_another():
    (eqn,) = curta.make_jaxpr(curta.named_scope("given")(jnp.sin))(1.0).eqns

    def fun(x):
        with user_context(eqn.source_info.traceback, name_stack=new_name_stack("a")):
            return jnp.cos(x)

    (copied,) = curta.make_jaxpr(fun)(1.0).eqns
    assert str(copied.source_info) == str(eqn.source_info)
    assert str(copied.source_info.name_stack) == "a"


def test_excluded_files_are_not_the_users():
    assert __file__ in str(curta.make_jaxpr(layer)(1.0).eqns[0].source_info)
    source_info.register_exclusion(__file__)
    source_info.register_exclusion(__file__)  # nor again
    assert __file__ not in str(curta.make_jaxpr(layer)(1.0).eqns[0].source_info)
    source_info.excluded_paths.remove(__file__)
    assert __file__ in str(curta.make_jaxpr(layer)(1.0).eqns[0].source_info)


def loss(x):
    y = jnp.tanh(nn.softmax(x))
    return (y * x).sum()


def lines(fun, *args):
    """The lines of the eqns, counted from the line of `loss`."""
    first = loss.__code__.co_firstlineno
    return [e.source_info.line - first for e in curta.make_jaxpr(fun)(*args).eqns]


def test_ops_of_the_library_and_of_rules_are_at_the_line_that_calls_for_them():
    assert {*lines(loss, jnp.ones(3))} == {1, 2}
    assert {*lines(curta.vmap(loss), jnp.ones((2, 3)))} == {1, 2}


def test_a_gradient_goes_back_over_the_lines():
    found = lines(curta.grad(loss), jnp.ones(3))
    assert {*found} == {1, 2}
    last = [n for i, n in enumerate(found) if i and found[i - 1] != n]
    assert last == [2, 1]


def test_after_an_error_in_the_library_lines_are_told_again():
    def tries(x):
        try:
            jnp.dot(x, jnp.ones(5))
        except TypeError:
            pass
        return loss(x)

    assert {1, 2} <= {*lines(tries, jnp.ones(3))}
    assert {1, 2} <= {*lines(curta.grad(tries), jnp.ones(3))}
