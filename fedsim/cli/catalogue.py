"""Commands that list and explain links and keys: `list` and `explain`."""

import json
from typing import Any

import click

from fedsim.cli import options
from fedsim.cli.screen import rows_of_terms, show, width, wrapped


def _complete_family(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from fedsim.kinds import FAMILIES
    from fedsim.scenario.expected import plural_of

    names = [*map(plural_of, FAMILIES), *NOT_KINDS]
    return [name for name in names if name.startswith(incomplete)]


def _complete_name(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    from fedsim.cli.entry import cli
    from fedsim.scenario.explain import names

    known = {*names(), *cli.list_commands(ctx)}
    return sorted(name for name in known if name.startswith(incomplete))


@click.command("list")
@click.argument("family", required=False, shell_complete=_complete_family)
@click.option(
    "--with",
    "partner",
    metavar="KIND",
    shell_complete=_complete_name,
    help="Say what goes together with a kind or a section, and why the others do not.",
)
@options.plugins
@options.as_json("everything")
@options.debug
def list_command(
    family: str | None, partner: str | None, plugins: tuple[str, ...], as_json: bool
) -> None:
    """List methods, rules, stages, attacks, clients, models, datasets, scenarios, devices ...

    \b
    Examples:
      fedsim list
      fedsim list rules
      fedsim list scenarios
      fedsim list attacks --json
      fedsim list rules --with secure_aggregation
      fedsim list --with privacy
    """
    options.enable(plugins)
    families = _listed(family)
    if partner is not None:
        _print_partners(partner, families, as_json)
        return
    if as_json:
        click.echo(json.dumps(families))
        return
    if family is None:
        show(_overview(families))
        return
    for name, kinds in families.items():
        # In a pipe every kind is one line, so that grep finds all of it.
        rows = [(kind["written"], _line(kind)) for kind in kinds.values()]
        show(f"{_heading(f'{name} ({len(kinds)})')}\n{rows_of_terms(rows, column=26)}")


def _overview(families: dict[str, dict[str, dict[str, Any]]]) -> str:
    """Return the families with the number of their kinds, and how to see these."""
    counts = [(name, f"{len(kinds):>3}") for name, kinds in families.items()]
    counts.append(("scenarios", f"{len(_scenarios()):>3}"))
    counts += [("devices", ""), ("plugins", "")]  # counting them would import JAX, or the plug-ins
    table = rows_of_terms(counts, column=max(len(name) for name, _ in counts))
    return f"{table}\n\n{wrapped(WHAT_NEXT)}"


def _heading(text: str) -> str:
    return click.style(text, bold=True)


WHAT_NEXT = (
    "fedsim list FAMILY names its kinds, fedsim explain KIND has equation, defaults and source of "
    "one, and fedsim list --json is all of it."
)

# Families of which a scenario has one kind.
SINGLE = ("client", "rule", "codec", "cohort", "timetable", "topology")


def _print_partners(partner: str, families: dict[str, dict[str, Any]], as_json: bool) -> None:
    """Print what goes together with a kind, by family, and why the others do not."""
    from fedsim.scenario.expected import plural_of
    from fedsim.scenario.fits import by_reason, refusal, traits

    partner_family, partner_traits = _partner(partner)
    reasons = {}
    for family, of_kinds in traits().items():
        plural = "sections" if family == "section" else plural_of(family)
        is_another = family != partner_family or family not in SINGLE
        if is_another and (plural in families or family == "section"):
            reasons[plural] = {
                kind: refusal(partner_traits, each) for kind, each in of_kinds.items()
            }
    if as_json:
        click.echo(json.dumps(reasons))
        return
    lines = []
    for family, of_kinds in reasons.items():
        fitting = [kind for kind, reason in of_kinds.items() if not reason]
        many = f"{len(fitting)} of {len(of_kinds)}"
        lines.append(_heading(f"{family} ({many} go with {partner}, by their defaults)"))
        lines.append(wrapped(", ".join(fitting) or "none", "  "))
        for reason, kinds in by_reason(of_kinds).items():
            lines.append(wrapped(f"not {', '.join(kinds)}: {reason}", "  ", "    "))
    show("\n".join(lines))


def _partner(name: str) -> tuple[str, dict[str, dict[str, str]]]:
    """Return the family and the traits of a kind or section, also of a kind of the user's."""
    from fedsim.scenario.fits import traits_named

    family, kind = _users_kind(name)
    return (family, _traits_of(family, kind)) if family else traits_named(name)


def _users_kind(name: str) -> tuple[str, str]:
    """Return family and name of a kind of the user's; two empty texts for any other name."""
    from fedsim.kinds import FAMILIES
    from fedsim.scenario.fits import traits

    family, _, kind = name.rpartition("/")
    for each, recorded in traits().items():
        if family in ("", each) and kind in FAMILIES.get(each, {}) and kind not in recorded:
            return each, kind
    return "", ""


def _traits_of(family: str, kind: str) -> dict[str, dict[str, str]]:
    """Return what a kind of the user's needs and takes away.

    It is nothing of one with a parameter that has no default and of which no example is known.
    """
    from fedsim.assemble.alone import traits_of

    try:
        return traits_of(family, kind)
    except KeyError:
        return {"needs": {}, "takes": {}}


def _listed(family: str | None) -> dict[str, dict[str, dict[str, Any]]]:
    """Return family -> name -> entry, of one family or of all."""
    if family in NOT_KINDS:
        return {family: NOT_KINDS[family]()}
    from fedsim.scenario import catalogue

    families = catalogue(family)
    if family is not None and not families:
        meant = _meant_family(family, [*catalogue(None), *NOT_KINDS])
        raise click.UsageError(f"no family '{family}'{meant}")
    return families


def _meant_family(word: str, known: list[str]) -> str:
    """Return what to write for a word that is no family."""
    from fedsim.errors import did_you_mean, nearest
    from fedsim.kinds import FAMILIES
    from fedsim.scenario.expected import plural_of
    from fedsim.scenario.guesses import meant, what_is

    if near := nearest(word, known, alike=1.0):
        return f"; did you mean '{near}'?"
    if remedy := meant(word, "list"):
        return f"; {remedy}"
    if near := nearest(word, [*known, *FAMILIES]):
        return f"; did you mean '{plural_of(near) if near in FAMILIES else near}'?"
    if meaning := what_is(word):
        return f"; {meaning}"
    return did_you_mean(word, known)


def _line(kind: dict[str, Any]) -> str:
    """Return what a kind is, and its other names."""
    if not kind["aliases"]:
        return kind["summary"]
    return f"{kind['summary']} [also: {', '.join(kind['aliases'])}]"


def _devices() -> dict[str, Any]:
    from fedsim.machine import devices_of

    entries: dict[str, Any] = {}
    for device in devices_of(None):
        name = f"{device.platform}:{device.id}"
        entries[name] = _entry(name, device.device_kind)
    return entries


def _plugins() -> dict[str, Any]:
    from fedsim.scenario.plugins import installed

    entries: dict[str, Any] = {}
    for name, module in installed().items():
        entries[name] = _entry(name, f"{module}; enabled by --plugin {name}")
    return entries


def _scenarios() -> dict[str, Any]:
    from fedsim.scenario.shipped import about, shipped

    return {name: _entry(name, about(file)) for name, file in shipped().items()}


def _entry(name: str, summary: str) -> dict[str, Any]:
    """Return an entry in the form of the catalogue's."""
    return {"written": name, "summary": summary, "parameters": [], "aliases": []}


# What can be listed and is not a family of kinds.
NOT_KINDS = {"scenarios": _scenarios, "devices": _devices, "plugins": _plugins}


@click.command("explain")
@click.argument("name", shell_complete=_complete_name)
@options.plugins
@options.as_json("the explanation")
@options.debug
def explain_command(name: str, plugins: tuple[str, ...], as_json: bool) -> None:
    """Explain a name: a method or rule with equation, defaults and source; a key, column, file ...

    A name with several meanings is explained in all of them; FAMILY/NAME asks for one of them
    (rule/median, key/seed, column/seed). Exit codes and commands are explained as well.

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
    options.enable(plugins)
    from fedsim.scenario.explain import WIDTH, explanations, lines_of
    from fedsim.scenario.fits import needs_and_takes

    word = name.rpartition("/")[2]
    explained = explanations(name, _command_entry(word), _options_named(word))
    family, kind = _users_kind(name)
    for meaning in explained:
        if family and meaning["family"] == family:
            meaning["fits"] = needs_and_takes(_traits_of(family, kind))
    if as_json:
        click.echo(json.dumps(explained))
        return
    columns = min(width() or WIDTH, WIDTH)
    texts = []
    for meaning in explained:
        lines = lines_of(meaning, columns)
        texts.append("\n".join(_heading(line) if bold else line for bold, line in lines))
    show("\n\n".join(texts))


def _command_entry(name: str) -> dict[str, str]:
    """Return {command in words: what it does} of what has, or had, this name; else nothing."""
    from fedsim.cli.entry import every_command, former

    entries = {}
    for words, command in every_command().items():
        if former().get(name) == words or words.split()[-1].lstrip("-") == name:
            entries[f"fedsim {words}"] = command.get_short_help_str(200)
    return entries


def _options_named(name: str) -> dict[str, str]:
    """Return {option of commands: what it does} of the options with a name, with or without --."""
    from fedsim.cli.entry import every_command

    flag = f"--{name.lstrip('-').replace('_', '-')}"
    commands: dict[str, list[str]] = {}  # what the option does -> the commands that have it
    for words, command in every_command().items():
        for option in command.params:
            if isinstance(option, click.Option) and flag in option.opts and option.help:
                commands.setdefault(option.help, []).append(words)
    return {f"{flag} of fedsim {', '.join(names)}": help for help, names in commands.items()}
