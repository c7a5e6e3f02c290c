"""What functions and objects do, as text that is equal in any process, and short names of it. Knows
Python's code objects; knows nothing of what the functions are for.
"""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

INSTALLED = re.compile(r"[/\\](site|dist)-packages[/\\]")
PLAIN = (bool, int, float, complex, str, bytes, np.generic, np.ndarray, type(None))


def digest(parts: Iterable[Any]) -> str:
    """A short name for arrays and texts.

    Examples
    --------
    >>> digest(["a", np.arange(3)]) == digest(["a", np.arange(4)])
    False
    """
    found = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            found.update(f"{part.dtype.kind}{part.shape}".encode())
            found.update(np.ascontiguousarray(part).tobytes())
        else:
            found.update(f"{part}\0".encode())
    return found.hexdigest()[:16]


def does(thing: Any, inside: tuple[int, ...] = ()) -> Iterator[Any]:
    """The code of a function, or of the methods of an object, and every value that it holds: its
    attributes, defaults, what it has closed over, and plain global values that it names.

    Examples
    --------
    >>> def power(p):
    ...     return lambda x: x**p
    >>> digest(does(power(2))) == digest(does(power(2)))
    True
    >>> digest(does(power(2))) == digest(does(power(3)))
    False
    """
    if id(thing) in inside:
        yield "itself"
    elif isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, PLAIN) or _is_known(thing):
        yield _named(thing)
    else:
        yield f"{type(thing).__name__}("
        for part in _held(thing):
            yield from does(part, (*inside, id(thing)))
        yield ")"


def _held(thing: Any) -> Iterable[Any]:
    """The parts of a function, of a collection or of an object."""
    if isinstance(thing, CodeType):
        return thing.co_code.hex(), thing.co_names, *thing.co_consts
    if isinstance(thing, FunctionType):
        named = (thing.__globals__.get(name) for name in thing.__code__.co_names)
        cells = (cell.cell_contents for cell in thing.__closure__ or ())
        plain = [value for value in named if isinstance(value, PLAIN)]
        return thing.__code__, thing.__defaults__, thing.__kwdefaults__, *cells, *plain
    if isinstance(thing, MethodType):
        return thing.__func__, thing.__self__
    if isinstance(thing, partial):
        return thing.func, thing.args, thing.keywords
    if isinstance(thing, property):
        return (thing.fget,)
    if isinstance(thing, staticmethod | classmethod):
        return (thing.__func__,)
    if isinstance(thing, Mapping):
        return [part for item in thing.items() for part in item]
    if isinstance(thing, set | frozenset):
        return sorted(map(_named, thing))
    if isinstance(thing, tuple | list):
        return thing
    return _object(thing)


def _object(thing: Any) -> Iterable[Any]:
    """What an object holds, and what the classes that people wrote give it."""
    kinds = [kind for kind in type(thing).__mro__ if not _is_known(kind)]
    given = [
        (name, value)
        for kind in kinds
        for name, value in vars(kind).items()
        if name in ("__init__", "__call__") or not name.startswith("__")
    ]
    slots = [name for name, value in given if type(value).__name__ == "member_descriptor"]
    own = {name: getattr(thing, name, None) for name in slots} | getattr(thing, "__dict__", {})
    if not own and not kinds:
        return (_named(thing),)
    of_kinds = [(name, value) for name, value in given if name not in slots]
    return type(thing).__qualname__, of_kinds, own


def _is_known(thing: Any) -> bool:
    """Modules, and functions and classes of installed ones: their name says it all, but not of
    those that a function made, which hold what it was given."""
    if isinstance(thing, type(sys)):
        return True
    name = getattr(thing, "__qualname__", None)
    if name is None or "<locals>" in name or isinstance(thing, CodeType | property):
        return False
    root = str(getattr(thing, "__module__", None) or "builtins").split(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return root in sys.stdlib_module_names or INSTALLED.search(file) is not None


def _named(thing: Any) -> str:
    """As text, without addresses in memory."""
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(name or repr(thing)))
