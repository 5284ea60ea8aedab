"""Modules of torch whose samples see each other are refused, with the operator and its line."""

import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn

import fedsim

pytestmark = pytest.mark.long

FEATURES = 4


class Of(nn.Module):
    """A layer behind batch norm and a function."""

    def __init__(self, function):
        super().__init__()
        self.norm = nn.BatchNorm1d(FEATURES)
        self.function = function
        self.last = nn.Linear(FEATURES, 3)
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x):
        return self.last(self.function(self.norm(x)))


class Gated(Of):
    """A function whose share is zero at the start."""

    def forward(self, x):
        return self.last(x + self.gate * self.function(x))


class Training(Of):
    """A function in training mode only."""

    def forward(self, x):
        return self.last(self.function(x) if self.training else x)


def centred(x):
    return x - x.mean(0)


def place(operator, net):
    """An operator, and the line of a module that calls its function."""
    line = type(net).forward.__code__.co_firstlineno + 1
    return rf"^model: {operator} \({__name__}\.py, line {line}\) mixes the rows of a batch"


# module, operator
MIXING = {
    "the mean of a batch": (Of(centred), "aten.mean.dim"),
    "a softmax over samples": (Of(lambda x: x.softmax(0)), "aten._softmax.default"),
    "products of samples": (Of(lambda x: x @ x.T @ x), "aten.mm.default"),
    "sums over earlier samples": (Of(lambda x: x.cumsum(0)), "aten.cumsum.default"),
    "what is multiplied with zero": (Gated(centred), "aten.mean.dim"),
}


@pytest.mark.parametrize("net, operator", MIXING.values(), ids=MIXING)
def test_predictions_that_depend_on_other_samples_are_refused(net, operator):
    with pytest.raises(ValueError, match=place(operator, net)):
        fedsim.as_model(net, shape=(FEATURES,))


def test_an_exchange_of_samples_is_refused_without_an_operator():
    with pytest.raises(ValueError, match=r"^model: the module mixes the rows of a batch"):
        fedsim.as_model(Of(lambda x: x.flip(0)), shape=(FEATURES,))


def test_samples_that_see_each_other_in_training_need_full_batches():
    net = Training(centred)
    with pytest.warns(UserWarning, match=place("aten.mean.dim", net) + " in training"):
        model = fedsim.as_model(net, shape=(FEATURES,))
    assert model.mixes_rows


APART = {
    "batch norm, which knows the rows that count": Of(nn.Identity()),
    "batch norm behind dropout": Of(nn.Dropout(0.5)),
    "samples along the second axis": Of(lambda x: (x.T - x.T.mean(0)).T),
    "rows one by one": Of(lambda x: torch.stack([row - row.mean() for row in x])),
}


@pytest.mark.parametrize("net", APART.values(), ids=APART)
def test_samples_that_do_not_see_each_other_may_be_padded(net):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not fedsim.as_model(net, shape=(FEATURES,)).mixes_rows
