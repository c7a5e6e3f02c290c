"""Writes the figure and the verdicts of an experiment, and one page with all experiments.

The page is Markdown for the docs, and a self-contained HTML file. Does not know about single
experiments.
"""

from __future__ import annotations

import html
import re
import shutil
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from . import runner, style
from .claims import CLAIMS, HISTORY, VERDICTS, Claim, Verdict
from .datasets import FOLDS, OTHERS, SHARED, TABLES
from .found import Finding, Table, number
from .runner import Experiment, short_name

AXES = {  # of the simulation
    "n": "rows",
    "p": "columns with an effect",
    "relative": "columns of noise for each of them",
    "snr": "signal to noise",
    "levels": "levels",
}
UNKNOWN = "not measured yet"  # instead of a verdict
OF_THE_REPOSITORY = ("outliers", "big_data")  # experiments that are not in the paper
PICTURES = Path("_static") / "paper"  # in the folder of the docs
INTRODUCTION = """
This page tests the claims of the paper (Schalk, Bischl, Rügamer, *Accelerated Componentwise
Gradient Boosting using Efficient Data Representation and Momentum-based Optimization*) with
cwboost itself: CWB is `cb.Plain`, ACWB `cb.Accelerated`, HCWB `cb.Hybrid`; "(b)" is `bins="sqrt"`,
the paper's binning, and "(nb)" is `bins="exact"`, no binning. The experiments on outliers and on
big data are not in the paper, but in [its authors'
repository](https://github.com/schalkdaniel/cacb-paper-bmr). The paper prints some of the numbers
that are called the paper's below. The others were recomputed from the raw results in that
repository: the medians of H1, H2, H3 and of the categories, the seconds, and the AUCs of EQ2.

Every claim has one of four verdicts:
"""
RUNNING = """
`python -m experiments all --data FOLDER` in a clone of the repository, after `pip install
'.[experiments]'`, runs everything on this page; `report --docs docs` then writes the page. The
folder has the tables of EQ2 and EQ3 as Parquet files: FILES. Without `--data` Spam, Nomao and
Adult come from OpenML, and higgs, census and credit default are left out. A time is the median of
three runs on one thread unless a section says otherwise. A timing starts when the machine is nearly
idle, and is repeated up to twice if other processes disturb it; every section says how busy the
machine was. An interrupted run resumes where its logs end. Every section links its log, which has
the raw results.

Where a cell has several numbers, the condition says in which order. Words of all sections:
"""
WORDS = {
    "full search": "every learner is evaluated in every iteration, as compboost does",
    "certified search": "only the learners that bounds do not exclude are evaluated; the result is "
    "the same",
    "default search": "the cheaper of the two or, with the squared loss, a search over "
    "cross-products of learners, whose iterations do not read the rows; the result is the same. "
    "Times are those of the default search unless a section says that every learner is evaluated",
    "MISE": "mean integrated squared error of the effects (see H2)",
    "HCWB": "in all experiments it also switches after 50 iterations without a new best validation "
    "risk (`switch_patience`), which the paper does not have; in all but EQ3 it continues with the "
    "training rows",
}
SCALES = {
    "tiny": "This is only a test with tiny settings; its figures have no meaning.",
    "small": "The figures below are for a small part of each grid (`--scale small`).",
    "page": "",
    "paper": "The figures below are for the paper's whole grids (`--scale paper`).",
}
STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
table { border-collapse: collapse; font-size: 0.85rem; display: block; overflow-x: auto }
td, th { border-bottom: 1px solid #ddd; padding: 0.25rem 0.6rem; text-align: right }
.text { text-align: left }
pre, code { background: #f3f4f6; border-radius: 3px; padding: 0.1em 0.3em }
svg { display: block; margin: 1rem 0; max-width: 100%; height: auto }
"""


def tell(module: Experiment, scale: str, folder: Path) -> None:
    """Write the figure of an experiment, and print what was found."""
    finding, _ = found(module, scale, folder)
    print(f"{module.TITLE}\n\n{told(module, finding)}\n", flush=True)


def found(module: Experiment, scale: str, folder: Path) -> tuple[Finding, str]:
    """Return what an experiment found, and its figure as SVG; "" if too few tasks have run."""
    results, name = runner.results(module, scale, folder), short_name(module)
    so_far = bool(unfinished(module, scale, folder))
    try:
        finding = module.table(results)
        path = style.save(module.figure(results), folder / f"{name}.svg")
    except (LookupError, AttributeError, TypeError, ValueError):
        if not so_far:
            raise
        return Finding({}, "Too few tasks have run to say more.", so_far=True), ""
    return replace(finding, so_far=so_far), path.read_text("utf-8")


def write(modules: list[Experiment], folder: Path, scale: str, docs: Path | None) -> None:
    """Write paper.md and paper.html into the folder, and the page, its figures and the logs into
    the docs."""
    if docs is not None and not docs.is_dir():
        raise ValueError(f"--docs: there is no folder {docs}")
    findings, pictures = {}, {}
    for module in modules:
        if not runner.log_path(module, folder).exists():
            continue
        name = short_name(module)
        findings[name], pictures[name] = found(module, scale, folder)
    there = [m for m in modules if short_name(m) in findings]
    if not there:
        others = sorted(path.parent.name for path in folder.parent.glob("*/*.jsonl"))
        remedy = f"add --scale {others[0]}" if others else "run python -m experiments all first"
        raise ValueError(f"{folder} has no results yet; {remedy}")
    page = markdown(there, findings, folder, scale, Path())
    (folder / "paper.md").write_text(page, encoding="utf-8")
    (folder / "paper.html").write_text(as_html(page, pictures), encoding="utf-8")
    if docs is not None:
        (docs / PICTURES).mkdir(parents=True, exist_ok=True)
        for module in there:
            name = short_name(module)
            log = runner.published(module, folder)
            (docs / PICTURES / f"{name}.jsonl").write_text(log, encoding="utf-8")
            if pictures[name]:
                shutil.copy(folder / f"{name}.svg", docs / PICTURES)
        page = markdown(there, findings, folder, scale, PICTURES)
        (docs / "paper.md").write_text(page, encoding="utf-8")
    left_out = [short_name(m) for m in modules if m not in there]
    partial = [name for name, finding in findings.items() if finding.so_far]
    print(
        f"{folder / 'paper.html'}"
        + f" (without {', '.join(left_out)})" * bool(left_out)
        + f" (tasks are left of {', '.join(partial)})" * bool(partial)
    )


def markdown(
    modules: list[Experiment],
    findings: dict[str, Finding],
    folder: Path,
    scale: str,
    pictures: Path,
) -> str:
    parts: list[str] = [
        "# The paper, reproduced",
        INTRODUCTION.strip(),
        explained(VERDICTS),
        *(table.markdown() for table in overview(modules, findings)),
        RUNNING.strip().replace("FILES", data_files("`")),
        explained(WORDS),
        SCALES[scale],
    ]
    for module in modules:
        parts += section(module, findings[short_name(module)], folder, scale, pictures)
    parts += [
        "## Conditions and their history",
        "The conditions are in one file, `experiments/claims.py`. They were written before the "
        "runs; what was changed after some of them is told below.",
        "\n".join(f"- {when}: {what}" for when, what in HISTORY),
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def explained(words: Mapping[Any, str]) -> str:
    """Return a list of words and what they mean."""
    return "\n".join(f"- **{word}**: {meaning}" for word, meaning in words.items())


def data_files(quote: str = "") -> str:
    """Return the file names that --data needs at the scale of the page."""
    files = [TABLES[name].file for name in (*SHARED, *OTHERS)]
    return f"{', '.join(f'{quote}{file}.parquet{quote}' for file in (*files, FOLDS))}"


def judged(name: str, finding: Finding) -> list[tuple[Claim, str, Verdict | None]]:
    """Return the claims of an experiment, the figures found, and the verdicts."""
    claims = CLAIMS[name]
    if unknown := set(finding.figures) - set(claims):
        raise ValueError(f"{name}: no claim is called {', '.join(sorted(unknown))}")
    out = []
    for key, claim in claims.items():
        figures = [float(x) for x in finding.figures.get(key, ())]
        shown = " / ".join(number(x) or "none" for x in figures) or "-"
        out.append((claim, shown, claim.verdict(figures)))
    return out


def overview(modules: list[Experiment], findings: dict[str, Finding]) -> tuple[Table, Table]:
    """Return the number of claims by experiment and verdict, and the claims with their verdicts."""
    claims: list[list[str]] = []
    counts: dict[str, Counter[Verdict | None]] = {}
    for module in modules:
        name, label = short_name(module), module.TITLE.partition(":")[0]
        found, so_far = judged(name, findings[name]), findings[name].so_far
        counts[label] = Counter(verdict for *_, verdict in found)
        claims += [[label, c.text, c.paper, here, bold(verdict, so_far)]
                   for c, here, verdict in found]  # fmt: skip
    every = sum(counts.values(), Counter[Verdict | None]())
    kinds = [verdict for verdict in (*VERDICTS, None) if verdict or every[verdict]]
    rows = [
        [label, *(str(count[kind] or "") for kind in kinds)]
        for label, count in {**counts, "all": every}.items()
    ]
    head = ["experiment", *(kind or UNKNOWN for kind in kinds)]
    return (
        Table(head, rows, "Number of claims"),
        Table(["experiment", "claim", "paper", "here", "verdict"], claims, "The claims"),
    )


def bold(verdict: Verdict | None, so_far: bool) -> str:
    if verdict is None:
        return UNKNOWN
    return f"**{verdict}**{' so far' * (so_far and verdict != 'not testable here')}"


def told(module: Experiment, finding: Finding) -> str:
    """Return the claims of an experiment with their verdicts, an explanation, and its tables."""
    found = judged(short_name(module), finding)
    rows = [
        [c.text, c.paper, here, c.told(verdict), bold(verdict, finding.so_far)]
        for c, here, verdict in found
    ]
    head = ["claim", source(module), "here", "reproduced if", "verdict"]
    because: dict[tuple[Verdict | None, str], list[str]] = {}
    for claim, _, verdict in found:
        because.setdefault((verdict, claim.reason(verdict)), []).append(f"*{claim.text}*")
    parts = [Table(head, rows).markdown()]
    parts += [
        f"{str(verdict).capitalize()} ({'; '.join(claims)}): {reason}"
        for (verdict, reason), claims in because.items()
        if reason
    ]
    parts += [finding.why, *(table.markdown() for table in finding.tables)]
    return "\n\n".join(filter(None, parts))


def section(
    module: Experiment, finding: Finding, folder: Path, scale: str, pictures: Path
) -> list[str]:
    name = short_name(module)
    data = " --data FOLDER" * module.NEEDS_DATA
    size = f" --scale {scale}" * (scale != "page")
    said = "\n".join(f"- {deviation}" for deviation in module.DEVIATIONS)
    return [
        f"## {module.TITLE}",
        told(module, finding),
        *(
            [f"![{module.TITLE}]({(pictures / name).as_posix()}.svg)", module.CAPTION]
            if (folder / f"{name}.svg").exists()
            else []
        ),
        f"```console\n$ python -m experiments {name}{size}{data}\n```",
        *unfinished(module, scale, folder),
        *corner(module, scale),
        f"Where this differs from the protocol of the {source(module)}:\n\n{said}",
        f"Measured on {runner.measured_on(module, scale, folder)}. Raw results: "
        f"[{name}.jsonl]({(pictures / name).as_posix()}.jsonl).",
    ]


def unfinished(module: Experiment, scale: str, folder: Path) -> list[str]:
    """Return how many tasks have results, if some have not."""
    every = {runner.key(task) for task in module.tasks(scale)}
    done = {runner.key(entry["task"]) for entry in runner.finished(module, folder)} & every
    return [f"**{len(done)} of {len(every)} tasks have run so far.**"] * (len(done) < len(every))


def corner(module: Any, scale: str) -> list[str]:
    """Return which part of the paper's grid was run, if the experiment has a grid."""
    if not hasattr(module, "GRIDS"):
        return []
    axes, draws = module.GRIDS[scale], module.DRAWS[scale]
    told = [f"{AXES[name]} {', '.join(f'{x:,}' for x in values)}" for name, values in axes.items()]
    part = f"A part of the paper's grid: {'; '.join(told)}"
    if not told:
        part = "All numbers of rows and columns and all signal to noise ratios of the paper"
    return [f"{part}; {draws} draw{'s' * (draws > 1)} (the paper: {module.DRAWS['paper']})."]


def source(module: Experiment) -> str:
    """Return whose experiment it is: the paper's, or one of the authors' repository."""
    return "authors" if short_name(module) in OF_THE_REPOSITORY else "paper"


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
        head, rule, *body = text.splitlines()
        kinds = ["" if x.endswith(":") else " class=text" for x in rule.strip("|").split("|")]
        return (
            f"<table>{row('th', head, kinds)}{''.join(row('td', x, kinds) for x in body)}</table>"
        )
    return f"<p>{inline(text)}</p>"


def row(tag: str, line: str, kinds: list[str]) -> str:
    cells = zip(line.strip("|").split(" | "), kinds, strict=True)
    return f"<tr>{''.join(f'<{tag}{kind}>{inline(x.strip())}</{tag}>' for x, kind in cells)}</tr>"


def inline(text: str) -> str:
    text = html.escape(text, quote=False)
    for mark, tag in ((r"\*\*", "b"), (r"\*", "i"), ("`", "code")):
        text = re.sub(f"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", text, flags=re.DOTALL)
    return re.sub(r"\[([^\]]+)\]\((.+?)\)", r'<a href="\2">\1</a>', text)


def unique_ids(svg: str, name: str) -> str:
    """Make the ids of an SVG unique, since all figures share one page."""
    for pattern in (r'id="', r'href="#', r"url\(#"):
        svg = re.sub(f"({pattern})", rf"\1{name}-", svg)
    return svg
