"""From a file, a dictionary or a command line to a checked scenario."""

import itertools
import json
from pathlib import Path as File
from typing import Any

import yaml
from pydantic import ValidationError

from fedsim.scenario.explain import explain
from fedsim.scenario.methods import with_method
from fedsim.scenario.problems import Problem, ScenarioError, dotted
from fedsim.scenario.reader import Document, parse
from fedsim.scenario.schema import Scenario, scenario_model


def read(source: Any, edits: tuple[str, ...] = (), method: Any = None) -> Scenario:
    """A path, text in a dictionary, or a Scenario -> a checked Scenario.

    Args:
      source: what to read.
      edits: `PATH=VALUE` as of `--set`, applied left to right.
      method: a method that replaces what it owns, whatever the file says.

    Raises:
      ScenarioError: with every problem found.
      OSError: when the file cannot be read.
    """
    if isinstance(source, Scenario) and not edits and method is None:
        return source
    if isinstance(source, Scenario | Document):
        document = source.document if isinstance(source, Scenario) else source
    elif isinstance(source, dict):
        document = parse(yaml.safe_dump(source, sort_keys=False, default_flow_style=None), "scenario")
        document = document._replace(places={})
    else:
        try:
            document = parse(File(source).read_text(encoding="utf-8"), str(source))
        except UnicodeDecodeError as error:
            raise ScenarioError(
                [Problem("", f"not UTF-8 text: {error.reason} at byte {error.start}")], str(source)
            ) from None
    for edit in edits:
        document = edited(document, edit)
    if method is not None or document.values.get("method") is not None:
        asked = document.values["method"] if method is None else method
        document = with_method(document, asked, replace=method is not None)
    model = scenario_model()
    try:
        return Scenario(model.model_validate(document.values), document)
    except ValidationError as error:
        raise ScenarioError(explain(document, model, error.errors()), document.file) from None


def edited(document: Document, edit: str) -> Document:
    """The document after `PATH=VALUE`; setting one of `steps` and `epochs` removes the other."""
    path_text, equals, value_text = edit.partition("=")
    if not equals or not path_text:
        raise ScenarioError([Problem("", f"--set {edit}: write PATH=VALUE")], document.file)
    path = tuple(int(p) if p.isdigit() else p for p in path_text.replace("[", ".").replace("]", "").split("."))
    value = parse(f"value: {value_text}", f"--set {path_text}").values["value"]
    values = json.loads(json.dumps(document.values))
    here = values
    for part, then in itertools.pairwise(path):
        if isinstance(here, dict) and isinstance(part, str):
            here = here.setdefault(part, [] if isinstance(then, int) else {})
        elif isinstance(here, list) and isinstance(part, int) and part < len(here):
            here = here[part]
        else:
            raise ScenarioError([Problem(dotted(path), f"--set: there is no '{part}' to set in")], document.file)
        if isinstance(here, str):
            raise ScenarioError([Problem(dotted(path), f"--set: '{part}' is the word '{here}' here")], document.file)
    last = path[-1]
    if isinstance(here, dict) and isinstance(last, str):
        other = {"steps": "epochs", "epochs": "steps"}.get(last)
        if path[:-1] == ("client",) and other:
            here.pop(other, None)
        here[last] = value
    elif isinstance(here, list) and isinstance(last, int) and last <= len(here):
        here[last:] = [value, *here[last + 1 :]]
    else:
        raise ScenarioError([Problem(dotted(path), f"--set: there is no '{last}' to set")], document.file)
    places = {p: place for p, place in document.places.items() if p[: len(path)] != path}
    return Document(values, places, document.file)
