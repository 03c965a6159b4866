"""Named objects that other packages may add: registered ones, axla's own, and those of entry points.

Nothing is loaded before it is requested. An entry point cannot replace a name of axla's own; `register` can,
until the process ends.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pkgutil import resolve_name
from typing import Any, Generic, TypeVar

from axla.core import locks, plugins
from axla.core.errors import InvalidArgument, UnsupportedError, choices

T = TypeVar("T")


class Registry(Generic[T]):
    """A table of named objects. `kind`: their name in messages; `wanted`: their class; `group`: the group of
    entry points, whose objects are functions without arguments that return one. `own`: axla's, as
    `module:function`; they are also entry points, which an uninstalled source tree lacks.
    """

    def __init__(self, kind: str, wanted: type[T], group: str, own: Mapping[str, str]) -> None:
        self.kind, self.wanted, self.group = kind, wanted, group
        self._own = own
        self._registered: dict[str, Callable[[], T]] = {}
        self._made: dict[str, T] = {}
        self._lock = locks.new_lock()

    def names(self) -> tuple[str, ...]:
        """All names, axla's own first. Loads nothing."""
        return tuple({**self._own, **self._registered, **plugins.installed(self.group)})

    def get(self, name: str) -> T:
        """The object with a name; the same one every time.

        InvalidArgument for an unknown name, UnsupportedError for an object that cannot be loaded.
        """
        found = self._made.get(name) if isinstance(name, str) else None
        if found is None:
            factory = self._factory(name)
            made = self._load(name, factory)
            with self._lock:
                found = self._made.setdefault(name, made)
        return found

    def register(self, name: str, factory: Callable[[], T]) -> None:
        """Registers a name for the result of `factory()`, which is called on first use. InvalidArgument for a
        name in use.
        """
        if not isinstance(name, str) or not name or not callable(factory):
            raise InvalidArgument(f"register: wanted a name and a function, found {name!r}, {factory!r}")
        with self._lock:
            if name in self._own or name in self._registered:
                raise InvalidArgument(f"register: a {self.kind} {name!r} exists already")
            self._registered[name] = factory

    def unregister(self, name: str) -> None:
        """Removes a registered name."""
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
                f"{self.kind} {name!r}: its factory gives {found}, wanted {self.wanted.__name__}"
            )
        return made
