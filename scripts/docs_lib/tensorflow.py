"""docs/tensorflow-ops.md: the result of importing each operation of TensorFlow, from its record."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path

from axla.importers.records import Record
from axla.tensorflow.records import lowerings, records
from docs_lib.coverage import attributes

HEAD = """\
# TensorFlow's operations

Made by `python scripts/docs` from the records in `src/axla/tensorflow/ops`; do not edit.

[tensorflow.md](tensorflow.md) describes the import of graphs. *Attributes* in brackets are optional,
with their default. *XLA's types*: the element types that TensorFlow 2.21 compiles with XLA for the CPU,
by the attribute with the type. *Becomes*: the equivalent function of `axla.ops`, or the file of
`src/axla/tensorflow` with the function that translates the operation to HLO, or the reason why it is not
supported. {count} of the {whole}
operations that TensorFlow compiles with XLA are supported.

Types: *floats* are {FLOATS}; *inexact* are these and {COMPLEX}; *integers* are {INTEGERS};
*real* are floats and integers; *numbers* are inexact and integers; *any* are numbers, bool, {QUANTIZED},
{NARROW}.
Quantized types are the integers that they are stored as.
"""
GROUPS = {
    "floats": "float32 float64 bfloat16 float16",
    "complex": "complex64 complex128",
    "integers": "int8 int16 int32 int64 uint8 uint16 uint32 uint64",
    "quantized": "qint8 quint8 qint32",
    "narrow": "int4 uint4 float8_e5m2 float8_e4m3fn float8_e4m3fnuz float8_e4m3b11fnuz float8_e5m2fnuz",
}
_SETS = {name: set(types.split()) for name, types in GROUPS.items()}
_INEXACT = _SETS["floats"] | _SETS["complex"]
NAMED = {
    "any": _INEXACT | _SETS["integers"] | _SETS["quantized"] | _SETS["narrow"] | {"bool"},
    "numbers": _INEXACT | _SETS["integers"],
    "real": _SETS["floats"] | _SETS["integers"],
    "inexact": _INEXACT,
    "integers": _SETS["integers"],
    "floats": _SETS["floats"],
    "complex": _SETS["complex"],
}
"""Named sets of types, the larger ones first."""


def bridge() -> dict[str, dict[str, set[str]]]:
    """The types that XLA's kernels support, for each operation by attribute."""
    text = Path(__file__).with_name("tensorflow_bridge.txt").read_text("utf-8")
    found = {}
    for line in re.sub(r"\n +", " ", text).splitlines():
        if not line or line.startswith("#"):
            continue
        types, _, names = line.partition("= ")
        pairs = [part.partition(":") for part in types.split(";") if part.strip()]
        for name in names.split():
            found[name] = {attribute.strip(): set(some.split()) for attribute, _, some in pairs}
    return found


def page(table: Callable[..., str]) -> str:
    """The text of the page."""
    known = bridge()
    mine = {name: record for name, record in records().items() if name not in known}
    head = ("operation", "attributes", "XLA's types", "becomes")
    rows = [_row(name, records().get(name), types) for name, types in sorted(known.items())]
    count = sum(_is_done(name) for name in known)
    shown = {name.upper(): ", ".join(types.split()) for name, types in GROUPS.items()}
    more = [row[:2] + row[3:] for row in (_row(name, record, {}) for name, record in sorted(mine.items()))]
    return "\n".join([
        HEAD.format(count=count, whole=len(known), **shown), "## Those of XLA's bridge\n", table(head, rows),
        "## Others\n", table((*head[:2], head[3]), more),
    ])  # fmt: skip


def _is_done(name: str) -> bool:
    record = records().get(name)
    return name in lowerings() or (
        record is not None and (record.counterpart is not None or _of_frames(record))
    )


def _of_frames(record: Record) -> bool:
    """Whether the operation is a part of a loop or a branch of TensorFlow 1, which is imported as a whole."""
    return record.why_not.endswith("is made of it")


def _row(name: str, record: Record | None, types: dict[str, set[str]]) -> tuple[str, ...]:
    shown = "; ".join(f"{attribute}: {_types(some)}" for attribute, some in types.items())
    return f"`{name}`", "" if record is None else attributes(record), shown, _becomes(name, record)


def _types(found: Iterable[str]) -> str:
    left, words = set(found), []
    for name, some in NAMED.items():
        if some <= left:
            words.append(name)
            left -= some
    return ", ".join([*words, *sorted(left)])


def _becomes(name: str, record: Record | None) -> str:
    if name in lowerings():
        return f"`ops/{lowerings()[name].__module__.rsplit('.', 1)[1]}.py`"
    if record is not None and record.counterpart is not None:
        return f"`axla.ops.{''.join(record.counterpart) or name}`"
    if record is not None and _of_frames(record):
        return "`frames.py`" if "loop" in record.why_not else "`branches.py`"
    reason = "there is no record" if record is None else record.why_not
    return f"- ({reason or 'there is nothing like it in HLO'})"
