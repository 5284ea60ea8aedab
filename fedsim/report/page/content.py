"""The content of the page: all of it comes from the tables and the records of runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd

from fedsim.report.mark import mark_of
from fedsim.report.page import pictures
from fedsim.report.page.render import rendered
from fedsim.report.results import metric_of, results, rows_of, sentences, times


class Source(NamedTuple):
    """A run or a comparison.

    Attributes:
      record: the content of its `run.json`, as far as it is known.
      tables: its tables by name.
      label: of its rows, where several runs stand on one page; else empty.
    """

    record: Mapping[str, Any]
    tables: Mapping[str, pd.DataFrame]
    label: str = ""

    def table(self, name: str) -> pd.DataFrame | None:
        """One of its tables; None where there is none, or an empty one."""
        table = self.tables.get(name)
        if table is None or not len(table):
            return None
        return table.assign(method=self.label) if self.label and "method" in table else table


def page_of(sources: Sequence[Source], refresh: int = 0) -> bytes:
    """The page of one run or comparison, or of several runs beside one another.

    Args:
      sources: runs and comparisons.
      refresh: seconds after which a browser reads the page again, which is being rewritten; 0: never.
    """
    first = sources[0].record
    rounds, summary, timing, clients = (_tables(sources, name) for name in ("rounds", "summary", "timing", "clients"))
    compare = sources[0].table("compare") if len(sources) == 1 else None
    names = list(dict.fromkeys(str(name) for t in (rounds, clients) if t is not None for name in t["method"]))
    charts, data = pictures.charts(rounds, names, first["scenario"])
    shown = {
        "title": first["scenario"]["name"] if len(sources) == 1 else f"{len(sources)} runs",
        "mark": "; ".join(_marks(sources)),
        "refresh": refresh,
        "verdict": _verdict(sources, summary),
        "setting": [_setting(source) for source in sources],
        "table": _table(summary, compare, first.get("score", "final")),
        "names": names,
        "charts": charts,
        "forests": pictures.forests(compare),
        "spreads": pictures.spreads(clients, names),
        "partition": pictures.partition(sources[0].table("partition")),
        "time": times(timing, names),
        "again": [" ".join(map(_quoted, source.record["surroundings"]["command"])) for source in sources],
        "provenance": [(source.label or str(source.record["scenario"]["name"]), _provenance(source)) for source in sources],
    }  # fmt: skip
    return rendered(shown, data)


def _marks(sources: Sequence[Source]) -> list[str]:
    """What has not ended, each with its label."""
    marked = [(source.label, mark_of(source.record)) for source in sources]
    return [f"{label}: {mark}" if label else mark for label, mark in marked if mark]


def _tables(sources: Sequence[Source], name: str) -> pd.DataFrame | None:
    tables = [table for source in sources if (table := source.table(name)) is not None]
    return pd.concat(tables, ignore_index=True) if tables else None


def _verdict(sources: Sequence[Source], summary: pd.DataFrame | None) -> list[str]:
    """The verdict of a comparison; of runs what they came to."""
    if len(sources) == 1 and sources[0].record.get("verdict"):
        return list(sources[0].record["verdict"])
    reasons = [f"Seed {seed}: {why}" for source in sources for seed, why in source.record.get("reasons", {}).items()]
    notes = [f"Seed {seed}: {why}" for source in sources for seed, why in source.record.get("notes", {}).items()]
    return [*(sentences(summary) if summary is not None else []), *reasons, *notes]


def _table(summary: pd.DataFrame | None, compare: pd.DataFrame | None, score: str) -> dict[str, Any] | None:
    """The results of all methods."""
    if summary is None or score not in summary:
        return None
    runs = rows_of(summary)
    rows = results(runs, None if compare is None else rows_of(compare), score)
    titles = {"score": f"{score} {metric_of(runs).replace('_', ' ')}"}
    words = sum(name in summary for name in ("method", "variant", "tuned"))
    return {
        "head": [titles.get(name, name) for name in rows[0]],
        "rows": [[*row.values()] for row in rows],
        "words": words,
    }


def _setting(source: Source) -> dict[str, Any]:
    """How data flows through the scenario, and what attacks it: the parts in their order, as they were written."""
    scenario, halves = source.record["scenario"], source.record.get("halves") or {}
    data, client, wire = scenario["data"], scenario["client"], scenario.get("wire") or []
    compare = scenario.get("compare") or {}
    malicious, vary = scenario.get("fleet", {}).get("malicious") or 0, compare.get("vary") or {}
    attacked = bool(wire) and bool(malicious or "fleet.malicious" in vary)
    methods = [m if isinstance(m, str) else str(m.get("label", m.get("method"))) for m in compare.get("methods") or []]
    steps = [
        ("data", f"{data['kind']}, {data.get('clients')} clients, {_named(data['partition'])}"),
        ("model", _named(scenario["model"])),
        ("cohort", _named(scenario["cohort"])),
        ("client", f"{client['kind']}, lr {client['lr']}, batch {client['batch']}"),
        ("attack" if attacked else "wire", " → ".join(map(_named, wire)) or "as sent"),
    ]
    if attacked:
        share = f"{malicious:.0%} of the clients" if isinstance(malicious, float) else f"clients {malicious}"
        steps.append(("malicious", share if malicious else "as varied"))
    if methods:  # each with its client and its server half
        steps.append(("methods", "; ".join(f"{name}: {halves[name]}" if name in halves else name for name in methods)))
    else:
        steps.append(("server", " → ".join(map(_named, scenario["server"]))))
    steps += [("varied", f"{path} = {', '.join(map(str, values))}") for path, values in vary.items()]
    seeds = f"{len(scenario['seeds'])} seed{'s' * (len(scenario['seeds']) > 1)}"
    against = f"; {len(methods)} methods, compared with {source.record.get('baseline')}" if methods else ""
    return {"label": source.label, "steps": steps, "size": f"{scenario['rounds']} rounds, {seeds}{against}"}


def _named(part: Mapping[str, Any]) -> str:
    """A link as it would be written, `krum(f=6)`."""
    rest = [f"{k}={v}" for k, v in part.items() if k != "kind" and isinstance(v, int | float | str | list) and v != []]
    return f"{part['kind']}({', '.join(rest)})" if rest else str(part["kind"])


def _provenance(source: Source) -> list[tuple[str, str]]:
    """The environment, the machine and the hashes, a line each."""
    record = source.record
    environment, surroundings, hashes = record["environment"], record["surroundings"], record["hashes"]
    git = surroundings.get("git") or {}
    commit = f"{git['commit'][:12]}{' with changes' if git.get('dirty') else ''}" if git.get("commit") else "not known"
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
        ("files", "rounds.csv, summary.csv and the others beside this page; fedsim verify checks them"),
    ]


def _quoted(word: str) -> str:
    return word if word.replace("/", "").replace("-", "").replace(".", "").replace("_", "").isalnum() else f"'{word}'"
