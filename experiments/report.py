"""Writes the results, figure and table of an experiment, and one page with all experiments.

The page is Markdown for the docs, and a self-contained HTML file. Does not know about single
experiments.
"""

from __future__ import annotations

import html
import re
import shutil
from itertools import product
from pathlib import Path
from typing import Any

from . import runner, style
from .datasets import FOLDS, PAPER, STAND_INS
from .runner import Experiment, short_name

AXES = {  # of the simulation
    "n": "rows",
    "p": "columns with an effect",
    "relative": "columns of noise for each of them",
    "snr": "signal to noise",
    "levels": "levels",
}
PICTURES = Path("_static") / "paper"  # in the folder of the docs
INTRODUCTION = """
This page tests every claim of the paper (Schalk, Bischl, Rügamer, *Accelerated Componentwise
Gradient Boosting using Efficient Data Representation and Momentum-based Optimization*) that cwboost
implements, with cwboost itself: CWB is `cb.Plain`, ACWB `cb.Accelerated`, HCWB `cb.Hybrid`;
"(b)" is `bins="sqrt"`, the paper's binning, and "(nb)" is `bins="exact"`, no binning.
The paper's figures are printed in the paper or recomputed from the raw results that its authors
published. Numbers that are compared come from one run on one machine unless a table says otherwise.

The commands need a clone of the repository, and in it `pip install '.[experiments]'`.
`--data FOLDER` names a folder with the tables of EQ2 and EQ3 as Parquet files: FILES; without it
they come from OpenML. The minutes of tasks are summed: where tasks ran in parallel, the sum exceeds
the wall time, which is stated if the run recorded it.
"""
SCALES = {
    "tiny": "This is only a test with tiny settings; its figures have no meaning.",
    "small": "The figures below are for a part of each grid (`--scale small`); the whole grids "
    "run with `--scale paper`.",
    "paper": "The figures below are for the paper's whole grids (`--scale paper`).",
}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-size: 0.85rem; display: block; overflow-x: auto }
td, th { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: right }
td:first-child, th:first-child { text-align: left }
pre, code { background: #f3f4f6; border-radius: 3px; padding: 0.1em 0.3em }
svg { display: block; margin: 1rem 0; max-width: 100%; height: auto }
"""


def tell(module: Experiment, scale: str, folder: Path) -> None:
    """Write the results as Parquet, the figure, and the finding; print the finding."""
    results, name = runner.results(module, scale, folder), short_name(module)
    results.to_parquet(folder / f"{name}.parquet", index=False)
    style.save(module.figure(results), folder / f"{name}.svg")
    finding = module.table(results).markdown()
    (folder / f"{name}.md").write_text(finding + "\n", encoding="utf-8")
    print(f"{module.TITLE}\n\n{finding}\n", flush=True)


def write(modules: list[Experiment], folder: Path, scale: str, docs: Path | None) -> None:
    """Write paper.md and paper.html into the folder, and the page and its figures into the docs."""
    there = [m for m in modules if (folder / f"{short_name(m)}.md").exists()]
    if not there:
        raise ValueError(f"{folder} has no findings yet; run python -m experiments all first")
    pictures = {short_name(m): (folder / f"{short_name(m)}.svg").read_text("utf-8") for m in there}
    page = markdown(there, folder, scale, Path())
    (folder / "paper.md").write_text(page, encoding="utf-8")
    (folder / "paper.html").write_text(as_html(page, pictures), encoding="utf-8")
    if docs is not None:
        (docs / PICTURES).mkdir(parents=True, exist_ok=True)
        for name, kind in product(pictures, ("svg", "parquet")):
            shutil.copy(folder / f"{name}.{kind}", docs / PICTURES)
        page = markdown(there, folder, scale, PICTURES)
        (docs / "paper.md").write_text(page, encoding="utf-8")
    left_out = [short_name(m) for m in modules if m not in there]
    print(f"{folder / 'paper.html'}" + f" (without {', '.join(left_out)})" * bool(left_out))


def markdown(modules: list[Experiment], folder: Path, scale: str, pictures: Path) -> str:
    parts = [
        "# The paper, reproduced",
        INTRODUCTION.strip().replace("FILES", data_files("`")),
        SCALES[scale],
        summary(modules, folder),
    ]
    for module in modules:
        parts += section(module, folder, scale, pictures)
    return "\n\n".join(parts) + "\n"


def data_files(quote: str = "") -> str:
    """Return the file names that --data needs, with their stand-ins."""

    def shown(file: str) -> str:
        return f"{quote}{file}.parquet{quote}"

    tables = [
        shown(source.file)
        + (f" (or {shown(STAND_INS[name].file)} in its place)" if name in STAND_INS else "")
        for name, source in PAPER.items()
    ]
    return f"{', '.join(tables)}, and {shown(FOLDS)} (the paper's folds)"


def summary(modules: list[Experiment], folder: Path) -> str:
    lines = ["| experiment | verdict |", "|---|---|"]
    for module in modules:
        verdict = re.search(r"\*\*The claim (.*?)\.\*\*", finding(module, folder))
        lines.append(f"| {module.TITLE} | {verdict[1] if verdict else ''} |")
    return "\n".join(lines)


def section(module: Experiment, folder: Path, scale: str, pictures: Path) -> list[str]:
    name = short_name(module)
    data = " --data FOLDER" * module.NEEDS_DATA
    said = "\n".join(f"- {deviation}" for deviation in module.DEVIATIONS)
    return [
        f"## {module.TITLE}",
        f"The paper: {module.CLAIM}",
        finding(module, folder),
        f"![{module.TITLE}]({(pictures / name).as_posix()}.svg)",
        module.CAPTION,
        f"```console\n$ python -m experiments {name} --scale {scale}{data}\n```",
        *corner(module, scale),
        f"Where this differs from the paper's protocol:\n\n{said}",
        f"Measured on {runner.measured_on(module, folder)}. Raw results: "
        f"[{name}.parquet]({(pictures / name).as_posix()}.parquet).",
    ]


def corner(module: Any, scale: str) -> list[str]:
    """Return which part of the paper's grid was run, if the experiment has a grid."""
    axes = getattr(module, "GRIDS", {}).get(scale)
    if not axes:
        return []
    draws = module.DRAWS[scale]
    told = [f"{AXES[name]} {', '.join(f'{x:,}' for x in values)}" for name, values in axes.items()]
    return [f"The part of the grid: {'; '.join(told)}; {draws} draw{'s' * (draws > 1)}."]


def finding(module: Experiment, folder: Path) -> str:
    return (folder / f"{short_name(module)}.md").read_text(encoding="utf-8").strip()


# --- HTML -----------------------------------------------------------------------------------------


def as_html(page: str, pictures: dict[str, str]) -> str:
    """Return the page as HTML; supports the Markdown that a page uses, with embedded figures."""
    blocks = "\n".join(block(text, pictures) for text in page.strip().split("\n\n"))
    return (
        "<!doctype html>\n<html lang='en'><meta charset='utf-8'>\n"
        f"<title>The paper, reproduced</title>\n<style>{STYLE}</style>\n"
        f"<body>\n{blocks}\n</body></html>\n"
    )


def block(text: str, pictures: dict[str, str]) -> str:
    if text.startswith("#"):
        level = len(text) - len(text.lstrip("#"))
        return f"<h{level}>{inline(text.lstrip('# '))}</h{level}>"
    if text.startswith("!["):
        name = Path(text.rpartition("(")[2].rstrip(")")).stem
        return unique_ids(pictures[name][pictures[name].index("<svg") :], name)
    if text.startswith("```"):
        code = "\n".join(text.splitlines()[1:-1])
        return f"<pre>{html.escape(code)}</pre>"
    if text.startswith("- "):
        items = "".join(f"<li>{inline(line[2:])}</li>" for line in text.splitlines())
        return f"<ul>{items}</ul>"
    if text.startswith("|"):
        rows = [
            [inline(c.strip()) for c in line.strip("|").split(" | ")] for line in text.splitlines()
        ]
        head = "".join(f"<th>{cell}</th>" for cell in rows[0])
        body = "".join(
            "<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows[2:]
        )
        return f"<table><tr>{head}</tr>{body}</table>"
    return f"<p>{inline(text)}</p>"


def inline(text: str) -> str:
    text = html.escape(text, quote=False)
    for mark, tag in ((r"\*\*", "b"), (r"\*", "i"), ("`", "code")):
        text = re.sub(f"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", text, flags=re.DOTALL)
    return re.sub(r"\[(.+?)\]\((.+?)\)", r'<a href="\2">\1</a>', text)


def unique_ids(svg: str, name: str) -> str:
    """Make the ids of an SVG unique, since all figures share one page."""
    for pattern in (r'id="', r'href="#', r"url\(#"):
        svg = re.sub(f"({pattern})", rf"\1{name}-", svg)
    return svg
