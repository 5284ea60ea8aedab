"""Privacy in the setting of a page."""

from collections.abc import Mapping
from typing import Any

from fedsim.fields.privacy.accountants import accountant_of
from fedsim.report.page.setting import Step
from fedsim.study.words import call_of, value_in_short


def after_client(scenario: Mapping[str, Any]) -> list[Step]:
    """Return the noise on the gradients of clients."""
    client = scenario["client"]
    return [("privacy of samples", _of_samples(client))] if client.get("dp_sgd") else []


def after_server(scenario: Mapping[str, Any]) -> list[Step]:
    """Return the noise on the mean."""
    privacy = scenario.get("privacy")
    if not privacy:
        return []
    return [("privacy", _of_clients(privacy)), ("ε counted by", accountant_of(scenario))]


def _of_clients(privacy: Mapping[str, Any]) -> str:
    """The noise and its budget; of z and ε what the scenario has."""
    texts = [call_of(privacy["mechanism"]), f"clip {value_in_short(privacy['clip'])}"]
    if privacy.get("noise_multiplier") is not None:
        texts.append(f"noise multiplier {privacy['noise_multiplier']:g}")
    if privacy.get("epsilon") is not None:
        texts.append(f"ε {privacy['epsilon']:g}")
    texts.append(f"δ {privacy['delta']:g}")
    if privacy.get("audit") is not None:
        texts.append(f"{privacy['audit']['canaries']} canaries")
    return ", ".join(texts)


def _of_samples(client: Mapping[str, Any]) -> str:
    """The noise on gradients, and what neighbouring data differ in."""
    keys = client["dp_sgd"]
    texts = [
        "one sample of one client",
        f"clip {keys['clip']:g}",
        f"noise multiplier {keys['noise_multiplier']:g}",
        f"Poisson batches of {client['batch']}",
        f"δ {keys['delta']:g}",
    ]
    return ", ".join(texts)
