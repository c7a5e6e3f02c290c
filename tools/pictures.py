"""Redraw the images in docs/_static: for the README, docs/start.md and docs/information.md.

    python tools/pictures.py

Fits the bundled Adult table. Needs matplotlib, and Chromium (or the browser that the variable
CHROMIUM names) for the image of the report.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import matplotlib
import pandas as pd
from PIL import Image
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

matplotlib.use("agg")

import cwboost as cb
from cwboost.datasets import adult

STATIC = Path(__file__).parents[1] / "docs" / "_static"
LIMIT = 150_000  # bytes
GROWTH = (0, 1045, 1100, 1970)  # the section "How it grew" in the page: left, top, right, bottom


def screenshot(address: str, picture: Path, width: int = 1100, height: int = 2200) -> None:
    browser = (
        os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    )
    if browser is None:
        raise SystemExit(
            "Chromium was not found: install it, or set the variable CHROMIUM to its path"
        )
    quiet = ("gpu", "background-networking", "component-update", "sync")
    flags = ["--headless=new", "--no-sandbox", "--no-first-run", "--hide-scrollbars"]
    flags += [f"--disable-{what}" for what in quiet]
    command = [browser, *flags, f"--window-size={width},{height}", f"--screenshot={picture}"]
    subprocess.run([*command, address], check=True, capture_output=True, timeout=120)


def draw_effects() -> None:
    """Draw the image of the README."""
    people = adult()
    income = people.pop("class")
    classifier = cb.CWBClassifier(exclude=["fnlwgt", "capital-gain", "capital-loss"])
    classifier.fit(people, income)
    labels = {"age": "age (years)", "education-num": "years of education"}
    display = classifier.plot(max_effects=6, labels=labels)
    display.figure_.savefig(STATIC / "effects.png", dpi=100, pil_kwargs={"optimize": True})


def draw_report() -> None:
    """Draw the image of docs/start.md."""
    people = pd.DataFrame(adult())
    X, y = people.drop(columns=["class", "fnlwgt"]), people["class"]
    X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
    model = cb.CWBClassifier().fit(X_train, y_train)
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "report.html"
        model.report(page, X_test, y_test)
        screenshot(page.as_uri(), STATIC / "report.png")
    with Image.open(STATIC / "report.png") as whole:
        whole.crop(GROWTH).convert("P", palette=Image.Palette.ADAPTIVE).save(
            STATIC / "report.png", optimize=True
        )


def draw_information() -> None:
    """Draw the image of docs/information.md."""
    data = load_diabetes(scaled=False)
    X, y = dict(zip(data.feature_names, data.data.T, strict=True)), data.target
    display = cb.aic(cb.fit(X, y, n_iter=500), X, y).plot()
    display.figure_.savefig(STATIC / "information.png", dpi=100, pil_kwargs={"optimize": True})


def main() -> int:
    draw_effects()
    draw_report()
    draw_information()
    for name in ("effects.png", "report.png", "information.png"):
        size = (STATIC / name).stat().st_size
        print(f"{name}: {size:,} bytes" + (" (too large)" if size > LIMIT else ""))
    return 0


if __name__ == "__main__":
    sys.exit(main())
