"""On a terminal, an error shows the line that it is about, with carets below the wrong word."""

import re

import pytest

from fedsim.cli.errors import print_error
from fedsim.errors import ScenarioError
from fedsim.scenario import read

TEXT = """name: x
data: digits
client:
  lrr: 0.1
  batch: "many"
server: [{kind: krum, f: 1}, adamm]
"""
LINES = """x.yaml:4:3: client.lrr: unknown key; did you mean 'lr'?
  |
4 |   lrr: 0.1
  |   ^^^
x.yaml:5:10: client.batch: should be an integer of at least 1 or full, found 'many'
  |
5 |   batch: "many"
  |          ^^^^^^
x.yaml:6:30: server[1]: no stage, rule or optimizer 'adamm'; did you mean 'adam'?
  |
6 | server: [{kind: krum, f: 1}, adamm]
  |                              ^^^^^
"""
STYLE = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def printed(tmp_path, monkeypatch, capsys):
    """A function from a text, the options `--set` and the environment to what an error prints."""
    monkeypatch.chdir(tmp_path)

    def of(text: str, *edits: str, FORCE_COLOR: str = "", NO_COLOR: str = "") -> str:
        (tmp_path / "x.yaml").write_text(text, encoding="utf-8")
        monkeypatch.setenv("FORCE_COLOR", FORCE_COLOR)
        monkeypatch.setenv("NO_COLOR", NO_COLOR)
        with pytest.raises(ScenarioError) as refused:
            read("x.yaml", edits)
        assert print_error(refused.value, "") == 2
        return capsys.readouterr().err

    return of


def test_every_mistake_is_shown_in_its_line_and_colours_can_be_turned_off(printed):
    assert printed(TEXT) == "".join(re.findall(r"x\.yaml.*\n", LINES))  # in a pipe
    shown = printed(TEXT, FORCE_COLOR="1")
    assert STYLE.sub("", shown) == LINES and "\x1b[1;31m" in shown
    assert "[1;31m" not in printed(TEXT, FORCE_COLOR="1", NO_COLOR="1")


def test_a_mistake_in_an_option_has_no_line(printed):
    shown = printed("name: x\nrounds: 3\ndata: digits\n", "rounds=x", FORCE_COLOR="1")
    assert shown.count("\n") == 1


def test_a_long_line_is_cut_and_what_a_terminal_would_obey_is_spelt_out(printed):
    shown = printed(f"name: x\nwire: [{'sign_flip, ' * 50}nöpe\t]\n", FORCE_COLOR="1")
    _, _, line, carets = STYLE.sub("", shown).splitlines()
    assert "sign_flip, nöpe" in line and len(line) < 140 and "\t" not in line
    assert line.index("\\t") == carets.index("^^")
