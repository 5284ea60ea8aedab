"""Build the site: `python docs/site` needs `pip install -e '.[docs]'` and a git clone."""

import argparse
import logging
import sys
from pathlib import Path

from check import faults
from mkdocs.commands.build import build
from mkdocs.config import load_config
from mkdocs.exceptions import Abort

HERE = Path(__file__).resolve().parent


def main(arguments: list[str]) -> int:
    """Build the site strictly."""
    parser = argparse.ArgumentParser("python docs/site", description="Build the site.")
    parser.add_argument("--out", default=HERE.parents[1] / "site", type=Path, help="its folder")
    out = parser.parse_args(arguments).out.resolve()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    config = load_config(str(HERE / "mkdocs.yml"), site_dir=str(out))
    try:
        build(config)
    except Abort as error:
        print(error, file=sys.stderr)
        return 1
    dead = faults(out)
    for line in dead:
        print(line, file=sys.stderr)
    print(f"{out}: {len(list(out.rglob('*.html')))} pages, {len(dead)} faults")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
