"""Output is at most as wide as the terminal, and whole in a pipe."""

import sys

import click
import pytest
from test_commands import desk, fedsim  # noqa: F401 (desk is a fixture)

from fedsim.cli.records import print_check
from fedsim.cli.screen import show
from fedsim.cli.tables import empty_table, print_table
from fedsim.runs.verify import Check

LINES = (
    "list",
    "list rules",
    "list scenarios",
    "list --with krum",
    "explain krum",
    "explain fedavg",
    "explain rounds.csv",
    "doctor",
    "check iid.yaml --set model=logistic",
)


@pytest.mark.parametrize("line", LINES)
def test_lines_are_no_longer_than_the_terminal_is_wide(line, desk, monkeypatch):  # noqa: F811
    monkeypatch.setenv("COLUMNS", "60")
    done = fedsim(line, desk)
    assert done.returncode == 0, done.stderr
    assert [long for long in done.stdout.splitlines() if len(long) > 60] == []


def printed(table, expendable, capsys) -> list[str]:
    print_table(table, expendable)
    return capsys.readouterr().out.splitlines()


def a_table(method: str, verdict: str):
    view = empty_table(["method", "sd", "verdict"], left=("method", "verdict"))
    view.add_row(method, "0.001", verdict)
    return view


def test_a_narrow_terminal_loses_columns_then_rows_are_blocks(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    head, row = printed(a_table("fedavg", "better"), ["sd"], capsys)
    assert head.split() == ["method", "sd", "verdict"] and row.split()[1] == "0.001"

    head, row = printed(a_table("fedavg", "better" * 8), ["sd"], capsys)
    assert head.split() == ["method", "verdict"] and row.split() == ["fedavg", "better" * 8]

    name, verdict = printed(a_table("fedavg" * 5, "better" * 8), ["sd"], capsys)
    assert name == "fedavg" * 5 and verdict.split() == ["verdict", "better" * 8]


def test_a_check_wraps_below_its_name(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    print_check(Check("data", True, "the recorded ones, as are partitions and start models"))
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("ok   data: the recorded ones") and second == "     models"


def test_brackets_in_names_are_printed(capsys):
    _, row = printed(a_table("fedavg[client.lr=1]", ":better:"), [], capsys)
    assert row.split() == ["fedavg[client.lr=1]", "0.001", ":better:"]


def test_nothing_is_left_out_of_a_pipe(capsys, monkeypatch):
    monkeypatch.delenv("COLUMNS", raising=False)
    _, row = printed(a_table("fedavg" * 20, "better" * 20), ["sd"], capsys)
    assert row.split() == ["fedavg" * 20, "0.001", "better" * 20]


def test_what_is_longer_than_the_terminal_goes_through_the_pager(monkeypatch, capsys):
    paged = []
    monkeypatch.setenv("LINES", "24")
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setattr(click, "echo_via_pager", paged.append)
    for lines in (30, 20):
        show("\n".join(["line"] * lines))
    assert len(paged) == 1 and paged[0].count("line") == 30
    assert capsys.readouterr().out.count("line") == 20
