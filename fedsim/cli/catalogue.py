"""Commands that list and explain links and keys: `list` and `explain`."""

import json
import shutil
import sys
from typing import Any

import click

from fedsim.cli import options


def _families(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from fedsim.kinds import FAMILIES

    return [
        name
        for name in (*(f"{family}s" for family in FAMILIES), *ELSEWHERE)
        if name.startswith(incomplete)
    ]


def _names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from fedsim.cli.entry import MODULES
    from fedsim.scenario.explain import names

    return sorted(name for name in {*names(), *MODULES} if name.startswith(incomplete))


@click.command("list")
@click.argument("family", required=False, shell_complete=_families)
@options.plugins
@options.as_json("everything")
@options.debug
def list_command(family: str | None, plugins: tuple[str, ...], as_json: bool) -> None:
    """Name what there is: methods, rules, stages, attacks, clients, models, datasets, partitions, scenarios, devices ...

    \b
    Examples:
      fedsim list
      fedsim list rules
      fedsim list scenarios
      fedsim list attacks --json
    """
    options.enabled(plugins)
    if family in ELSEWHERE:
        families = {family: ELSEWHERE[family]()}
    else:
        from fedsim.scenario import catalogue

        families = catalogue(family)
        if not families:
            from fedsim.errors import did_you_mean

            raise click.UsageError(
                f"no family '{family}'{did_you_mean(family, [*catalogue(None), *ELSEWHERE])}"
            )
    if as_json:
        click.echo(json.dumps(families))
        return
    for name, kinds in families.items():
        click.secho(name, bold=True)
        rows = [(kind["written"], _line(kind)) for kind in kinds.values()]
        if not sys.stdout.isatty():  # a kind is a line, so that grep finds it whole
            click.echo("".join(f"  {written:<26} {line}\n" for written, line in rows), nl=False)
            continue
        formatter = click.HelpFormatter(width=max(shutil.get_terminal_size().columns - 2, 60))
        formatter.write_dl(rows, col_max=26)
        click.echo("".join(f"  {line}\n" for line in formatter.getvalue().splitlines()), nl=False)


def _line(kind: dict[str, Any]) -> str:
    also = f" [also: {', '.join(kind['aliases'])}]" if kind["aliases"] else ""
    halves = f" {kind['client']} → {kind['server']}" if "server" in kind else ""
    for word, text in (("keeps:", kind.get("state")), ("sends", kind.get("sends"))):
        halves += f"; {word} {text}" if text else ""  # a user's docstring need not say
    return kind["summary"] + also + halves


def _devices() -> dict[str, Any]:
    from fedsim.machine import devices_of

    return {
        name: _named(name, d.device_kind)
        for d in devices_of(None)
        for name in [f"{d.platform}:{d.id}"]
    }


def _plugins() -> dict[str, Any]:
    from fedsim.scenario.plugins import installed

    return {
        name: _named(name, f"{module}; enabled by --plugin {name}")
        for name, module in installed().items()
    }


def _scenarios() -> dict[str, Any]:
    from fedsim.scenario.shipped import about, shipped

    return {name: _named(name, about(file)) for name, file in shipped().items()}


def _named(name: str, summary: str) -> dict[str, Any]:
    return {"written": name, "summary": summary, "parameters": [], "aliases": []}


ELSEWHERE = {
    "scenarios": _scenarios,
    "devices": _devices,
    "plugins": _plugins,
}  # what can be listed and is no link


@click.command("explain")
@click.argument("name", shell_complete=_names)
@options.plugins
@options.as_json("the explanation")
@options.debug
def explain_command(name: str, plugins: tuple[str, ...], as_json: bool) -> None:
    """Explain a name: a link with its equation, actual defaults and source; a key, a column, a file, an exit code, a command.

    A name with several meanings is explained in all of them; FAMILY/NAME asks for one (rule/median, key/seed, column/seed).

    \b
    Examples:
      fedsim explain trimmed_mean
      fedsim explain rules
      fedsim explain optimizer/sgd
      fedsim explain scaffold --json
      fedsim explain client.batch
      fedsim explain p_adjusted
      fedsim explain rounds.csv
      fedsim explain 5
    """
    options.enabled(plugins)
    from fedsim.scenario.explain import explanations, lines_of

    ctx = click.get_current_context()
    group = ctx.parent.command if ctx.parent else None
    commands = group.list_commands(ctx) if isinstance(group, click.Group) else []
    shown = {n: group.get_command(ctx, n) for n in commands if n == name.rpartition("/")[2]}  # pyright: ignore
    explained = explanations(name, {n: c.get_short_help_str(200) for n, c in shown.items() if c})
    if as_json:
        click.echo(json.dumps(explained))
        return
    for i, meaning in enumerate(explained):
        click.echo("\n" if i else "", nl=False)
        for heading, line in lines_of(meaning):
            click.secho(line, bold=heading)
