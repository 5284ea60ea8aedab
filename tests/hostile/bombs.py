"""A stranger's files that are small, or take no room, and would take gigabytes or minutes to read.

As a program (`python -m hostile.bombs SCENARIO`, in its own process) it reads and builds a scenario
as the command does, and prints a line of JSON: how it ended, the message, processor seconds, and
bytes used beyond those at the start.
"""

import json
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

MAKERS: dict[str, Callable[[Path], dict[str, Any]]] = {}
SPACE = (
    12 * 10**9
)  # bytes of address space of a reader: a bomb that goes off ends it, not the machine


def bomb(make: Callable[[Path], dict[str, Any]]) -> Callable[[Path], dict[str, Any]]:
    """Register what writes a bomb to a folder and gives the data section that names it."""
    MAKERS[make.__name__] = make
    return make


def scenario_of(name: str, folder: Path) -> Path:
    """Write a bomb, and a scenario that names it."""
    data = MAKERS[name](folder)
    fleet = data.pop("fleet", {})
    path = folder / "scenario.json.yaml"
    path.write_text(
        json.dumps({"name": "x", "rounds": 1, "data": data, **({"fleet": fleet} if fleet else {})})
    )
    return path


def main(path: str) -> None:
    from hostile.numbers import OURS, forget_peak, peak

    from fedsim.assemble import build
    from fedsim.assemble.experiment import numerics
    from fedsim.errors import exit_code
    from fedsim.machine import memory_now
    from fedsim.scenario import read

    resource.setrlimit(resource.RLIMIT_AS, (SPACE, resource.getrlimit(resource.RLIMIT_AS)[1]))
    forget_peak()
    held, start = memory_now(), time.process_time()
    code, said = 0, ""
    try:
        scenario = read(path)
        with numerics(scenario) as devices:
            build(scenario, devices=devices[:1])
    except OURS as error:
        code, said = exit_code(error), str(error)
    seconds = time.process_time() - start
    print(
        json.dumps({"code": code, "said": said, "seconds": seconds, "bytes": peak() - held}),
        flush=True,
    )


if __name__ == "__main__":
    main(sys.argv[1])
