"""`python -m fedsim.kinds` makes `shipped.json` anew."""

import json
from pathlib import Path

if __name__ == "__main__":
    file = Path(__file__).with_name("shipped.json")
    file.unlink(
        missing_ok=True
    )  # the kinds stand in the order in which their modules register them

    from fedsim.kinds.shipped import described

    file.write_text(json.dumps(described(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
