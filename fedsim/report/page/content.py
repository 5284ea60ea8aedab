"""What the page says, read from the files of run directories: nothing on it comes from anywhere else."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.page import plot
from fedsim.report.page.render import rendered
from fedsim.report.page.tabled import came_to, results, rows_of, spent
from fedsim.report.series import by_variant, series, tracks
from fedsim.runs.reading import read_table
from fedsim.study import label_skew as holdings

METRICS = {
    "test_accuracy": "test accuracy",
    "test_loss": "test loss",
    "train_loss": "train loss",
    "update_norm": "norm of a client's update",
    "drift": "drift of clients around their mean",
    "cosine": "cosine between two clients' updates",
}
MOST_CLIENTS = 60  # of the picture of who holds what; more are chosen evenly, largest to smallest
DIGITS = 5  # significant, of what the script draws


class Source(NamedTuple):
    """A run directory.

    Attributes:
      path: where it is.
      record: what `run.json` says, or is about to say.
      label: of its rows, where several directories stand on one page; else empty.
    """

    path: Path
    record: Mapping[str, Any]
    label: str = ""

    def table(self, name: str) -> pd.DataFrame | None:
        """One of its tables, None where it has none, or an empty one."""
        found = read_table(self.path, name)
        if found is None or not len(found):
            return None
        if self.label and "method" in found:
            found = found.assign(method=self.label)
        return found


def page_of(sources: Sequence[Source]) -> bytes:
    """The page of one run or comparison, or of several runs beside one another."""
    first = sources[0].record
    rounds, summary, timing, clients = (_tables(sources, name) for name in ("rounds", "summary", "timing", "clients"))
    compare = sources[0].table("compare") if len(sources) == 1 else None
    names = list(dict.fromkeys(str(name) for t in (rounds, clients) if t is not None for name in t["method"]))
    charts, data = _charts(rounds, names, first["scenario"])
    told = {
        "title": first["scenario"]["name"] if len(sources) == 1 else f"{len(sources)} runs",
        "verdict": _verdict(sources, summary),
        "setting": [_setting(source) for source in sources],
        "table": results(summary, compare, first.get("score", "final")),
        "names": names,
        "charts": charts,
        "forests": _forests(compare),
        "spreads": _spreads(clients, names),
        "partition": _partition(sources[0]),
        "time": spent(timing, names),
        "again": [" ".join(map(_quoted, source.record["surroundings"]["command"])) for source in sources],
        "provenance": [(source.label or str(source.record["scenario"]["name"]), _provenance(source)) for source in sources],
    }  # fmt: skip
    return rendered(told, data)


def _tables(sources: Sequence[Source], name: str) -> pd.DataFrame | None:
    found = [table for source in sources if (table := source.table(name)) is not None]
    return pd.concat(found, ignore_index=True) if found else None


def _verdict(sources: Sequence[Source], summary: pd.DataFrame | None) -> list[str]:
    """What a comparison concluded; of runs what they came to."""
    if len(sources) == 1 and sources[0].record.get("verdict"):
        return list(sources[0].record["verdict"])
    reasons = [f"Seed {seed}: {why}" for source in sources for seed, why in source.record.get("reasons", {}).items()]
    notes = [f"Seed {seed}: {why}" for source in sources for seed, why in source.record.get("notes", {}).items()]
    return [*(came_to(summary) if summary is not None else []), *reasons, *notes]


def _setting(source: Source) -> dict[str, Any]:
    """How data flows through the scenario, and what attacks it: the parts in their order, as they were written."""
    s = source.record["scenario"]
    data, client, compare = s["data"], s["client"], s.get("compare") or {}
    malicious = s.get("fleet", {}).get("malicious") or 0
    attacked = bool(s.get("wire")) and bool(malicious or "fleet.malicious" in (compare.get("vary") or {}))
    methods = [m if isinstance(m, str) else str(m.get("label", m.get("method"))) for m in compare.get("methods") or []]
    halves = source.record.get("halves") or {}  # client and server side, with the weights of the mean
    steps = [
        ("data", f"{data['kind']}, {data.get('clients')} clients, {_named(data['partition'])}"),
        ("model", _named(s["model"])),
        ("cohort", _named(s["cohort"])),
        ("client", f"{client['kind']}, lr {client['lr']}, batch {client['batch']}"),
        ("attack" if attacked else "wire", " → ".join(map(_named, s.get("wire") or [])) or "as sent"),
    ]
    if attacked:
        share = f"{malicious:.0%} of the clients" if isinstance(malicious, float) else f"clients {malicious}"
        steps.append(("malicious", share if malicious else "as varied"))
    said = [f"{name}: {halves[name]}" if name in halves else name for name in methods]
    steps.append(("methods", "; ".join(said)) if methods else ("server", " → ".join(map(_named, s["server"]))))
    for path, values in (compare.get("vary") or {}).items():
        steps.append(("varied", f"{path} = {', '.join(map(str, values))}"))
    seeds = f"{len(s['seeds'])} seed{'s' * (len(s['seeds']) > 1)}"
    against = f"; {len(methods)} methods, compared with {source.record.get('baseline')}" if methods else ""
    return {"label": source.label, "steps": steps, "said": f"{s['rounds']} rounds, {seeds}{against}"}


def _named(part: Mapping[str, Any]) -> str:
    """A link as it would be written, `krum(f=6)`."""
    rest = [f"{k}={v}" for k, v in part.items() if k != "kind" and isinstance(v, int | float | str | list) and v != []]
    return f"{part['kind']}({', '.join(rest)})" if rest else str(part["kind"])


def _charts(
    rounds: pd.DataFrame | None, names: Sequence[str], scenario: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, list]]:
    """A chart per metric and variation: what the template shows, and what the script needs to move it."""
    charts: list[dict[str, Any]] = []
    data: dict[str, list] = {"axes": [], "charts": []}
    if rounds is None:
        return charts, data
    evaluate = scenario.get("evaluate", {})
    for metric, spoken in METRICS.items():
        for variant, table in by_variant(rounds).items():
            curves = _curves(table, metric, names)
            if not curves:
                continue
            target = evaluate.get("target") if evaluate.get("metric") == metric else None
            label = f"{spoken}, {variant}" if variant else spoken
            share = metric == "test_accuracy"
            picture = plot.lines(curves, label, share, target)
            charts.append({"metric": metric, "label": label, "picture": picture, "id": len(data["charts"])})
            told = [_numbers(curve, data["axes"]) for curve in curves]
            data["charts"].append({"share": share, "target": target, "curves": told})
    return charts, data


def _curves(table: pd.DataFrame, metric: str, names: Sequence[str]) -> list[plot.Curve]:
    """Means and ranges over the seeds, at rounds that all of them have; bytes and seconds are means as well."""
    found = []
    columns = (metric, "test_loss", "bytes_up", "bytes_down", "virtual_seconds")
    for track in tracks(table, columns):
        if metric not in track.values:
            continue
        rounds, values = series(track, metric).common()
        if not len(rounds):
            continue
        at = {name: dict(zip(*series(track, name).common(), strict=True)) for name in columns[2:]}
        mean = lambda name, at=at, rounds=rounds: [float(np.mean(at[name][r])) for r in rounds]
        both = [up + down for up, down in zip(mean("bytes_up"), mean("bytes_down"), strict=True)]
        x = {"round": [float(r) for r in rounds], "bytes": both, "seconds": mean("virtual_seconds")}
        ends = (values.mean(1).tolist(), values.min(1).tolist(), values.max(1).tolist())
        found.append(plot.Curve(track.name, names.index(track.name), x, *ends))
    return found


def _numbers(curve: plot.Curve, axes: list[dict[str, list[float]]]) -> dict[str, Any]:
    """A curve as the script reads it; where it stands on the axes is kept once, ranges only where there are several seeds."""
    brief = lambda values: [float(f"{v:.{DIGITS}g}") for v in values]
    x = {name: brief(values) for name, values in curve.x.items()}
    if x not in axes:
        axes.append(x)
    told = {"name": curve.name, "x": axes.index(x), "mean": brief(curve.mean)}
    return told if curve.low == curve.high else {**told, "low": brief(curve.low), "high": brief(curve.high)}


def _forests(compare: pd.DataFrame | None) -> list[tuple[str, Markup]]:
    if compare is None:
        return []
    found = []
    for variant, table in by_variant(compare).items():
        rows = rows_of(table)
        metric = str(rows[0]["metric"]).replace("_", " ")
        side = "left is better" if metric.endswith("loss") else "right is better"
        found.append((variant, plot.forest(rows, f"difference to {rows[0]['baseline']} in {metric} ({side})")))
    return found


def _spreads(clients: pd.DataFrame | None, names: Sequence[str]) -> list[tuple[str, Markup]]:
    if clients is None or "global_accuracy" not in clients:
        return []
    said = "accuracy of the final model on the client's own samples"
    found = []
    for variant, table in by_variant(clients).items():
        by = {name: part["global_accuracy"].dropna().tolist() for name, part in table.groupby("method", sort=False)}
        found.append(
            (variant, plot.spread([(str(name), names.index(name), values) for name, values in by.items()], said))
        )
    return found


def _partition(source: Source) -> dict[str, Any] | None:
    table = source.table("partition")
    if table is None:
        return None
    if "variant" in table:
        table = table[table["variant"] == table["variant"].iloc[0]]
    found = holdings.tally(pd.DataFrame(table))
    order = np.argsort(-found.counts.sum(1), kind="stable")
    few = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_CLIENTS)).astype(int))]
    some = f"{len(few)} of {len(order)} clients, evenly chosen" if len(few) < len(order) else f"{len(order)} clients"
    up = "label" if len(found.labels) > 1 else "samples"
    sizes = found.counts.sum(1)
    said = (
        f"{sizes.sum():,} samples; {sizes.min():,} to {sizes.max():,} a client, {int(np.median(sizes)):,} in the middle"
    )
    return {"picture": plot.heat(found.counts[few], f"{some}, largest first", up), "said": said}


def _provenance(source: Source) -> list[tuple[str, str]]:
    record = source.record
    about, around = record["environment"], record["surroundings"]
    git = around.get("git") or {}
    commit = f"{git['commit'][:12]}{' with changes' if git.get('dirty') else ''}" if git.get("commit") else "not known"
    versions = ", ".join(
        f"{name} {about[name]}" for name in ("fedsim", "jax", "jaxlib", "numpy", "optax") if name in about
    )
    hashes = record["hashes"]
    return [
        ("status", record["status"]),
        ("versions", versions),
        ("commit", commit),
        ("machine", f"{', '.join(around['devices'])}; {around['cores']} cores; {around['platform']}"),
        ("scenario", f"SHA-256 {hashes['scenario']}"),
        *([("data", f"SHA-256 {hashes['data']}")] if "data" in hashes else []),
        ("files", "rounds.csv, summary.csv and the others beside this page; fedsim verify checks them"),
    ]


def _quoted(word: str) -> str:
    return word if word.replace("/", "").replace("-", "").replace(".", "").replace("_", "").isalnum() else f"'{word}'"
