"""Draw the pictures of the README and of docs/start.md anew: docs/_static/effects.png, report.png.

    python tools/pictures.py

Fits the bundled Adult table; needs matplotlib, and Chromium (or what the variable CHROMIUM names)
for the picture of the report. Knows no more of cwboost than a user does.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib

matplotlib.use("agg")

import cwboost as cb
from cwboost.datasets import adult

STATIC = Path(__file__).parents[1] / "docs" / "_static"
LIMIT = 150_000  # bytes


def screenshot(page: Path, picture: Path, width: int = 1100, height: int = 800) -> None:
    browser = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if browser is None:
        raise SystemExit("no Chromium: install one, or name it in the variable CHROMIUM")
    quiet = ("gpu", "background-networking", "component-update", "sync")
    flags = ["--headless=new", "--no-sandbox", "--no-first-run", "--hide-scrollbars"]
    flags += [f"--disable-{what}" for what in quiet]
    command = [browser, *flags, f"--window-size={width},{height}", f"--screenshot={picture}"]
    subprocess.run([*command, page.as_uri()], check=True, capture_output=True, timeout=120)


def main() -> int:
    people = adult()
    income = people.pop("class")
    classifier = cb.CWBClassifier(exclude=["fnlwgt", "capital-gain", "capital-loss"])
    classifier.fit(people, income)
    labels = {"age": "age (years)", "education-num": "years of education"}
    display = classifier.plot(max_effects=6, labels=labels)
    display.figure_.savefig(STATIC / "effects.png", dpi=100, pil_kwargs={"optimize": True})
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        classifier.report(page, people, income)
        screenshot(page, STATIC / "report.png")
    for name in ("effects.png", "report.png"):
        size = (STATIC / name).stat().st_size
        print(f"{name}: {size:,} bytes" + (" (too large)" if size > LIMIT else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
