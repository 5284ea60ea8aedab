"""A grid is counted before it is expanded, and refused if it has too many cells."""

import pytest
import yaml
from click.testing import CliRunner
from hostile.confinement import confined
from hostile.numbers import TINY

from fedsim.cli import cli
from fedsim.errors import ScenarioError
from fedsim.scenario import read
from fedsim.study.grid import MAX_CELLS, axes_of, combinations_of, design_of


def test_a_grid_is_counted_before_it_is_expanded():
    many = {f"client.a{i}": list(range(29)) for i in range(8)}
    said = f"= 500246412961 combinations.*at most {MAX_CELLS}"
    with confined(1 << 30), pytest.raises(ScenarioError, match=said):
        combinations_of(many)
    scenario = read(TINY, ("seeds=10000",))
    with pytest.raises(ScenarioError, match=r"10000 x 20 x 1 x 1 = 200000 combinations"):
        design_of(scenario, ["fedavg"], vary={"client.lr": list(range(20))})
    assert len(combinations_of({"a": list(range(100)), "b": list(range(100))})) == MAX_CELLS
    assert list(axes_of(many)) == list(many)


def test_too_many_seeds_are_refused(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(TINY))
    done = CliRunner().invoke(cli, ["run", str(path), "--seeds", "1000000000"])
    assert isinstance(done.exception, ScenarioError)
    assert "seeds are too many; at most 10000" in str(done.exception)
