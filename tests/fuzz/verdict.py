"""The verdict on a case: what counts as wrong or unclear, and how failures are grouped.

An exception is accepted if it is one of our own sentences: a `raise` statement of cwboost with a
short message, and not an error that a slip of the code would give (KeyError, IndexError ...). Does
not know how cases are run (see worker.py).
"""

from __future__ import annotations

import ast
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

import sklearn
from sklearn.exceptions import DataConversionWarning  # scikit-learn's own words on y

import cwboost

KINDS = ("crash", "hang", "wrong", "unclear")
PACKAGE = str(Path(cwboost.__file__).parent)
FUZZER = str(Path(__file__).parent)
LONGEST_MESSAGE = 1000
SLIPS = (LookupError, AttributeError, AssertionError, ArithmeticError, RecursionError)
# Calls that scikit-learn itself answers: wrong parameter names, estimators that are not fitted.
SCIKIT_LEARN = tuple(
    str(Path(sklearn.__file__).parent / file)
    for file in ("base.py", "utils/validation.py", "utils/_set_output.py",
                 "utils/_metadata_requests.py", "utils/_param_validation.py",
                 "utils/multiclass.py", "callback/_callback_support.py")
)  # fmt: skip


@dataclass(frozen=True)
class Failure:
    """What went wrong in a case."""

    kind: str  # one of KINDS
    cause: str  # failures with the same cause are reported together
    details: str = ""  # what was tried, the traceback


class PropertyError(Exception):
    """A property does not hold.

    Parameters
    ----------
    what : str
        The property, in words that are the same in all cases.
    found : str
        What was found in this case.
    """

    def __init__(self, what: str, found: str = "") -> None:
        super().__init__(f"{what}: {found}")
        self.what = what


class WarningError(Exception):
    """A warning that cwboost did not give on purpose."""


class MessageError(Exception):
    """An error of a command that is not one clear sentence."""


def call(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Call a public function. Python's own error for a missing or unknown argument is accepted."""
    return function(*args, **options)


def attempt(function: Callable[..., Any], /, *args: Any, **options: Any) -> Any:
    """Call a public function; return None if it refuses its arguments with a clear error."""
    try:
        return function(*args, **options)
    except Exception as error:
        if find_fault(error) is None or _is_signature_error(error, "attempt"):
            return None
        raise


def judge(error: BaseException, tried: list[str]) -> Failure | None:
    """Return the failure that an exception means; None if it is one of our own sentences."""
    if isinstance(error, PropertyError):
        kind, fault = "wrong", error.what
    else:
        found = find_fault(error)
        if found is None:
            return None
        kind, fault = "unclear", found
    trace = "".join(traceback.format_exception(error, limit=-8))
    return Failure(kind, fault, "\n".join([*tried, trace[-6000:]]))


def find_fault(error: BaseException) -> str | None:
    """Return why an exception is not one of our own sentences; None if it is."""
    if _is_signature_error(error, "call"):
        return None
    frames = traceback.extract_tb(error.__traceback__)
    inner = frames[-1]
    name = type(error).__name__
    if isinstance(error, MessageError | WarningError):
        return re.sub(r"[0-9]+([.][0-9]+)?", "N", str(error))[:200]
    if isinstance(error, OSError) and error.strerror and error.filename is not None:
        return None  # the system says what is wrong with which file
    if isinstance(error, MemoryError) and inner.filename.startswith(PACKAGE):
        return None
    if not any(frame.filename.startswith(PACKAGE) for frame in frames):
        return f"the fuzzer itself: {name} in {_place(inner)}: {error}"[:200]
    if inner.filename.startswith(FUZZER):
        return None  # a function of the user, called by cwboost, failed
    where = f"{name} in {_place(inner)}{_caller(frames)}"
    if isinstance(error, SLIPS) and not isinstance(error, ValueError):
        return where
    raised = _raises(inner.filename).get(inner.lineno or 0)
    ours = inner.filename.startswith((PACKAGE, *SCIKIT_LEARN))
    if raised is None or not ours or not _fits(raised, name):
        return where
    message = str(error)
    if not message.strip():
        return f"{where}: the message is empty"
    if len(message) > LONGEST_MESSAGE:
        return f"{where}: the message is longer than {LONGEST_MESSAGE} characters"
    return None


def _is_signature_error(error: BaseException, caller: str) -> bool:
    """Return whether Python refused the call itself, before the function ran."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    here = last.filename == __file__ and last.name == caller
    return isinstance(error, TypeError) and here and "argument" in str(error)


@cache
def _raises(file: str) -> dict[int, str]:
    """Return what each `raise` statement of a file raises, by its lines; "" if not a class."""
    try:
        tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    except (OSError, SyntaxError):
        return {}
    out = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            made = node.exc.func if isinstance(node.exc, ast.Call) else None
            name = made.id if isinstance(made, ast.Name) else ""
            out |= dict.fromkeys(range(node.lineno, (node.end_lineno or node.lineno) + 1), name)
    return out


def _fits(raised: str, name: str) -> bool:
    """Return whether a statement that raises `raised` can have raised an error of this name."""
    return not raised[:1].isupper() or raised == name


def _place(frame: traceback.FrameSummary) -> str:
    parts = Path(frame.filename).parts
    return f"{'/'.join(parts[-2:])}:{frame.name}:{frame.lineno}"


def _caller(frames: traceback.StackSummary) -> str:
    """Return the innermost line of cwboost, if another library raised the error."""
    own = [frame for frame in frames if frame.filename.startswith(PACKAGE)]
    return f", called by {_place(own[-1])}" if own and own[-1] is not frames[-1] else ""


@contextmanager
def warnings_judged() -> Iterator[None]:
    """Raise `WarningError` at the end if there were warnings that cwboost did not intend."""
    found: list[tuple[str, int, str]] = []  # file, line, text; judged later, not deep in the stack

    def show(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
        stack = _frames(sys._getframe(1))
        own = next((f for f in stack if f.f_code.co_filename.startswith(PACKAGE)), None)
        giver = stack[0].f_code.co_filename
        of_user = giver.startswith(FUZZER)  # such as a loss of the fuzzer
        about_y = category is DataConversionWarning or giver.startswith(SCIKIT_LEARN)
        if own is not None and not of_user and not about_y:
            file = own.f_code.co_filename
            place = f"{Path(file).name}:{own.f_code.co_name}:{own.f_lineno}"
            line = own.f_lineno if own is stack[0] else 0  # 0: another library gives the warning
            found.append((file, line, f"{category.__name__} in {place}: {message}"))

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield
    for file, line, text in found:
        if line not in _warn_lines(file):
            raise WarningError(text)


def _frames(frame: FrameType | None) -> list[FrameType]:
    """Return the frames from the innermost one outwards, without those of the warnings module."""
    out = []
    while frame is not None:
        if frame.f_code.co_filename != warnings.__file__:
            out.append(frame)
        frame = frame.f_back
    return out


@cache
def _warn_lines(file: str) -> frozenset[int]:
    """Return the lines of a file on which it calls `warnings.warn`."""
    tree = ast.parse(Path(file).read_text(encoding="utf-8"))
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    warns = (c for c in calls if getattr(c.func, "attr", getattr(c.func, "id", "")) == "warn")
    return frozenset(n for c in warns for n in range(c.lineno, (c.end_lineno or c.lineno) + 1))
