"""Tables of records, and the ops that they name, of a dialect that nobody has."""

from __future__ import annotations

from axla.importers.counterparts import counterparts
from axla.importers.records import AttributeRecord, read_records


def test_a_table_is_read_as_it_says():
    record = read_records(
        "my",
        """
two@2: first:x rest...:y word=text?no/c3@2 body{} other=#pair mask=text
  -> z ...:w ; same/c1 elements/c2 ; text % word ; hlo Other *other field=word inner=body
no: ; none there is none
""",
        lambda kind: 2 if kind == "#pair" else 1,
    )["my.two"]
    assert [(v.name, v.kind, v.rule, v.variadic) for v in record.operands] == [
        ("first", "x", "i1", False), ("rest", "y", "i2", True),
    ]  # fmt: skip
    assert record.attributes == (
        AttributeRecord("word", "text", "c3", True, "no", 2), AttributeRecord("other", "#pair", "i5"),
        AttributeRecord("mask", "text", "i7"),
    )  # fmt: skip
    assert record.regions == ("body",) and record.filled and record.version == 2
    assert [(v.kind, v.variadic) for v in record.results] == [("z", False), ("w", True)]
    assert record.rules == (("same", "c1"), ("elements", "c2"))
    assert record.form == "% word" and record.counterpart == ("Other", "*other", "field=word", "inner=body")


def test_counterparts_are_found_field_by_field():
    found = counterparts(
        read_records(
            "my",
            """
cbrt: x:f -> f ; hlo
moved: x:f order=ints -> f ; hlo Transpose dimensions=order
widened: x:f low=ints high=ints inside=ints -> f
  ; hlo Pad padding.low=low padding.high=high padding.interior=inside
folded: x:f dimensions=ints body{} -> f ; hlo Reduce dimensions to_apply=body
unknown: x:f -> f
""",
            lambda kind: 1,
        )
    )
    assert {name: c.op.opcode for name, c in found.items()} == {
        "my.cbrt": "cbrt", "my.moved": "transpose", "my.widened": "pad", "my.folded": "reduce",
    }  # fmt: skip
    (order,) = found["my.moved"].fields
    assert order.name == "dimensions" and order.attribute is not None and order.attribute.name == "order"
    assert [field.inner for field in found["my.widened"].fields] == ["low", "high", "interior"]
    assert list(found["my.widened"].parts) == ["padding"]
    assert [field.region for field in found["my.folded"].fields] == [-1, 0]
