"""Files of TensorFlow and mutations of them, for scripts/fuzz_tensorflow.

Kinds of sources: GraphDefs, binary and text; MetaGraphDefs; SavedModels, binary and text, with a checkpoint
of their variables in version 2 (index and data) or version 1; configurations of tfcompile, binary and text,
with a graph and perhaps a checkpoint and a SaverDef; checkpoints alone, with all features of the format. A
mutation changes bytes, or changes a message so that it stays valid: fields, operations, inputs, numbers in
constants, functions that call each other, nesting. Changed entries of tables get valid checksums.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import fuzz_text_cases as fuzz
import numpy as np
import tensorflow_files as files

SECTIONS = ("ops", "grad", "flow", "tfcompile", "models")
MOST_BYTES = 300_000
WEIGHTS = {
    "graph": 10, "graph_text": 2, "meta": 2, "saved_model": 2, "saved_model_text": 1, "bundle": 2,
    "tables": 2, "config": 2, "config_binary": 1, "saver": 1, "checkpoint": 2,
}  # fmt: skip
"""The probability weight of each kind of source."""
NUMBERS = (0, 1, 2, 3, -1, -2, 7, 100, 1 << 20, 1 << 31, (1 << 31) - 1, 1 << 40, 1 << 62, (1 << 63) - 1)
TYPES = ("DT_FLOAT", "DT_INT32", "DT_INT64", "DT_BOOL", "DT_STRING", "DT_RESOURCE", "DT_VARIANT", "DT_HALF")
MODEL, CHECKPOINT = "model", "checkpoint"
SIGNATURE = "serving_default"


# Sources.


def sources(root: Path) -> dict[str, list[fuzz.Case]]:
    """The cases of each kind, from the folder of the corpus. `options` has the kind, the other files of the
    case by name, the name of the file that is changed, and its form: the type of a message, or that of a
    table.
    """
    found: dict[str, list[fuzz.Case]] = {kind: [] for kind in WEIGHTS}
    for folder in (each for section in SECTIONS for each in sorted((root / section).iterdir())):
        options = {"folder": folder, "meta": json.loads((folder / "meta.json").read_text()), "files": {}}
        if (folder / "saved_model").exists():
            add_model(found, folder, options)
        elif options["meta"]["fetches"] and (folder / "graph.pb").stat().st_size < MOST_BYTES:
            add_graph(found, folder, options)
        if (folder / "config.pbtxt").exists():
            add_configs(found, folder, options)
    for name, (contents, said) in checkpoints().items():
        for file in contents:
            add(found, "checkpoint", name, contents, file, {"meta": {}, "message": said})
    return found


def add(
    found: dict[str, list[fuzz.Case]],
    kind: str,
    name: str,
    contents: dict[str, bytes],
    file: str,
    options: Any,
) -> None:
    others = {key: value for key, value in contents.items() if key != file}
    options = options | {"kind": kind, "files": others, "file": file}
    found[kind].append(fuzz.Case(f"{kind}.{name}", contents[file], options=options))


def add_graph(found: dict[str, list[fuzz.Case]], folder: Path, options: Any) -> None:
    """Adds a graph: binary, as text, and with a signature."""
    data, meta = (folder / "graph.pb").read_bytes(), options["meta"]
    add(found, "graph", folder.name, {"graph.pb": data}, "graph.pb", options | {"message": "GraphDef"})
    if len(data) > 20_000 or meta.get("targets"):
        return
    graph = decoded(data, "GraphDef")
    text = encoded(graph, "GraphDef text")
    add(
        found,
        "graph_text",
        folder.name,
        {"graph.pbtxt": text},
        "graph.pbtxt",
        options | {"message": "GraphDef text"},
    )
    inputs = [{"key": f"in{n:03}", "value": {"name": feed["name"]}} for n, feed in enumerate(meta["feeds"])]
    outputs = [{"key": f"out{n}", "value": {"name": name}} for n, name in enumerate(meta["fetches"])]
    for entry in inputs:
        node = next(
            node for node in graph["node"] if node["name"] == entry["value"]["name"].partition(":")[0]
        )
        types = [a["value"].get("type") for a in node.get("attr", ()) if a["key"] in ("dtype", "T")]
        entry["value"] |= {"dtype": types[0] if types else "DT_FLOAT", "tensor_shape": {"unknown_rank": True}}
    signature = {"key": SIGNATURE, "value": {"inputs": inputs, "outputs": outputs}}
    message = {"meta_info_def": {"tags": ["serve"]}, "graph_def": graph, "signature_def": [signature]}
    data = encoded(message, "MetaGraphDef")
    add(found, "meta", folder.name, {"graph.meta": data}, "graph.meta", options | {"message": "MetaGraphDef"})


def add_model(found: dict[str, list[fuzz.Case]], folder: Path, options: Any) -> None:
    """Adds a SavedModel: its graph, binary and as text, and its checkpoint in both versions."""
    model, name = folder / "saved_model", folder.name
    contents = {str(p.relative_to(model)): p.read_bytes() for p in sorted(model.rglob("*")) if p.is_file()}
    pb, index = "saved_model.pb", "variables/variables.index"
    add(found, "saved_model", name, contents, pb, options | {"message": "SavedModel"})
    text = {key: value for key, value in contents.items() if key != pb}
    text[f"{pb}txt"] = encoded(decoded(contents[pb], "SavedModel"), "SavedModel text")
    add(found, "saved_model_text", name, text, f"{pb}txt", options | {"message": "SavedModel text"})
    for file in (each for each in contents if each.startswith("variables/")):
        add(found, "bundle", name, contents, file, options | {"message": "Bundle"})
    if index in contents and (old := version_1(model / "variables" / "variables")):
        tables = {pb: contents[pb], "variables/variables": old}
        add(found, "tables", name, tables, "variables/variables", options | {"message": "Tables"})


def add_configs(found: dict[str, list[fuzz.Case]], folder: Path, options: Any) -> None:
    """Adds the configuration of a graph, binary and as text, and a SaverDef if there is a checkpoint."""
    contents = {"graph.pb": (folder / "graph.pb").read_bytes()}
    for path in (folder / "ckpt").glob("*"):
        contents[path.name] = path.read_bytes()
    text = (folder / "config.pbtxt").read_bytes()
    config = {**contents, "config.pbtxt": text}
    add(found, "config", folder.name, config, "config.pbtxt", options | {"message": "Config text"})
    config = {**contents, "config.pb": encoded(decoded(text, "Config text"), "Config")}
    add(found, "config_binary", folder.name, config, "config.pb", options | {"message": "Config"})
    if "model.index" not in contents:
        return
    saver = {"filename_tensor_name": "save/Const:0", "restore_op_name": "save/restore_all", "version": 2}
    saved = {**contents, "config.pbtxt": text, "model.saver": encoded(saver, "SaverDef")}
    for file, message in (("model.saver", "SaverDef"), ("graph.pb", "GraphDef"), ("model.index", "Bundle")):
        add(found, "saver", folder.name, saved, file, options | {"message": message})


def version_1(prefix: Path) -> bytes:
    """A checkpoint of version 1 with the tensors of one of version 2; large tensors are divided into two
    slices.
    """
    from axla.tensorflow.checkpoints import checkpoint_at

    return tables_of(dict(checkpoint_at(prefix)))


def tables_of(tensors: dict[str, np.ndarray]) -> bytes:
    meta, entries = [], {}
    for name, value in tensors.items():
        about = files.tensor_message(value)
        meta.append({"name": name, "shape": about["tensor_shape"], "type": about["dtype"]})
        pieces = np.array_split(value, 2) if value.ndim and len(value) > 3 else [value]
        begin = 0
        for piece in pieces:
            first = [{"start": begin, "length": len(piece)}] if value.ndim else []
            box, begin = (
                {"extent": first + [{}] * (value.ndim - 1)},
                begin + (len(piece) if value.ndim else 0),
            )
            part = {"name": name, "slice": box, "data": files.tensor_message(piece)}
            entries[b"\0%s%d" % (name.encode(), begin)] = encoded({"data": part}, "SavedTensorSlices")
    entries[b""] = encoded({"meta": {"tensor": meta}}, "SavedTensorSlices")
    return files.table(entries, packed=len(tensors) % 2 == 0)


def checkpoints() -> dict[str, tuple[dict[str, bytes], str]]:
    """Checkpoints alone: with two data files, with the other byte order, with strings and slices."""
    from axla.tensorflow.checkpoints import _slice_key
    from axla.tensorflow.checksums import masked_crc32c

    numbers = np.arange(24, dtype=np.float32)
    tensors = {
        "a": numbers.reshape(4, 6),
        "b": numbers.astype(np.int64),
        "c": numbers[:2] > 0,
        "d/e": numbers[0],
    }
    tensors["half"] = numbers.astype(np.float16)
    found = {"version_1": ({CHECKPOINT: tables_of(tensors)}, "Tables")}
    for name, options in (("two", {"shards": 2}), ("swapped", {"big_endian": True})):
        entries, data = files.bundle_index(tensors, **options)
        contents = {f"{CHECKPOINT}.data-{n:05d}-of-{len(data):05d}": each for n, each in enumerate(data)}
        found[name] = ({f"{CHECKPOINT}.index": files.table(entries), **contents}, "Bundle")
    boxes = [{"extent": [{}, {"start": a, "length": b - a}]} for a, b in ((0, 2), (2, 6))]
    parts = {
        _slice_key(b"w", box): numbers.reshape(4, 6)[:, slice(*at)]
        for box, at in zip(boxes, ((0, 2), (2, 6)), strict=True)
    }
    entries, [data] = files.bundle_index(
        {key.decode("latin-1"): np.ascontiguousarray(v) for key, v in parts.items()}
    )
    entries = {key.decode().encode("latin-1"): value for key, value in entries.items()}
    whole = {"dtype": "DT_FLOAT", "shape": files.shape_message([4, 6]), "slices": boxes}
    entries[b"w"] = encoded(whole, "BundleEntryProto")
    lengths = (2).to_bytes(4, "little") + (0).to_bytes(4, "little")
    checksum = masked_crc32c(lengths).to_bytes(4, "little")
    text = b"\x02\x00" + checksum + b"ab"
    entry = {"dtype": "DT_STRING", "shape": files.shape_message([2]), "size": len(text), "offset": len(data)}
    entry[""] = files.checksum_field(lengths + checksum + b"ab")
    entries[b"s"] = encoded(entry, "BundleEntryProto")
    contents = {f"{CHECKPOINT}.index": files.table(entries), f"{CHECKPOINT}.data-00000-of-00001": data + text}
    found["parts"] = (contents, "Bundle")
    return found


# Messages.


def table_of(name: str) -> Any:
    from axla.aot.config import _MESSAGES
    from axla.tensorflow.messages import TABLES

    return _MESSAGES["Config"] if name == "Config" else TABLES[name]


def decoded(data: bytes, form: str) -> Any:
    from axla.proto import text_format, wire

    name, _, text = form.partition(" ")
    if text:
        return text_format.from_text(data.decode("utf-8", "surrogateescape"), table_of(name))
    return wire.decode(data, table_of(name))


def encoded(message: Any, form: str) -> bytes:
    from axla.proto import text_format, wire

    name, _, text = form.partition(" ")
    if not text:
        return wire.encode(message, table_of(name))
    lines: list[str] = []
    text_format._write(message, table_of(name), "", lines)
    return "\n".join(lines).encode("utf-8", "surrogateescape")


# Mutations of messages.


def places_in(message: Any) -> list[tuple[Any, Any]]:
    """All fields and elements of a message, each as (container, key)."""
    places, stack = [], [message]
    while stack:
        part = stack.pop()
        keys = list(part) if isinstance(part, dict) else list(range(len(part)))
        places += [(part, key) for key in keys]
        stack += [part[key] for key in keys if isinstance(part[key], dict | list)]
    return places


def other_value(value: Any, rng: random.Random, others: list[Any]) -> Any:
    """Another value of the same type for a field."""
    same = [other for other in others if type(other) is type(value)]
    if same and rng.random() < 0.5:
        return copy.deepcopy(rng.choice(same))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return rng.choice((*NUMBERS, value + 1, value - 1, -value))
    if isinstance(value, float):
        return rng.choice((0.0, -1.0, 1e30, float("nan"), float("inf"), value * 2))
    if isinstance(value, np.ndarray):
        return rng.choice(
            (value[:1], np.repeat(value, 2), value[:0], value + 1 if value.dtype != bool else ~value)
        )
    if isinstance(value, bytes):
        return rng.choice((b"", value + b"x", value[:-1], value * 3, other_numbers(value, rng)))
    if isinstance(value, str):
        return (
            rng.choice(TYPES)
            if value.startswith("DT_")
            else rng.choice(("", value + "x", "^" + value, value + ":1"))
        )
    return value


def other_numbers(value: bytes, rng: random.Random) -> bytes:
    """The bytes of an array in which one number is replaced, or all are replaced by the same number."""
    width = rng.choice((4, 8))
    if len(value) < width:
        return value
    number = (rng.choice(NUMBERS) % (1 << 8 * width)).to_bytes(width, "little")
    if rng.random() < 0.2:
        return number * (len(value) // width)
    at = rng.randrange(len(value) // width) * width
    return value[:at] + number + value[at + width :]


def change_message(message: Any, rng: random.Random, donor: Any = None) -> None:
    """Replaces, removes or doubles fields, or exchanges them with fields of the same kind, perhaps from
    another message of the same type (`donor`).
    """
    places = places_in(message)
    others = [part[key] for part, key in (places if donor is None else places_in(donor))]
    for _ in range(rng.choice((1, 1, 1, 2, 4)) if places else 0):
        part, key = rng.choice(places)
        if isinstance(part, list) and key >= len(part) or isinstance(part, dict) and key not in part:
            continue
        value, way = part[key], rng.choice(("other", "other", "other", "drop", "double", "swap"))
        if way == "drop":
            del part[key]
        elif way == "double" and isinstance(value, list) and value:
            value += [copy.deepcopy(rng.choice(value)) for _ in range(rng.choice((1, 1, 70, 1000)))]
        elif way == "swap" and isinstance(value, list):
            rng.shuffle(value)
        elif isinstance(value, dict | list) and others:
            part[key] = other_value(value, rng, [o for o in others if o is not part])
        else:
            part[key] = other_value(value, rng, others)


def change_node(message: Any, rng: random.Random, donor: Any = None) -> None:
    """Gives a node another operation, input or attribute, or a constant other numbers."""
    from axla.tensorflow.records import records

    found = [part[key] for part, key in places_in(message)]
    nodes = [each for each in found if isinstance(each, dict) and each.get("op") and "name" in each]
    if not nodes:
        return
    node, way = rng.choice(nodes), rng.choice(("op", "input", "input", "constant", "constant", "type"))
    constants = [node for node in nodes if node["op"] == "Const"]
    types = [each for each in found if isinstance(each, dict) and isinstance(each.get("type"), str)]
    inputs = node.setdefault("input", [])
    if way == "op":
        node["op"] = rng.choice(sorted(records()))
    elif way == "constant" and constants:
        change_constant(rng.choice(constants), rng)
    elif way == "type" and types:
        old, new = rng.choice(types)["type"], rng.choice(TYPES)
        for each in types:
            each["type"] = new if each["type"] == old else each["type"]
    else:
        name = (
            rng.choice(("", "", "^"))
            + rng.choice(nodes)["name"]
            + rng.choice(("", "", ":1", ":output:0", ":999"))
        )
        at = rng.randrange(len(inputs) + 1)
        inputs[at : at + rng.randrange(2)] = [name]


def change_constant(node: Any, rng: random.Random) -> None:
    """Gives a constant other numbers or another shape; other nodes may use it as a shape or an axis."""
    for entry in node.get("attr", ()):
        tensor = entry.get("value", {}).get("tensor")
        if tensor is None:
            continue
        if rng.random() < 0.3:
            sizes = [rng.choice(NUMBERS) for _ in range(rng.choice((0, 1, 1, 2, 3, 70)))]
            tensor["tensor_shape"] = files.shape_message(sizes)
        content = tensor.get("tensor_content", b"")
        if content:
            tensor["tensor_content"] = other_numbers(content, rng)
        for name in (key for key in tensor if key.endswith("_val") and len(tensor[key])):
            values = tensor[name]
            if isinstance(values, np.ndarray) and values.dtype.kind in "iuf":
                changed = values.astype(object if values.dtype.kind != "f" else values.dtype)
                changed[rng.randrange(len(values))] = rng.choice(NUMBERS)
                with contextlib.suppress(OverflowError):
                    tensor[name] = changed.astype(values.dtype)


def grow_functions(message: Any, rng: random.Random, donor: Any = None) -> None:
    """Adds a chain of functions, each of which calls the next one twice, or itself, and a node that calls the
    first.
    """
    nodes = message.setdefault("node", [])
    functions = message.setdefault("library", {}).setdefault("function", [])
    count, again = rng.choice((2, 5, 30, 70)), rng.random() < 0.2
    for number in range(count):
        called = f"grown{0 if again else number + 1}"
        body = [
            {"name": name, "op": called if number + 1 < count or again else "Neg", "input": [given],
             "attr": [{"key": "T", "value": {"type": "DT_FLOAT"}}]}
            for name, given in (("a", "x"), ("b", "a:y:0"))
        ]  # fmt: skip
        arguments = {
            "input_arg": [{"name": "x", "type": "DT_FLOAT"}],
            "output_arg": [{"name": "y", "type": "DT_FLOAT"}],
        }
        ends = [{"key": "y", "value": "b:y:0"}]
        functions.append(
            {"signature": {"name": f"grown{number}", **arguments}, "node_def": body, "ret": ends}
        )
    for node in nodes:
        if node.get("input"):
            nodes.insert(0, {"name": "grown", "op": "grown0", "input": [node["input"][0]]})
            node["input"][0] = "grown"
            return


def deep(form: str, rng: random.Random) -> bytes:
    """The bytes of a node whose attribute has a function, with attributes that have functions, and so on, to
    be appended to a graph.
    """
    from axla.proto.wire import number_bytes

    depth = rng.choice((5, 30, 40, 110, 3000))
    if form.endswith(" text"):
        return b"\nnode { " + b"attr { value { func { " * depth + b"}}}" * depth + b" }\n"
    found = b""
    for tag in (*(0x12, 0x12, 0x52) * depth, 0x12, 0x2A, 0x0A):  # value, attr and func; attr, node
        found = bytes([tag]) + number_bytes(len(found)) + found
    return found


# Mutations of files.

Change = Callable[[Any, random.Random, Any], None]
TEXTS = (fuzz.flip_bytes, fuzz.change_lines, fuzz.change_numbers)


def changed_message(data: bytes, form: str, change: Change, rng: random.Random, donor: Any = None) -> bytes:
    message = decoded(data, form)
    change(message, rng, donor)
    with contextlib.suppress(Exception):  # the field may not accept the value
        return encoded(message, form)
    return data


def changed_table(case: fuzz.Case, form: str, rng: random.Random) -> bytes:
    """A table with another header, another entry, or without one, and with valid checksums."""
    from axla.tensorflow.tables import entries

    found = dict(entries(memoryview(case.text), case.name))
    key = rng.choice(list(found))
    way = rng.choice(("change", "change", "change", "drop", "rename", "bytes"))
    if way == "change":
        name = "BundleEntryProto" if key else "BundleHeaderProto"
        name = "SavedTensorSlices" if form == "Tables" else name
        donor = decoded(found[rng.choice(list(found))], name) if key and rng.random() < 0.3 else None
        found[key] = changed_message(found[key], name, change_message, rng, donor)
    elif way == "bytes":
        value = bytearray(found[key] or b"x")
        rng.choice(fuzz.BYTES)(value, rng)
        found[key] = bytes(value)
    else:
        value = found.pop(key)
        if way == "rename":
            found[rng.choice((key + b"\0", b"\0" + key, b"", key[:-1]))] = value
    return files.table(found, packed=rng.random() < 0.5)


def mutated(cases: dict[str, list[fuzz.Case]], count: int, seed: int) -> Iterator[fuzz.Case]:
    """Yields `count` cases, which depend only on the seed and the corpus."""
    for number in range(count):
        rng = random.Random(f"{seed}/{number}")
        [kind] = rng.choices(list(WEIGHTS), list(WEIGHTS.values()))
        case = rng.choice(cases[kind])
        text = changed(case, cases[kind], rng)
        yield replace(case, name=f"{number}.{case.name}", text=text)


def changed(case: fuzz.Case, others: list[fuzz.Case], rng: random.Random) -> bytes:
    """A quarter of the mutations changes bytes; the others change fields or entries."""
    form, is_table = case.options["message"], case.options["message"] in ("Bundle", "Tables")
    if rng.random() < 0.25 or is_table and ".data-" in case.options["file"]:
        data = bytearray(case.text)
        rng.choice(TEXTS if form.endswith(" text") and rng.random() < 0.7 else fuzz.BYTES)(data, rng)
        return bytes(data)
    if is_table:
        return changed_table(case, form, rng)
    if form.startswith("GraphDef") and rng.random() < 0.02:
        return case.text + deep(form, rng)
    if form.startswith("GraphDef") and rng.random() < 0.03:
        return changed_message(case.text, form, grow_functions, rng)
    change, donor = rng.choice((change_message, change_node)), None
    if form.startswith(("Config", "SaverDef")):
        change = change_message
    if rng.random() < 0.2:
        other = rng.choice(
            [each for each in others[:: max(1, len(others) // 50)] if each.options["message"] == form]
        )
        donor = decoded(other.text, form)
    return changed_message(case.text, form, change, rng, donor)
