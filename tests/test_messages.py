"""Messages are helpful: they name the cause, and no remedy that does not work."""

import numpy as np
import pytest

import axla
from axla import ops
from axla.aot.config import read_config
from axla.core.errors import AxlaError, ParseError, ShapeError, UnsupportedError

BACKENDS = ["cpu", "interpreter"]


def error_of(text, backend):
    with pytest.raises(AxlaError) as caught:
        axla.compile(axla.parse(text), backend=backend)(np.ones(4, np.float32))
    return str(caught.value)


def inside_map(body):
    return f"""f {{ x = f32[] parameter(0) {body} }}
    ENTRY e {{ p = f32[4] parameter(0) ROOT r = f32[4] map(p), dimensions={{0}}, to_apply=f }}"""


def test_what_the_cpu_does_not_compile_is_not_said_to_run_elsewhere():
    recv = """ENTRY e { p = f32[4] parameter(0) t = token[] after-all()
      r = (f32[4], u32[], token[]) recv(t), channel_id=1
      ROOT d = (f32[4], token[]) recv-done(r), channel_id=1 }"""
    message = error_of(recv, "cpu")
    assert "no send has the same channel" in message and "interpreter" not in message
    state = """ENTRY e { p = f32[4] parameter(0) s = u32[3] constant({1, 2, 3})
      ROOT r = (u32[3], u32[4]) rng-bit-generator(s), algorithm=rng_default }"""
    for backend in BACKENDS:
        assert "the state of rng_default must be u64[2] or u64[3], found u32[3]" in error_of(state, backend)
    unused = """ENTRY e { s = u32[3] constant({1, 2, 3})
      r = (u32[3], u32[4]) rng-bit-generator(s), algorithm=rng_default
      t = ((u32[3], u32[4]), u32[3]) tuple(r, s)
      ROOT x = u32[3] get-tuple-element(t), index=1 }"""
    for backend in BACKENDS:
        assert axla.compile(axla.parse(unused), backend=backend).execute([])[0].tolist() == [1, 2, 3]


def test_an_infeed_inside_a_map_is_called_infeed(monkeypatch):
    monkeypatch.setattr(axla.feeds(0).infeed, "timeout", 0.05)
    body = """t = token[] after-all() i = (f32[], token[]) infeed(t)
      v = f32[] get-tuple-element(i), index=0 ROOT a = f32[] add(x, v)"""
    message = error_of(inside_map(body), "cpu")
    assert "infeed" in message and "does not compile custom-call" not in message


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_callback_of_python_is_not_offered_for_registration(backend):
    text = """ENTRY e { x = f32[4] parameter(0) ROOT a = f32[4] custom-call(x),
      custom_call_target="xla_ffi_python_cpu_callback", api_version=API_VERSION_TYPED_FFI,
      backend_config={index = 0 : ui64} }"""
    message = error_of(text, backend)
    assert "Python function of the process that traced the program" in message
    assert "register_custom_call" not in message


def test_an_unknown_custom_call_ahead_of_time_is_for_this_process_only(tmp_path):
    text = 'ENTRY e { x = f32[4] parameter(0) ROOT a = f32[4] custom-call(x), custom_call_target="some" }'
    with pytest.raises(UnsupportedError, match="some"):
        axla.aot.compile(axla.parse(text), out=tmp_path / "lib")
    assert "no such target is registered: use axla.register_custom_call" in error_of(text, "cpu")


@pytest.mark.parametrize("backend", BACKENDS)
def test_an_infeed_that_does_not_wait_is_empty(backend):
    feed = axla.feeds().infeed
    before, feed.timeout = feed.timeout, 0.0
    text = "ENTRY e { t = token[] after-all() ROOT i = (f32[], token[]) infeed(t) }"
    try:
        with pytest.raises(axla.DeadlineExceeded, match="infeed of device 0: it is empty"):
            axla.compile(axla.parse(text), backend=backend)()
    finally:
        feed.timeout = before


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


NODE = field(1, field(1, b"x") + field(2, b"Placeholder"))


@pytest.mark.parametrize(
    "content",
    ['node {\n  name: "x"\n  op: "Placeholder"\n}\n', NODE + field(4, b"\x08\x01"), NODE + b"\xff\xff"],
    ids=["text", "wire", "wire that is not UTF-8"],
)
def test_a_graph_of_tensorflow_is_recognised(content):
    with pytest.raises(ParseError, match=r"TensorFlow GraphDef, .*axla.tensorflow.load"):
        axla.parse(content)


def test_protos_of_hlo_are_no_graphs_of_tensorflow():
    from axla.proto import to_proto

    module = axla.parse("HloModule X\nENTRY Main { ROOT p = f32[] parameter(0) }")
    for form in ("module", "hlo", "snapshot"):
        assert axla.parse(to_proto(module, form)).entry.name == "Main"
    assert axla.parse("node { ROOT p = f32[] parameter(0) }").entry.name == "node"


def test_a_damaged_binary_configuration_of_tfcompile_is_named(tmp_path):
    file = tmp_path / "config.pb"
    file.write_bytes(b"\x0a\xff\xfe\x00")
    with pytest.raises(ParseError) as caught:
        read_config(file)
    assert str(caught.value).startswith(f"{file}: Config.feed[0]: the length is 16255 bytes")


def test_the_file_of_a_wrong_configuration_is_named_by_the_command(tmp_path, capsys):
    from axla.tools.main import main

    program, config = tmp_path / "f.hlo", tmp_path / "config.pbtxt"
    program.write_text("ENTRY e { ROOT p = f32[] parameter(0) }")
    config.write_text("fetsch { }")
    assert main(["compile", str(program), "-o", str(tmp_path / "lib"), "--config", str(config)]) == 1
    assert capsys.readouterr().err.startswith(f"axla: error: {config}: Config has no field 'fetsch'")


def test_triangular_solve_says_that_ranks_differ():
    b = axla.XlaBuilder("t")
    a, x = (ops.Parameter(b, n, axla.Shape(axla.dtypes.F32, d)) for n, d in enumerate([(3, 3), (3,)]))
    plain = ops.TriangularSolveOptions_Transpose.NO_TRANSPOSE
    with pytest.raises(ShapeError, match=r"ranks and batch dimensions must be equal, found"):
        ops.TriangularSolve(a, x, True, True, False, plain)
