"""Large scenarios are read quickly, by a parser that gives the same values."""

import time

import hostile.scenarios
import pytest
from conftest import ROOT
from hostile.book import mistakes

from fedsim.assemble import build
from fedsim.assemble.experiment import numerics
from fedsim.errors import ScenarioError
from fedsim.scenario import read, reader

OTHERWISE = {
    "a bomb of brackets",
    "a lone surrogate",
    "a tab",
}  # refused by both, or by libyaml alone, in other words


def texts():
    """Correct scenarios, and scenarios wrong in hundreds of ways."""
    yield from (
        (path.name, path.read_text()) for path in sorted((ROOT / "scenarios").rglob("*.yaml"))
    )
    yield from hostile.scenarios.TEXTS.items()
    for mistake in mistakes():
        try:
            yield mistake.title, mistake.content.decode()
        except UnicodeDecodeError:
            continue


def parsed(text):
    try:
        document = reader.parse(text, "s.yaml")
    except ScenarioError as error:
        return str(error)
    return document.values, document.positions


def test_libyaml_reads_what_pyyaml_reads(monkeypatch):
    for name, text in texts():
        if len(text) > 50_000:  # PyYAML would take long
            continue
        monkeypatch.setattr(reader, "MAX_CHARACTERS_FOR_PYYAML", len(text))
        by_python = parsed(text)
        monkeypatch.setattr(reader, "MAX_CHARACTERS_FOR_PYYAML", -1)
        by_c = parsed(text)
        assert by_c == by_python or (name in OTHERWISE and isinstance(by_c, str)), name


@pytest.fixture
def three_thousand_rounds(tmp_path):
    """A scenario with ten clients for each of 3,000 rounds -> its path."""
    rows = "".join(
        f"    - [{', '.join(str((7 * i + k) % 100) for k in range(10))}]\n" for i in range(3000)
    )
    path = tmp_path / "many.yaml"
    path.write_text(
        f"name: many\nrounds: 3000\ndata: digits\ncohort:\n  kind: listed\n  rounds:\n{rows}"
    )
    return path


def test_cohorts_of_3000_rounds_are_read_and_built_in_seconds(three_thousand_rounds):
    began = time.thread_time()
    scenario = read(three_thousand_rounds)
    with numerics(scenario) as devices:
        experiment = build(scenario, devices=devices[:1])
    experiment.scenario.hash()
    assert time.thread_time() - began < 5 and len(scenario.spec.cohort.rounds) == 3000


@pytest.mark.long
def test_one_wrong_id_of_30000_is_reported_at_its_place(three_thousand_rounds):
    lines = three_thousand_rounds.read_text().splitlines()
    lines[2000] = lines[2000].replace(", ", ", x", 1)
    three_thousand_rounds.write_text("\n".join(lines))
    with pytest.raises(
        ScenarioError, match=r"many.yaml:2001:\d+: cohort.rounds\[1994\]\[1\]: should be an integer"
    ):
        read(three_thousand_rounds)


def test_the_time_to_read_is_bounded(monkeypatch, three_thousand_rounds):
    monkeypatch.setattr(reader, "MAX_SECONDS", 0.001)
    with pytest.raises(
        ScenarioError, match="takes longer than 2 s to read; keep long lists in a file"
    ):
        read(three_thousand_rounds)
