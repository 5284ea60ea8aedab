"""`python -m fedsim.kinds` makes `shipped.json` anew."""

import json
from pathlib import Path

from fedsim.kinds.shipped import FILE, described

if __name__ == "__main__":
    Path(str(FILE)).write_text(json.dumps(described(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
