"""Every picture of docs drawn anew from the data beside it: `make pictures`. Nothing is measured, nothing is played.

The benchmarks' are drawn by `semel bench --page docs`, which this calls; the long run's and the demonstration's from the JSON that
`python -m semel.verify.long_run --write` and `semel demo --picture docs/demo.json` leave.
"""

import argparse
import json
from pathlib import Path

from semel.bench import performance
from semel.verify.demo.shop import picture
from semel.verify.proof import page


def redraw(docs: Path) -> None:
    """All of them."""
    performance.write(docs)
    run = json.loads((docs / "long-run.json").read_text(encoding="utf-8"))
    (docs / "long-run.svg").write_text(page.drawn(page.of_data(run)), encoding="utf-8")
    shop = json.loads((docs / "demo.json").read_text(encoding="utf-8"))
    (docs / "demo.svg").write_text(picture.svg(*picture.of_data(shop)), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition(":")[0])
    parser.add_argument("docs", type=Path, nargs="?", default=Path(__file__).parents[1] / "docs")
    redraw(parser.parse_args().docs)
