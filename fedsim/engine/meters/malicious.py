"""How many of the clients that reported are malicious."""

from fedsim.engine.meters.meter import Meter, Since
from fedsim.engine.records import DispatchedRound
from fedsim.fleet import Plan


class MaliciousReports(Meter):
    """Counts the messages of clients that the attacker controls."""

    def __init__(self, plan: Plan):
        self.plan = plan

    def after(self, dispatched: DispatchedRound, since: Since) -> None:
        cohort = dispatched.cohort
        malicious = self.plan.malicious_in(cohort.round)[cohort.ids]
        since.report({"malicious_reported": (malicious & (cohort.weight > 0)).sum()})
