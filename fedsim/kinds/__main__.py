"""`python -m fedsim.kinds` writes the `shipped.json` of every folder again."""

import json

from fedsim.installed import fields, folder_of

if __name__ == "__main__":
    # Without the files, kinds are in the order in which their modules register them.
    from pathlib import Path

    here = Path(__file__).parent
    for folder in (here, *map(folder_of, fields().values())):
        (folder / "shipped.json").unlink(missing_ok=True)

    from fedsim.kinds.shipped import described, homes

    for home, contents in described().items():
        text = json.dumps(contents, indent=1, ensure_ascii=False) + "\n"
        (homes()[home] / "shipped.json").write_text(text, encoding="utf-8")
