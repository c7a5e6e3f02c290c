"""Versions of JSON data in which one value is odd or missing, for tests of damaged files."""

from __future__ import annotations

import copy

ODD_VALUES = [
    None, -2, 10**30, 0.5, True, "x", [], ["x"], [1e300] * 3, {}, {"x": 1}, float("nan"),
]  # fmt: skip


def odd_versions(data):
    """Yield copies of the data, each with one value replaced or removed.

    Of the items of a list, only the first and the last are replaced.
    """
    for path in paths_of(data):
        for odd in ODD_VALUES:
            out, place = copied(data, path)
            place[path[-1]] = odd
            yield out
        out, place = copied(data, path)
        del place[path[-1]]
        yield out


def paths_of(data, outer=()):
    """Yield the keys that lead to every value."""
    if isinstance(data, dict):
        keys = list(data)
    else:
        keys = sorted({0, len(data) - 1}) if isinstance(data, list) and data else []
    for key in keys:
        yield (*outer, key)
        yield from paths_of(data[key], (*outer, key))


def copied(data, path):
    """Return a copy of the data, and the place in it that holds the last key of the path."""
    out = copy.deepcopy(data)
    place = out
    for key in path[:-1]:
        place = place[key]
    return out, place
