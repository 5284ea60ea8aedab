"""Traces of devices: the fleet follows the file, and every fault in a file is one line."""

import gzip
import json
import re

import numpy as np
import pytest
import yaml
from building import built
from numpy.testing import assert_allclose
from test_listed_files import written

import fedsim.sources.traces as sources
from fedsim.compose import FAMILIES
from fedsim.errors import DataError, ScenarioError
from fedsim.fields.machines.availability import Moment
from fedsim.fleet import Clients
from fedsim.fleet.streams import Stream, generator

N = 7
CLIENTS = Clients(np.ones(N, int), lambda: np.zeros((N, 0), int))
ON = "client,start,end\n10,0,4\n9,2,3\n10,6,7.5\n9,9,10\n2,5,5\n"  # in the order of ids: 2, 9, 10
DEVICES = "latency,client,up,down,seconds_per_step,name\n0.5,b,10,100,2,x\n0,a,20,200,1,y\n"
TINY = {
    "name": "traces",
    "rounds": 5,
    "data": {"kind": "gaussian_blobs", "samples": 200, "clients": 6},
    "cohort": {"kind": "uniform", "size": 3},
    "client": {"steps": 2},
    "fleet": {
        "speed": {"kind": "trace", "path": "devices.csv"},
        "links": {"kind": "trace", "path": "devices.csv"},
        "availability": {"kind": "trace", "path": "on.csv"},
    },
}


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A scenario with its traces, beside the working directory."""
    for name in ("study", "here", "far"):
        (tmp_path / name).mkdir()
    written(tmp_path / "study", "on.csv", ON)
    written(tmp_path / "study", "devices.csv", DEVICES)
    written(tmp_path / "far", "far.csv", ON)
    sections = "".join(f"{key}: {json.dumps(value)}\n" for key, value in TINY.items())
    written(tmp_path / "study", "s.yaml", sections)
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def is_on(device, time) -> bool:
    """Whether a row of `ON` has a device at a time; devices are numbered by their ids."""
    rows = [(2, 0.0, 4.0), (1, 2.0, 3.0), (2, 6.0, 7.5), (1, 9.0, 10.0), (0, 5.0, 5.0)]
    return any(start <= time < end for of, start, end in rows if of == device)


@pytest.mark.parametrize("period", [None, 12.0])
def test_devices_are_reachable_at_the_times_of_their_rows(tmp_path, period):
    """Against a loop over rows, with ids in numeric order, for two periods."""
    path = written(tmp_path, "on.csv.gz", gzip.compress(ON.encode()))
    made = FAMILIES["availability"]["trace"](path, period=period)
    fixed = made.begin(CLIENTS, generator(0, Stream.AVAILABILITY))
    for seconds in np.arange(0, 24, 0.25):
        time = seconds % (period or 10.0)
        reached = made.reached(fixed, Moment(1, float(seconds), lambda r: np.zeros(N)))
        assert reached.tolist() == [is_on(k % 3, time) for k in range(N)]
    assert made.clocked


def test_a_run_takes_the_time_of_its_traces(study):
    """Seconds of each round: what the slowest client receives, does and sends, or idle time."""
    plan = built(study / "study" / "s.yaml").plans[0]
    down, up = plan.cost.down, plan.cost.up
    clock, state, sizes = 0.0, plan.begin(), []
    for r in range(1, 6):
        work, state = plan.round(r, state)
        on = [k for k in range(6) if is_on(k % 3, clock % 10)]
        assert set(work.ids) <= set(on) and len(work.ids) == min(3, len(on))
        b = work.ids % 2  # of device b, else a
        times = 2 * (1 + b) + 2 * 0.5 * b + down / (200 / (1 + b)) + up / (20 / (1 + b))
        assert_allclose(work.seconds, times.max() if len(times) else plan.machines.idle)
        clock += work.seconds
        sizes.append(len(work.ids))
    assert max(sizes) > 0


# What is wrong with any table is in tests/sources, and with numbers by client in tests/fleet.
BAD = {  # what is wrong -> (kind, content, words of the line)
    "nan": ("on", "1,0,nan", "row 2, column 'end': 'nan' is not a time or rate"),
    "backwards": ("on", "1,0,1\n1,3,2", "row 3: ends at 2, before it starts at 3"),
    "never": ("on", "1,0,0", "no device can be reached at any time"),
    "no client": ("on", ",0,1", "row 2, column 'client': a row without a client"),
    "no speed": ("devices", "1,1,1,-2", "column 'seconds_per_step': '-2' is not a time or rate"),
    "two of a client": ("devices", "1,1,1,1\n1,1,1,1", "row 3: the client is in row 2 already"),
}
HEADERS = {"on": "client,start,end", "devices": "client,up,down,seconds_per_step"}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_file_is_refused_in_one_line(name, study):
    kind, rows, words = BAD[name]
    file = written(study / "study", f"{kind}.csv", f"{HEADERS[kind]}\n{rows}\n")
    with pytest.raises(DataError) as error:
        built(study / "study" / "s.yaml")
    (line,) = str(error.value).splitlines()
    assert line.startswith(f"{file}: ") and words in line and error.value.exit_code == 3


def test_a_bad_file_is_reported_along_with_another_mistake(study):
    written(study / "study", "on.csv", "client,start,end\n1,0,nan\n")
    with pytest.raises(ScenarioError) as error:
        built(study / "study" / "s.yaml", "cohort.size=100")
    places = [problem.where for problem in error.value.problems]
    assert places == ["cohort.size", "fleet.availability"]


def test_a_huge_file_is_not_read(study, monkeypatch):
    monkeypatch.setattr(sources, "MAX_BYTES", 10)
    with pytest.raises(DataError, match=r"devices\.csv: larger than"):
        built(study / "study" / "s.yaml")


@pytest.mark.parametrize(
    ("edit", "line"),
    [
        ("path=../far/far.csv", r"\.path: .*lies outside the scenario's folder"),
        ("period=3", ": trace: period 3 is below the last end .*, 10"),
    ],
)
def test_a_trace_that_a_scenario_may_not_have_is_refused(edit, line, study):
    """Which files are within reach is in tests/sources."""
    with pytest.raises(ScenarioError, match=f"fleet.availability{line}"):
        built(study / "study" / "s.yaml", f"fleet.availability.{edit}")


def test_the_hash_of_a_scenario_depends_on_a_file_s_content_not_its_path(study):
    one = built(study / "study" / "s.yaml").scenario
    assert len(one.spec.fleet.speed.sha256) == len(one.spec.fleet.availability.sha256) == 64
    (study / "study" / "on.csv").rename(study / "here" / "moved.csv")
    edit = "fleet.availability.path=moved.csv"
    other = built(study / "study" / "s.yaml", edit).scenario
    assert other.hash() == one.hash() and other.resolved() != one.resolved()
    written(study / "here", "moved.csv", ON + "3,0,1\n")
    expected = f"fleet.availability.sha256={one.spec.fleet.availability.sha256}"
    with pytest.raises(DataError, match=r"moved\.csv: not the expected file"):
        built(study / "study" / "s.yaml", edit, expected)


def test_the_example_on_the_page_is_read(study, root):
    text = (root / "docs" / "scenarios" / "devices.md").read_text()
    shown = yaml.safe_load(text.partition("<!-- traces -->\n```yaml\n")[2].partition("```")[0])
    (study / "study" / "on.csv").rename(study / "study" / "online.csv")
    energies = ["joules_per_step,joules_per_byte", "2,1e-6", "3,2e-6"]
    rows = zip(DEVICES.split(), energies, strict=True)
    devices = "\n".join(f"{row},{energy}" for row, energy in rows)
    written(study / "study", "devices.csv", devices)
    edit = f"fleet={json.dumps(shown['fleet'])}"
    fleet = built(study / "study" / "s.yaml", edit).scenario.spec.fleet
    assert fleet.speed.kind == "trace"
    assert fleet.energy.sha256 == fleet.speed.sha256 is not None


def test_the_nine_models_of_flgo_are_kinds(root):
    """The table of the page, with β = 0.3; each model is named where its kind is described."""
    text = (root / "docs" / "scenarios" / "devices.md").read_text()
    rows = re.findall(r"^\| `([A-Z]+)` \| `(.+)` \|$", text, re.M)
    models = "IDL HOMO LN SLN YMF YFF YC MDF LDF"
    assert {name for name, _ in rows} == set(models.split())
    for name, said in rows:
        numbers = {"1 − β": "0.7", "−ln(1 − β)": "0.3567", "−β": "-0.3", "β": "0.3"}
        for words, number in numbers.items():
            said = said.replace(words, number)
        section = yaml.safe_load(said)
        section = {"kind": section} if isinstance(section, str) else section
        factory = FAMILIES["availability"][section.pop("kind")]
        factory(**section)
        assert f"`{name}`" in factory.__doc__
