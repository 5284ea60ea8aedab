"""Forms of a server: what a round asks of one model, several, models in flight, or a graph."""

from fedsim.engine.forms.graph import Graph
from fedsim.engine.forms.in_flight import InFlight
from fedsim.engine.forms.one import OneModel as OneModel
from fedsim.engine.forms.several import Several
from fedsim.fleet import Plan
from fedsim.types import Client, Shared


def form_of(client: Client, plan: Plan, initial: Shared) -> OneModel:
    """Return the form of a run's server.

    Args:
      client: the client method.
      plan: the run's plan.
      initial: the server's variables at the start of the run.
    """
    if plan.network is not None:
        return Graph()
    if client.bank is not None:
        return Several(client.bank)
    if plan.timetable.asynchronous:
        return InFlight(plan, initial)
    return OneModel()
