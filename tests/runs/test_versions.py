"""Runs of earlier versions resume and are verified where their kinds compute the same values."""

import json

import pytest

import fedsim
from fedsim.errors import CheckpointError, exit_code
from fedsim.kinds import FAMILIES
from fedsim.runs import changes, directory, environment
from fedsim.runs.changes import CHANGES, OLDEST, Change, changes_between, version_of_values
from fedsim.runs.diff import diff
from fedsim.scenario import read

TINY = {
    "name": "tiny",
    "rounds": 2,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 4},
}
FAMILIES_OF = {  # whose kinds may be in a section of a scenario
    "model": ["model", "adapter"],
    "server": ["rule", "aggregate_stage", "optimizer", "stage"],
    "wire": ["attack", "stage", "codec"],
    "broadcast": ["codec"],
    "client": ["client", "optimizer", "schedule"],
    "cohort": ["cohort"],
    "data": ["dataset", "partition", "skew", "data_attack", "augmentation"],
    "schedule": ["timetable"],
    "fleet": ["speed", "link", "availability"],
}

OTHER_WORDS = [("client", "full"), ("compare", "client.batch")]  # which are no kinds


def number(version):
    return tuple(map(int, version.split(".")))


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.kind)
def test_a_change_names_an_existing_kind_and_version(change):
    families = FAMILIES_OF.get(change.section, [])
    is_kind = any(change.kind in FAMILIES[family] for family in families)
    assert is_kind or (change.section, change.kind) in OTHER_WORDS
    assert number(OLDEST) < number(change.since) <= number(fedsim.__version__)
    scenario = {change.section: [{"kind": "else", "inside": {"kind": change.kind}}]}
    current = fedsim.__version__
    of_kind = [c for c in CHANGES if (c.section, c.kind) == (change.section, change.kind)]
    later = [c for c in of_kind if number(c.since) > number(change.since)]
    assert changes_between(scenario, OLDEST, current) == of_kind
    assert changes_between(scenario, change.since, current) == later
    assert not changes_between({"elsewhere": scenario[change.section]}, OLDEST, current)
    assert number(version_of_values(scenario, change.since)) == number(change.since)
    assert version_of_values(scenario, OLDEST) == OLDEST


@pytest.mark.parametrize("version", ["0.4.0", "99.0.0", "0.5", "None", "0.5.0.dev1"])
def test_an_unknown_version_has_values_of_its_own(version):
    assert version_of_values({}, version) == version


@pytest.mark.parametrize(
    ("edits", "reason"),
    [
        (["data=digits", "model={kind: resnet, depth: 8}"], "resnet "),
        (["method=foolsgold"], "foolsgold weighs by the authors' code"),
        (["server=[foolsgold, {kind: adam, lr: 0.1}]"], "foolsgold weighs by the authors' code"),
        (["method=krum(f=1)"], ""),
        (["client.batch=full"], "batch: full is as wide as the largest client of its own seed"),
        (
            ["compare={methods: [fedavg, {method: fedprox, set: {client.batch: 8}}]}"],
            "methods are not padded to the largest client.batch",
        ),
    ],
)
def test_changes_are_reported_for_the_scenarios_that_they_concern(edits, reason):
    scenario = read(TINY, edits).resolved()
    reasons = changes.reasons(scenario, {"fedsim": "0.5.0"})
    assert [line for line in reasons if reason in line] == reasons and bool(reasons) == bool(reason)


def say(monkeypatch, version, *lines):
    """Pretend to be another version, with these changes."""
    monkeypatch.setattr(environment, "__version__", version)
    monkeypatch.setattr(changes, "__version__", version)
    monkeypatch.setattr(changes, "CHANGES", lines)


OTHERWISE = Change("0.7.0", "model", "logistic", "logistic starts elsewhere")


@pytest.fixture
def before(tmp_path, monkeypatch):
    """A run that another version made."""
    say(monkeypatch, "0.6.0")
    fedsim.run(TINY, out=tmp_path / "run", pictures=False)
    return tmp_path / "run"


@pytest.mark.long
def test_a_run_of_an_earlier_version_resumes_if_its_values_are_the_same(
    before, tmp_path, monkeypatch
):
    say(monkeypatch, "0.7.0", OTHERWISE._replace(kind="mlp"))
    assert fedsim.verify(before).equal
    fedsim.run(TINY, edits="rounds=4", out=before, resume=True, pictures=False)
    fedsim.run(TINY, edits="rounds=4", out=tmp_path / "whole", pictures=False)
    assert directory.sound_record(before)["environment"]["fedsim"] == "0.7.0"
    assert diff(before, tmp_path / "whole").equal
    assert fedsim.verify(before).equal
    say(monkeypatch, "0.8.0", OTHERWISE._replace(since="0.8.0"))
    assert fedsim.verify(before).wrong


@pytest.mark.long
def test_a_run_of_an_earlier_version_is_refused_if_its_values_changed(before, monkeypatch):
    files = {path: path.read_bytes() for path in before.rglob("*") if path.is_file()}
    say(monkeypatch, "0.7.0", OTHERWISE)
    reason = "was made by fedsim 0.6.0; since 0.7.0, logistic starts elsewhere"
    checked = fedsim.verify(before)
    assert checked.wrong and [
        (check.name, check.detail) for check in checked.checks if not check.ok
    ] == [("version", reason)]
    for rounds in (2, 3):
        with pytest.raises(CheckpointError, match=reason) as refusal:
            fedsim.run(TINY, edits=f"rounds={rounds}", out=before, resume=True)
        assert exit_code(refusal.value) == 7 and "finish it with fedsim 0.6.0" in str(refusal.value)
    assert {
        path: path.read_bytes()
        for path in before.rglob("*")
        if path.is_file() and path.name != ".lock"
    } == {path: content for path, content in files.items() if path.name != ".lock"}


@pytest.mark.parametrize("version", ["0.4.0", "0.9.0", "something else"])
def test_a_run_of_an_unknown_version_is_neither_checked_nor_resumed(version, before):
    record = directory.sound_record(before)
    directory.write_record(
        before, {**record, "environment": {**record["environment"], "fedsim": version}}
    )
    reason = f"was made by fedsim {version}; what fedsim 0.6.0 computes differently"
    with pytest.raises(CheckpointError, match=reason):
        fedsim.run(TINY, out=before, resume=True)


@pytest.mark.long
def test_a_comparison_of_an_earlier_version_resumes_if_its_begun_runs_are_the_same(
    tmp_path, monkeypatch
):
    out = tmp_path / "out"
    say(monkeypatch, "0.6.0")
    fedsim.compare(TINY, "fedavg", out=out, pictures=False)
    record = json.loads((out / "run.json").read_text())
    say(monkeypatch, "0.7.0", OTHERWISE._replace(section="server", kind="median"))
    fedsim.compare(TINY, "fedavg,median", out=out, resume=True, pictures=False)  # the median is new
    say(monkeypatch, "0.8.0", OTHERWISE._replace(section="server", kind="mean", since="0.8.0"))
    with pytest.raises(
        CheckpointError, match=r"made by fedsim 0\.7\.0; since 0\.8\.0, logistic starts"
    ):
        fedsim.compare(TINY, "fedavg,median", out=out, resume=True, pictures=False)
    assert record["environment"]["fedsim"] == "0.6.0"
