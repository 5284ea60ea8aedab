"""A scenario as text: read strictly, by a schema derived from factories; nothing is built."""

from fedsim.scenario.catalogue import catalogue as catalogue
from fedsim.scenario.load import read as read
from fedsim.scenario.plugins import enable as enable
from fedsim.scenario.scenario import Scenario as Scenario
