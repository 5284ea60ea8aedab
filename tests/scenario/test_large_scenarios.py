"""Large scenarios are read by a parser that gives the same values, and are bounded."""

import hostile.scenarios
import pytest
from building import built
from conftest import ROOT
from hostile.book import mistakes

from fedsim.errors import ScenarioError
from fedsim.scenario import read, reader

# Refused by both, or by libyaml alone, in other words.
OTHERWISE = {"a bomb of brackets", "a lone surrogate", "a tab"}


def texts():
    """Correct scenarios, and scenarios wrong in hundreds of ways."""
    for path in sorted((ROOT / "scenarios").glob("*.yaml")):
        yield path.name, path.read_text()
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
def thousand_rounds(tmp_path):
    """A scenario with ten clients for each of 1,000 rounds -> its path."""
    head = "name: many\nrounds: 1000\ndata: digits\ncohort:\n  kind: listed\n  rounds:\n"
    rows = [f"    - {[(7 * i + k) % 100 for k in range(10)]}\n" for i in range(1000)]
    path = tmp_path / "many.yaml"
    path.write_text(head + "".join(rows))
    return path


def test_cohorts_of_1000_rounds_are_read_and_built(thousand_rounds):
    experiment = built(thousand_rounds)
    assert len(experiment.scenario.spec.cohort.rounds) == 1000


def test_a_scenario_has_so_many_values_at_most(monkeypatch, thousand_rounds):
    nodes = 11_013  # ten clients and a list for each round, and 13 around them
    monkeypatch.setattr(reader, "MAX_NODES", nodes)
    read(thousand_rounds)
    monkeypatch.setattr(reader, "MAX_NODES", nodes - 1)
    said = "more than 400,000 keys and values; keep long lists in a file"
    with pytest.raises(ScenarioError, match=said):
        read(thousand_rounds)
