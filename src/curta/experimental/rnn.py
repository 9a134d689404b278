"""Long short-term memory: recurrent layers over batches of sequences.

The equations are those of Hochreiter and Schmidhuber, "Long Short-Term Memory", with
the two biases that cuDNN and PyTorch have. With the input `x`, the state `h` before
and the logistic function `s`,

    i = s(W_ii x + b_ii + W_hi h + b_hi)        f = s(W_if x + b_if + W_hf h + b_hf)
    g = tanh(W_ig x + b_ig + W_hg h + b_hg)     o = s(W_io x + b_io + W_ho h + b_ho)
    c' = f c + i g                              h' = o tanh(c')

All weights are in one vector: for each layer `W_ih` and `W_hh`, then for each layer
`b_ih` and `b_hh`, each of them the parts for i, f, g and o one below the other. If
there are two directions, each layer is two in this order: forwards, then backwards.

>>> import curta.numpy as jnp
>>> from curta import random
>>> from curta.experimental import rnn
>>> weights = rnn.init_lstm_weight(random.key(0), 3, 4, 2, False)
>>> x, state = jnp.ones((5, 7, 3)), jnp.zeros((2, 5, 4))
>>> lengths = jnp.full(5, 7, "int32")
>>> y, h, c = rnn.lstm(x, state, state, weights, lengths, 3, 4, 2, 0.0, False)
>>> y.shape, h.shape
((5, 7, 4), (2, 5, 4))
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

import curta.numpy as jnp
from curta import lax, random
from curta._base.on_demand import Listing, listed
from curta.api.jit import jit
from curta.api.vjp import vjp
from curta.core.avals import ShapedArray
from curta.core.trace import typeof
from curta.nn import sigmoid

__all__ = [
    "get_num_params_in_lstm",
    "init_lstm_weight",
    "lstm",
    "lstm_bwd",
    "lstm_fwd",
    "lstm_ref",
    "rnn_abstract_eval",
    "rnn_bwd_abstract_eval",
    "swap_lstm_gates",
    "unpack_lstm_weights",
]
__dir__: Listing = listed(__all__)

_GATES = 4
_KINDS = ("W_ih", "W_hh", "b_ih", "b_hh")


def _layout(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Iterator[tuple[str, int, slice, tuple[int, ...]]]:
    """Kind, layer, slice and shape of each array in the vector of weights."""
    directions = 2 if bidirectional else 1
    rows, start = _GATES * hidden_size, 0
    for kinds in _KINDS[:2], _KINDS[2:]:
        for layer in range(directions * num_layers):
            columns = input_size if layer < directions else directions * hidden_size
            widths = {"W_ih": (columns,), "W_hh": (hidden_size,)}
            for kind in kinds:
                shape = (rows, *widths.get(kind, ()))
                stop = start + math.prod(shape)
                yield kind, layer, slice(start, stop), shape
                start = stop


def get_num_params_in_lstm(
    input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> int:
    """The length of the vector of weights.

    Args:
      input_size: the last dim of the sequences.
      hidden_size: the last dim of the states.
      num_layers: the number of layers, at least 1.
      bidirectional: whether each layer has a second part, which reads backwards.

    Returns:
      The number of elements of `W_ih`, `W_hh`, `b_ih` and `b_hh` of all layers.

    Raises:
      ValueError: if there are no layers.

    >>> from curta.experimental import rnn
    >>> rnn.get_num_params_in_lstm(2, 3, 1, False)
    84
    """
    *_, last = _layout(input_size, hidden_size, num_layers, bidirectional)
    return int(last[2].stop)


def init_lstm_weight(
    rng: Any, input_size: int, hidden_size: int, num_layers: int, bidirectional: bool
) -> Any:
    """Weights drawn evenly from between -1/sqrt(hidden_size) and its opposite.

    Args:
      rng: a random key.
      input_size: the last dim of the sequences.
      hidden_size: the last dim of the states.
      num_layers: the number of layers, at least 1.
      bidirectional: whether each layer has a second part, which reads backwards.

    Returns:
      A float32 vector of `get_num_params_in_lstm(...)` elements.

    Raises:
      ValueError: if there are no layers.
      TypeError: if `key` is not a key.

    >>> from curta import random
    >>> from curta.experimental import rnn
    >>> rnn.init_lstm_weight(random.key(0), 2, 3, 1, False).shape
    (84,)
    """
    count = get_num_params_in_lstm(input_size, hidden_size, num_layers, bidirectional)
    bound = np.sqrt(1.0 / hidden_size)
    return random.uniform(rng, (count,), np.float32, -bound, bound)


def unpack_lstm_weights(
    weights: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bidirectional: bool,
) -> tuple[dict[int, Any], dict[int, Any], dict[int, Any], dict[int, Any]]:
    """The arrays `W_ih`, `W_hh`, `b_ih`, `b_hh` in a vector of weights, by layer.

    Args:
      weights: the vector of all weights; see `init_lstm_weight`.
      input_size: the last dim of the sequences.
      hidden_size: the last dim of the states.
      num_layers: how many layers there are.
      bidirectional: whether each layer has a second part, which reads backwards.

    Returns:
      Four dictionaries from a layer's number to its array: `W_ih` of shape (4 *
      hidden_size, its inputs), `W_hh` of (4 * hidden_size, hidden_size), and the
      biases, of (4 * hidden_size,).

    Raises:
      TypeError: if the vector has another length.

    >>> from curta import random
    >>> from curta.experimental import rnn
    >>> weights = rnn.init_lstm_weight(random.key(0), 2, 3, 1, False)
    >>> W_ih, W_hh, b_ih, b_hh = rnn.unpack_lstm_weights(weights, 2, 3, 1, False)
    >>> W_ih[0].shape, W_hh[0].shape, b_ih[0].shape
    ((12, 2), (12, 3), (12,))
    """
    result: dict[str, dict[int, Any]] = {kind: {} for kind in _KINDS}
    layout = _layout(input_size, hidden_size, num_layers, bidirectional)
    for kind, layer, span, shape in layout:
        result[kind][layer] = weights[span].reshape(shape)
    w_ih, w_hh, b_ih, b_hh = (result[kind] for kind in _KINDS)
    return w_ih, w_hh, b_ih, b_hh


def swap_lstm_gates(
    weights: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    bidirectional: bool,
) -> Any:
    """The weights with the parts for g and o exchanged, as other libraries have them.

    Args:
      weights: the vector of all weights, in either order.
      input_size: the last dim of the sequences.
      hidden_size: the last dim of the states.
      num_layers: how many layers there are.
      bidirectional: whether each layer has a second part, which reads backwards.

    Returns:
      A vector like `weights`.

    Raises:
      TypeError: if the vector has another length.

    >>> import curta.numpy as jnp
    >>> from curta.experimental import rnn
    >>> rnn.swap_lstm_gates(jnp.arange(16), 1, 1, 1, False)[:8]
    Array([0, 1, 3, 2, 4, 5, 7, 6], dtype=int32)
    """
    weights = jnp.asarray(weights)
    parts = []
    layout = _layout(input_size, hidden_size, num_layers, bidirectional)
    for _, _, span, _ in layout:
        gates = weights[span].reshape(_GATES, -1)
        parts.append(gates[np.array([0, 1, 3, 2])].reshape(-1))
    return jnp.concatenate(parts)


def lstm(
    x: Any,
    h_0: Any,
    c_0: Any,
    weights: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any = None,
) -> tuple[Any, Any, Any]:
    """The outputs and last states of recurrent layers, the next fed by the one before.

    Args:
      x: sequences, of shape (batch, time, input_size).
      h_0, c_0: states to begin with, (directions * num_layers, batch, hidden_size).
      weights: the vector of all weights; see `init_lstm_weight`.
      seq_lengths: int32, the length of each sequence; what is behind is not read.
      input_size: the last dim of the sequences.
      hidden_size: the last dim of the states.
      num_layers: how many layers there are.
      dropout: must be 0.
      bidirectional: whether each layer reads the sequences backwards as well.
      precision: of the products; see `curta.lax.Precision`.

    Returns:
      A tuple (y, h, c): y is (batch, time, directions * hidden_size), with zeros behind
      the sequences, h and c are the states after them, like `h_0` and `c_0`.

    Raises:
      NotImplementedError: for lengths of another dtype, and for dropout.

    >>> from curta import numpy as jnp, random
    >>> from curta.experimental import rnn
    >>> weights = rnn.init_lstm_weight(random.key(0), 2, 3, 1, False)
    >>> x, state = jnp.ones((5, 4, 2)), jnp.zeros((1, 5, 3))
    >>> lengths = jnp.full(5, 4, "int32")
    >>> y, h, c = rnn.lstm(x, state, state, weights, lengths, 2, 3, 1, 0.0, False)
    >>> y.shape, h.shape, c.shape
    ((5, 4, 3), (1, 5, 3), (1, 5, 3))
    """
    arrays = unpack_lstm_weights(
        weights, input_size, hidden_size, num_layers, bidirectional
    )
    _check(seq_lengths, dropout)
    return _run(
        x, (h_0, c_0), arrays, seq_lengths, num_layers, bidirectional, precision
    )


def lstm_fwd(
    x: Any,
    h_0: Any,
    c_0: Any,
    w: Any,
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any,
) -> tuple[tuple[Any, Any, Any], tuple[Any, ...]]:
    """Return the results of `lstm`, and its arguments and outputs for `lstm_bwd`.

    The last of these is for what the forward pass could keep, which is nothing.

    Args:
      x, h_0, c_0, w, seq_lengths: the arrays that `lstm` takes; `w` are the weights.
      input_size, hidden_size, num_layers, dropout, bidirectional, precision: as for
        `lstm`.

    Returns:
      A tuple of `(y, h, c)` and the residuals, a tuple of seven arrays.

    Raises:
      NotImplementedError: for lengths of another dtype, and for dropout.

    >>> from curta import numpy as jnp, random
    >>> from curta.experimental import rnn
    >>> weights = rnn.init_lstm_weight(random.key(0), 2, 3, 1, False)
    >>> x, state = jnp.ones((5, 4, 2)), jnp.zeros((1, 5, 3))
    >>> lengths = jnp.full(5, 4, "int32")
    >>> sizes = 2, 3, 1, 0.0, False, None
    >>> (y, h, c), residuals = rnn.lstm_fwd(x, state, state, weights, lengths, *sizes)
    >>> y.shape, h.shape, c.shape
    ((5, 4, 3), (1, 5, 3), (1, 5, 3))
    """
    sizes = input_size, hidden_size, num_layers, dropout, bidirectional
    outs = lstm(x, h_0, c_0, w, seq_lengths, *sizes, precision)
    return outs, (x, h_0, c_0, w, seq_lengths, outs[0], jnp.zeros(0, np.float32))


def lstm_bwd(
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    precision: Any,
    residuals: tuple[Any, ...],
    gradients: tuple[Any, Any, Any],
) -> tuple[Any, Any, Any, Any, Any]:
    """The cotangents of `x`, `h_0`, `c_0`, the weights and the lengths.

    Args:
      input_size, hidden_size, num_layers, dropout, bidirectional, precision: as for
        `lstm`.
      residuals: what `lstm_fwd` has given for the backward pass.
      gradients: the cotangents of what `lstm` returns: `(y, h, c)`.

    Returns:
      A tuple of five arrays, like those that `lstm` takes; zeros for the lengths.

    Raises:
      ValueError: for gradients of other shapes than the outputs.

    >>> from curta import numpy as jnp, random
    >>> from curta.experimental import rnn
    >>> weights = rnn.init_lstm_weight(random.key(0), 2, 3, 1, False)
    >>> x, state = jnp.ones((5, 4, 2)), jnp.zeros((1, 5, 3))
    >>> lengths = jnp.full(5, 4, "int32")
    >>> sizes = 2, 3, 1, 0.0, False, None
    >>> outs, residuals = rnn.lstm_fwd(x, state, state, weights, lengths, *sizes)
    >>> x_ct, *_ = rnn.lstm_bwd(*sizes, residuals, outs)
    >>> x_ct.shape
    (5, 4, 2)
    """
    *primals, lengths, _, _ = residuals
    sizes = input_size, hidden_size, num_layers, dropout, bidirectional

    def run(x: Any, h_0: Any, c_0: Any, w: Any) -> tuple[Any, Any, Any]:
        return lstm(x, h_0, c_0, w, lengths, *sizes, precision)

    result = vjp(run, *primals)[1](tuple(gradients))
    return (*result, jnp.zeros_like(lengths))


def rnn_abstract_eval(
    x_aval: Any,
    h_0_aval: Any,
    c_0_aval: Any,
    w_aval: Any,
    seq_lengths_aval: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
    cudnn_allow_tf32: bool,
) -> tuple[ShapedArray, Any, Any, ShapedArray]:
    """The types of what `lstm` returns, and of what the forward pass keeps.

    Args:
      x_aval, h_0_aval, c_0_aval, w_aval, seq_lengths_aval: the types of `lstm`'s
        arrays.
      input_size, hidden_size, num_layers, dropout, bidirectional: as for `lstm`.
      cudnn_allow_tf32: whether products may be less exact, which changes no type.

    Returns:
      The avals of `y`, `h`, `c`, and of an empty float32 vector.

    >>> import curta.numpy as jnp
    >>> from curta import typeof
    >>> from curta.experimental import rnn
    >>> x, state = typeof(jnp.ones((5, 7, 3))), typeof(jnp.ones((1, 5, 4)))
    >>> sizes = 3, 4, 1, 0.0, True, True
    >>> y, *_ = rnn.rnn_abstract_eval(x, state, state, None, None, *sizes)
    >>> print(y)
    float32[5,7,8]
    """
    width = (2 if bidirectional else 1) * hidden_size
    y = ShapedArray((*x_aval.shape[:2], width), x_aval.dtype)
    return y, h_0_aval, c_0_aval, ShapedArray((0,), np.dtype(np.float32))


def rnn_bwd_abstract_eval(
    dy_aval: Any,
    dhn_aval: Any,
    dcn_aval: Any,
    x_aval: Any,
    h0_aval: Any,
    c0_aval: Any,
    w_aval: Any,
    y_aval: Any,
    reserve_space_aval: Any,
    seq_lengths_aval: Any,
    **sizes: Any,
) -> tuple[Any, Any, Any, Any]:
    """The types of the cotangents of `x`, `h_0`, `c_0` and the weights: their own.

    Args:
      dy_aval, dhn_aval, dcn_aval: the types of the cotangents of `lstm`'s results.
      x_aval, h0_aval, c0_aval, w_aval: the types of `lstm`'s arrays.
      y_aval, reserve_space_aval: the types of the outputs, and of the residuals of the
        forward pass.
      seq_lengths_aval: the type of the lengths.
      sizes: as for `lstm`, by keyword.

    Returns:
      The avals `x_aval`, `h0_aval`, `c0_aval` and `w_aval`.

    >>> from curta import typeof
    >>> from curta.experimental import rnn
    >>> given = [typeof(float(i)) for i in range(10)]
    >>> rnn.rnn_bwd_abstract_eval(*given) == tuple(given[3:7])
    True
    """
    return x_aval, h0_aval, c0_aval, w_aval


def lstm_ref(
    x: Any,
    h_0: Any,
    c_0: Any,
    W_ih: dict[int, Any],
    W_hh: dict[int, Any],
    b_ih: dict[int, Any],
    b_hh: dict[int, Any],
    seq_lengths: Any,
    input_size: int,
    hidden_size: int,
    num_layers: int,
    dropout: float,
    bidirectional: bool,
) -> tuple[Any, Any, Any]:
    """As `lstm`, with the arrays that `unpack_lstm_weights` gives.

    Args:
      x: sequences, of shape (batch, time, input_size).
      h_0, c_0: states to begin with, (directions * num_layers, batch, hidden_size).
      W_ih, W_hh, b_ih, b_hh: the arrays of each layer, by its number.
      seq_lengths: int32, the length of each sequence; what is behind is not read.
      input_size, hidden_size: not needed, as the arrays say them.
      num_layers: how many layers there are.
      dropout: must be 0.
      bidirectional: whether each layer reads the sequences backwards as well.

    Returns:
      A tuple (y, h, c), as of `lstm`.

    Raises:
      NotImplementedError: for lengths of another dtype, and for dropout.

    >>> from curta import numpy as jnp, random
    >>> from curta.experimental import rnn
    >>> weights = rnn.init_lstm_weight(random.key(0), 2, 3, 1, False)
    >>> arrays = rnn.unpack_lstm_weights(weights, 2, 3, 1, False)
    >>> x, state = jnp.ones((5, 4, 2)), jnp.zeros((1, 5, 3))
    >>> lengths = jnp.full(5, 4, "int32")
    >>> y, h, c = rnn.lstm_ref(x, state, state, *arrays, lengths, 2, 3, 1, 0.0, False)
    >>> y.shape, h.shape, c.shape
    ((5, 4, 3), (1, 5, 3), (1, 5, 3))
    """
    _check(seq_lengths, dropout)
    arrays = W_ih, W_hh, b_ih, b_hh
    return _run(x, (h_0, c_0), arrays, seq_lengths, num_layers, bidirectional, None)


def _check(seq_lengths: Any, dropout: float) -> None:
    if typeof(seq_lengths).dtype != np.int32:
        raise NotImplementedError(
            f"`seq_lengths` can only be int32, got {typeof(seq_lengths).str_short()}."
        )
    if dropout != 0.0:
        raise NotImplementedError(
            f"Dropout not supported in LSTM, got {dropout}. Drop elements between"
            " layers of one layer each."
        )


@functools.partial(jit, static_argnums=(4, 5, 6))
def _run(
    x: Any,
    states: tuple[Any, Any],
    arrays: tuple[dict[int, Any], ...],
    lengths: Any,
    num_layers: int,
    bidirectional: bool,
    precision: Any,
) -> tuple[Any, Any, Any]:
    inputs = jnp.swapaxes(x, 0, 1)
    within = jnp.arange(inputs.shape[0], dtype=np.int32)[:, None] < lengths[None]
    directions = 2 if bidirectional else 1
    last = []
    for first in range(0, directions * num_layers, directions):
        outputs = []
        for layer in range(first, first + directions):
            weights = [kind[layer] for kind in arrays]
            state = (states[0][layer], states[1][layer])
            backwards = layer > first
            state, y = _layer(inputs, within, state, weights, backwards, precision)
            last.append(state)
            outputs.append(y)
        inputs = jnp.concatenate(outputs, axis=-1)
    h, c = (jnp.stack(part) for part in zip(*last, strict=True))
    return jnp.swapaxes(inputs, 0, 1), h, c


def _layer(
    inputs: Any,
    within: Any,
    state: tuple[Any, Any],
    weights: list[Any],
    backwards: bool,
    precision: Any,
) -> tuple[tuple[Any, Any], Any]:
    """The last state and the outputs of one layer, along the first dim of `inputs`.

    Where the sequences have ended, by `within`, the state stays as it is.
    """
    w_ih, w_hh, b_ih, b_hh = weights
    # What does not depend on the state is computed for all steps at once.
    projected = jnp.matmul(inputs, w_ih.T, precision=precision)
    projected = projected + b_ih[None, None] + b_hh[None, None]

    def step(state: tuple[Any, Any], here: tuple[Any, Any]) -> tuple[Any, Any]:
        h, c = state
        x, inside = here[0], here[1][:, None]
        gates = x + jnp.matmul(h, w_hh.T, precision=precision)
        i, f, g, o = jnp.split(gates, _GATES, axis=-1)
        c_next = sigmoid(f) * c + sigmoid(i) * jnp.tanh(g)
        h_next = sigmoid(o) * jnp.tanh(c_next)
        state = jnp.where(inside, h_next, h), jnp.where(inside, c_next, c)
        return state, jnp.where(inside, h_next, 0)

    return lax.scan(step, state, (projected, within), reverse=backwards)
