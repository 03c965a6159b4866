"""Files are read and become functions of Python: graphs, SavedModels, their variables; others are refused."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axla
from axla import AxlaError, InvalidArgument, ParseError, Shape, UnsupportedError, VerifyError, dtypes
from axla.proto import text_format
from axla.tensorflow import load
from axla.tensorflow.graph import Output, graph_of
from axla.tensorflow.importer import import_graph, output_named, restored
from axla.tensorflow.messages import TABLES, decode, encode
from axla.tensorflow.reading import read

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))

import tensorflow_files as files  # noqa: E402

FLOAT, STRING = {"type": "DT_FLOAT"}, {"type": "DT_STRING"}


def node(name: str, op: str, *inputs: str, **attributes: Any) -> dict[str, Any]:
    listed = [{"key": key, "value": value} for key, value in attributes.items()]
    return {"name": name, "op": op, "input": list(inputs), "attr": listed}


def shape(*dims: int) -> dict[str, Any]:
    return {"shape": files.shape_message(dims)}


def const(name: str, value: Any) -> dict[str, Any]:
    message = files.tensor_message(np.asarray(value))
    return node(name, "Const", dtype={"type": message["dtype"]}, value={"tensor": message})


DOUBLE = [
    node("x", "Placeholder", dtype=FLOAT, shape=shape(-1, 2)),
    node("y", "AddV2", "x", "x", T=FLOAT),
]
COUNTER = [
    node("x", "Placeholder", dtype=FLOAT, shape=shape(2)),
    node("v", "VarHandleOp", dtype=FLOAT, shape=shape(2), shared_name={"s": b"count"}),
    node("old", "ReadVariableOp", "v", dtype=FLOAT),
    node("new", "AddV2", "old", "x", T=FLOAT),
    node("set", "AssignVariableOp", "v", "new", dtype=FLOAT),
    node("y", "Identity", "new", "^set", T=FLOAT),
]


def restoring(variable: str) -> list[dict[str, Any]]:
    return [
        const("save/Const", np.array(b"model", object)),
        const("names", np.array([b"w"], object)),
        const("parts", np.array([b""], object)),
        node(
            "restored", "RestoreV2", "save/Const", "names", "parts", dtypes={"list": {"type": ["DT_FLOAT"]}}
        ),
        node("assign", "AssignVariableOp", variable, "restored", dtype=FLOAT),
        node("save/restore_all", "NoOp", "^assign"),
    ]


def graph(nodes: list[dict[str, Any]]) -> bytes:
    return encode({"node": nodes}, "GraphDef")


def info(name: str, *dims: int) -> dict[str, Any]:
    return {"name": name, "dtype": "DT_FLOAT", "tensor_shape": files.shape_message(dims)}


def model(folder: Path, *, text: bool = False, tags: tuple[str, ...] = ("serve",)) -> Path:
    """A SavedModel whose signature adds its arguments to a variable, which is 1, 2 in the checkpoint."""
    value = {
        "inputs": [{"key": "x", "value": info("x:0", 2)}],
        "outputs": [{"key": "y", "value": info("y:0", 2)}],
    }
    meta = {
        "meta_info_def": {"tags": list(tags)},
        "graph_def": {"node": [*COUNTER, *restoring("v")]},
        "saver_def": {"filename_tensor_name": "save/Const:0", "restore_op_name": "save/restore_all"},
        "signature_def": [{"key": "serving_default", "value": value}, {"key": "__saved_model_init_op"}],
    }
    message = {"saved_model_schema_version": 1, "meta_graphs": [meta]}
    folder.mkdir(parents=True, exist_ok=True)
    if text:
        lines: list[str] = []
        text_format._write(message, TABLES["SavedModel"], "", lines)
        (folder / "saved_model.pbtxt").write_text("\n".join(lines))
    else:
        (folder / "saved_model.pb").write_bytes(encode(message, "SavedModel"))
    files.write_bundle(folder / "variables" / "variables", {"w": np.asarray([1, 2], np.float32)})
    return folder


# Graphs.


@pytest.mark.parametrize("backend", ["cpu", "interpreter"])
def test_a_graph_is_a_function_by_position(backend):
    f = load(graph(DOUBLE), feeds=["x:0"], fetches=["y:0", "x", "y:0"], backend=backend)
    found = f(np.float32([[1, 2]]))
    assert isinstance(found, list) and len(found) == 3
    assert np.asarray(found[0]).tolist() == [[2, 4]] and np.asarray(found[1]).tolist() == [[1, 2]]
    assert np.asarray(f([[1.0, 2], [3, 4]])[0]).tolist() == [[2, 4], [6, 8]]
    assert repr(f) == "<axla.tensorflow.Function graph(x:0: f32[?,2]) -> y:0, x, y:0>"


def test_every_form_of_a_graph(tmp_path):
    binary = tmp_path / "my graph.pb"
    binary.write_bytes(graph(DOUBLE))
    text = (
        "# a comment\n" + 'node { name: "x" op: "Placeholder" attr { key: "dtype" value { type: DT_FLOAT } } '
    )
    text += 'experimental_type { type_id: 7 args [{ a: [1, 2] }, { s: "x" "y" }] } }\nnew_field: 1\n'
    (tmp_path / "graph.pbtxt").write_text(text)
    meta = tmp_path / "graph.meta"
    meta.write_bytes(
        encode({"meta_info_def": {"tags": ["a"]}, "graph_def": {"node": DOUBLE}}, "MetaGraphDef")
    )
    found = [read(source) for source in (binary, str(binary), graph(DOUBLE), text, text.encode())]
    found += [read(tmp_path / "graph.pbtxt"), read(meta), read(meta.read_bytes())]
    assert {saved.graph["node"][0]["name"] for saved in found} == {"x"}
    assert found[0].name == "my_graph"


@pytest.mark.parametrize("text", [False, True])
def test_the_checkpoint_beside_a_meta_file(tmp_path, text):
    saver = {"filename_tensor_name": "save/Const:0", "restore_op_name": "save/restore_all", "version": "V2"}
    meta = {"graph_def": {"node": [*COUNTER, *restoring("v")]}, "saver_def": saver}
    content = encode(meta, "MetaGraphDef")
    if text:
        lines: list[str] = []
        text_format._write(meta, TABLES["MetaGraphDef"], "", lines)
        content = "\n".join(lines).encode()
    (tmp_path / "m.ckpt-7.meta").write_bytes(content)
    files.write_bundle(tmp_path / "m.ckpt-7", {"w": np.asarray([1, 2], np.float32)})
    f = load(tmp_path / "m.ckpt-7.meta", feeds=["x"], fetches=["y"])
    assert np.asarray(f(np.float32([10, 20]))[0]).tolist() == [11, 22]
    (tmp_path / "m.ckpt-7.index").unlink()
    assert not load(tmp_path / "m.ckpt-7.meta", feeds=["x"], fetches=["y"]).variables


@pytest.mark.parametrize("form", [
    {"traces": [{"key": "y@", "value": {"file_line_cols": [{}, {"file_index": 1, "line": 7}]}}]},
    {
        "name_to_trace_id": [{"key": "y@", "value": 3.0}, {"key": "x@"}],
        "traces_by_id": [{"key": 3.0, "value": {"frame_id": [4.0, 2.0, float("nan")]}}],
        "frames_by_id": [{"key": 2.0, "value": {"file_index": 1, "line": 7}}, {"key": 4.0}],
    },
])  # fmt: skip
def test_the_places_of_nodes_in_a_model(tmp_path, form):
    folder = model(tmp_path)
    (folder / "debug").mkdir()
    debug = encode({"files": ["a.py", "b.py"], **form}, "GraphDebugInfo")
    (folder / "debug" / "saved_model_debug_info.pb").write_bytes(debug)
    nodes = graph_of(read(folder).graph).nodes
    assert nodes["y"].place == ", b.py:7" and not nodes["x"].place


def test_one_of_several_outputs_is_fed():
    nodes = [
        node("x", "Placeholder", dtype=FLOAT, shape=shape(2)),
        node("u", "Unpack", "x", T=FLOAT, num={"i": 2}),
        node("y", "Sub", "u:0", "u:1", T=FLOAT),
    ]
    f = load(graph(nodes), feeds=["x:0", "u:0"], fetches=["y:0"])
    assert np.asarray(f([1, 2], 10)[0]).tolist() == 8


def test_programs_are_kept_for_shapes(monkeypatch):
    f = load(graph(DOUBLE), feeds=["x:0"], fetches=["y:0"])
    made = []
    compiled = axla.api.compile
    monkeypatch.setattr(axla.api, "compile", lambda *a, **k: (made.append(1), compiled(*a, **k))[1])
    for rows in (1, 2, 1, 2, 3):
        assert np.asarray(f(np.ones((rows, 2), np.float32))[0]).shape == (rows, 2)
    assert len(made) == 3


def test_modules():
    f = load(graph(DOUBLE), feeds=["x:0"], fetches=["y:0"])
    for given in (Shape(dtypes.F32, (3, 2)), np.zeros((3, 2), np.float32)):
        assert "f32[3,2]" in f.module(given).to_string()
    with pytest.raises(InvalidArgument, match=r"wanted for x:0: f32\[\?,2\]"):
        f.module()


def test_wrong_arguments():
    f = load(graph(DOUBLE), feeds=["x:0"], fetches=["y:0"])
    for arguments, message in [
        ((np.zeros((1, 2)),), "'x:0' must be of type f32, found f64"),
        ((np.zeros((1, 3), np.float32),), r"must have shape \[\?, 2\], found \[1, 3\]"),
        ((), "argument 'x:0' is missing"),
        ((1, 2), "found 2 arguments, not 1"),
        ((["a"],), "argument 'x:0': could not convert"),
        ((np.array([["a", "b"]]),), "TensorFlow has no element type for"),
    ]:
        with pytest.raises(InvalidArgument, match=message):
            f(*arguments)
    with pytest.raises(InvalidArgument, match="no argument 'z'"):
        f(z=1)


@pytest.mark.parametrize(
    "options, message",
    [
        ({}, "placeholders: x; nodes without users: y"),
        ({"feeds": ["x"]}, "fetches are wanted"),
        ({"feeds": "x", "fetches": ["y"]}, "a list of names"),
        ({"fetches": ["y"], "signature": "s"}, "found both"),
        ({"fetches": ["yy"]}, "no node 'yy'; did you mean y"),
        ({"fetches": ["y:1"]}, "has 1 outputs"),
        ({"fetches": ["y:z"]}, "wanted one like 'node:0'"),
    ],
)
def test_wrong_names(options, message):
    with pytest.raises(AxlaError, match=message):
        load(graph(DOUBLE), **options)


# Variables.


def test_variables_of_a_graph():
    f = load(graph(COUNTER), feeds=["x:0"], fetches=["y:0"])
    assert dict(f.variables) == {} and "count" not in f.variables
    with pytest.raises(VerifyError, match="'count' has no value here"):
        f([1, 2])
    with pytest.raises(InvalidArgument, match="variable 'count' has no value"):
        f.variables["count"]
    for value, message in ((np.zeros(2), "found f64"), ([1.0], r"shape \[2\], found \[1\]")):
        with pytest.raises(InvalidArgument, match=message):
            f.variables["count"] = value
    with pytest.raises(InvalidArgument, match="no variable 'counts'; there are count"):
        f.variables["counts"] = 1
    given = np.float32([10, 20])
    f.variables["count"] = given
    given[:] = 0
    assert np.asarray(f([1, 2])[0]).tolist() == [11, 22]
    assert np.asarray(f([1, 2])[0]).tolist() == [12, 24]
    assert f.variables["count"].tolist() == [12, 24]
    assert repr(f.variables) == "<axla.tensorflow.Variables count: f32[2]>"
    del f.variables["count"]
    assert len(f.variables) == 0


def test_references_of_tensorflow_1():
    nodes = [
        node("v", "VariableV2", dtype=FLOAT, shape=shape(2)),
        const("one", np.ones(2, np.float32)),
        node("set", "AssignAdd", "v", "one", T=FLOAT),
        node("y", "Identity", "set", T=FLOAT),
        node("there", "IsVariableInitialized", "v", dtype=FLOAT),
    ]
    f = load(graph(nodes), fetches=["y:0", "v:0", "there:0"])
    f.variables["v"] = [1, 2]
    y, v, there = map(np.asarray, f())
    assert y.tolist() == v.tolist() == f.variables["v"].tolist() == [2, 3] and there
    with pytest.raises(VerifyError, match="wanted a reference"):
        load(graph([*nodes, node("z", "Assign", "one", "one", T=FLOAT)]), fetches=["z"])


# SavedModels.


@pytest.mark.parametrize("text", [False, True])
def test_a_saved_model(tmp_path, text):
    folder = model(tmp_path / "m", text=text)
    for source in (folder, str(folder), folder / f"saved_model.pb{'txt' * text}"):
        f = load(source)
        assert f.variables["count"].tolist() == [1, 2]
        assert {name: np.asarray(v).tolist() for name, v in f(x=[1, 1]).items()} == {"y": [2, 3]}
        assert np.asarray(f([1, 1])["y"]).tolist() == [3, 4]
    assert "parameter(1)" in f.module().to_string()
    assert np.asarray(load(folder, feeds=["x"], fetches=["new"])([5, 5])[0]).tolist() == [6, 7]


def test_models_without_what_is_wanted(tmp_path):
    folder = model(tmp_path / "m", tags=("train", "gpu"))
    with pytest.raises(InvalidArgument, match="no signature 'other'; there are serving_default"):
        load(folder, signature="other")
    assert load(folder)  # the only graph
    with pytest.raises(InvalidArgument, match="no graph with the tags 'serve': there are gpu train"):
        read(folder, ["serve"])
    assert read(folder, ["train", "gpu"]).signatures
    (folder / "variables" / "variables.data-00000-of-00001").unlink()
    with pytest.raises(InvalidArgument, match="No such file"):
        load(folder)


def test_files_of_a_model_stay_in_its_folder(tmp_path):
    folder = model(tmp_path / "m")
    data = folder / "variables" / "variables.data-00000-of-00001"
    (tmp_path / "secret").write_bytes(data.read_bytes())
    data.unlink()
    data.symlink_to(tmp_path / "secret")
    with pytest.raises(InvalidArgument, match="leads out of the folder"):
        load(folder)


def test_a_checkpoint_without_the_tensor(tmp_path):
    folder = model(tmp_path / "m")
    files.write_bundle(folder / "variables" / "variables", {"ww": np.zeros(2, np.float32)})
    with pytest.raises(VerifyError, match="node 'restored' .* has no tensor 'w'; did you mean ww"):
        load(folder)
    files.write_bundle(folder / "variables" / "variables", {"w": np.zeros(2, np.int32)})
    with pytest.raises(VerifyError, match="is of int32 in the checkpoint, wanted DT_FLOAT"):
        load(folder)


def test_variables_of_strings_are_left_out():
    nodes = [
        *restoring("v"),
        *COUNTER,
        node("s", "VarHandleOp", dtype=STRING, shape=shape(1)),
        node("set_s", "AssignVariableOp", "s", "names", "^assign", dtype=STRING),
        node("all", "NoOp", "^set_s"),
    ]
    saver = {"filename_tensor_name": "save/Const:0", "restore_op_name": "all"}
    found = restored(graph_of({"node": nodes}), saver, {"w": np.float32([1, 2])})
    assert {name: value.tolist() for name, value in found.items()} == {"count": [1, 2]}


def test_parts_of_tensors_are_restored(tmp_path):
    nodes = [
        const("file", np.array(b"", object)),
        const("name", np.array(b"w", object)),
        const("part", np.array(b"2 4 0,1:1,2", object)),
        node("y", "RestoreSlice", "file", "name", "part", dt=FLOAT),
    ]
    read_graph = graph_of({"node": nodes})
    checkpoint = {"w": np.arange(8, dtype=np.float32).reshape(2, 4)}
    made = import_graph(read_graph, [], [output_named("y", read_graph)], checkpoint=checkpoint)
    [found] = axla.compile(made.module).execute([])
    assert np.asarray(found).tolist() == [[1, 2]]


# Other files.


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("m.keras", b"", r"model\.export"),
        ("m.h5", b"", r"model\.export"),
        ("m.bin", b"\x89HDF\r\n", r"an HDF5 file.*model\.export"),
        ("m.zip", b"PK\x03\x04", r"model\.export"),
        ("m.tflite", b"", "TensorFlow Lite"),
        ("m.x", b"\x1c\0\0\0TFL3", "TensorFlow Lite"),
        ("m.onnx", b"", "ONNX"),
        ("m.hlo", b"HloModule m\n", r"axla\.parse"),
    ],
)
def test_other_files_are_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnsupportedError, match=message):
        load(tmp_path / name, fetches=["y"])


def test_what_is_not_there(tmp_path):
    with pytest.raises(InvalidArgument, match=r"nowhere: No such file or directory$"):
        load(str(tmp_path / "nowhere"))
    (tmp_path / "config.json").write_text("")
    with pytest.raises(InvalidArgument, match=r"not a SavedModel.*model\.export.*there are config\.json"):
        load(tmp_path)
    with pytest.raises(InvalidArgument, match="found int"):
        load(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "content", [b"\x0a\xff\xff\xff\xff\x0f", b"\xff" * 20, graph(DOUBLE)[:-3], b"hello", b"\x08"]
)
def test_damaged_graphs(content):
    with pytest.raises(ParseError):
        load(content, fetches=["y"])


def test_parse_says_what_reads_a_graph():
    with pytest.raises(ParseError, match=r"axla\.tensorflow\.load"):
        axla.parse(graph(DOUBLE))


def test_axla_imports_it_when_it_is_used():
    code = "import axla, sys; assert not any(m.startswith('axla.tensorflow') for m in sys.modules)\n"
    code += "axla.tensorflow.load; assert 'tensorflow' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)


def test_an_import_without_state():
    counter = graph_of(
        decode(graph([*COUNTER, node("w", "AssignVariableOp", "v", "x", dtype=FLOAT)]), "GraphDef")
    )
    feeds = [(Output("x", 0), Shape(dtypes.F32, (2,)))]
    for with_state in (True, False):
        made = import_graph(
            counter,
            feeds,
            [Output("y", 0)],
            variables={"count": Shape(dtypes.F32, (2,))},
            with_state=with_state,
        )
        assert made.written == ("count",) * with_state
        assert len(made.module.entry.root.operands) == 1 + with_state


def test_what_needs_tensorflow_says_so(monkeypatch):
    import axla.tensorflow

    monkeypatch.setitem(sys.modules, "tensorflow", None)
    monkeypatch.delitem(vars(axla.tensorflow), "jit", raising=False)
    for module in ("framework", "functions"):
        monkeypatch.delitem(sys.modules, f"axla.tensorflow.clusters.{module}", raising=False)
    with pytest.raises(ImportError, match=r'axla.tensorflow.jit needs TensorFlow.*"axla\[tensorflow\]"'):
        _ = axla.tensorflow.jit
    with pytest.raises(AttributeError, match="no attribute 'jitter'"):
        _ = axla.tensorflow.jitter
