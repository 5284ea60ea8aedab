"""Rules: a stack of updates -> one tree. The only place where the client axis collapses."""

from fedsim.rules.mean import mean as mean
from fedsim.rules.optimizers import by_name as by_name
