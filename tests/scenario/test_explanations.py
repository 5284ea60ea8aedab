"""`fedsim explain` of keys, columns, files, exit codes and commands."""

import json

import pytest
from conftest import if_all_installed
from test_commands import desk, fedsim  # noqa: F401 (desk is a fixture)

from fedsim.cli.entry import every_command, former
from fedsim.disk import tables
from fedsim.errors import EXIT_CODES, ScenarioError
from fedsim.scenario.explain import explanations
from fedsim.scenario.keys import keys
from fedsim.scenario.meanings import meanings

pytestmark = if_all_installed  # of all kinds and keys


@pytest.mark.long
def test_every_key_column_file_exit_code_and_command_is_explained(desk):  # noqa: F811
    tuples = [value for value in vars(tables).values() if isinstance(value, tuple)]
    columns = set().union(*tuples) - {*tables.COMPUTED}
    shown = {".".join(path) for path in keys()}
    assert {"client.lr", "data.partition.alpha", "server.lr.alpha", "client.weight_decay"} <= shown
    files = (*meanings()["files"], *meanings()["tables"])
    for name in (*shown, *columns, *files, *map(str, EXIT_CODES), "exit"):
        explained = explanations(name)
        assert json.loads(json.dumps(explained))
        for meaning in explained:
            assert meaning["parameters"] or meaning.get("entries") or meaning.get("summary")
    for words in every_command():
        name = words.split()[-1].lstrip("-")
        explained = fedsim(f"explain command/{name}", desk).stdout
        assert explained.startswith(f"command/{name}\n  fedsim ")
        assert f"\n  fedsim {words}: " in explained
    for name, words in former().items():
        shown = fedsim(f"explain command/{name}", desk).stdout
        assert " " in name or f"\n  fedsim {words}: " in shown


def test_a_name_with_two_meanings_is_asked_for_by_family():
    assert {meaning["family"] for meaning in explanations("method")} == {"section", "column"}
    assert [meaning["family"] for meaning in explanations("column/method")] == ["column"]
    assert list(explanations("clients.csv/bytes_up")[0]["entries"]) == ["clients.csv"]
    assert [meaning["kind"] for meaning in explanations("rule/median")] == ["median"]
    with pytest.raises(ScenarioError, match="nothing is called 'key/krum'"):
        explanations("key/krum")
