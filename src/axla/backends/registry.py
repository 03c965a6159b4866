"""Registries of named objects: axla's own ones, registered ones, and those of entry points of other packages.

An object is loaded when it is first requested. An entry point or `register` cannot replace a name of axla's
own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from axla.core import locks, plugins
from axla.core.errors import InvalidArgument, UnsupportedError, choices

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named objects. `kind` is the word for the objects in messages; `wanted` is their class;
    `group` is the group of entry points, which are functions that return an object. `own` has axla's
    functions as `module:function`. The same functions are entry points of axla, but a source tree that is not
    installed has no entry points.
    """

    def __init__(self, kind: str, wanted: type[T], group: str, own: Mapping[str, str]) -> None:
        self.kind, self.wanted, self.group = kind, wanted, group
        self._own = own
        self._registered: dict[str, Callable[[], T]] = {}
        self._made: dict[str, T] = {}
        self._lock = locks.new_lock()

    def names(self) -> tuple[str, ...]:
        """All names, axla's own first. Nothing is loaded."""
        return tuple({**self._own, **self._registered, **plugins.installed(self.group)})

    def get(self, name: str) -> T:
        """Returns the object with a name, always the same one.

        Raises InvalidArgument for an unknown name, UnsupportedError for an object that cannot be loaded.
        """
        found = self._made.get(name) if isinstance(name, str) else None
        if found is None:
            factory = self._factory(name)
            made = self._load(name, factory)
            with self._lock:
                found = self._made.setdefault(name, made)
        return found

    def register(self, name: str, factory: Callable[[], T]) -> None:
        """Registers a name for the object that `factory()` returns. The factory is called when the object is
        first requested. InvalidArgument for a name in use.
        """
        if not isinstance(name, str) or not name or not callable(factory):
            raise InvalidArgument(f"register: wanted a name and a function, found {name!r}, {factory!r}")
        with self._lock:
            if name in self._own or name in self._registered:
                raise InvalidArgument(f"register: a {self.kind} {name!r} exists already")
            self._registered[name] = factory

    def unregister(self, name: str) -> None:
        """Removes a registered name; InvalidArgument for other names."""
        with self._lock:
            if self._registered.pop(name, None) is None:
                raise InvalidArgument(f"unregister: no {self.kind} was registered as {name!r}")
            self._made.pop(name, None)

    def _factory(self, name: object) -> Callable[[], Any]:
        if isinstance(name, str):
            if name in self._registered:
                return self._registered[name]
            if name in self._own:
                return resolve_name(self._own[name])
            if (entry := plugins.installed(self.group).get(name)) is not None:
                return lambda: entry.load()()
        raise InvalidArgument(f"{self.kind}={name!r}; {choices(self.names(), name)}")

    def _load(self, name: str, factory: Callable[[], Any]) -> T:
        with plugins.blamed(f"{self.kind} {name!r} cannot be loaded"):
            made = factory()
        if not isinstance(made, self.wanted):
            found = type(made).__name__
            raise UnsupportedError(
                f"{self.kind} {name!r}: its factory returned {found}, wanted {self.wanted.__name__}"
            )
        return made
