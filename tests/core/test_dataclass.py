"""`axla.core.dataclass` against the standard `dataclass`: classes of either look the same."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import sys
from dataclasses import field
from typing import ClassVar

import pytest

from axla.core.dataclass import _dataclass


def declare(dataclass, module):
    """The same classes by a decorator, in a module of their own, so that they can be pickled."""

    @dataclass(frozen=True, slots=True)
    class Point:
        x: int
        y: float = 2.0
        note: str = field(default="n", compare=False)
        kind: ClassVar[str] = "point"

        def norm(self):
            return self.x + self.y

    @dataclass(frozen=True, slots=True)
    class Named(Point):
        name: str = "origin"
        tags: tuple = field(default_factory=tuple)

    @dataclass(frozen=True)
    class Loose:
        value: float

        def __post_init__(self):
            if self.value < 0:
                raise ValueError("negative")

    @dataclass(slots=True)
    class Changing:
        items: list = field(default_factory=list)
        count: int = field(default=0, init=False)
        secret: str = field(default="s", repr=False, kw_only=True)

    @dataclass(slots=True, eq=False)
    class Alone:
        number: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Keyed:
        a: int
        b: int = 1

    @dataclass(frozen=True)
    class Own:
        a: int

        def __eq__(self, other):
            return isinstance(other, Own) and self.a % 10 == other.a % 10

        def __hash__(self):
            return 7

        def __repr__(self):
            return "own"

    @dataclass(frozen=True, slots=True)
    class Empty:
        pass

    classes = (Point, Named, Loose, Changing, Alone, Keyed, Own, Empty)
    for cls in classes:
        cls.__module__, cls.__qualname__ = module, cls.__name__
        setattr(sys.modules[module], cls.__name__, cls)
    return classes


@pytest.fixture(params=["standard", "axla"])
def made(request, monkeypatch):
    module = type(sys)(f"made_{request.param}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    declare(dataclasses.dataclass if request.param == "standard" else _dataclass, module.__name__)
    return module


def refusal(error, call):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_fields_and_patterns(made):
    assert [f.name for f in dataclasses.fields(made.Named)] == ["x", "y", "note", "name", "tags"]
    assert [f.default for f in dataclasses.fields(made.Point)] == [dataclasses.MISSING, 2.0, "n"]
    assert all(f.kw_only for f in dataclasses.fields(made.Keyed))
    assert dataclasses.is_dataclass(made.Empty) and dataclasses.is_dataclass(made.Loose(1.0))
    assert made.Named.__match_args__ == ("x", "y", "note", "name", "tags")
    assert made.Changing.__match_args__ == ("items",)
    assert made.Point.kind == "point" and made.Point.__slots__ == ("x", "y", "note")
    assert made.Named.__slots__ == ("name", "tags")
    match made.Point(3):
        case made.Point(x, y):
            assert (x, y) == (3, 2.0)


def test_values(made):
    point = made.Named(1, y=3.0, name="p")
    assert (point.x, point.y, point.note, point.name, point.tags, point.norm()) == (1, 3.0, "n", "p", (), 4.0)
    assert repr(point) == "Named(x=1, y=3.0, note='n', name='p', tags=())"
    changing = made.Changing([1], secret="t")
    assert repr(changing) == "Changing(items=[1], count=0)" and changing.secret == "t"
    changing.count += 1
    assert changing != made.Changing([1], secret="t") and made.Changing().items is not made.Changing().items
    changing.items.append(changing)
    assert repr(changing) == "Changing(items=[1, ...], count=1)"
    assert made.Empty() == made.Empty() and repr(made.Empty()) == "Empty()"
    assert dataclasses.asdict(made.Keyed(a=4)) == {"a": 4, "b": 1}


def test_equality_and_hash(made):
    assert made.Point(1, note="a") == made.Point(1, note="b") != made.Point(2)
    assert hash(made.Point(1, note="a")) == hash(made.Point(1, note="b")) == hash((1, 2.0))
    assert made.Point(1) != made.Named(1) and made.Point(1) != (1, 2.0)
    assert made.Loose(2.5) == made.Loose(2.5) and hash(made.Loose(2.5)) == hash((2.5,))
    assert made.Own(1) == made.Own(11) and hash(made.Own(1)) == 7 and repr(made.Own(1)) == "own"
    assert made.Alone(1) != made.Alone(1) and len({made.Alone(1), made.Alone(1)}) == 2
    assert "unhashable" in refusal(TypeError, lambda: hash(made.Changing()))


def test_copies(made):
    for value in (
        made.Named(1, 2.0, "m", "p", (1,)),
        made.Loose(1.5),
        made.Keyed(a=3, b=4),
        made.Changing([1]),
    ):
        for copied in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):
            assert copied == value and copied is not value and type(copied) is type(value)
    assert dataclasses.replace(made.Named(1, name="p"), x=5) == made.Named(5, name="p")
    assert "negative" in refusal(ValueError, lambda: dataclasses.replace(made.Loose(1.0), value=-1.0))


def test_frozen(made):
    point = made.Point(1)
    assert (
        refusal(dataclasses.FrozenInstanceError, lambda: setattr(point, "x", 2))
        == "cannot assign to field 'x'"
    )
    assert refusal(dataclasses.FrozenInstanceError, lambda: delattr(point, "x")) == "cannot delete field 'x'"
    assert not hasattr(point, "__dict__") and hasattr(made.Loose(1.0), "__dict__")
    with pytest.raises(AttributeError):
        made.Changing().unknown = 1


def test_wrong_arguments(made):
    for call in (lambda: made.Point(), lambda: made.Point(1, z=2), lambda: made.Keyed(1)):
        for _ in range(2):  # the first instance makes the method
            assert "__init__()" in refusal(TypeError, call)


@pytest.mark.parametrize("dataclass", [dataclasses.dataclass, _dataclass])
def test_wrong_declarations(dataclass):
    with pytest.raises(TypeError):
        dataclass(type("A", (), {"__annotations__": {"a": "int", "b": "int"}, "a": 1}))
    with pytest.raises(ValueError):
        dataclass(type("A", (), {"__annotations__": {"a": "list"}, "a": []}))


def test_either_inherits_from_the_other():
    @_dataclass(frozen=True, slots=True)
    class First:
        a: int

    @dataclasses.dataclass(frozen=True)
    class Second(First):
        b: int = 2

    @_dataclass(frozen=True)
    class Third(Second):
        c: int = 3

    assert repr(Third(1, c=4)).endswith("Third(a=1, b=2, c=4)") and Third(1) == Third(1, 2, 3) != Third(
        1, 2, 4
    )
