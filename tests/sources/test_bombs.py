"""Small files, or files of holes, that would take gigabytes or minutes to read: refused at once."""

import json
import os
import subprocess
import sys

import pytest
from conftest import TESTS
from hostile.bombs import MAKERS, scenario_of

from fedsim.errors import DataError
from fedsim.sources.files import SMALL_BYTES, opened, require_few_lists

SECONDS, BYTES = 10, 1 << 30
ROOM = ("text_in_long_sequences",)  # counted, and refused for want of memory


@pytest.mark.long
@pytest.mark.parametrize("name", list(MAKERS))
def test_a_bomb_is_refused_in_a_line_before_it_goes_off(name, tmp_path):
    path = scenario_of(name, tmp_path)
    environment = {**os.environ, "PYTHONPATH": f"{TESTS.parent}{os.pathsep}{TESTS}"}
    words = [sys.executable, "-m", "hostile.bombs", path.name]
    done = subprocess.run(
        words, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["code"] in ((3, 8) if name in ROOM else (3,)), told
    assert told["said"].isprintable(), told
    assert told["seconds"] < SECONDS and told["bytes"] < BYTES, told


def test_a_file_of_holes_is_refused_and_one_with_content_is_read(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"x" * 4096)
    os.truncate(path, SMALL_BYTES * 100)
    with (
        pytest.raises(DataError, match="of which 4096 are stored and the others are holes"),
        opened(str(path)),
    ):
        pass
    path.write_bytes(b"x" * (SMALL_BYTES + 1))
    with opened(str(path)) as file:
        assert len(file.read()) == SMALL_BYTES + 1


def test_json_of_lists_is_refused_and_rows_of_one_number_are_not():
    with pytest.raises(DataError, match="1000001 lists and mappings in 3000002 bytes of JSON"):
        require_few_lists(b"[" + b"[]," * 1_000_000 + b"]")
    require_few_lists(b"[" + b"[0.25]," * 1_000_000 + b"[0.5]]")
