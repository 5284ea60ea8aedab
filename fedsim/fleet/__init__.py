"""The fleet: who takes part when, on which samples. NumPy only; ends in a `Plan`."""

from fedsim.fleet import cohorts as cohorts
from fedsim.fleet.adversary import Adversary as Adversary
from fedsim.fleet.clients import Clients as Clients
from fedsim.fleet.plan import Local as Local
from fedsim.fleet.plan import Plan as Plan
from fedsim.fleet.plan import RoundPlan as RoundPlan
from fedsim.fleet.planner import Planner as Planner
from fedsim.fleet.selection import Cohort as Cohort
from fedsim.fleet.selection import Drawn as Drawn
from fedsim.fleet.selection import Population as Population
from fedsim.fleet.timetables import Timetable as Timetable
