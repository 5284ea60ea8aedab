"""What was run, and where it comes from: the parts of a scenario, and its provenance."""

from collections.abc import Iterator, Mapping
from typing import Any

from fedsim.installed import offered
from fedsim.study.methods import TUNED, methods_of, texts_of_axis
from fedsim.study.words import (
    axis_name,
    call_of,
    count,
    value_in_short,
    variation_in_words,
)

PACKAGES = ("fedsim", "jax", "jaxlib", "numpy", "optax")  # whose versions are shown

BLANKS = {
    "mean": "means for blanks",
    "median": "medians for blanks",
    "constant": "a number for blanks",
    "drop": "rows with blanks left out",
}

Step = tuple[str, str | list[str]]
"""a part of a scenario: its name, and a text or a list of texts"""


def setting(record: Mapping[str, Any], label: str = "") -> dict[str, Any]:
    """The parts of a scenario in the order in which data flows through them, and its size."""
    scenario = record["scenario"]
    compare = scenario.get("compare") or {}
    methods = compare.get("methods") or []
    seeds = len(scenario["seeds"])
    data = scenario["data"]
    clients = _clients(data, compare.get("vary") or {})

    size = f"{scenario['rounds']} rounds, {count(seeds, 'seed')}"
    if len(methods) > 1:
        size += f", {len(methods)} methods compared with {record.get('baseline')}"
    return {
        "label": label,
        "steps": _steps(record),
        "size": size,
        "data": f"{data['kind']}, {clients}",
    }


def _steps(record: Mapping[str, Any]) -> list[Step]:
    scenario = record["scenario"]
    compare = scenario.get("compare") or {}
    vary = compare.get("vary") or {}
    data = scenario["data"]
    steps: list[Step] = []
    if "fork" in record:
        original = f"another run ({record['fork']['scenario'][:12]})"
        steps.append(("forked", f"goes on after round {record['fork']['round']} of {original}"))
    steps.append(("data", _data(data, vary)))
    if record.get("remarks"):
        steps.append(("remarks", record["remarks"]))
    attacks = list(_added("after_data", scenario))
    steps += [*attacks, ("model", call_of(scenario["model"])), *_added("after_model", scenario)]
    if "cohort" in scenario:
        steps.append(("cohort", call_of(scenario["cohort"])))
    steps += _added("after_cohort", scenario)
    if "schedule" in scenario:
        steps.append(("schedule", call_of(scenario["schedule"])))
    client = {**scenario["client"]}
    for path in compare.get("tune") or {}:
        section, _, key = path.partition(".")
        if section == "client" and key in client:
            client[key] = TUNED
    steps.append(("client", f"{client['kind']}, lr {client['lr']}, batch {client['batch']}"))
    steps += _added("after_client", {**scenario, "client": client})
    steps += _added("before_wire", scenario)

    wire = scenario.get("wire") or []
    malicious = scenario.get("fleet", {}).get("malicious") or 0
    has_attackers = bool(malicious or "fleet.malicious" in vary)
    name = "attack" if wire and has_attackers else "wire"
    on_wire = "as varied" if "wire" in vary else call_of(wire)
    steps.append((name, on_wire or "as sent"))
    if has_attackers and (wire or attacks):
        share = "as varied"
        if malicious:
            share = variation_in_words(f"fleet.malicious={malicious}")
        steps.append(("malicious", share))

    if compare.get("methods"):
        steps.append(("methods", _methods(record)))
    elif "server" in scenario:
        steps.append(("server", call_of(scenario["server"])))
    steps += _added("after_server", scenario)
    for title, axes in (("varied", vary), (TUNED, compare.get("tune") or {})):
        for path, values in axes.items():
            listed = ", ".join(map(value_in_short, texts_of_axis(values)))
            steps.append((title, f"{axis_name(path, scenario)} ({path}): {listed}"))
    return steps


def _added(place: str, scenario: Mapping[str, Any]) -> Iterator[Step]:
    """The steps that fields have at a place."""
    for make in offered("SETTING", place):
        yield from make(scenario)


def _methods(record: Mapping[str, Any]) -> list[str]:
    """The methods of a comparison: the client and server halves of each, and what it sets.

    Of nodes of a graph, which have no server, there is nothing but the client method to show.
    """
    scenario = record["scenario"]
    topology = scenario.get("topology")
    has_server = not topology or "inner" in topology
    halves = record.get("halves") or {}
    texts = []
    for method in methods_of(scenario["compare"]["methods"]):
        text = method.label
        if has_server and method.label in halves:
            text += f": {halves[method.label]}"
        for edit in method.edits:
            text += f", {variation_in_words(edit, scenario)}"
        for path, values in method.grid.items():
            text += f", {path.removeprefix('method.')} of {', '.join(values)}"
        texts.append(text)
    return texts


def _data(data: Mapping[str, Any], vary: Mapping[str, Any]) -> str:
    """The samples, and how they are partitioned; what varies is left open."""
    texts = [data["kind"], _clients(data, vary), _partition(data, vary)]
    if data.get("drop"):
        texts.append(f"without {', '.join(map(str, data['drop']))}")
    if data.get("missing") in BLANKS:
        texts.append(BLANKS[data["missing"]])
    if data.get("statistics") == "client":
        texts.append("means and deviations are each client's own")
    test = data.get("test")
    if isinstance(test, dict) and "clients" in test:
        texts.append(f"{_held_out(test['clients'])} never train")
    return ", ".join(texts)


def _held_out(clients: float | list[str | int]) -> str:
    """Clients that are named, or a share of all of them."""
    if isinstance(clients, list):
        return " and ".join(map(str, clients))
    return f"{100 * clients:g} % of them"


def _clients(data: Mapping[str, Any], vary: Mapping[str, Any]) -> str:
    if "data.clients" in vary or data.get("clients") is None:
        return "clients as varied"
    return f"{data['clients']} clients"


def _partition(data: Mapping[str, Any], vary: Mapping[str, Any]) -> str:
    for path in vary:
        if path == "data.partition" or path.startswith("data.partition."):
            return "partition as varied"
    return call_of(data["partition"])


def provenance(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The environment, the machine and the hashes, a line each."""
    environment = record["environment"]
    surroundings = record["surroundings"]
    hashes = record["hashes"]
    versions = [f"{name} {environment[name]}" for name in PACKAGES if name in environment]
    machine = [
        ", ".join(surroundings["devices"]),
        f"{surroundings['cores']} cores",
        surroundings["platform"],
    ]
    lines = [
        ("status", record["status"]),
        ("versions", ", ".join(versions)),
        ("commit", _commit(surroundings.get("git") or {})),
        ("machine", "; ".join(machine)),
        ("scenario", f"SHA-256 {hashes['scenario']}"),
    ]
    if "data" in hashes:
        lines.append(("data", f"SHA-256 {hashes['data']}"))
    files = "rounds.csv, summary.csv and the others next to this page; fedsim verify checks them"
    lines.append(("files", files))
    return lines


def _commit(git: Mapping[str, Any]) -> str:
    if not git.get("commit"):
        return "not known"
    commit = git["commit"][:12]
    if git.get("dirty"):
        return f"{commit} with changes"
    return commit
