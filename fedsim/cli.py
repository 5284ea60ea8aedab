"""The command line: a thin client of the library. JAX is imported when a run starts, not before."""

import json
import os
import shlex
import sys
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import click

from fedsim import __version__
from fedsim.report.interrupts import Interrupts

EXIT = {
    **dict.fromkeys(("ScenarioError", "DeviceError", "ProcessError"), 2),
    "DataError": 3,
    "DirectoryError": 4,
    "LockedError": 6,
    **dict.fromkeys(("CheckpointError", "CorruptError"), 7),
    "MemoryError": 8,
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="fedsim")
def cli() -> None:
    """Simulate federated learning: one scenario file, one command, an answer you can defend.

    \b
    Examples:
      fedsim run scenarios/iid.yaml
      fedsim run scenarios/dirichlet.yaml --seeds 5 --set data.partition.alpha=0.1
    """


@cli.command()
@click.argument("scenario", type=click.Path(dir_okay=False))
@click.option(
    "--set", "edits", multiple=True, metavar="PATH=VALUE", help="Change a value, e.g. client.lr=0.05; repeatable."
)
@click.option("--seeds", metavar="N|LIST", help="'5' = the first five, '0,1,2' = these, '3,' = this one.")
@click.option("--out", type=click.Path(path_type=Path), help="Run directory [reports/<name>].")
@click.option("--resume", is_flag=True, help="Go on with the run in that directory, from its last commit.")
@click.option("--force", is_flag=True, help="Replace an earlier run in that directory.")
@click.option("--device", metavar="KIND[:I,J]", help="Compute on cpu, gpu, gpu:0,1 ... [all of the default kind].")
@click.option("--coordinator", metavar="HOST:PORT|auto", help="One of several processes; auto: ask the scheduler.")
@click.option("--processes", type=click.IntRange(1), help="How many processes there are.")
@click.option("--process", type=click.IntRange(0), help="Number of this one, from 0; the first one writes.")
@click.option("--plugin", "plugins", multiple=True, metavar="FILE|NAME", help="Enable your own links; repeatable.")
@click.option("--quiet", is_flag=True, help="No progress bar, no table.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def run(
    scenario: str,
    edits: tuple[str, ...],
    seeds: str | None,
    out: Path | None,
    resume: bool,
    force: bool,
    device: str | None,
    coordinator: str | None,
    processes: int | None,
    process: int | None,
    plugins: tuple[str, ...],
    quiet: bool,
    as_json: bool,
    debug: bool,
) -> None:
    """Run a scenario and write its run directory.

    \b
    Examples:
      fedsim run scenarios/iid.yaml
      fedsim run scenarios/iid.yaml --set rounds=20 --set client.lr=0.05 --out reports/slow --force
      fedsim run scenarios/iid.yaml --set rounds=200 --resume
    """
    del debug  # read by `main`
    interrupts: Interrupts = click.get_current_context().obj
    if coordinator is not None:
        from fedsim.engine.processes import join

        join(coordinator, processes, process, f"another process of this run is gone; {interrupts.farewell}")
    _compilation_cache()
    from fedsim.engine.processes import first
    from fedsim.report import console
    from fedsim.report.running import run as run_scenario
    from fedsim.scenario import enable, read

    for plugin in plugins:
        enable(plugin)
    checked = read(scenario, (*edits, *([f"seeds={_seeds(seeds)}"] if seeds else [])))
    folder = out or Path("reports") / checked.spec.name
    quiet = quiet or not first()
    with console.progress(checked, quiet or as_json) as watch:
        interrupts.running = True
        result = run_scenario(
            checked, out=folder, force=force, resume=resume, device=device, watch=watch, ask=interrupts.asked
        )
        interrupts.running = False
    if as_json and first():
        click.echo(json.dumps({"status": result.status, "out": str(folder), "summary": result.records["summary"]}))
    elif not quiet:
        console.table(result, folder)
    for seed, why in result.reasons.items():
        click.echo(f"fedsim: seed {seed} ended early: {why}; see {folder / 'rounds.csv'}", err=True)
    if result.reasons:
        sys.exit(5)


@cli.command("list")
@click.argument("family", required=False)
def list_(family: str | None) -> None:
    r"""Name what there is: methods, rules, stages, attacks, clients, models, datasets, partitions, cohorts ...

    \b
    Examples:
      fedsim list
      fedsim list rules
    """
    from fedsim.scenario import catalogue

    found = catalogue(family)
    if not found:
        raise click.UsageError(f"no family '{family}'; there are {', '.join(catalogue(None))}")
    for name, kinds in found.items():
        click.secho(name, bold=True)
        for kind, line in kinds.items():
            click.echo(f"  {kind:<24} {line}")


@cli.command()
@click.argument("directory", type=click.Path(file_okay=False, path_type=Path))
@click.option("--whole", is_flag=True, help="Replay every round, not only the first one and the last ones.")
@click.option("--device", metavar="KIND[:I,J]", help="Compute on cpu, gpu, gpu:0,1 ... [all of the default kind].")
@click.option("--plugin", "plugins", multiple=True, metavar="FILE|NAME", help="Enable your own links; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def verify(
    directory: Path, whole: bool, device: str | None, plugins: tuple[str, ...], as_json: bool, debug: bool
) -> None:
    """Confirm a run that has ended: its files, and rounds replayed from its own record, bit by bit (exit code 7 if not).

    \b
    Examples:
      fedsim verify reports/iid
      fedsim verify reports/mine --plugin mine.py --whole
    """
    del debug  # read by `main`
    _compilation_cache()
    from fedsim.report.verification import Check
    from fedsim.report.verification import verify as verified
    from fedsim.scenario import enable

    def say(check: Check) -> None:
        click.echo(f"{'ok ' if check.ok else 'NOT'}  {check.name}: {check.detail}")

    for plugin in plugins:
        enable(plugin)
    found = verified(directory, device=device, whole=whole, say=None if as_json else say)
    if as_json:
        click.echo(json.dumps(found.plain()))
    else:
        click.echo(
            f"{directory} {'is equal to what its record says' if found.equal else 'is NOT what its record says'}"
        )
    if not found.equal:
        sys.exit(7)


@cli.command()
@click.argument("one", metavar="DIRECTORY", type=click.Path(file_okay=False, path_type=Path))
@click.argument("other", metavar="DIRECTORY", type=click.Path(file_okay=False, path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the differences as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def diff(one: Path, other: Path, as_json: bool, debug: bool) -> None:
    """Say which part of two runs differs: scenario, data, numerics, environment, rows, models (exit code 0 either way).

    \b
    Examples:
      fedsim diff reports/iid reports/again
      fedsim diff reports/iid reports/slow --json
    """
    del debug  # read by `main`
    from fedsim.report.difference import described
    from fedsim.report.difference import diff as compared

    found = compared(one, other)
    for line in [json.dumps(found.plain())] if as_json else described(found):
        click.echo(line)


@cli.command()
@click.argument("scenarios", nargs=-1, type=click.Path(dir_okay=False))
@click.option(
    "--set", "edits", multiple=True, metavar="PATH=VALUE", help="Change a value of every scenario; repeatable."
)
@click.option("--repeat", type=click.IntRange(1), default=1, help="Measure everything so often and give medians.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("reports/bench"), show_default=True)
@click.option("--json", "as_json", is_flag=True, help="Print the records as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def bench(
    scenarios: tuple[str, ...], edits: tuple[str, ...], repeat: int, out: Path, as_json: bool, debug: bool
) -> None:
    """Measure rounds on this machine, beside its matrix-product peak and the plain ways to run them in JAX.

    Without scenarios: the three of scenarios/bench, and the rules on 100 stacked updates of 1,000,000 numbers.

    \b
    Examples:
      fedsim bench
      fedsim bench --repeat 5
      fedsim bench scenarios/bench/w2.yaml --set numerics.lanes=8
    """
    del debug  # read by `main`
    _compilation_cache()
    from fedsim.report import console
    from fedsim.report.measuring import measured

    with console.saying(not as_json) as say:
        records = measured(scenarios, edits, out, say, repeat)
    if as_json:
        click.echo(json.dumps(records))
    else:
        console.bench_table(records)
        click.echo(f"\n{out}/  bench.csv  bench.json")


@cli.command()
@click.argument("scenario", type=click.Path(dir_okay=False))
@click.option("--set", "edits", multiple=True, metavar="PATH=VALUE", help="Change a value; repeatable.")
@click.option("--plugin", "plugins", multiple=True, metavar="FILE|NAME", help="Enable your own links; repeatable.")
@click.option("--json", "as_json", is_flag=True, help="Print the forecast as JSON.")
@click.option("--debug", is_flag=True, help="Show tracebacks.")
def check(scenario: str, edits: tuple[str, ...], plugins: tuple[str, ...], as_json: bool, debug: bool) -> None:
    """Build a scenario, try one batch of one client, and tell what a run will take; trains nothing.

    \b
    Examples:
      fedsim check scenarios/iid.yaml
      fedsim check scenarios/iid.yaml --set model=cnn --json
    """
    del debug  # read by `main`
    _compilation_cache()
    from fedsim.report import console
    from fedsim.scenario import build, enable, read
    from fedsim.scenario.build import numerics
    from fedsim.study.forecast import forecast, one_batch

    for plugin in plugins:
        enable(plugin)
    checked = read(scenario, edits)
    with numerics(checked) as devices:
        experiment = build(checked, devices=devices[:1])
        told = {"scenario": checked.spec.name, **forecast(experiment)}
        told["batch"] = one_batch(experiment)  # afterwards: a program per operation would count as memory
    if as_json:
        click.echo(json.dumps(told))
    else:
        console.forecast(told)


def _seeds(text: str) -> str:
    """`5` -> 5, `0,1` -> [0, 1], `3,` -> [3]; anything else is left to the schema to refuse."""
    return "[" + ",".join(part for part in text.split(",") if part.strip()) + "]" if "," in text else text


def _compilation_cache() -> None:
    """Keep compiled programs in the user's cache folder, unless the user has decided about that already."""
    import jax

    if jax.config.values["jax_compilation_cache_dir"] is None and "JAX_ENABLE_COMPILATION_CACHE" not in os.environ:
        home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "fedsim" / "xla"
        try:
            home.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError:
            return  # a cache is a convenience
        jax.config.update("jax_compilation_cache_dir", str(home))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)


def main(arguments: list[str] | None = None) -> Any:
    """Entry point: every error is one line per problem and an exit code; tracebacks only with --debug."""
    arguments = sys.argv[1:] if arguments is None else arguments
    warnings.showwarning = lambda message, *_, **__: click.echo(f"fedsim: warning: {message}", err=True)
    again = shlex.join(["fedsim", *(a for a in arguments if a not in ("--force", "--resume")), "--resume"])
    farewell = f"go on with: {again}" if arguments[:1] == ["run"] else "nothing was written"
    with Interrupts(farewell).watched() as interrupts:
        try:
            cli.main(arguments, prog_name="fedsim", standalone_mode=False, obj=interrupts)
        except click.exceptions.Exit as done:
            sys.exit(done.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(2)
        except (click.Abort, KeyboardInterrupt):
            click.echo("fedsim: interrupted", err=True)
            sys.exit(interrupts.code)
        except Exception as error:
            if "--debug" in arguments:
                raise
            _leave(_say(error, farewell))
        except BaseException as error:
            if type(error).__name__ != "Interrupted":
                raise
            click.echo(f"fedsim: interrupted {error}; {farewell}", err=True)
            _leave(interrupts.code)


def _among_others() -> bool:
    """Whether this process is one of several of a run."""
    processes = sys.modules.get("fedsim.engine.processes")
    return processes is not None and processes.joined()


def _leave(code: int) -> None:
    """End; one of several processes does not wait for the others, which learn of it."""
    if _among_others():
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)


def _say(error: Exception, farewell: str) -> int:
    """Print an error in one line per problem -> exit code."""
    code = EXIT.get(type(error).__name__) or (4 if isinstance(error, OSError) else 1)
    if code == 1 and _among_others() and ("Gloo" in str(error) or "distributed" in str(error).lower()):
        click.echo(f"fedsim: error: another process of this run is gone; {farewell}", err=True)
        return code
    if "RESOURCE_EXHAUSTED" in str(error):  # how XLA says that a device is full
        what = str(error).splitlines()[0].removeprefix("RESOURCE_EXHAUSTED: ").rstrip(".")
        code, error = 8, MemoryError(f"device memory: {what}; lower numerics.block, client.batch or the model")
    if code == 1:
        with tempfile.NamedTemporaryFile("w", prefix="fedsim-", suffix=".txt", delete=False) as file:
            file.write(traceback.format_exc())
        click.echo(f"fedsim: unforeseen {type(error).__name__}; traceback saved in {file.name}", err=True)
        return code
    text = str(error)
    if code == 4 and isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror}"
    for line in text.splitlines():
        click.echo(f"fedsim: error: {line}", err=True)
    return code


if __name__ == "__main__":
    main()
