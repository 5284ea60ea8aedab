"""Long short-term memory."""

from fedsim.compose import model
from fedsim.models.dense import Layers, Width
from fedsim.models.recurrent import LSTM, recurrent
from fedsim.models.sequences import SequenceBuild


@model
def char_lstm(embedding: Width = 8, layers: Layers = 2, width: Width = 256) -> SequenceBuild:
    """LSTM for the next character, or any sequences: embedding, layers of LSTM, then classes.

    i, f, g, o = [x_t, h_{t−1}] W + b;  c_t = σ(f) c_{t−1} + σ(i) tanh(g);  h_t = σ(o) tanh(c_t),
    from h_0 = c_0 = 0. The outputs are those of the last layer's h_T, or of every h_t if every
    token has a label.

    The defaults are LEAF's network for Shakespeare: 817,872 parameters for 80 characters. It has
    the sizes that McMahan et al. describe, and starts like TensorFlow's: matrices uniform in
    ±√(6/(fan_in+fan_out)), biases at 0, those of f at 1. FedProx and FedDyn use `width: 100`.

    `features` are the last layer's h_T `[B, width]`, or all h_t `[B, T, width]`; `head` is the
    layer of classes.

    Needs: tokens `[T]`, or numbers `[T, features]`, which have no embedding (further axes are
    merged into features). h_T is that of the array's last position: shorter sequences are padded in
    front.

    Args:
      embedding: numbers that a token becomes.
      layers: stacked layers of LSTM.
      width: numbers in h and in c.
    Raises:
      ValueError: for samples that are not sequences.
    References:
      Hochreiter and Schmidhuber 1997, Long Short-Term Memory, Neural Computation 9(8); McMahan et
      al. 2017, Communication-Efficient Learning of Deep Networks from Decentralized Data,
      arXiv:1602.05629; Caldas et al. 2018, LEAF: A Benchmark for Federated Settings,
      arXiv:1812.01097.
    """
    return recurrent("char_lstm", LSTM, embedding, layers, width)
