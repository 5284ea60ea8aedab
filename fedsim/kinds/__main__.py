"""`python -m fedsim.kinds` writes `shipped.json` again."""

import json
from pathlib import Path

if __name__ == "__main__":
    # Without the file, kinds are in the order in which their modules register them.
    file = Path(__file__).with_name("shipped.json")
    file.unlink(missing_ok=True)

    from fedsim.kinds.shipped import described

    file.write_text(json.dumps(described(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
