"""`fedsim data partition`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.screen import rows_of_terms, wrapped
from fedsim.installed import modules_with

if TYPE_CHECKING:
    from fedsim.study.label_skew import Heterogeneity

LISTED = 20  # clients in the table, at most
# characters of a name, at most
CLIENT = 30
LABEL = 12
SKEW = "skew/"  # prefix of columns that tell what a client has of a skew


@click.command("partition")
@options.scenario
@click.option(
    "-o",
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder [reports/<name>-partition, whose files are replaced].",
)
@options.force
@click.option(
    "--split",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write which client holds which sample: sample,client as CSV, "
    "or {client: [samples]} where FILE ends in .json.",
)
@click.option(
    "--by",
    metavar="COLUMN",
    help="Draw the values of a column in place of the labels [of domains: its column].",
)
@options.as_json("the table")
@options.debug
def partition_command(
    out: Path | None,
    force: bool,
    split: Path | None,
    by: str | None,
    as_json: bool,
    **arguments: Any,
) -> None:
    """Show which client holds what, as a table, and a picture in files; trains nothing.

    \b
    Examples:
      fedsim data partition scenarios/dirichlet.yaml
      fedsim data partition scenarios/dirichlet.yaml \\
          --set data.partition.alpha=0.1 --out skewed
      fedsim data partition scenarios/pathological.yaml --json
      fedsim data partition scenarios/dirichlet.yaml \\
          --split split.csv

    A split is read by partition: {kind: file, path: split.csv}; if there are several seeds, it is
    that of the first one. --by label draws the labels where a column would be drawn.
    """
    scenario = options.read_scenario(arguments)
    from fedsim.runs.partition import write_partition

    folder = out or Path("reports") / f"{scenario.spec.name}-partition"
    partitions, notes = write_partition(scenario, folder, split, by, force or out is None)
    if as_json:
        tables = {str(seed): partition.plain() for seed, partition in partitions.items()}
        click.echo(json.dumps(tables))
        return

    seed, partition = next(iter(partitions.items()))
    if len(partitions) > 1:
        print(f"seed {seed} (partition.csv has all {len(partitions)})\n")
    print_partition(partition)
    for module in modules_with("PARTITION"):
        for line in module.lines(scenario, seed, len(partition.counts.clients)):
            print(wrapped(line))
    for note in notes:
        print(wrapped(f"note: {note}", hanging="  "))
    print(wrapped(f"{folder}/  partition.png  partition.svg  partition.csv", hanging="  "))
    if split is not None:
        print(f"{split}  seed {seed}: which client holds which sample")


def print_partition(partition: "Heterogeneity") -> None:
    """Print how far the clients of a partition differ: a few lines, and a table.

    Of many clients it lists those whose labels are farthest from the common ones, or the largest.
    """
    from fedsim.cli.tables import empty_table, print_table

    print(rows_of_terms(_summary(partition.overall), column=8, indent=""))
    print()
    clients = partition.clients
    has_labels = "total_variation" in clients
    shown = clients
    if len(clients) > LISTED:
        by = ["total_variation", "samples"] if has_labels else ["samples"]
        shown = clients.sort_values(by, ascending=False, kind="stable").head(LISTED)

    rows = [_cells(row) for row in shown.to_dict("records")]
    view = empty_table(list(rows[0]) if rows else ["client", "samples"], left=())
    for row in rows:
        view.add_row(*row.values())
    print_table(view, ["entropy bits", "classes"])
    if len(clients) > LISTED:
        which = "most skewed" if has_labels else "largest"
        print(f"   ... the {LISTED} {which} of {len(clients):,} clients")
    print()


def _summary(overall: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers of all clients together, a paragraph each."""
    lines = [("clients", _clients(overall)), ("samples", _samples(overall))]
    if "labels" in overall:
        lines += [("labels", _labels(overall)), ("skew", _skew(overall))]
    return lines


def _clients(overall: dict[str, Any]) -> str:
    line = f"{overall['clients']:,}"
    empty = overall["clients_without_samples"]
    if empty:
        line += f", {empty:,} of them without samples"
    return line


def _samples(overall: dict[str, Any]) -> str:
    line = f"{overall['samples']:,}"
    if overall["clients"]:
        least = overall["samples_min"]
        most = overall["samples_max"]
        median = overall["samples_median"]
        line += f"; a client holds {least:,} to {most:,}, median {median:,g}"
    if overall["samples_gini"] is not None:
        line += f", Gini {overall['samples_gini']:.2f}"
    return line


def _labels(overall: dict[str, Any]) -> str:
    mean = overall["classes_mean"]
    bits = overall["entropy_bits_mean"]
    all_bits = overall["entropy_bits_all"]
    per_client = f"a client holds {mean:.1f} on average, {bits:.2f} of {all_bits:.2f} bits"
    return f"{overall['labels']:,}; {per_client}"


def _skew(overall: dict[str, Any]) -> str:
    mean = overall["total_variation_mean"]
    most = overall["total_variation_max"]
    iid = overall["total_variation_iid"]
    distance = f"total variation from the common mix {mean:.3f} on average, {most:.3f} at most"
    return f"{distance}; a random partition has {iid:.3f}"


def _cells(row: dict[Any, Any]) -> dict[str, str]:
    """What a client has, by the title of the column; of labels nothing without samples."""
    from fedsim.report.figures.drawing import literal

    cells = {"client": literal(row["client"], CLIENT), "samples": f"{row['samples']:,}"}
    if "classes" in row:
        cells["classes"] = str(row["classes"])
        cells |= dict.fromkeys(("entropy bits", "total variation", "largest share"), "")
        if row["samples"]:
            label = literal(row["largest_label"], LABEL)
            cells["entropy bits"] = f"{row['entropy_bits']:.2f}"
            cells["total variation"] = f"{row['total_variation']:.3f}"
            cells["largest share"] = f"{100 * row['largest_share']:.0f} % label {label}"
    for name, value in row.items():
        if str(name).startswith(SKEW):
            cells[str(name).removeprefix(SKEW)] = f"{value:.4g}"
    return cells
