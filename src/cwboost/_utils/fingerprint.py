"""Fingerprints of arrays, texts and user-defined functions that are equal in every process.

Checkpoints and tuning files store them to notice changed data or code, so their values must not
change. Does not know what the functions are for.
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
PLAIN_TYPES = (bool, int, float, complex, str, bytes, np.generic, np.ndarray, type(None))


def fingerprint(parts: Iterable[Any]) -> str:
    """Return a short hash of arrays and texts, as 16 hexadecimal digits.

    Examples
    --------
    >>> fingerprint(["a", np.arange(3)]) == fingerprint(["a", np.arange(4)])
    False
    """
    hashed = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            hashed.update(f"{part.dtype.kind}{part.shape}".encode())
            hashed.update(np.ascontiguousarray(part).tobytes())
        else:
            hashed.update(f"{part}\0".encode(errors="surrogatepass"))  # names may hold anything
    return hashed.hexdigest()[:16]


def describe_code(thing: Any, parents: tuple[int, ...] = ()) -> Iterator[Any]:
    """Yield the code of a function, or of an object's methods, and every value it depends on:
    attributes, default arguments, closures, and plain global values that it names.

    Examples
    --------
    >>> def power(p):
    ...     return lambda x: x**p
    >>> fingerprint(describe_code(power(2))) == fingerprint(describe_code(power(2)))
    True
    >>> fingerprint(describe_code(power(2))) == fingerprint(describe_code(power(3)))
    False
    """
    if id(thing) in parents:
        yield "itself"
    elif isinstance(thing, np.ndarray):
        yield thing
    elif isinstance(thing, PLAIN_TYPES) or _is_known(thing):
        yield _name_of(thing)
    else:
        yield f"{type(thing).__name__}("
        for part in _parts_of(thing):
            yield from describe_code(part, (*parents, id(thing)))
        yield ")"


def _parts_of(thing: Any) -> Iterable[Any]:
    """Return the parts of a function, a collection or an object."""
    if isinstance(thing, CodeType):
        return thing.co_code.hex(), thing.co_names, *thing.co_consts
    if isinstance(thing, FunctionType):
        named = (thing.__globals__.get(name) for name in thing.__code__.co_names)
        cells = (cell.cell_contents for cell in thing.__closure__ or ())
        plain = [value for value in named if isinstance(value, PLAIN_TYPES)]
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
        return sorted(map(_name_of, thing))
    if isinstance(thing, tuple | list):
        return thing
    return _object_parts(thing)


def _object_parts(thing: Any) -> Iterable[Any]:
    """Return the attributes of an object and those of its user-defined classes."""
    classes = [cls for cls in type(thing).__mro__ if not _is_known(cls)]
    given = [
        (name, value)
        for cls in classes
        for name, value in vars(cls).items()
        if name in ("__init__", "__call__") or not name.startswith("__")
    ]
    slots = [name for name, value in given if type(value).__name__ == "member_descriptor"]
    own = {name: getattr(thing, name, None) for name in slots} | getattr(thing, "__dict__", {})
    if not own and not classes:
        return (_name_of(thing),)
    inherited = [(name, value) for name, value in given if name not in slots]
    return type(thing).__qualname__, inherited, own


def _is_known(thing: Any) -> bool:
    """Return whether a name identifies the thing: a module, or a function or class of an installed
    module. Functions made inside functions do not count, because they hold arguments."""
    if isinstance(thing, type(sys)):
        return True
    name = getattr(thing, "__qualname__", None)
    if name is None or "<locals>" in name or isinstance(thing, CodeType | property):
        return False
    root = str(getattr(thing, "__module__", None) or "builtins").split(".")[0]
    file = getattr(sys.modules.get(root), "__file__", None) or ""
    return root in sys.stdlib_module_names or INSTALLED.search(file) is not None


def _name_of(thing: Any) -> str:
    """Return the name or the repr, without memory addresses."""
    name = getattr(thing, "__qualname__", None) or getattr(thing, "__name__", None)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", str(name or repr(thing)))
