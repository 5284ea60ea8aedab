"""CA²FL: the buffered asynchronous server, calibrated by last updates."""

from fedsim.compose import rule
from fedsim.rules.fedvarp import fedvarp
from fedsim.types import Rule


@rule
def ca2fl() -> Rule:
    """The buffer's mean change since each client's last update, and the mean of the last updates of all clients.

    v = h + (1/K_b) Σ_{i in the buffer} (Δ_i − h_i) and x ← x + v ;  then h_i ← Δ_i, and h = (1/N) Σ_{j=1}^N h_j over the N
    clients that can take part, h_j = 0 before a client's first update. It is `fedvarp` of a buffer in place of a cohort,
    and the paper's under `schedule: {kind: fedbuff, staleness: constant, restart: flush}`: after a flush, so that no client
    is in a buffer twice. With another staleness, Δ_i is the scaled update.

    Corrects: fast clients that report more often than slow ones.    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.    State: a model, and one a client.    Needs: one block at a time.

    References:
      Wang, Cao, Wu, Chen, Chen 2024, Tackling the Data Heterogeneity in Asynchronous Federated Learning with Cached Update
      Calibration, ICLR.
    """
    return fedvarp()
