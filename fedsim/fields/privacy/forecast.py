"""What `fedsim check` prints of privacy."""

from typing import Any

Record = dict[str, Any]


def lines(expected: Record) -> dict[str, str]:
    """Return name -> line, of clients and of samples where they are private."""
    told = {}
    if "privacy" in expected:
        told["privacy"] = _of_clients(expected)
    if "dp_sgd" in expected:
        told["dp_sgd"] = _of_samples(expected)
    return told


def _of_clients(expected: Record) -> str:
    privacy = expected["privacy"]
    z = f"noise multiplier {privacy['noise_multiplier']:.4g}"
    return f"{z}, epsilon {expected['epsilon']:.4g} at the end, delta {privacy['delta']:g}"


def _of_samples(expected: Record) -> str:
    z = f"noise multiplier {expected['dp_sgd']['noise_multiplier']:.4g}"
    client = expected["samples_epsilon"]
    whose = f"of each of the {client['samples']:,} samples of client {client['client']}"
    epsilon = f"epsilon {client['epsilon']:.4g} {whose} if it takes part in all rounds"
    return f"{z}, {epsilon}, delta {expected['dp_sgd']['delta']:g}"
