"""`fedsim check --against`: repeat runs, and compare."""

import contextlib
import functools
import inspect
import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from fedsim.cli import options
from fedsim.cli.interrupts import Interrupts
from fedsim.errors import printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from fedsim.disk.tables import Record
    from fedsim.tools.bundle.again import Again, Repeating
    from fedsim.tools.bundle.unpack import Opened

COMPARED = ("methods", "vary", "tune", "baselines")  # options that change what is repeated


ABOUT = """With --against it repeats runs: in the same environment all bytes have to be equal,
elsewhere the scores of paired seeds are tested. Exit code 7 where something differs, 2 where that
cannot be told. Opening a bundle executes nothing; code in it runs if you give it with --plugin."""
EXAMPLES = """
  fedsim check --against paper.zip
  fedsim check reports/again --against reports/iid"""


def extend(command: click.Command) -> None:
    """Add `--against` to `fedsim check`."""
    if any(option.name == "against" for option in command.params):
        return
    path = click.Path(path_type=Path)
    against = click.Option(
        ["--against"],
        type=path,
        metavar="DIR|ZIP",
        help="Repeat the runs of a bundle, or a run directory, and compare. A SCENARIO is then "
        "run, and a run directory in its place is only compared.",
    )
    out = click.Option(["-o", "--out"], type=path, help="Keep what --against repeats there.")
    trust_data = click.Option(
        ["--trust-data"],
        is_flag=True,
        help="With --against: also read HDF5 files and workbooks that came with the run.",
    )
    last = [option.name for option in command.params].index("as_json")
    command.params[last].help = "Print the forecast, the scenario, or the outcome as JSON."
    command.params[last:last] = [against, out, trust_data]
    about, heading, examples = inspect.cleandoc(command.help or "").partition("\b\nExamples:")
    command.help = f"{about}{ABOUT}\n\n{heading}{examples.rstrip()}{EXAMPLES}"
    check = command.callback
    assert check is not None

    @functools.wraps(check)
    def check_or_repeat(against: Path | None, out: Path | None, **arguments: Any) -> None:
        if against is not None:
            del arguments["resolved"]
            device = arguments.pop("device")
            as_json = arguments.pop("as_json")
            check_against(against, out, device, as_json, arguments)
            return
        if out is not None or arguments.pop("trust_data"):
            raise click.UsageError("--out and --trust-data go with --against")
        check(**arguments)

    command.callback = check_or_repeat


def check_against(
    bundle: Path, out: Path | None, device: str | None, as_json: bool, arguments: dict[str, Any]
) -> None:
    """Repeat the runs of a bundle or a run directory, and say how they compare.

    Args:
      bundle: the bundle, or a run directory.
      out: where the repetitions are kept; None: nowhere.
      device: the devices to compute on.
      as_json: whether the outcome is printed as JSON.
      arguments: the other arguments of `fedsim check`.
    """
    given = [f"--{name}" for name in COMPARED if arguments.pop(name)]
    if given:
        raise click.UsageError(f"--against repeats what was run; remove {', '.join(given)}")
    from fedsim.errors import DirectoryError
    from fedsim.runs.lock import held
    from fedsim.tools.bundle.again import Repeating
    from fedsim.tools.bundle.unpack import opened

    if out is not None and out.exists():
        raise DirectoryError(f"{out}: already exists; choose another --out")
    interrupts: Interrupts = click.get_current_context().obj
    with contextlib.ExitStack() as stack:
        folder = out
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fedsim-")))
        content = stack.enter_context(opened(bundle))
        stack.enter_context(interrupts.heeded())
        if out is not None:
            stack.enter_context(held(out))
        repeating = Repeating(
            folder=folder,
            data_roots=arguments["data_roots"],
            device=device,
            ask=interrupts.asked,
            trust_data=arguments.pop("trust_data"),
            say=lambda line: click.echo(printable(line), err=as_json),
        )
        outcomes = []
        for outcome in _outcomes(content, repeating, arguments):
            outcomes.append(outcome)
            if not as_json:
                _print(outcome)
    if as_json:
        click.echo(json.dumps([outcome._asdict() for outcome in outcomes]))
    sys.exit(_exit_code(outcomes))


def _outcomes(content: "Opened", repeating: "Repeating", arguments: dict[str, Any]):
    """Yield the outcome of every run that is compared."""
    from fedsim.runs import directory
    from fedsim.tools.bundle.again import against, repeated, run_like

    source = arguments["scenario"]
    if source is None:
        if arguments["edits"] or arguments["seeds"]:
            raise click.UsageError("--set and --seeds change a SCENARIO; give one")
        options.enable(arguments["plugins"])
        yield from repeated(content, repeating)
        return
    path = Path(source)
    if not path.is_dir():
        path = _run(repeating, arguments)
    name = run_like(content, path)
    recorded = content.runs[name]
    yield against(name, recorded, directory.sound_record(recorded), path)


def _run(repeating: "Repeating", arguments: dict[str, Any]) -> Path:
    """Run a scenario -> its run directory."""
    from fedsim.runs.compare import compare
    from fedsim.runs.run import run

    scenario = options.read_scenario(arguments)
    out = repeating.folder / scenario.spec.name
    play = compare if scenario.spec.compare.methods else run
    play(scenario, out=out, **repeating.options)
    return out


def _print(outcome: "Again") -> None:
    """Print how a run compares: the verdict, why, and a table of what was tested."""
    click.echo(printable(f"{outcome.name}: {outcome.verdict}"))
    for line in outcome.lines:
        click.echo(printable(f"  {line}"))
    if outcome.rows:
        _print_rows(outcome.rows)


def _exit_code(outcomes: "list[Again]") -> int:
    """0 where nothing differs, 7 where something does, 2 where that could not be told."""
    from fedsim.tools.bundle.again import DIFFERS, OPEN

    verdicts = {outcome.verdict for outcome in outcomes}
    if DIFFERS in verdicts:
        return 7
    return 2 if OPEN in verdicts else 0


def _print_rows(rows: "Sequence[Record]") -> None:
    """Print the scores of repeated runs next to the recorded ones."""
    from fedsim.cli.console import empty_table, print_table, score_text

    titles = ["method", "variation", "seeds", "recorded", "repeated", "difference", "95 %", "p"]
    view = empty_table(titles, left=("method", "variation"))
    for row in rows:
        has_interval = row["ci_low"] is not None and row["ci_high"] is not None
        view.add_row(
            row["method"],
            row["variant"],
            str(row["seeds"]),
            score_text(row["recorded"]),
            score_text(row["repeated"]),
            _text("{difference:+z.4g}", row, row["difference"] is not None),
            _text("{ci_low:+z.4g} to {ci_high:+z.4g}", row, has_interval),
            _text("{p_adjusted:.3g}", row, row["p_adjusted"] is not None),
        )
    print_table(view, 0)


def _text(template: str, row: "Record", has_value: bool) -> str:
    """Values of a row in words; a dash where there are none."""
    return template.format(**row) if has_value else "–"
