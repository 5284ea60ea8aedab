"""When runs end early, in the setting of a page."""

from collections.abc import Mapping
from typing import Any

from fedsim.report.page.setting import Step
from fedsim.study.summary import in_words
from fedsim.study.words import count


def after_server(scenario: Mapping[str, Any]) -> list[Step]:
    """Return when a run ends early; nothing where it plays all its rounds."""
    stop = scenario.get("stop")
    if stop is None:
        return []
    metric = in_words(stop.get("metric") or "")  # none where a budget alone decides
    texts = []
    if stop.get("patience") is not None:
        rounds = count(stop["patience"], "evaluated round")
        texts.append(f"after {rounds} without better {metric}")
    if stop.get("target") is not None:
        texts.append(f"at {metric} {stop['target']:g}")
    limits = stop.get("at_most") or {}
    texts += [f"at {limit:g} {name}" for name, limit in limits.items() if limit is not None]
    if stop.get("restore") == "best":
        texts.append("result: the best model")
    return [("ends early", ", ".join(texts))]
