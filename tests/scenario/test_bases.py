"""`extends`: what a scenario says replaces what its base says, and nothing reads the base later."""

import json
import shutil

import pytest
import yaml
from test_commands import fedsim

import fedsim as package
from fedsim.errors import MissingFileError, ScenarioError
from fedsim.scenario import read
from fedsim.scenario.bases import MAX_BASES

BASE = """\
name: base
rounds: 2
data:
  kind: digits
  clients: 10
  partition: {kind: dirichlet, alpha: 0.5, min_samples: 5}
model: mlp
client: {kind: fedprox, mu: 0.1, lr: 0.2, epochs: 2, momentum: 0.9}
server: [clip(norm=2), {kind: trimmed_mean, trim: 2}, {kind: adam, lr: 0.02}]
compare: {methods: [mean], vary: {client.lr: [0.1, 0.2]}}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "base.yaml").write_text(BASE)
    return tmp_path


def child(folder, text, name="child.yaml"):
    (folder / name).write_text(f"extends: base.yaml\n{text}")
    return folder / name


def refusal(path, *edits) -> str:
    with pytest.raises(ScenarioError) as error:
        read(path, edits)
    return str(error.value).replace(f"{path.parent}/", "")


def test_keys_and_lists_replace_those_of_the_base(folder):
    scenario = read(
        child(
            folder,
            "data: {partition: {alpha: 0.1}}\nmodel: {hidden: [8]}\n"
            "client: {kind: sgd, steps: 4}\nserver: [median]\ncompare: {vary: {rounds: [1, 2]}}\n",
        )
    )
    resolved = scenario.resolved()
    assert resolved["name"] == "child" and resolved["rounds"] == 2 and "extends" not in resolved
    partition = {"kind": "dirichlet", "alpha": 0.1, "min_samples": 5, "bins": None}
    assert resolved["data"]["partition"] == partition and resolved["data"]["clients"] == 10
    assert resolved["model"] == {"kind": "mlp", "loss": None, "hidden": [8]}
    client = {"kind": "sgd", "lr": 0.2, "steps": 4, "epochs": None}
    assert client.items() <= resolved["client"].items()
    assert "mu" not in resolved["client"]
    assert resolved["client"]["optimizer"]["momentum"] == 0.9
    assert [link["kind"] for link in resolved["server"]] == ["median"]
    assert resolved["compare"]["methods"] == ["mean"]
    assert resolved["compare"]["vary"] == {"rounds": [1, 2]}
    assert read(resolved).hash() == scenario.hash()


def test_a_title_is_the_files_own_and_changes_no_run(folder):
    (folder / "base.yaml").write_text(BASE.replace("rounds: 2", "title: Why?\nrounds: 2"))
    base = read(folder / "base.yaml")
    assert base.resolved()["title"] == "Why?"
    untitled = read(child(folder, "name: base\n"))
    assert "title" not in untitled.resolved() and untitled.hash() == base.hash()
    assert read(child(folder, "title: How?\n")).resolved()["title"] == "How?"
    assert "title: should be a line of text" in refusal(child(folder, "title: 'two\n\n  lines'\n"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rounds: no", "2:9: rounds: should be an integer"),
        ("client: {epochs: 1, steps: 2}", "2:9: client: steps and epochs are both"),
        ("client: {optimizer: adam, momentum: 0.5}", "2:27: client.momentum: is short"),
        ("extends: base.yaml", "2:1: extends: this key is given twice"),
        ("client: {mu: 0.5}\nmethod: fedprox(mu=0.1)", "2:14: client.mu: is 0.5 here"),
    ],
)
def test_mistakes_in_the_scenario_are_reported_at_its_lines(folder, text, said):
    assert f"child.yaml:{said}" in refusal(child(folder, text))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("rounds: 2", "rouns: 2", "base.yaml:2:1: rouns: unknown key; did you mean 'rounds'?"),
        ("kind: dirichlet", "kind: diriclet", "base.yaml:6:21: data.partition.kind: no partition"),
        ("trim: 2", "trim: x", "base.yaml:9:51: server[1].trim: should be"),
        ("name: base", "name: [", "base.yaml:3:5: not YAML"),
        ("clients: 10", "clients: 10\n  clients: 11", "base.yaml:6:3: data.clients: this key is"),
    ],
)
def test_mistakes_in_the_base_are_reported_at_the_base_s_lines(folder, old, new, message):
    (folder / "base.yaml").write_text(BASE.replace(old, new))
    error = refusal(child(folder, "model: {hidden: [8]}\nseeds: 2\n"))
    assert message in error and "child.yaml" not in error


def test_bases_may_have_bases_but_no_cycles(folder):
    for i in range(MAX_BASES + 2):
        (folder / f"d{i}.yaml").write_text(f"extends: d{i + 1}\nclient: {{lr: 0.{i + 1}}}\n")
    (folder / f"d{MAX_BASES + 2}.yaml").write_text(BASE)
    assert read(folder / "d4.yaml").resolved()["client"]["lr"] == 0.5
    assert len(read(folder / "d4.yaml").document.bases) == 6
    assert "at most 8 scenarios build on one another" in refusal(folder / "d0.yaml")

    (folder / "d10.yaml").write_text("extends: d4.yaml\n")
    assert "leads back to itself: d4.yaml → d5.yaml" in refusal(folder / "d4.yaml")
    (folder / "own.yaml").write_text("extends: own.yaml\n")
    assert "own.yaml:1:10: extends: leads back to itself" in refusal(folder / "own.yaml")
    (folder / "iid.yaml").write_text("extends: iid\nrounds: 7\n")  # the one that comes with fedsim
    assert read(folder / "iid.yaml").resolved()["data"]["clients"] == 100


REFUSED = {  # how it is refused -> what `extends` says
    "lies outside the scenario's folder": ("../base.yaml", "/etc/hostname", "link.yaml"),
    "1:10: extends: should be a file in the scenario's": ("3", "[base.yaml]", "''", "null"),
}


def test_a_base_is_one_text_in_the_scenario_s_folder(folder):
    inner = folder / "inner"
    inner.mkdir()
    (inner / "link.yaml").symlink_to(folder / "base.yaml")
    for said, names in REFUSED.items():
        for name in names:
            (inner / "child.yaml").write_text(f"extends: {name}\nname: x\ndata: digits\n")
            assert said in refusal(inner / "child.yaml"), name
    (folder / "child.yaml").write_text("extends: bade.yaml\n")
    with pytest.raises(MissingFileError, match=r"did you mean base\.yaml"):
        read(folder / "child.yaml")
    (folder / "base.yaml").write_bytes(b"name: \xff\n")
    assert "base.yaml:1:7: byte 0xff is not UTF-8" in refusal(child(folder, ""))


def test_a_method_changes_the_sections_of_the_base(folder):
    scenario = read(child(folder, "method: fedavgm(momentum=0.5)\n"))
    resolved = scenario.resolved()
    assert resolved["method"] == "fedavgm(momentum=0.5)" and resolved["client"]["kind"] == "sgd"
    assert [link["kind"] for link in resolved["server"]] == ["clip", "mean", "fedavgm"]
    rule = read(child(folder, "method: median\n")).resolved()
    assert [link["kind"] for link in rule["server"]] == ["clip", "median", "adam"]
    assert rule["client"]["kind"] == "fedprox"

    (folder / "of.yaml").write_text("extends: child.yaml\nserver: [median]\n")
    child(folder, "method: fedavgm\n")
    said = "in method fedavgm (child.yaml, line 2); name a method here, or write method: null"
    assert said in refusal(folder / "of.yaml")
    (folder / "of.yaml").write_text("extends: child.yaml\nserver: [median]\nmethod: null\n")
    assert [link["kind"] for link in read(folder / "of.yaml").resolved()["server"]] == ["median"]


def test_set_is_applied_after_the_base(folder):
    path = child(folder, "client: {lr: 0.3}\n")
    assert read(path, ("client.mu=0.7", "server[1].trim=1")).resolved()["server"][1]["trim"] == 1
    assert "extends: the base is merged in before --set" in refusal(path, "extends=iid")
    path = child(folder, "fleet: {malicious: {share: 0.1}}\n")
    (folder / "base.yaml").write_text(f"{BASE}fleet: {{malicious: {{count: 2, per: round}}}}\n")
    merged = {"share": 0.1, "count": None, "ids": None, "per": "round"}
    assert read(path).resolved()["fleet"]["malicious"] == merged


@pytest.mark.long
def test_data_files_of_a_base_are_relative_to_its_folder(folder):
    inner = folder / "inner"
    inner.mkdir()
    (inner / "w.csv").write_text("a,y\n1,2\n2,3\n3,1\n4,2\n5,1\n")
    (inner / "s.yaml").write_text(
        "name: s\ndata: {kind: csv, path: w.csv, target: y, clients: 2}\n"
    )
    (folder / "w.csv").write_text("a,y\n9,9\n")
    (folder / "child.yaml").write_text("extends: inner/s.yaml\nrounds: 1\n")
    assert read(folder / "child.yaml").resolved()["data"]["path"] == "inner/w.csv"
    assert fedsim("check child.yaml", folder).returncode == 0


@pytest.mark.long
def test_a_record_needs_no_base(folder):
    child(folder, "model: logistic\n")
    assert fedsim("run child.yaml --quiet --no-pictures", folder).returncode == 0
    run = folder / "reports/child"
    record = json.loads((run / "run.json").read_text())
    assert record["scenario"]["client"]["mu"] == 0.1 and "extends" not in record["scenario"]
    assert "extends" not in yaml.safe_load((run / "scenario.yaml").read_text())
    assert fedsim("run child.yaml --resume --quiet --no-pictures", folder).returncode == 0

    (folder / "base.yaml").write_text(BASE.replace("mu: 0.1", "mu: 0.4"))
    done = fedsim("run child.yaml --resume --quiet --no-pictures", folder)
    assert done.returncode == 7 and "scenario.client.mu: 0.1, now 0.4" in done.stderr
    (folder / "base.yaml").unlink()
    assert package.verify(run).equal
    shutil.copy(run / "scenario.yaml", folder / "again.yaml")
    assert read(folder / "again.yaml").hash() == record["hashes"]["scenario"]

    record["scenario"]["extends"] = "iid"
    (run / "run.json").write_text(json.dumps(record))
    assert not package.verify(run).equal


@pytest.mark.long
def test_check_and_new_support_extends(folder):
    child(folder, "rounds: 5\n")
    done = fedsim("check child.yaml --resolved --set client.lr=0.5", folder)
    assert done.returncode == 0 and done.stdout.startswith("# child.yaml extends base.yaml\n")
    values = yaml.safe_load(done.stdout)
    assert (values["rounds"], values["client"]["lr"], values["client"]["mu"]) == (5, 0.5, 0.1)
    assert read(values).resolved() == values
    assert fedsim("new mine --extends base.yaml", folder).returncode == 0
    assert read(folder / "mine.yaml").resolved()["client"]["mu"] == 0.1
    done = fedsim("new other --extends bas", folder)
    assert done.returncode == 4 and "did you mean base.yaml?" in done.stderr
    assert not (folder / "other.yaml").exists()


def test_the_scenarios_on_the_page_build_on_one_another(root, tmp_path):
    page = (root / "docs/scenarios.md").read_text()
    for name in ("robust", "patient"):
        text = page.partition(f"<!-- {name} -->\n```yaml\n")[2].partition("```")[0]
        (tmp_path / f"{name}.yaml").write_text(text)
    resolved = read(tmp_path / "patient.yaml").resolved()
    assert resolved["name"] == "patient" and resolved["rounds"] == 60
    assert resolved["data"]["partition"]["min_samples"] == 5
    assert (resolved["client"]["mu"], resolved["client"]["epochs"]) == (0.1, 2)
    assert [link["kind"] for link in resolved["server"]] == ["median"]


def test_a_mapping_may_have_a_base_too(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert read({"extends": "base.yaml", "rounds": 3}).resolved()["name"] == "base"
    assert read({"extends": str(folder / "base.yaml"), "name": "x"}).resolved()["rounds"] == 2
