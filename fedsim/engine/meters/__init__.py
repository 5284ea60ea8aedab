"""Meters: what a run counts of its rounds, a file for each thing that is counted."""

from fedsim.engine.meters.meter import Meter as Meter
from fedsim.engine.meters.meter import Since as Since
