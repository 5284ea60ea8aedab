"""Building: a scenario becomes an experiment, which has plans and a program."""

from fedsim.assemble.experiment import Experiment as Experiment
from fedsim.assemble.experiment import build as build
from fedsim.assemble.standalone import aggregate as aggregate
from fedsim.assemble.standalone import transmit as transmit
from fedsim.kinds.shipped import load_factories

# Sections are made by the factories of their kinds.
load_factories()
