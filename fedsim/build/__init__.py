"""Words made into a plan and a program: the experiment, what it needs, and what it will take."""

from fedsim.build.experiment import Experiment as Experiment
from fedsim.build.experiment import build as build
from fedsim.build.standalone import aggregate as aggregate
from fedsim.build.standalone import transmit as transmit
from fedsim.kinds.shipped import load_factories

load_factories()
