"""Reads TensorFlow's files: a GraphDef, a MetaGraphDef, a SavedModel with the checkpoint of its variables."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument, ParseError, UnsupportedError, VerifyError, choices
from axla.tensorflow.checkpoints import checkpoint_at, inside, mapped
from axla.tensorflow.messages import decode, from_text
from axla.tensorflow.types import Proto, entries

ModelSource = str | bytes | os.PathLike[str]

_EXPORT = "a model of Keras is exported first: model.export('folder') makes a SavedModel of it"
_OTHERS = (
    (b"PK\x03\x04", 0, "a ZIP archive", _EXPORT),
    (b"\x89HDF", 0, "an HDF5 file", _EXPORT),
    (b"TFL3", 4, "a TensorFlow Lite model", "the SavedModel that it was converted from is read"),
    (b"HloModule", 0, "HLO", "axla.parse reads it"),
)
"""Other kinds of files: their first bytes, the offset of these, a name of the kind, and a hint."""
_ENDINGS = {
    **dict.fromkeys((".keras", ".h5", ".hdf5"), ("a model of Keras", _EXPORT)),
    ".onnx": ("an ONNX model", "the SavedModel or GraphDef that it was converted from is read"),
    ".tflite": ("a TensorFlow Lite model", "the SavedModel that it was converted from is read"),
    ".index": ("the index of a checkpoint", "it belongs to a SavedModel or a graph, whose path is wanted"),
}
_TEXT = re.compile(r"(?:\s|#[^\n]*\n)*+(\w+)\s*+(?::\s*+)?+[{<\d]")
_FIELDS = {
    "node": "GraphDef", "library": "GraphDef", "versions": "GraphDef", "version": "GraphDef",
    "debug_info": "GraphDef", "meta_info_def": "MetaGraphDef", "graph_def": "MetaGraphDef",
    "saver_def": "MetaGraphDef", "saved_model_schema_version": "SavedModel", "meta_graphs": "SavedModel",
}  # fmt: skip
"""The kind of a message in text form, by the first field of the text."""
_OP = re.compile(r"[A-Za-z][\w>/.\-]*$")


@dataclass(slots=True, eq=False)
class Saved:
    """The contents of files: the GraphDef `graph`, the signatures by name, the SaverDef that restores
    variables, and the tensors of the checkpoint, which are read on demand.
    """

    graph: Proto
    name: str = "graph"
    signatures: dict[str, Proto] = field(default_factory=dict)
    saver: Proto = field(default_factory=dict)
    checkpoint: Mapping[str, np.ndarray] = field(default_factory=dict)


def read(source: ModelSource, tags: Sequence[str] | None = None) -> Saved:
    """The graph in a file or folder. Bytes are the content of a file; a `str` is a path, or the content if it
    has several lines. `tags` select a graph of a SavedModel, by default the one for serving or the only one.
    With a `.meta` file, the checkpoint beside it is read.

    Raises InvalidArgument for missing files, UnsupportedError for other kinds of files, and ParseError for
    damaged files.
    """
    if isinstance(source, bytes | bytearray | memoryview):
        return _graph(bytes(source), "", tags)
    if isinstance(source, str) and "\n" in source:
        return _graph(source, "", tags)
    if not isinstance(source, str | os.PathLike):
        raise InvalidArgument(f"source must be a path, bytes or str, found {type(source).__name__}")
    path = Path(os.fsdecode(source))
    if path.is_dir():
        return _saved_model(path, tags)
    if path.name in ("saved_model.pb", "saved_model.pbtxt") and path.is_file():
        return _saved_model(path.parent, tags)
    if path.suffix in _ENDINGS:
        kind, hint = _ENDINGS[path.suffix]
        raise UnsupportedError(f"{path} is {kind}, wanted a graph of TensorFlow: {hint}")
    found = _graph(bytes(mapped(path)), path.name, tags)
    if path.suffix == ".meta" and found.saver.get("restore_op_name"):
        with suppress(InvalidArgument):
            found.checkpoint = checkpoint_at(path.with_suffix(""))
    return found


@contextmanager
def placed(source: Any) -> Iterator[None]:
    """Adds the location of the node to an error about a node, if the graph is in text form: the file, line
    and column, and a caret.
    """
    try:
        yield
    except (VerifyError, UnsupportedError) as error:
        found, named = (
            re.search(r"node '([^'\n]+)'", error.message),
            isinstance(source, str) and "\n" in source,
        )
        text, file = source if named else "", ""
        if (
            not named
            and isinstance(source, str | os.PathLike)
            and str(source).endswith((".pbtxt", ".textproto"))
        ):
            file = os.fsdecode(source)
            text = _text(bytes(mapped(Path(file))))
        at = re.search(rf'\bname\s*:\s*"{re.escape(found[1])}"', text) if found and text else None
        if at is not None:
            where = ParseError.at(f"{file}: {error.message}" if file else error.message, text, at.start())
            error.message = str(where)
            error.args = (error.message,)
        raise


def _saved_model(folder: Path, tags: Sequence[str] | None) -> Saved:
    """The graph of a SavedModel, and its checkpoint."""
    for name in ("saved_model.pb", "saved_model.pbtxt"):
        path = inside(folder, name)
        if path.is_file():
            break
    else:
        names = sorted(each.name for each in folder.iterdir())[:8]
        hint = f"; {_EXPORT}" if {"metadata.json", "config.json"} & {*names} else ""
        raise InvalidArgument(f"{folder} is not a SavedModel: no saved_model.pb{hint}; {choices(names)}")
    found = _graph(bytes(mapped(path)), path.name, tags)
    found.name = _identifier(folder.resolve().name)
    debug = inside(folder, "debug/saved_model_debug_info.pb")
    if debug.is_file():
        found.graph["debug_info"] = decode(bytes(mapped(debug)), "GraphDebugInfo")
    if found.saver.get("restore_op_name") and (folder / "variables").is_dir():
        found.checkpoint = checkpoint_at(folder / "variables" / "variables", folder)
    return found


def _graph(content: bytes | str, name: str, tags: Sequence[str] | None) -> Saved:
    """The graph in the content of a file; `name` indicates its kind, if it has a known suffix."""
    _check_kind(content, name)
    kind, message = _message(content, name)
    called = _identifier(name.partition(".")[0])
    if kind == "GraphDef":
        return Saved(message, called)
    meta = _chosen(message, tags) if kind == "SavedModel" else message
    signatures = entries(meta.get("signature_def", ()))
    return Saved(meta.get("graph_def", {}), called, signatures, meta.get("saver_def", {}))


def _identifier(name: str) -> str:
    return re.sub(r"\W", "_", name) or "graph"


def _check_kind(content: bytes | str, name: str) -> None:
    """Raises UnsupportedError for files of other kinds, by their first bytes."""
    head = content[:16].encode("utf-8", "replace") if isinstance(content, str) else content[:16]
    for magic, at, kind, hint in _OTHERS:
        if head[at:].startswith(magic):
            raise UnsupportedError(f"{name or 'source'} is {kind}, wanted a graph of TensorFlow: {hint}")


def _message(content: bytes | str, name: str) -> tuple[str, Proto]:
    """Decodes the content of a file; returns the kind of the message (GraphDef, MetaGraphDef or SavedModel)
    and the message.
    """
    is_text = isinstance(content, str) or name.endswith((".pbtxt", ".txt", ".textproto"))
    first = _TEXT.match(_text(content if is_text else content[:4096]))
    if first is not None and first[1] in _FIELDS:
        kind = _FIELDS[first[1]]
        return kind, from_text(_text(content), kind)
    if isinstance(content, str) or is_text:
        kinds = ", ".join(dict.fromkeys(_FIELDS.values()))
        raise ParseError(f"{name or 'source'}: the text is not one of {kinds}")
    if name == "saved_model.pb" or content[:1] == b"\x08":
        return "SavedModel", decode(content, "SavedModel")
    if name.endswith(".meta"):
        return "MetaGraphDef", decode(content, "MetaGraphDef")
    return _told_apart(content)


def _text(content: bytes | str) -> str:
    return content if isinstance(content, str) else content.decode("utf-8", "surrogateescape")


def _told_apart(content: bytes) -> tuple[str, Proto]:
    """Decodes a message as a GraphDef, MetaGraphDef or SavedModel, whichever has nodes with names of
    operations. If none has, it is read as a GraphDef, whose error is reported.
    """
    for kind in ("GraphDef", "MetaGraphDef", "SavedModel"):
        with suppress(ParseError):
            message = decode(content, kind)
            if _has_nodes(message):
                return kind, message
    return "GraphDef", decode(content, "GraphDef")


def _has_nodes(message: Proto) -> bool:
    graphs = [meta.get("graph_def", meta) for meta in message.get("meta_graphs", [message])]
    return any(_OP.match(node.get("op", "")) for graph in graphs for node in graph.get("node", ())[:1])


def _chosen(model: Proto, tags: Sequence[str] | None) -> Proto:
    """The graph of a SavedModel with these tags."""
    graphs = {
        tuple(sorted(graph.get("meta_info_def", {}).get("tags", ()))): graph
        for graph in model.get("meta_graphs", ())
    }
    if not graphs:
        raise ParseError("the SavedModel has no graph")
    wanted = tuple(sorted(tags)) if tags is not None else ("serve",)
    if wanted in graphs:
        return graphs[wanted]
    if tags is None and len(graphs) == 1:
        return next(iter(graphs.values()))
    found = choices(" ".join(each) or "one without tags" for each in graphs)
    raise InvalidArgument(f"the SavedModel has no graph with the tags {' '.join(wanted)!r}: {found}")
