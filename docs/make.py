"""Derived pages: `python docs/make.py` writes them, `--check` lists those that are out of date.

catalogue.md and catalogue/ come from the registry, fits.md from kinds/traits.json, coming_from.md
from coming_from.csv, files.md from the tables' columns and files.yaml, cli.md from the commands,
extend/*.md from the decorators' docstrings and extend/pages.yaml, rules-dark.svg from the figure of
the README, others from tools.
"""

import csv
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterator
from inspect import getdoc
from pathlib import Path
from typing import Any

import click
import optax
import yaml

import fedsim
from fedsim.cli.entry import cli, every_command, headings
from fedsim.compose import FAMILIES
from fedsim.disk import tables
from fedsim.installed import added, module_of
from fedsim.scenario import catalogue, fits, read
from fedsim.scenario.expected import plural_of
from fedsim.scenario.explain import explanations
from fedsim.scenario.meanings import meanings

DOCS = Path(__file__).parent
MADE = "<!-- made by docs/make.py -->\n\n"
README_FIGURE = DOCS.parent / "reports/rules/figures/curves.svg"
# colour of a figure on white -> its colour where pages are dark
DARK = {"#ffffff": "#0d1117", "#000000": "#e6edf3", "#555555": "#9198a1", "#e3e3e3": "#30363d"}
# the beginning of the only line that depends on the installed versions
FROM_OPTAX = "From optax, under the same names: "
ALWAYS = (
    "A parameter without an annotation, or a name that another module already uses, raises "
    "`RegistrationError`. Bounds are part of the annotation: `Annotated[float, Ge(0)]`. "
    "`fedsim list` shows the first line of the docstring, and `fedsim explain` prints all of it."
)
TITLES = {  # family -> heading, and its position in a scenario
    "method": (
        "Methods",
        "`method:`, `--methods`; the name of any rule also works, and replaces only the rule",
    ),
    "client": ("Client methods", "`client.kind`"),
    "rule": ("Rules", "`server:`, one of them"),
    "stage": ("Stages", "`server:` before the rule, `wire:`"),
    "attack": ("Attacks", "`wire:`, for the clients in `fleet.malicious`"),
    "aggregate_stage": ("Steps on the aggregate", "`server:` between the rule and the optimisers"),
    "codec": ("Codecs", "`wire:`, one of them, and `broadcast:`"),
    "optimizer": ("Optimisers", "`client.optimizer`, `server:` after the rule"),
    "schedule": ("Schedules", "`client.lr`, `lr` of optimisers after the rule"),
    "dataset": ("Data sets", "`data.kind`"),
    "partition": ("Partitions", "`data.partition`"),
    "skew": ("Skews", "`data.skew`"),
    "data_attack": ("Attacks on data", "`data.attack`, for the clients in `fleet.malicious`"),
    "augmentation": ("Augmentations", "`data.augment`"),
    "cohort": ("Cohorts", "`cohort:`"),
    "timetable": ("Timetables", "`schedule:`"),
    "speed": ("Speeds", "`fleet.speed`"),
    "link": ("Links", "`fleet.links`"),
    "availability": ("Availability", "`fleet.availability`"),
    "mechanism": ("Noise mechanisms", "`privacy.mechanism`"),
    "metric": ("Metrics", "`evaluate.metrics`"),
    "topology": ("Topologies", "`topology:`, in place of `server:` and `cohort:`"),
    "model": ("Models", "`model:`"),
    "loss": ("Losses", "`model.loss`"),
    "adapter": ("Adapters", "`model.adapter`"),
}
OPTAX = ("optimizer", "schedule")  # families with optax's own kinds
TABLES = {
    "rounds.csv": tables.ROUNDS,
    "timing.csv": tables.TIMING,
    "clients.csv": tables.CLIENTS,
    "partition.csv": tables.PARTITION,
    "summary.csv": tables.SUMMARY,
    "compare.csv": (*tables.COMPARE, *tables.SENSITIVITY),
    "across.csv": tables.ACROSS,
    "profiles.csv": tables.PROFILES,
    "worst.csv": tables.WORST,
    "breakdown.csv": tables.BREAKDOWN,
    "bytes.csv": tables.BYTES,
    "seconds.csv": tables.SECONDS,
    "tuning.csv": tables.TUNING,
}
TABLES |= {f"{name}.csv": columns for name, columns in tables.TABLES_OF_FIELDS.items()}
for _package, _module in added("TABLES"):
    TABLES |= module_of(_package, _module).TABLES
READ_IN = {  # tool -> where its names were read
    "Flower": "flwr 1.42.0 and flwr-datasets 0.6.1",
    "FedLab": "fedlab 1.3.0",
    "fluke": "fluke-fl 0.8.1",
    "FedJAX": "fedjax 0.0.17",
    "PFLlib": "`system/main.py` of its repository, at commit 004a405",
}
IMPORTS = {
    "jax.": "import jax",
    "jnp.": "import jax.numpy as jnp",
    "np.": "import numpy as np",
    "optax.": "import optax",
}


def pages() -> dict[str, str]:
    """Path below docs -> text, for every derived page."""
    texts = {
        "coming_from.md": coming_from_page(),
        "files.md": files_page(),
        "cli.md": cli_page(),
        "fits.md": fits_page(),
        "rules-dark.svg": dark(README_FIGURE.read_text()),
        **dict(catalogue_pages()),
        **dict(pages_of_tools()),
        **dict(extend_pages()),
    }
    return {name: MADE + text.strip() + "\n" for name, text in texts.items()}


def dark(svg: str) -> str:
    """A figure for readers of dark pages."""
    recoloured = re.sub("#[0-9a-f]{6}", lambda colour: DARK.get(colour[0], colour[0]), svg)
    # Letters have no colour of their own.
    text = f'<g id="figure_1" style="fill: {DARK["#000000"]}"'
    return recoloured[recoloured.index("<svg") :].replace('<g id="figure_1"', text, 1)


def table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A table in Markdown."""
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines
    )


# ------------------------------------------------------------------------------------ catalogue.md


def catalogue_pages() -> Iterator[tuple[str, str]]:
    """The families with the numbers of their kinds, and a page for each family."""
    entries = catalogue(None)
    counts = []
    for family, (heading, where) in TITLES.items():
        plural = plural_of(family)
        kinds = kinds_of(family)
        counts.append((f"[{heading}](catalogue/{plural}.md)", str(len(kinds)), where))
        yield f"catalogue/{plural}.md", family_page(family, kinds, entries[plural])
    sections = [
        "# Catalogue",
        "All kinds, by family: parameters with their defaults, what they do, and their sources. "
        "`fedsim explain NAME` prints the equation, what the kind resists, its cost, and every "
        "parameter with its bounds.",
        table(("family", "kinds", "in a scenario"), counts),
    ]
    yield "catalogue.md", "\n\n".join(map(wrapped, sections))


def kinds_of(family: str) -> dict[str, Callable]:
    """The kinds of a family that come with fedsim."""
    kinds = sorted(FAMILIES[family].items())
    return {kind: f for kind, f in kinds if f.__module__.startswith("fedsim.")}


def family_page(family: str, kinds: dict[str, Callable], entries: dict[str, Any]) -> str:
    """The kinds of a family."""
    heading, where = TITLES[family]
    borrowed = [
        kind
        for kind, f in kinds.items()
        if family in OPTAX and getdoc(f) == getdoc(getattr(optax, kind, None))
    ]
    rows = [row(kind, f, entries[kind]) for kind, f in kinds.items() if kind not in borrowed]
    header = ("kind", "what it does", "keeps, sends" if family == "method" else "source")
    sections = [f"# {heading}", f"In a scenario: {where}."]
    sections += [table(header, rows)] if rows else []
    sections += [FROM_OPTAX + ", ".join(f"`{kind}`" for kind in borrowed) + "."] if borrowed else []
    return "\n\n".join(map(wrapped, sections))


def row(kind: str, factory: Callable, entry: dict[str, Any]) -> tuple[str, str, str]:
    """A kind: name with parameters, summary, source; or for a method, what it stores and sends."""
    parameters = inspect.signature(factory).parameters.values()
    signature = ", ".join(
        p.name if p.default is p.empty else f"{p.name}={plain(p.default)}" for p in parameters
    )
    file = Path(*factory.__module__.split(".")).with_suffix(".py")
    name = f"[`{kind}`](../../{file})" + (f" `({signature})`" if signature else "")
    also = f" Also: {', '.join(entry['aliases'])}." if entry["aliases"] else ""
    if "server" not in entry:
        return name, entry["summary"] + also, source(factory)
    halves = f" Client {entry['client']}, server {entry['server']}."
    keeps = "" if entry["state"] in ("", "none") else f"keeps {entry['state']}; "
    return name, entry["summary"] + halves + also, f"{keeps}sends {entry['sends']}"


def plain(value: Any) -> str:
    """A default, as it is written in a scenario."""
    return {"None": "null", "True": "true", "False": "false"}.get(str(value), str(value))


def source(factory: Callable) -> str:
    """The references of a docstring, on one line, with links to arXiv."""
    section = re.search(r"^References:\n((?: +.*\n?)+)", inspect.getdoc(factory) or "", re.M)
    line = " ".join(section[1].split()) if section else ""
    return re.sub(r"arXiv:(\d{4}\.\d{4,5})", r"[arXiv:\1](https://arxiv.org/abs/\1)", line)


# ----------------------------------------------------------------------------------------- fits.md


FITS = """# What goes with what

Every kind and section says what it needs and what it takes away, as nouns with a reason. Where
one needs what another takes away, the scenario is refused at one of the two, with both reasons.
`fedsim list --with KIND` tells it of a kind, by its defaults; `fedsim check` of a scenario, and
with what is a calculation: f and the size of a cohort, ε and a sampler, memory."""


def fits_page() -> str:
    """What goes with what: who needs and who takes away what every noun stands for."""
    parts = [FITS]
    for noun, meaning in fits.nouns().items():
        sides = {"needs": "needed by", "takes": "taken away by"}
        rows = [row for side, title in sides.items() for row in _fits_rows(noun, side, title)]
        text = f"## `{noun}`\n\n{meaning[0].upper()}{meaning[1:]}."
        parts.append(f"{text}\n\n{table(('side', 'who', 'because'), rows)}" if rows else text)
    return "\n\n".join(parts)


def _fits_rows(noun: str, side: str, title: str) -> Iterator[tuple[str, ...]]:
    """The rows of a noun on a side: the kinds of a family that have the same reason."""
    for family, kinds in fits.meeting(side, noun):
        reasons = {kind: fits.traits()[family][kind][side][noun] for kind in kinds}
        for reason, alike in fits.by_reason(reasons).items():
            where = "" if family == "section" else f"{family} "
            yield title, where + ", ".join(f"`{kind}`" for kind in alike), reason


# ---------------------------------------------------------------------------------- coming_from.md


def coming_from_page() -> str:
    """What other tools call what fedsim has, tool by tool.

    Raises:
      SystemExit: lists the rows of coming_from.csv that name something that fedsim does not have.
    """
    rows = names_of_other_tools()
    if wrong := [text for row in rows if (text := refusal(row["ours"]))]:
        raise SystemExit("docs/coming_from.csv: " + "\n".join(wrong))

    sections = [
        "# Coming from another tool",
        "What a concept, a class, a key or a flag of another tool is in fedsim. A line such as "
        "`client.lr: 0.1` stands in a scenario, or behind `--set` as `client.lr=0.1`; numbers are "
        "examples. This page is made by code that reads every such line as a scenario, and looks "
        "up every command and every name. Where nothing stands in, it says *not in fedsim*. What "
        "the tools have and lack beside one another is another [table](compared.md). A word of "
        "another tool may also be typed where fedsim asks for one of its own: `fedsim explain "
        "FedTrimmedAvg`, `--set client.local_epochs=5`; the answer names ours.",
    ]
    for tool, source in READ_IN.items():
        mapped = [
            (code(row["theirs"]), fragments(row["ours"]), row["note"])
            for row in rows
            if row["tool"] == tool
        ]
        sections += [f"## {tool}", f"Names as in {source}.", table((tool, "fedsim", ""), mapped)]
    return "\n\n".join(map(wrapped, sections))


def names_of_other_tools() -> list[dict[str, str]]:
    """The rows of coming_from.csv.

    `ours` is lines of a scenario, a command or a name of Python, with `; ` between them; empty
    where fedsim has nothing.
    """
    with open(DOCS / "coming_from.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def code(text: str) -> str:
    """A name of another tool."""
    return f"`{text}`"


def fragments(ours: str) -> str:
    """Lines of a scenario, commands or names."""
    return ", ".join(code(part) for part in ours.split("; ")) if ours else "*not in fedsim*"


def refusal(ours: str) -> str:
    """What of it fedsim does not have; empty if it has all."""
    edits = []
    for part in filter(None, ours.split("; ")):
        if part.startswith("fedsim "):
            if text := refusal_of_command(part):
                return text
        elif part.startswith("fedsim."):
            if part.removeprefix("fedsim.") not in dir(fedsim):
                return f"{part}: no such name"
        else:
            edits.append(part.replace(": ", "=", 1))
    try:
        read({"name": "page", "data": {"kind": "digits"}}, tuple(edits))
    except fedsim.ScenarioError as error:
        return f"{ours}: {error}"
    return ""


def refusal_of_command(line: str) -> str:
    """What of a command line does not exist: the command, its option, or what it explains."""
    try:
        name, command, words = cli.resolve_command(click.Context(cli), line.split()[1:])
    except click.UsageError:
        return f"{line}: no such command"
    if name == "explain":
        try:
            explanations(words[0])
        except fedsim.ScenarioError as error:
            return f"{line}: {error}"
        return ""
    assert command is not None
    known = {flag for parameter in command.params for flag in parameter.opts}
    return "" if known.issuperset(words) else f"{line}: no such option"


# ---------------------------------------------------------------------------------------- files.md


def files_page() -> str:
    """The files of a run directory, and every column of every table.

    Raises:
      SystemExit: lists the columns that files.yaml lacks, or describes although no table has them.
    """
    documented = meanings()
    sections = [
        "# Files",
        "A run writes to `reports/<name>/`, a comparison to `reports/<name>-compare/`, unless "
        "`--out` names another folder.",
        table(
            ("file", "contents"),
            [(f"`{name}`", text) for name, text in documented["files"].items()],
        ),
        "The order of columns is fixed. A column that does not apply is left out, a cell that does "
        "not apply is empty, and a computed NaN is `nan`. Floats are written so that reading them "
        "gives the same bits; text that a spreadsheet would compute begins with an apostrophe. "
        "Rows are sorted by method, variation, seed and round, whatever finished first. If "
        "something varies or is tuned, `variant` and `tuned` follow the method, with a column for "
        "each path.",
    ]
    for name, columns in TABLES.items():
        texts = documented["tables"][name]["columns"]
        if odd := set(columns) ^ set(texts):
            columns_that_differ = ", ".join(sorted(odd))
            raise SystemExit(
                f"fedsim/disk/files.yaml and tables.py differ about {name}: {columns_that_differ}"
            )
        sections += [f"## {name}", documented["tables"][name]["about"]]
        sections += [
            table(("column", "meaning"), [(f"`{column}`", texts[column]) for column in columns])
        ]
    return "\n\n".join(map(wrapped, filter(None, sections)))


# ------------------------------------------------------------------------------------------ cli.md


def cli_page() -> str:
    """Every command with its options."""
    sections = [
        "# Commands",
        "`fedsim COMMAND --help` prints the same. Errors go to stderr, one line each; "
        "[exit codes](promises.md#exit-codes).",
    ]
    for heading, names in headings().items():
        sections.append(f"## {heading}")
        for words, command in every_command().items():
            if words.split()[0] in names:
                sections += command_section(words, command)
    return "\n\n".join(map(wrapped, sections))


def command_section(name: str, command: click.Command) -> Iterator[str]:
    """A command: its usage, what it does, its options, examples."""
    arguments = [p for p in command.params if isinstance(p, click.Argument)]
    options = [p for p in command.params if isinstance(p, click.Option)]
    below = ["COMMAND"] if isinstance(command, click.Group) else []
    called = " ".join(
        [
            f"fedsim {name}",
            "[OPTIONS]",
            *below,
            *(p.make_metavar(click.Context(command)) for p in arguments),
        ]
    )
    prose, _, examples = inspect.cleandoc(command.help or "").partition("\b\nExamples:\n")
    yield f"### {name}\n\n`{called}`"
    yield prose.strip()
    yield table(
        ("option", "what it does"), [(flags(option), meaning(option)) for option in options]
    )
    if examples:
        yield "```text\n" + textwrap.dedent(examples).strip() + "\n```"


def flags(option: click.Option) -> str:
    """An option's flags and its value."""
    value = "" if option.is_flag else " " + (option.metavar or values(option.type))
    return f"`{' / '.join([*option.opts, *option.secondary_opts])}{value}`"


def values(kind: click.ParamType) -> str:
    """The values of an option."""
    return (
        "|".join(map(str, kind.choices))
        if isinstance(kind, click.Choice)
        else kind.name.split()[0].upper()
    )


def meaning(option: click.Option) -> str:
    """An option's help, its bounds, and its default if `--help` shows it."""
    least, most = getattr(option.type, "min", None), getattr(option.type, "max", None)
    bounds = (
        "" if least is None else f" At least {least}." if most is None else f" {least} to {most}."
    )
    default = f" Default: `{option.default}`." if option.show_default else ""
    return ((option.help or "") + bounds + default).strip()


# ---------------------------------------------------------------------------------------- of tools


def pages_of_tools() -> Iterator[tuple[str, str]]:
    """The pages that tools add to docs/."""
    for package, documentation in added("PAGES"):
        for name, sections in module_of(package, documentation).pages(table).items():
            yield name, "\n\n".join(map(wrapped, sections))


# ------------------------------------------------------------------------------------- extend/*.md


def extend_pages() -> Iterator[tuple[str, str]]:
    """A page for each thing that a user can add."""
    for page in yaml.safe_load((DOCS / "extend" / "pages.yaml").read_text()):
        texts = {name: docstring(getattr(fedsim, name)) for name in page["decorators"]}
        sections = [f"# {page['title']}"]
        sections += [f"`fedsim.{name}`: {text['summary']}" for name, text in texts.items()]
        sections += [f"```python\n{module([text['example'] for text in texts.values()])}\n```"]
        sections += [
            f"In a scenario: {page['use']}. On the command line, `--plugin FILE` loads the file. "
            "To try it:"
        ]
        sections += [
            f"```python\n{page['try'].strip()}\n```",
            f"```text\n{page['prints'].strip()}\n```",
        ]
        sections += [f"**`fedsim.{name}`** takes {text['takes']}" for name, text in texts.items()]
        for example in page.get("also", []):
            if not hasattr(fedsim, example.get("needs", "run")):
                continue
            sections.append(example["text"])
            if "code" in example:
                sections.append(f"```python\n{example['code'].strip()}\n```")
                sections.append(f"```text\n{example['prints'].strip()}\n```")
        sections += [ALWAYS, f"See also: {page['more']}"]
        yield f"extend/{page['name']}.md", "\n\n".join(map(wrapped, sections))


def docstring(decorator: Callable) -> dict[str, str]:
    """The first sentence, the example and the argument of a public decorator."""
    text = inspect.getdoc(decorator) or ""
    example = re.search(r"^Example::\n\n((?:    .*\n|\n)+)", text, re.M)
    takes = re.search(r"^Args:\n  \w+: ((?:.*\n)(?:    .*\n)*)", text, re.M)
    assert example and takes, f"{decorator}: its docstring needs an example and its argument"
    return {
        "summary": text.partition("\n")[0].removeprefix("Decorator: "),
        "example": textwrap.dedent(example[1]).strip(),
        "takes": " ".join(takes[1].split()),
    }


def module(examples: list[str]) -> str:
    """Examples as a file, after the imports that they need."""
    code = "\n\n\n".join(examples)
    imports = [line for word, line in IMPORTS.items() if re.search(rf"\b{re.escape(word)}", code)]
    head, _, body = code.partition("@fedsim.")
    return (
        "\n".join([*imports, "", "import fedsim", *head.split("\n")]).strip()
        + "\n\n\n@fedsim."
        + body
    )


def wrapped(text: str) -> str:
    """A paragraph, broken into lines; anything else unchanged."""
    if "\n" in text or text.startswith("#"):
        return text
    return textwrap.fill(text, 120, break_long_words=False, break_on_hyphens=False)


# -------------------------------------------------------------------------------------------- main


def stable(text: str) -> list[str]:
    """The lines of a page that do not depend on the installed version of optax."""
    return re.sub(rf"^{FROM_OPTAX}(?s:.*?)\n$", "", text, flags=re.M).splitlines()


def stale() -> list[str]:
    """Pages that are out of date."""
    return [name for name, text in pages().items() if stable(text) != stable(text_of(DOCS / name))]


def text_of(path: Path) -> str:
    """The text of a page; empty if there is none."""
    return path.read_text() if path.exists() else ""


def main(arguments: list[str]) -> int:
    """Write the pages, or with `--check` list those that are out of date."""
    if arguments == ["--check"]:
        for name in (old := stale()):
            print(f"docs/{name}: out of date; run python docs/make.py", file=sys.stderr)
        return 1 if old else 0
    for name, text in pages().items():
        (DOCS / name).parent.mkdir(exist_ok=True)
        (DOCS / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
