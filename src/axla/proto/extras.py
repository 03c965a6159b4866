"""Converts attributes that any instruction may have between HLO text and messages: metadata, original values,
statistics...
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from axla.core.errors import InvalidArgument
from axla.core.regex import ascii_regex
from axla.core.shape import AnyShape, TupleShape
from axla.ir.graph import SourceLocation
from axla.text.header import booleans
from axla.text.instructions import METADATA_KEYS, PRINTED_ATTRIBUTES, TEXT_ATTRIBUTES
from axla.text.lexer import BLANK, STRING, HloCursor, unescape
from axla.text.strings import quote

Proto = dict[str, Any]

# Metadata.

_PLAIN = ("op_type", "op_name", "source_file", "source_line")
_OTHER = [key for key in METADATA_KEYS if key not in (*_PLAIN, "profile_type", "metadata_payload")]


def location_of(message: Proto, *, with_frames: bool) -> SourceLocation | None:
    """Converts an OpMetadata message to a SourceLocation; None if it is empty. `with_frames` is whether the
    module has a table of stack frames, without which numbers of frames are dropped.
    """
    more = []
    for key in METADATA_KEYS:
        value = message.get(key)
        if key == "profile_type" and value:
            numbers = [_PROFILES.index(v) if v in _PROFILES else v for v in value]
            more.append((key, "{" + ",".join(map(str, numbers)) + "}"))
        elif key in _OTHER and value and (with_frames or key != "stack_frame_id"):
            more.append((key, quote(value) if isinstance(value, str) else str(value)))
    plain = {key: message[key] for key in _PLAIN if message.get(key)}
    return SourceLocation(**plain, more=tuple(more)) if plain or more else None


_PROFILES = ("INVALID", "WINDOW", "FLAG", "INTEGER")


def location_message(location: SourceLocation) -> Proto:
    """Converts a SourceLocation to an OpMetadata message."""
    message = {key: getattr(location, key) for key in _PLAIN if getattr(location, key)}
    for key, text in location.more:
        if key == "profile_type":
            message[key] = [int(n) for n in re.findall(r"\d+", text)]
        elif key in _OTHER:
            message[key] = unescape(text[1:-1]) if METADATA_KEYS[key] is str else int(text)
    return message


# Original values, `{({"a"}, {"b" {0}})}`: the value that each leaf had in the module before optimization.

ENTRY = ascii_regex(BLANK + rf"\{{\s*+(?:({STRING})\s*+(?:\{{([\d,\s]*+)\}})?+)?+\s*+\}}")


def origin_text(message: Proto, shape: AnyShape) -> str:
    """The HLO text of an OriginalValueProto message. `shape` is the shape of the value."""
    if message.get("is_synthetic_call"):
        return "{[synthetic_call]}"
    arrays = {tuple(e.get("shape_index", ())): e.get("original_array") for e in message.get("elements", ())}

    def nested(shape: AnyShape, index: tuple[int, ...]) -> str:
        if isinstance(shape, TupleShape):
            return "(" + ", ".join(nested(e, (*index, n)) for n, e in enumerate(shape.elements)) + ")"
        return array_text(arrays.get(index))

    return "{" + nested(shape, ()) + "}"


def array_text(array: Proto | None) -> str:
    """The HLO text of an OriginalArray message: {"name" {0,1}}, or {} for None."""
    if array is None:
        return "{}"
    index = array.get("shape_index", ())
    behind = " {" + ",".join(map(str, index)) + "}" if index else ""
    return "{" + quote(array.get("instruction_name", "")) + behind + "}"


def array_message(entry: re.Match[str]) -> Proto:
    """Converts the name and index of an array in HLO text, such as `"name" {0,1}`, to an OriginalArray
    message. `entry` is a match of ENTRY.
    """
    index = [int(n) for n in (entry[2] or "").split(",") if n.strip()]
    return {"instruction_name": unescape(entry[1][1:-1]), "shape_index": index}


def origin_message(text: str) -> Proto:
    """Converts the HLO text of an original value to an OriginalValueProto message."""
    if "synthetic_call" in text:
        return {"is_synthetic_call": True}
    cursor, elements, index = HloCursor(text[1:-1]), [], []
    while not cursor.at_end():
        if cursor.accept("("):
            index.append(0)
        elif cursor.accept(")") and index:
            index.pop()
        elif cursor.accept(","):
            index[-1] += 1
        elif (entry := cursor.match(ENTRY)) is not None:
            if entry[1] is not None:
                elements.append({"shape_index": list(index), "original_array": array_message(entry)})
        else:
            cursor.fail(f"expected the origin of a value, found {cursor.saw()}")
    return {"elements": elements}


# Statistics, replication, accuracy.


def _number(value: float) -> str:
    """The text of a number as XLA writes it, with six digits; with all digits if six are not exact."""
    text = f"{value:g}"
    return text if float(text) == value or value != value else repr(value)


def _statistics_text(message: Proto, shape: AnyShape) -> str:
    found = message.get("statistics", ())
    listed = "".join(f",{s.get('stat_name', '')}={_number(s.get('stat_val', 0.0))}" for s in found)
    return f"{{visualizing_index={message.get('stat_index_to_visualize', 0)}{listed}}}" if found else ""


def _statistics_message(text: str) -> Proto:
    index, *rest = (part.strip().partition("=") for part in text.strip("{} ").split(","))
    return {
        "stat_index_to_visualize": int(index[2]),
        "statistics": [{"stat_name": name, "stat_val": float(value)} for name, _, value in rest],
    }


def _replication_text(message: Proto, shape: AnyShape) -> str:
    return booleans(message.get("replicated_at_leaf_buffers", ()))


def _replication_message(text: str) -> Proto:
    return {"replicated_at_leaf_buffers": [word == "true" for word in re.findall(r"\w+", text)]}


def _accuracy_text(message: Proto, shape: AnyShape) -> str:
    if "tolerance" in message:
        wanted = message["tolerance"]
        parts = ", ".join(f"{key}={_number(wanted.get(key, 0))}" for key in ("atol", "rtol", "ulps"))
        return f"{{tolerance={{{parts}}}}}"
    return f"{{mode={str(message['mode']).lower()}}}" if "mode" in message else ""


def _accuracy_message(text: str) -> Proto:
    if (mode := re.search(r"mode\s*=\s*(\w+)", text)) is not None:
        return {"mode": mode[1].upper()}
    found = dict(re.findall(r"(\w+)\s*=\s*([^\s,{}]+)", text))
    return {"tolerance": {k: int(v) if k == "ulps" else float(v) for k, v in found.items()}}


EXTRAS: dict[str, tuple[str, Callable[[Proto, AnyShape], str], Callable[[str], Proto]]] = {
    "parameter_replication": ("parameter_replication", _replication_text, _replication_message),
    "result_accuracy": ("result_accuracy", _accuracy_text, _accuracy_message),
    "statistics": ("statistics_viz", _statistics_text, _statistics_message),
    "origin": ("original_value", origin_text, origin_message),
}
"""Attributes that axla stores as text, in `Extra.more`: (field of the message, function that makes the text,
function that makes the message)."""


_TEXTS = {*TEXT_ATTRIBUTES, *(name for _, name in PRINTED_ATTRIBUTES)}
"""Attributes that are not written: XLA has no field for them, or they repeat fields of the op."""


def read_more(message: Proto, shape: AnyShape) -> tuple[tuple[str, str], ...]:
    """Returns (name, text) for each attribute of an instruction's message that the graph stores as text."""
    found = []
    for name, (field, text_of, _) in EXTRAS.items():
        if field in message and (text := text_of(message[field], shape)):
            found.append((name, text))
    return tuple(found)


def write_more(more: tuple[tuple[str, str], ...], message: Proto) -> None:
    """Writes the attributes `more`, which the graph stores as pairs of name and text, into an instruction's
    message.
    """
    for name, text in more:
        if name in EXTRAS:
            field, _, made = EXTRAS[name]
            try:
                message[field] = made(text)
            except (ValueError, KeyError, IndexError) as error:
                raise InvalidArgument(f"{name}={text[:80]} cannot be written as a proto: {error}") from None
        elif name not in _TEXTS:
            raise InvalidArgument(f"the attribute {name} cannot be written as a proto")


# Tables of stack frames, which follow the header in HLO text.

_FRAME_TABLES = (("FileLocations", "file_locations"), ("StackFrames", "stack_frames"))
_NAME_TABLES = (("FileNames", "file_names"), ("FunctionNames", "function_names"))
_LOCATION_KEYS = ("file_name_id", "function_name_id", "line", "end_line", "column", "end_column")


def frame_tables(message: Proto) -> list[tuple[str, str]]:
    """Converts a StackFrameIndexProto message to the tables of HLO text: (title, text). In the text, a frame
    without a parent has itself as parent.
    """

    def lines(entries: list[str]) -> str:
        return "\n".join(f"{n} {entry}" for n, entry in enumerate(entries, 1))

    tables = [(title, lines(list(map(quote, message.get(key, ()))))) for title, key in _NAME_TABLES]
    listed = message.get("file_locations", ())
    places = [" ".join(f"{key}={place.get(key, 0)}" for key in _LOCATION_KEYS) for place in listed]
    frames = [
        f"file_location_id={f.get('file_location_id', 0)} parent_frame_id={f.get('parent_frame_id', 0) + 1}"
        for f in message.get("stack_frames", ())
    ]
    tables += [("FileLocations", lines([f"{{{p}}}" for p in places]))]
    tables += [("StackFrames", lines([f"{{{f}}}" for f in frames]))]
    return tables


def frames_message(tables: dict[str, str]) -> Proto:
    """Converts the tables of HLO text (`FileNames`...) to a StackFrameIndexProto message."""
    message: Proto = {}
    for title, key in _NAME_TABLES:
        lines = [line.split(" ", 1)[1] for line in tables.get(title, "").split("\n") if line]
        message[key] = [unescape(text[1:-1]) for text in lines]
    for title, key in _FRAME_TABLES:
        found = [re.findall(r"(\w+)=(\d+)", line) for line in tables.get(title, "").split("\n") if line]
        message[key] = [{k: int(v) for k, v in entry} for entry in found]
    for frame in message["stack_frames"]:
        frame["parent_frame_id"] = max(frame.get("parent_frame_id", 0) - 1, 0)
    return message
