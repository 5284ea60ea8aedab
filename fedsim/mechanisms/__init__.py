"""Mechanisms: the noise that privacy adds to the aggregates of all rounds."""

from fedsim.mechanisms.gaussian import gaussian as gaussian
