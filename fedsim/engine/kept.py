"""States on the device that only some servers have, next to those of links and optimisers.

They are what was last broadcast, the groups of clients, and what a cloud remembers. Each is an
entry of `ServerState.state`, so that rounds and stretches carry it, and checkpoints store it.
"""

from typing import Any

from fedsim.engine.server_records import RoundStart, ServerState
from fedsim.tree import Tree
from fedsim.types import Info, Shared

# States that every server has, one for each of its models.
OF_MODELS = ("wire", "stages", "rule", "steps", "optimiser")


class Kept:
    """A state of a server, one for all of its models; what it changes in the close of a round.

    Attributes:
      name: of the entry.
    """

    name: str

    def init(self, shared: Shared, present: Any) -> Tree:
        """Return the state at the start of a run.

        Args:
          shared: the variables, of several models `[k, ...]`.
          present: mask of the clients that can take part `[N]`.
        """
        raise NotImplementedError

    def before(
        self, state: Tree, received: Any, start: RoundStart
    ) -> tuple[Tree, Any, RoundStart, Info]:
        """Return what a round's close begins with.

        Args:
          state: before the round.
          received: the round's messages, summed or gathered.
          start: the round's start.

        Returns:
          The state, the messages, the start, and what is reported.
        """
        return state, received, start, {}

    def after(
        self, state: Tree, shared: Shared, weight: Any, start: RoundStart
    ) -> tuple[Tree, Shared, Info]:
        """Return what a round's close ends with.

        Args:
          state: as `before` returned it.
          shared: the variables that the close has made.
          weight: Σ of the weights of the updates that moved them; of several models `[k]`.
          start: the round's start.

        Returns:
          The state, the variables, and what is reported.
        """
        del weight, start
        return state, shared, {}


def without_kept(server: ServerState) -> tuple[ServerState, dict[str, Tree]]:
    """Return a server with what every one has, and what else this one keeps, by name."""
    kept = dict(server.state)
    of_models = {name: kept.pop(name) for name in OF_MODELS}
    return server._replace(state=of_models), kept
