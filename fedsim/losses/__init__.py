"""What a model learns by -> `Loss`: the loss of each sample, whose mean is that of a batch."""

from fedsim.losses.binary_cross_entropy import binary_cross_entropy as binary_cross_entropy
from fedsim.losses.cross_entropy import cross_entropy as cross_entropy
from fedsim.losses.focal import focal as focal
from fedsim.losses.hinge import hinge as hinge
from fedsim.losses.huber import huber as huber
from fedsim.losses.poisson import poisson as poisson
from fedsim.losses.quantile import quantile as quantile
from fedsim.losses.squared import squared as squared
from fedsim.losses.weights import balanced_weights as balanced_weights
from fedsim.losses.weights import weighted as weighted
