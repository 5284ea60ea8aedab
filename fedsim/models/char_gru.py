"""Gated recurrent units."""

from fedsim.compose import model
from fedsim.models.dense import Layers, Width
from fedsim.models.recurrent import GRU, recurrent
from fedsim.models.sequences import SequenceBuild


@model
def char_gru(embedding: Width = 8, layers: Layers = 2, width: Width = 256) -> SequenceBuild:
    """GRU for the next character, or any sequences: embedding, layers of gated units, then classes.

    r, z = σ(x_t W + h_{t−1} U + b);  n = tanh(x_t W_n + b_n + r (h_{t−1} U_n + b_h));
    h_t = (1−z) n + z h_{t−1}, from h_0 = 0: the form of cuDNN, in which r follows the product. The
    outputs are those of the last layer's h_T, or of every h_t if every token has a label.

    The defaults are the sizes of `char_lstm`: 619,216 parameters for 80 characters. Weights start
    as there, with all biases at 0. `features` are the last layer's h_T `[B, width]`, or all h_t
    `[B, T, width]`; `head` is the layer of classes.

    Needs: tokens `[T]`, or numbers `[T, features]`, which have no embedding (further axes are
    merged into features). h_T is that of the array's last position: shorter sequences are padded in
    front.

    Args:
      embedding: numbers that a token becomes.
      layers: stacked layers of gated recurrent units.
      width: numbers in h.
    Raises:
      ValueError: for samples that are not sequences.
    References:
      Cho et al. 2014, Learning Phrase Representations using RNN Encoder-Decoder, arXiv:1406.1078.
    """
    return recurrent("char_gru", GRU, embedding, layers, width)
