"""A cached property without a lock.

Before Python 3.12, `functools.cached_property` has one lock for all objects of a class. It makes
threads wait for each other, and a process that is forked meanwhile waits for ever.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property
else:

    class cached_property(functools.cached_property):  # noqa: N801
        """An attribute that is computed when it is first read, at worst once by every thread.

        Examples
        --------
        >>> class Circle:
        ...     @cached_property
        ...     def area(self):
        ...         return 3.14
        >>> circle = Circle()
        >>> circle.area, vars(circle)
        (3.14, {'area': 3.14})
        """

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            cache = vars(instance)
            if self.attrname not in cache:
                cache[self.attrname] = self.func(instance)
            return cache[self.attrname]
