"""Recurrent layers, against the equations written out step by step."""

import numpy as np
import pytest

import curta
import curta.numpy as jnp
from curta import random
from curta.experimental import rnn
from curta.test_util import check_grads

BATCH, TIME, INPUT, HIDDEN, LAYERS = 3, 5, 2, 4, 2
LENGTHS = np.array([5, 2, 3], np.int32)


def logistic(x):
    return 1 / (1 + np.exp(-x))


def one_sequence(x, h, c, arrays, layer, order):
    """Outputs and the last state of one layer on one sequence, by the equations."""
    w_ih, w_hh, b_ih, b_hh = (np.asarray(kind[layer], float) for kind in arrays)
    y = np.zeros((len(x), HIDDEN))
    for t in order:
        i, f, g, o = np.split(w_ih @ x[t] + b_ih + w_hh @ h + b_hh, 4)
        c = logistic(f) * c + logistic(i) * np.tanh(g)
        h = y[t] = logistic(o) * np.tanh(c)
    return y, h, c


def expected(x, h0, c0, arrays, directions):
    y = np.zeros((BATCH, TIME, directions * HIDDEN))
    h, c = np.zeros_like(h0), np.zeros_like(c0)
    for b, length in enumerate(LENGTHS):
        inputs = x[b]
        for layer in range(0, directions * LAYERS, directions):
            outputs = []
            for d in range(directions):
                order = range(length)[:: -1 if d else 1]
                at = layer + d
                out, h[at, b], c[at, b] = one_sequence(
                    inputs, h0[at, b], c0[at, b], arrays, at, order
                )
                outputs.append(out)
            inputs = np.concatenate(outputs, -1)
        y[b] = inputs
    return y, h, c


@pytest.mark.parametrize("bidirectional", [False, True])
def test_layers(bidirectional):
    sizes = (INPUT, HIDDEN, LAYERS, bidirectional)
    directions = 2 if bidirectional else 1
    keys = random.split(random.key(0), 4)
    state = (directions * LAYERS, BATCH, HIDDEN)
    x = random.normal(keys[0], (BATCH, TIME, INPUT))
    h0, c0 = random.normal(keys[1], state), random.normal(keys[2], state)
    weights = rnn.init_lstm_weight(keys[3], *sizes)
    arrays = rnn.unpack_lstm_weights(weights, *sizes)
    arguments = (LENGTHS, *sizes[:3], 0.0, bidirectional)
    wanted = expected(*map(np.float64, (x, h0, c0)), arrays, directions)
    found = rnn.lstm(x, h0, c0, weights, *arguments)
    again = rnn.lstm_ref(x, h0, c0, *arrays, *arguments)
    for have, other, want in zip(found, again, wanted, strict=True):
        np.testing.assert_allclose(have, want, rtol=2e-5, atol=2e-6)
        np.testing.assert_array_equal(have, other)
    assert not np.asarray(found[0])[1, 2:].any()

    def loss(weights, x):
        return rnn.lstm(x, h0, c0, weights, *arguments, precision="highest")[0].sum()

    check_grads(loss, (weights, x), order=1, modes=["rev"], rtol=2e-2)


def test_weights():
    assert rnn.get_num_params_in_lstm(2, 3, 1, True) == 2 * (24 + 36 + 12 + 12)
    weights = jnp.arange(168.0)
    w_ih, w_hh, b_ih, b_hh = rnn.unpack_lstm_weights(weights, 2, 3, 1, True)
    assert w_ih[1].shape == (12, 2) and w_hh[0].shape == (12, 3)
    assert w_ih[1][0, 0] == 60 and b_ih[0][0] == 120 and b_hh[1][-1] == 167
    swapped = rnn.swap_lstm_gates(weights, 2, 3, 1, True)
    assert sorted(swapped.tolist()) == weights.tolist()
    assert rnn.unpack_lstm_weights(swapped, 2, 3, 1, True)[2][0].tolist() == [
        *(120, 121, 122, 123, 124, 125, 129, 130, 131, 126, 127, 128)
    ]


def test_what_is_refused():
    zeros = jnp.zeros((1, 1, 1))
    weights = jnp.zeros(16)
    with pytest.raises(NotImplementedError, match="can only be int32"):
        rnn.lstm(zeros, zeros, zeros, weights, jnp.ones(1), 1, 1, 1, 0.0, False)
    lengths = jnp.ones(1, "int32")
    with pytest.raises(NotImplementedError, match="Dropout not supported"):
        rnn.lstm(zeros, zeros, zeros, weights, lengths, 1, 1, 1, 0.5, False)


@pytest.mark.parametrize("bidirectional", [False, True])
def test_the_two_passes(bidirectional):
    """`lstm_fwd` and `lstm_bwd` are `lstm` and its transposed derivative."""
    directions = 2 if bidirectional else 1
    sizes = INPUT, HIDDEN, LAYERS, 0.0, bidirectional, None
    keys = random.split(random.key(3), 4)
    weights = rnn.init_lstm_weight(keys[0], INPUT, HIDDEN, LAYERS, bidirectional)
    x = random.normal(keys[1], (BATCH, TIME, INPUT))
    h, c = random.normal(keys[2], (2, directions * LAYERS, BATCH, HIDDEN))
    outs, residuals = rnn.lstm_fwd(x, h, c, weights, LENGTHS, *sizes)
    plain, pull = curta.vjp(
        lambda *args: rnn.lstm(*args, LENGTHS, *sizes), x, h, c, weights
    )
    *found, of_lengths = rnn.lstm_bwd(*sizes, residuals, outs)
    for a, b in zip([*outs, *found], [*plain, *pull(plain)], strict=True):
        np.testing.assert_array_equal(a, b)
    assert not of_lengths.any() and of_lengths.dtype == np.int32
    avals = [curta.typeof(a) for a in (x, h, c, weights, LENGTHS)]
    types = rnn.rnn_abstract_eval(*avals, *sizes[:-1], False)
    assert types[:3] == tuple(map(curta.typeof, outs))
    kept = [*map(curta.typeof, outs), *avals[:4], types[0], types[3], avals[4]]
    assert rnn.rnn_bwd_abstract_eval(*kept) == tuple(map(curta.typeof, found))


def test_ranks_are_never_mixed_silently():
    weights = rnn.init_lstm_weight(curta.random.key(0), 2, 3, 1, True)
    state, lengths = jnp.zeros((2, 4, 3)), jnp.array([5, 4, 3, 2])
    how = (weights, lengths, 2, 3, 1, 0.0, True)
    wanted = rnn.lstm(jnp.ones((4, 5, 2)), state, state, *how)
    with curta.numpy_rank_promotion("raise"), curta.numpy_dtype_promotion("strict"):
        found = rnn.lstm(jnp.ones((4, 5, 2)), state, state, *how)
    for a, b in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(a, b)
