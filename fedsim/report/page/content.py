"""The content of the page: all of it comes from the tables and the records of runs."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from markupsafe import Markup

from fedsim.report.page import plot
from fedsim.report.page.render import rendered
from fedsim.report.results import metric_of, results, rows_of, sentences, times
from fedsim.report.series import by_variant, series, tracks
from fedsim.study.label_skew import counts_of_rows
from fedsim.study.summary import larger_is_better

METRICS = {
    "test_accuracy": "test accuracy",
    "test_loss": "test loss",
    "train_loss": "train loss",
    "update_norm": "norm of a client's update",
    "drift": "drift of clients around their mean",
    "cosine": "cosine between two clients' updates",
}
MOST_CLIENTS = 60  # of the picture of the partition; more are chosen evenly, largest to smallest
DIGITS = 5  # significant, of what the script draws


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


def page_of(sources: Sequence[Source]) -> bytes:
    """The page of one run or comparison, or of several runs beside one another."""
    first = sources[0].record
    rounds, summary, timing, clients = (_tables(sources, name) for name in ("rounds", "summary", "timing", "clients"))
    compare = sources[0].table("compare") if len(sources) == 1 else None
    names = list(dict.fromkeys(str(name) for t in (rounds, clients) if t is not None for name in t["method"]))
    charts, data = _charts(rounds, names, first["scenario"])
    shown = {
        "title": first["scenario"]["name"] if len(sources) == 1 else f"{len(sources)} runs",
        "verdict": _verdict(sources, summary),
        "setting": [_setting(source) for source in sources],
        "table": _table(summary, compare, first.get("score", "final")),
        "names": names,
        "charts": charts,
        "forests": _forests(compare),
        "spreads": _spreads(clients, names),
        "partition": _partition(sources[0]),
        "time": times(timing, names),
        "again": [" ".join(map(_quoted, source.record["surroundings"]["command"])) for source in sources],
        "provenance": [(source.label or str(source.record["scenario"]["name"]), _provenance(source)) for source in sources],
    }  # fmt: skip
    return rendered(shown, data)


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


def _charts(
    rounds: pd.DataFrame | None, names: Sequence[str], scenario: Mapping[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, list]]:
    """A chart per metric and variation: for the template, and the numbers by which the script moves it."""
    charts: list[dict[str, Any]] = []
    data: dict[str, list] = {"axes": [], "charts": []}
    if rounds is None:
        return charts, data
    evaluate = scenario.get("evaluate", {})
    for metric, words in METRICS.items():
        for variant, table in by_variant(rounds).items():
            curves = _curves(table, metric, names)
            if not curves:
                continue
            target = evaluate.get("target") if evaluate.get("metric") == metric else None
            label = f"{words}, {variant}" if variant else words
            share = metric == "test_accuracy"
            picture = plot.lines(curves, label, share, target)
            charts.append({"metric": metric, "label": label, "picture": picture, "id": len(data["charts"])})
            numbers = [_numbers(curve, data["axes"]) for curve in curves]
            data["charts"].append({"share": share, "target": target, "curves": numbers})
    return charts, data


def _curves(table: pd.DataFrame, metric: str, names: Sequence[str]) -> list[plot.Curve]:
    """Means and ranges over the seeds, at rounds that all of them have; bytes and seconds are means as well."""
    curves = []
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
        curve = plot.Curve(
            name=track.name,
            place=names.index(track.name),
            x={"round": [float(r) for r in rounds], "bytes": both, "seconds": mean("virtual_seconds")},
            mean=values.mean(1).tolist(),
            low=values.min(1).tolist(),
            high=values.max(1).tolist(),
        )
        curves.append(curve)
    return curves


def _numbers(curve: plot.Curve, axes: list[dict[str, list[float]]]) -> dict[str, Any]:
    """A curve as the script reads it: its places on the axes are kept once, ranges only where there are several seeds."""
    brief = lambda values: [float(f"{v:.{DIGITS}g}") for v in values]
    x = {name: brief(values) for name, values in curve.x.items()}
    if x not in axes:
        axes.append(x)
    numbers = {"name": curve.name, "x": axes.index(x), "mean": brief(curve.mean)}
    return numbers if curve.low == curve.high else {**numbers, "low": brief(curve.low), "high": brief(curve.high)}


def _forests(compare: pd.DataFrame | None) -> list[tuple[str, Markup]]:
    """A forest plot per variation."""
    forests = []
    for variant, table in by_variant(compare).items() if compare is not None else ():
        rows = rows_of(table)
        metric, baseline = str(rows[0]["metric"]), rows[0]["baseline"]
        side = "right is better" if larger_is_better(metric) else "left is better"
        forests.append((variant, plot.forest(rows, f"difference to {baseline} in {metric.replace('_', ' ')} ({side})")))
    return forests


def _spreads(clients: pd.DataFrame | None, names: Sequence[str]) -> list[tuple[str, Markup]]:
    """Per variation how the accuracies of clients spread."""
    if clients is None or "global_accuracy" not in clients:
        return []
    label, spreads = "accuracy of the final model on the client's own samples", []
    for variant, table in by_variant(clients).items():
        by = {str(name): part["global_accuracy"].dropna() for name, part in table.groupby("method", sort=False)}
        rows = [(name, names.index(name), values.tolist()) for name, values in by.items()]
        spreads.append((variant, plot.spread(rows, label)))
    return spreads


def _partition(source: Source) -> dict[str, Any] | None:
    """A heat map of the partition, and its sizes in words."""
    table = source.table("partition")
    if table is None:
        return None
    counts = counts_of_rows(next(iter(by_variant(table).values())))
    sizes = counts.sizes
    order = np.argsort(-sizes, kind="stable")
    few = order[np.unique(np.linspace(0, len(order) - 1, min(len(order), MOST_CLIENTS)).astype(int))]
    some = f"{len(few)} of {len(order)} clients, evenly chosen" if len(few) < len(order) else f"{len(order)} clients"
    up = "label" if len(counts.labels) > 1 else "samples"
    ends = f"{sizes.min():,} to {sizes.max():,} a client, {int(np.median(sizes)):,} in the middle"
    picture = plot.heat_map(counts.samples[few], f"{some}, largest first", up)
    return {"picture": picture, "sizes": f"{sizes.sum():,} samples; {ends}"}


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
