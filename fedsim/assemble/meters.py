"""Which meters a run has."""

from collections.abc import Mapping
from typing import Any

from fedsim.assemble.fields import fields, first_answer
from fedsim.engine.downlink import Downlink, bytes_of
from fedsim.engine.frozen import without_frozen
from fedsim.engine.meters import Meter
from fedsim.engine.meters.batches import CutBatches
from fedsim.engine.meters.malicious import MaliciousReports
from fedsim.engine.meters.traffic import Pooled, Traffic
from fedsim.engine.meters.training import Training
from fedsim.engine.meters.updates import Policy, Updates
from fedsim.engine.models import one_model
from fedsim.engine.program import Program
from fedsim.field import RunSetting
from fedsim.fleet import Plan
from fedsim.types.client import POOLED


def meters_of(
    program: Program,
    plan: Plan,
    shared: Any,
    policy: Policy,
    of_fields: Mapping[str, Any],
) -> list[Meter]:
    """Return the meters of a run, in the order in which they count."""
    client = program.server.client
    pipeline = program.server.pipeline
    kind = Pooled if client.not_federated == POOLED else Traffic
    kind = first_answer(lambda field: field.traffic(plan)) or kind
    traffic = kind(plan, downlink_of(program, plan, shared))

    meters: list[Meter] = [Updates(policy, pipeline), Training(), traffic]
    for name, field in fields().items():
        meters.extend(field.meters(RunSetting(program, plan, traffic, of_fields.get(name))))
    if plan.malicious.any():
        meters.append(MaliciousReports(plan))
    if plan.local.poisson:
        meters.append(CutBatches(plan))
    if program.observer is not None:
        meters.append(program.observer.meter())
    return meters


def downlink_of(program: Program, plan: Plan, shared: Any) -> Downlink:
    """Return what counts the bytes that clients receive."""
    server = program.server
    variables, _ = without_frozen(shared)
    sent = one_model(server.client, variables)
    of_fields = first_answer(lambda field: field.downlink(server, plan, sent))
    if of_fields is not None:
        return of_fields
    sizes = bytes_of(server.client, sent)
    return Downlink(plan.federation.N, *sizes, left_out=plan.left_out)
