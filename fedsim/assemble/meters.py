"""Which meters a run has."""

from collections.abc import Mapping
from typing import Any

from fedsim.assemble.field import RunSetting
from fedsim.assemble.fields import fields, first
from fedsim.engine.downlink import downlink
from fedsim.engine.frozen import without_frozen
from fedsim.engine.meters import Meter
from fedsim.engine.meters.batches import CutBatches
from fedsim.engine.meters.diagnostics import Diagnostics
from fedsim.engine.meters.dropouts import Dropouts
from fedsim.engine.meters.malicious import MaliciousReports
from fedsim.engine.meters.traffic import Pooled, Traffic
from fedsim.engine.meters.training import Training
from fedsim.engine.meters.updates import Policy, Updates
from fedsim.engine.models import one_model
from fedsim.engine.program import Program
from fedsim.fleet import Plan
from fedsim.types.client import POOLED


def meters_of(
    program: Program,
    plan: Plan,
    shared: Any,
    policy: Policy,
    of_fields: Mapping[str, Any],
) -> list[Meter]:
    """Return the meters of a run, in the order in which they count.

    Args:
      program: the compiled half of the run.
      plan: the host's half.
      shared: variables at the start of the run.
      policy: when the run ends before its last round.
      of_fields: what fields planned, by name.
    """
    client = program.server.client
    pipeline = program.server.pipeline
    variables, _ = without_frozen(shared)
    sent = one_model(client, variables)
    codec = program.server.sender.codec
    received = downlink(client, codec, sent, plan.federation.N, left_out=plan.left_out)
    kind = Pooled if client.not_federated == POOLED else Traffic
    kind = first(field.traffic(plan) for field in fields().values()) or kind
    traffic = kind(plan, received, pipeline.merged_column)

    meters: list[Meter] = [Updates(policy, pipeline), Training(), traffic]
    if plan.machines.fleet.selective:
        meters.append(Dropouts(traffic))
    for name, field in fields().items():
        meters.extend(field.meters(RunSetting(program, plan, of_fields.get(name))))
    if plan.malicious.any():
        meters.append(MaliciousReports(plan))
    if plan.local.poisson:
        meters.append(CutBatches(plan))
    if program.diagnostics:
        meters.append(Diagnostics())
    return meters
