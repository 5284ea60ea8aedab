"""Scenario -> (plan, program): strict reading, a schema taken from signatures, and the build."""

from fedsim.scenario.build import Experiment as Experiment
from fedsim.scenario.build import build as build
from fedsim.scenario.catalogue import catalogue as catalogue
from fedsim.scenario.load import read as read
from fedsim.scenario.plugins import enable as enable
from fedsim.scenario.problems import Problem as Problem
from fedsim.scenario.problems import ScenarioError as ScenarioError
from fedsim.scenario.schema import Scenario as Scenario
from fedsim.scenario.stack import aggregate as aggregate
from fedsim.scenario.stack import transmit as transmit
