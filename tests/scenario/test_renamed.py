"""Names of earlier versions are answered with those of today, in one line, everywhere."""

import pytest

import fedsim
from fedsim.clients.sgd import sgd
from fedsim.errors import Failure, ScenarioError
from fedsim.synonyms import synonyms

RECORDS = {
    "Client.travel": "Travel",
    "Client.scored": "Scored",
    "Rule.fold": "Fold",
    "Rule.adapter": "AdapterLeaves",
}
BASE = {"name": "x", "rounds": 1, "data": {"kind": "iris", "clients": 3}}


def test_every_new_name_exists():
    rows = [row for row in synonyms() if row.where == "python"]
    assert len(rows) > 5
    for row in rows:
        owner, _, name = row.ours.rpartition(".")
        record = RECORDS.get(owner, owner)
        if record in ("Client", "Model", "Updates", *RECORDS.values()):
            assert name in getattr(fedsim.types, record)._fields
        elif owner == "fedsim":
            __import__(row.ours.partition("(")[0].replace("fedsim.run", "fedsim.runs"))
        elif owner:
            assert hasattr(fedsim.types, name)


def test_old_names_in_python_are_answered():
    with pytest.raises(AttributeError, match=r"^fedsim\.build is now fedsim\.assemble$"):
        fedsim.build
    with pytest.raises(ImportError, match=r"^fedsim\.types\.Facts is now fedsim\.types\.Work$"):
        from fedsim.types import Facts  # noqa: F401
    assert not hasattr(fedsim.types, "Fact")
    with pytest.raises(TypeError, match=r"^fedsim\.run\.deal is now fedsim\.run\(partition=\)$"):
        fedsim.run(BASE, deal="iid")
    with pytest.raises(TypeError, match=r"fedsim\.run has no rounds=; .*edits=\['KEY=VALUE'\]"):
        fedsim.run(BASE, rounds=3)


PLUGINS = {
    "import fedsim.build": "No module named 'fedsim.build'; fedsim.build is now fedsim.assemble",
    "from fedsim.types import Facts": "ImportError: fedsim.types.Facts is now fedsim.types.Work",
}
CLIENTS = {
    "fedsim.types.Client(first=None)": "Client.first is now Client.probe",
    "fedsim.types.Client(alone=True)": 'Client.alone is now Client(needs={"solo"})',
    "fedsim.types.Client(shares=None)": "Client.shares is now Client.travel.shares",
    "sgd()._replace(bank=None)": "Client.bank is now Client.server",
    "sgd().tuning": "Client.tuning is now Client.scored.tune_steps",
}


@pytest.mark.parametrize("line", PLUGINS)
def test_old_names_in_a_plug_in_are_answered(tmp_path, line):
    (tmp_path / "old.py").write_text(f"{line}\n")
    with pytest.raises(ScenarioError, match=r"old\.py, line 1") as error:
        fedsim.enable(str(tmp_path / "old.py"))
    assert PLUGINS[line] in str(error.value) and len(str(error.value).splitlines()) == 1


@pytest.mark.parametrize("call", CLIENTS)
def test_old_fields_of_a_client_are_answered(call):
    name = f"old_client_{list(CLIENTS).index(call)}"

    def made():
        return eval(call, {"fedsim": fedsim, "sgd": sgd})

    made.__name__ = name
    fedsim.client(made)
    with pytest.raises(Failure) as error:
        fedsim.run({**BASE, "client": name})
    assert CLIENTS[call] in str(error.value) and len(str(error.value).splitlines()) == 1
