"""What servers with several models add to how a scenario is checked and built."""

from typing import Any

from fedsim.engine.meters import Meter
from fedsim.field import Field, RunSetting, ServerParts, ServerSetting
from fedsim.fields.clusters import checks
from fedsim.fields.clusters.bank import BankServer
from fedsim.fields.clusters.form import Several
from fedsim.fields.clusters.meter import Moves
from fedsim.fleet import Plan
from fedsim.types import Client, Shared


def _serves(parts: ServerParts, key: Any, setting: ServerSetting) -> ServerParts:
    """Map the programs of the server over its models."""
    return parts if setting.client.bank is None else parts._replace(make=BankServer)


def _form(client: Client, plan: Plan, initial: Shared) -> Several | None:
    return None if client.bank is None else Several(client.bank)


def _meters(setting: RunSetting) -> list[Meter]:
    has_bank = setting.program.server.client.bank is not None
    return [Moves(setting.plan.federation)] if has_bank else []


FIELD = Field(
    calculations=[checks.too_many_models],
    counts_models=("client.clusters",),
    serves=_serves,
    form=_form,
    meters=_meters,
)
