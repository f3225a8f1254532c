"""Values of an object that are made when they are first asked for, and kept with it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from functools import cached_property as cached_property  # noqa: TID251  # what type checkers know
else:

    class cached_property:  # noqa: N801  # named and used as that of functools
        """What ``functools.cached_property`` is, without the lock that it takes before Python 3.12.

        All objects of a class share that lock while one of them makes its value. So threads that gather would wait for
        each other, and a process forked in the meantime would wait for ever. Here two threads may make the value of one
        object; both get the one that was there first.
        """

        def __init__(self, make: Callable[[Any], Any]) -> None:
            self._make = make
            self._name = ""
            self.__doc__ = make.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            return instance.__dict__.setdefault(self._name, self._make(instance))
