"""Models as `(init, apply)` in plain jnp. A factory returns `build(shape, outputs) -> Model`."""

from fedsim.models.char_gru import char_gru as char_gru
from fedsim.models.char_lstm import char_lstm as char_lstm
from fedsim.models.cnn import cnn as cnn
from fedsim.models.dense import linear as linear
from fedsim.models.dense import logistic as logistic
from fedsim.models.dense import mlp as mlp
from fedsim.models.lenet import lenet as lenet
from fedsim.models.resnet import resnet as resnet
from fedsim.models.tokens import Tokens as Tokens
from fedsim.models.transformer import transformer as transformer
from fedsim.models.wrap import as_model as as_model
from fedsim.models.wrap import reading as reading
