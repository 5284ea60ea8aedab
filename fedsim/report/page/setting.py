"""What was run, and where it comes from: the scenario's parts in their order, and the provenance of a record."""

from collections.abc import Mapping
from typing import Any

from fedsim.study.methods import text_of
from fedsim.study.words import axis, call_of, shown, value_in_short, variation


def setting(record: Mapping[str, Any], label: str = "") -> dict[str, Any]:
    """How data flows through the scenario, and what attacks it: the parts in their order, as they were written.

    Args:
      record: the content of a `run.json`.
      label: of the run, where several stand on one page.
    """
    scenario, halves = record["scenario"], record.get("halves") or {}
    data, client, wire = scenario["data"], scenario["client"], scenario.get("wire") or []
    compare = scenario.get("compare") or {}
    malicious, vary = scenario.get("fleet", {}).get("malicious") or 0, compare.get("vary") or {}
    controlled, poisons = bool(malicious or "fleet.malicious" in vary), data.get("attack") or []
    attacked = bool(wire) and controlled
    methods = [
        m if isinstance(m, str) else str(m.get("label", m.get("method")))
        for m in compare.get("methods") or []
    ]
    changes = [_changes(method, scenario) for method in compare.get("methods") or []]
    clients = _clients(data, vary)
    steps: list[tuple[str, str | list[str]]] = [
        ("data", f"{data['kind']}, {clients}, {_partition(data, vary)}{_held_out(data)}"),
        *([("attack on data", " → ".join(map(_named, poisons)))] if poisons else []),
        ("model", _named(scenario["model"])),
        ("cohort", _named(scenario["cohort"])),
        *([("machines", machines)] if (machines := _machines(scenario.get("fleet") or {})) else []),
        *([("schedule", _named(scenario["schedule"]))] if "schedule" in scenario else []),
        ("client", f"{client['kind']}, lr {client['lr']}, batch {client['batch']}"),
        *([("broadcast", _named(scenario["broadcast"][0]))] if scenario.get("broadcast") else []),
        ("attack" if attacked else "wire", " → ".join(map(_named, wire)) or "as sent"),
    ]
    if controlled and (wire or poisons):
        steps.append(
            ("malicious", variation(f"fleet.malicious={malicious}") if malicious else "as varied")
        )
    if methods:  # each with its client and its server half
        both = [f"{name}: {halves[name]}" if name in halves else name for name in methods]
        steps.append(("methods", [f"{one}{more}" for one, more in zip(both, changes, strict=True)]))
    else:
        steps.append(("server", " → ".join(map(_named, scenario["server"]))))
    steps += [
        ("varied", f"{axis(path, scenario)} ({path}): {', '.join(map(value_in_short, values))}")
        for path, values in vary.items()
    ]
    seeds = f"{len(scenario['seeds'])} seed{'s' * (len(scenario['seeds']) > 1)}"
    against = (
        f", {len(methods)} methods compared with {record.get('baseline')}"
        if len(methods) > 1
        else ""
    )
    size = f"{scenario['rounds']} rounds, {seeds}{against}"
    return {"label": label, "steps": steps, "size": size, "data": f"{data['kind']}, {clients}"}


def _changes(method: Any, scenario: Mapping[str, Any]) -> str:
    """What a method of a comparison sets for itself, behind a comma."""
    changed = method.get("set") or {} if isinstance(method, Mapping) else {}
    return "".join(
        f", {variation(f'{path}={text_of(value)}', scenario)}" for path, value in changed.items()
    )


def _machines(fleet: Mapping[str, Any]) -> str:
    """Clients as machines; empty where nothing is said of them."""
    parts = [
        f"{name} {_named(fleet[name])}"
        for name in ("speed", "links", "availability")
        if fleet.get(name)
    ]
    dropout, factor = fleet.get("dropout") or 0.0, fleet.get("over_select") or 1.0
    if isinstance(dropout, Mapping):
        parts += [f"dropout {name} {share:g}" for name, share in dropout.items() if share]
    elif dropout:
        parts.append(f"dropout {dropout:g}")
    if fleet.get("deadline") is not None:
        parts.append(
            f"deadline {fleet['deadline']:g} s{', partial work' * bool(fleet.get('partial_work'))}"
        )
    return ", ".join([*parts, *([f"over-selection {factor:g}"] if factor != 1 else [])])


def _clients(data: Mapping[str, Any], vary: Mapping[str, Any]) -> str:
    """How many clients there are, where all runs have as many."""
    varied = "data.clients" in vary or data.get("clients") is None
    return "clients as varied" if varied else f"{data['clients']} clients"


def _partition(data: Mapping[str, Any], vary: Mapping[str, Any]) -> str:
    """The partition, where all runs have the same."""
    varied = any(path == "data.partition" or path.startswith("data.partition.") for path in vary)
    return "partition as varied" if varied else _named(data["partition"])


def _held_out(data: Mapping[str, Any]) -> str:
    """The share of the clients that never train, where there is one."""
    test = data.get("test")
    return (
        f", {100 * test['clients']:g} % of them never train"
        if isinstance(test, dict) and "clients" in test
        else ""
    )


def _named(part: Mapping[str, Any]) -> str:
    """A link as it would be written, `krum(f=6)`."""
    values = shown(part)
    rest = [
        f"{k}={call_of(v) if _has_kind(v) else v}"
        for k, v in values.items()
        if k != "kind" and (_has_kind(v) or (isinstance(v, int | float | str | list) and v != []))
    ]
    return f"{part['kind']}({', '.join(rest)})" if rest else str(part["kind"])


def _has_kind(value: Any) -> bool:
    return isinstance(value, Mapping) and "kind" in value


def provenance(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The environment, the machine and the hashes, a line each."""
    environment, surroundings, hashes = (
        record["environment"],
        record["surroundings"],
        record["hashes"],
    )
    git = surroundings.get("git") or {}
    commit = (
        f"{git['commit'][:12]}{' with changes' if git.get('dirty') else ''}"
        if git.get("commit")
        else "not known"
    )
    packages = ("fedsim", "jax", "jaxlib", "numpy", "optax")
    versions = ", ".join(f"{name} {environment[name]}" for name in packages if name in environment)
    machine = f"{', '.join(surroundings['devices'])}; {surroundings['cores']} cores; {surroundings['platform']}"
    return [
        ("status", record["status"]),
        ("versions", versions),
        ("commit", commit),
        ("machine", machine),
        ("scenario", f"SHA-256 {hashes['scenario']}"),
        *([("data", f"SHA-256 {hashes['data']}")] if "data" in hashes else []),
        (
            "files",
            "rounds.csv, summary.csv and the others beside this page; fedsim verify checks them",
        ),
    ]


def quoted(word: str) -> str:
    """A word of a command line, as a shell reads it.

    >>> quoted("krum(f=2)"), quoted("a/b.yaml")
    ("'krum(f=2)'", 'a/b.yaml')
    """
    return (
        word
        if word.replace("/", "").replace("-", "").replace(".", "").replace("_", "").isalnum()
        else f"'{word}'"
    )
