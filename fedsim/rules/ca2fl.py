"""CA²FL: the buffered asynchronous server, calibrated by last updates."""

from fedsim.compose import rule
from fedsim.rules.fedvarp import fedvarp
from fedsim.types import Rule


@rule
def ca2fl() -> Rule:
    """Mean change of the buffer's updates since the last ones, plus the mean of all last updates.

    v = h + (1/K_b) Σ_{i in the buffer} (Δ_i − h_i) and x ← x + v ;  then h_i ← Δ_i, and
    h = (1/N) Σ_{j=1}^N h_j over the N clients that can take part, h_j = 0 before a client's first
    update. It is `fedvarp` for a buffer instead of a cohort. It is the paper's method under
    `schedule: {kind: fedbuff, staleness: constant, restart: flush}`: clients restart after a flush,
    so that none is in a buffer twice. With another staleness, Δ_i is the scaled update.

    Corrects: fast clients that report more often than slow ones.
    Resists: nothing; one client can move it anywhere.
    Cost: O(K·D), one pass.
    State: one model, and one per client.
    Needs: one block at a time.

    References:
      Wang, Cao, Wu, Chen, Chen 2024, Tackling the Data Heterogeneity in Asynchronous Federated
      Learning with Cached Update Calibration, ICLR.
    """
    return fedvarp()
