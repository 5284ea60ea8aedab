"""Words made into a plan and a program: the experiment, what it needs, and what it will take."""

from fedsim.assemble.experiment import Experiment as Experiment
from fedsim.assemble.experiment import build as build
from fedsim.assemble.standalone import aggregate as aggregate
from fedsim.assemble.standalone import transmit as transmit
from fedsim.kinds.shipped import load_factories

load_factories()
