"""What asynchronous schedules add to how a scenario is checked and built."""

from collections.abc import Hashable
from typing import Any

from fedsim.assemble.links import factory_of
from fedsim.assemble.section_keys import HashableSection
from fedsim.engine.meters import Meter
from fedsim.field import Field, RunSetting, ServerParts, ServerSetting
from fedsim.fields.asynchronous import checks
from fedsim.fields.asynchronous.form import InFlight
from fedsim.fields.asynchronous.meter import Ages
from fedsim.fields.asynchronous.stages import discount, mixing
from fedsim.fleet import Plan, Timetable
from fedsim.types import Client, Shared


def _server(spec: Any) -> Hashable:
    return None if spec.schedule.kind == "sync" else HashableSection(spec.schedule)


def _serves(parts: ServerParts, key: Any, setting: ServerSetting) -> ServerParts:
    """Discount old updates behind all stages, or mix models in the last step on the aggregate."""
    if key is None:
        return parts
    timetable: Timetable = factory_of(key.section)()
    if timetable.discount is not None:
        parts = parts._replace(stages=[*parts.stages, discount(timetable.discount)])
    if timetable.mixing is not None:
        parts = parts._replace(steps=[*parts.steps, mixing()])
    return parts


def _form(client: Client, plan: Plan, initial: Shared) -> InFlight | None:
    return InFlight(plan, initial) if plan.timetable.asynchronous else None


def _meters(setting: RunSetting) -> list[Meter]:
    return [Ages()] if setting.plan.timetable.asynchronous else []


def _method_name(spec: Any, is_plain: bool) -> str | None:
    return spec.schedule.kind if is_plain and spec.schedule.kind != "sync" else None


FIELD = Field(
    voices=[checks.schedule_voice],
    calculations=[checks.too_many_at_a_time],
    server=_server,
    serves=_serves,
    form=_form,
    meters=_meters,
    method_name=_method_name,
    voices_of_kinds={"timetable": checks.voice_of_schedule},
)
