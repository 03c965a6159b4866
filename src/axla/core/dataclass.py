"""A faster `dataclasses.dataclass` for axla's many small classes: they are created in a tenth of the time.

The standard decorator writes and compiles the text of six methods for each class, though a process uses few
of them. That took a quarter of axla's start-up. Here the methods are closures, and the text of `__init__` is
compiled at the first instance. Everything else is the same: the functions of `dataclasses`, pickling, copying
and pattern matching work, and type checkers see the standard decorator.

Not supported are `order`, `unsafe_hash`, `InitVar`, `KW_ONLY`, and signatures before the first instance.
Classes that users instantiate use the standard decorator.
"""

from __future__ import annotations

import dataclasses
import typing
from dataclasses import MISSING, FrozenInstanceError, field
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType, SimpleNamespace
from typing import Any

_FIELD = dataclasses._FIELD  # type: ignore[attr-defined]  # by it dataclasses.fields() finds fields
_PARAMS = {frozen: SimpleNamespace(frozen=frozen) for frozen in (False, True)}


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    if cls is None:
        return lambda cls: _made(cls, frozen, slots, eq, repr, kw_only)
    return _made(cls, frozen, slots, eq, repr, kw_only)


def _made(cls: type, frozen: bool, slots: bool, eq: bool, repr: bool, kw_only: bool) -> type:
    own = _own_fields(cls, kw_only)
    found: dict[str, dataclasses.Field] = {}
    for base in cls.__mro__[:0:-1]:
        found |= base.__dict__.get("__dataclass_fields__", {})
    found |= own
    _check_order(cls, found)
    namespace = cls.__dict__
    methods: dict[str, Any] = {
        "__dataclass_fields__": found,
        "__dataclass_params__": _PARAMS[frozen],
        "__match_args__": tuple(name for name, part in found.items() if part.init and not part.kw_only),
    }
    if "__init__" not in namespace:
        methods["__init__"] = None
    if repr and "__repr__" not in namespace:
        methods["__repr__"] = _repr
    if frozen:
        methods |= {"__setattr__": _refuse_to_set, "__delattr__": _refuse_to_delete}
    if eq:
        methods |= _comparison(namespace, found, frozen)
    if slots:
        if frozen and "__setstate__" not in namespace:
            methods |= {"__getstate__": _state, "__setstate__": _set_state}
        cls = _with_slots(cls, own)
    if "__init__" in methods:
        methods["__init__"] = _init_at_first_use(cls)
    for name, value in methods.items():
        setattr(cls, name, value)
    return cls


def _own_fields(cls: type, kw_only: bool) -> dict[str, dataclasses.Field]:
    """The fields that a class itself declares, without those of base classes. Defaults remain class
    attributes. `kw_only` is the setting of the class.
    """
    found: dict[str, Any] = {}
    for name, type_ in cls.__annotations__.items():
        if "ClassVar" in str(type_).partition("[")[0]:
            continue
        part: Any = cls.__dict__.get(name, MISSING)
        if isinstance(part, dataclasses.Field):
            if part.default is MISSING:
                delattr(cls, name)
            else:
                setattr(cls, name, part.default)
        else:
            part = field(default=part)
        if type(part.default).__hash__ is None:
            raise ValueError(f"{cls.__name__}.{name}: the default is mutable; use default_factory")
        part.name, part.type, part._field_type = name, type_, _FIELD
        if part.kw_only is MISSING:
            part.kw_only = kw_only
        found[name] = part
    return found


def _check_order(cls: type, found: dict[str, dataclasses.Field]) -> None:
    with_default = ""
    for name, part in found.items():
        if part.kw_only or not part.init:
            continue
        if part.default is not MISSING or part.default_factory is not MISSING:
            with_default = name
        elif with_default:
            raise TypeError(f"{cls.__name__}.{name} has no default and follows {with_default}, which has one")


def _with_slots(cls: type, own: dict[str, dataclasses.Field]) -> type:
    """Returns a copy of the class with `__slots__` for its own fields."""
    namespace = {name: value for name, value in cls.__dict__.items() if name not in own}
    for name in ("__dict__", "__weakref__"):
        namespace.pop(name, None)
    taken = {slot for base in cls.__mro__[1:] for slot in base.__dict__.get("__slots__", ())}
    namespace["__slots__"] = tuple(name for name in own if name not in taken)
    namespace["__qualname__"] = cls.__qualname__
    return type(cls)(cls.__name__, cls.__bases__, namespace)


def _init_at_first_use(cls: type) -> Any:
    def __init__(self: Any, /, *args: Any, **kwargs: Any) -> None:
        init = cls.__init__ = _init(cls)  # type: ignore[misc]
        init(self, *args, **kwargs)

    return __init__


def _init(cls: Any) -> Any:
    """Compiles the method `__init__` of a class."""
    names: dict[str, Any] = {"_MISSING": MISSING, "_set": object.__setattr__}
    positional, keywords, body = [], [], []
    for name, part in cls.__dataclass_fields__.items():
        value, default = name, ""
        if part.default is not MISSING:
            names[f"_default_{name}"], default = part.default, f"=_default_{name}"
        elif part.default_factory is not MISSING:
            names[f"_make_{name}"], default = part.default_factory, "=_MISSING"
            value = f"_make_{name}() if {name} is _MISSING else {name}"
        if part.init:
            (keywords if part.kw_only else positional).append(f"{name}{default}")
        elif not default:
            continue
        else:
            value = f"_make_{name}()" if part.default is MISSING else f"_default_{name}"
        if not cls.__dataclass_params__.frozen:
            body.append(f"self.{name} = {value}")
        elif isinstance(slot := getattr(cls, name, None), MemberDescriptorType):
            names[f"_set_{name}"] = slot.__set__
            body.append(f"_set_{name}(self, {value})")
        else:
            body.append(f"_set(self, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)
    names["__init__"].__qualname__ = f"{cls.__qualname__}.__init__"
    return names["__init__"]


def _comparison(namespace: typing.Mapping[str, Any], found: dict[str, Any], frozen: bool) -> dict[str, Any]:
    """The methods `__eq__` and `__hash__` of a class, which use the values of the compared fields among
    `found`. Methods that the class defines itself, in `namespace`, are left out.
    """
    names = [name for name, part in found.items() if part.compare]
    get: Any = attrgetter(*names) if names else lambda self: ()
    key: Any = get if len(names) != 1 else lambda self: (get(self),)
    methods: dict[str, Any] = {}

    def __eq__(self: Any, other: Any) -> bool:
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self is other or key(self) == key(other)

    def __hash__(self: Any) -> int:
        return hash(key(self))

    has_eq = "__eq__" in namespace
    if not has_eq:
        methods["__eq__"] = __eq__
    if namespace.get("__hash__") is None and (has_eq or "__hash__" not in namespace):
        methods["__hash__"] = __hash__ if frozen else None
    return methods


@recursive_repr()
def _repr(self: Any) -> str:
    shown = (name for name, part in self.__dataclass_fields__.items() if part.repr)
    return f"{self.__class__.__qualname__}({', '.join(f'{n}={getattr(self, n)!r}' for n in shown)})"


def _refuse_to_set(self: Any, name: str, value: Any) -> None:
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_to_delete(self: Any, name: str) -> None:
    raise FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, name) for name in self.__dataclass_fields__]


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__dataclass_fields__, state, strict=True):
        object.__setattr__(self, name, value)


if typing.TYPE_CHECKING:
    from dataclasses import dataclass
else:
    dataclass = _dataclass

__all__ = ["dataclass"]
