"""Handlers of XLA's typed FFI, compiled with the headers that jaxlib ships (handlers.cc)."""

from __future__ import annotations

import ctypes as c
import gc
import threading

import numpy as np
import pytest
from entries import run

import axla
from axla.codegen.native import ffi
from axla.core.errors import CustomCallFailure, InvalidArgument, UnsupportedError
from axla.core.status import Status, status_of
from native_handlers import handlers_library

pytestmark = pytest.mark.cc
BACKENDS = ["interpreter", "cpu", "one-lane"]
backends = pytest.mark.parametrize("backend", BACKENDS)
TYPED = "api_version=API_VERSION_TYPED_FFI"


@pytest.fixture
def library():
    return handlers_library()


@pytest.fixture(autouse=True)
def registered(library):
    names = "attributes scale sums describe tokens aligned reverse tasks later context run_of"
    for name in names.split():
        axla.register_custom_call(name, library, api="ffi")


def call(target: str, operands: str, result: str, config: str = "") -> str:
    said = f", backend_config={{{config}}}" if config else ""
    return f'{result} custom-call({operands}), custom_call_target="{target}", {TYPED}{said}'


def test_structs_lie_as_in_the_headers(library):
    class Fact(c.Structure):
        _fields_ = [("type", c.c_char_p), ("field", c.c_char_p), ("value", c.c_uint64)]

    structs = {s.name.removeprefix("XLA_FFI_"): s for s in (
        ffi.BUFFER, ffi.ATTRS, ffi.CALL_FRAME, ffi.API, ffi.METADATA_EXTENSION, ffi.METADATA, ffi.TYPE_INFO,
        ffi.HANDLER_REGISTER, ffi.TYPE_REGISTER, *ffi.ARGUMENTS.values(),
    )}  # fmt: skip
    sizes = {
        "Args": 40, "Rets": 40, "Api_Version": 24, "Metadata": ffi.METADATA.offset("traits") + 4,
        "CallFrame": ffi.CALL_FRAME.offset("future"),
    }  # fmt: skip
    renamed = {
        "args_args": "args",
        "rets_rets": "rets",
        "attrs_attrs": "attrs",
        "api_version": "version_struct_size",
    }
    facts, n = c.cast(library.layout, c.POINTER(Fact)), 0
    while facts[n].type:
        name, field, value = facts[n].type.decode(), facts[n].field.decode().replace(".", "_"), facts[n].value
        field = renamed.get(field, field.removeprefix("bundle_"))
        if field:
            assert structs[name].offset(field) == value, (name, field)
        elif name == "Api":
            assert ffi.API.size >= value
        else:
            assert sizes.get(name) or structs[name].size == value, name
        n += 1
    assert n > 90


@backends
def test_attributes_of_every_kind(backend):
    config = """
      pred = true, s8 = -8 : i8, s16 = -16 : i16, s32 = -32 : i32, s64 = -64 : i64, u8 = 200 : ui8,
      u16 = 60000 : ui16, u32 = 4000000000 : ui32, u64 = 18446744073709551615 : ui64, f32 = 0.5 : f32,
      f64 = 0x3FB999999999999A : f64, as8 = array<i8: 1, 2>, as16 = array<i16>, as32 = array<i32: 3>,
      as64 = array<i64: 4, 5>, au8 = dense<[6, 7]> : tensor<2xui8>, au64 = dense<8> : tensor<3xui64>,
      af32 = array<f32: 1.5, 2.5>, af64 = array<f64: 9.0>, matrix = dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>,
      text = "h\\C3\\A9\\00\\22\\\\", inner = {deepest = {one = 1 : i64}, other = ""}"""
    (y,) = run("ROOT r = " + call("attributes", "", "f64[25]", config), backend)
    wanted = [
        1, -8, -16, -32, -64, 200, 60000, 4000000000, 2.0**64, 0.5, 0.1, 12, 0, 3, 45, 67, 888, 17.5, 9, 1234,
        6, 1, 2, 1, 22,
    ]  # fmt: skip
    assert y.tolist() == wanted


def test_an_attribute_that_handlers_have_no_kind_for_is_refused():
    for config, said in (
        ("names = [1, 2]", "attribute 'names' is a list"),
        ("big = dense<1> : tensor<1000000000000xi64>", "attribute 'big' has 8000000000000 bytes"),
        ("x = 1 : i7", "expected one of the types"),
    ):
        with pytest.raises(UnsupportedError, match=said):
            run("ROOT r = " + call("sums", "", "f32[]", config), "cpu")


@backends
def test_several_results_and_attributes_by_name(backend):
    body = """x = f32[3] parameter(0)
    r = """ + call("scale", "x", "(f32[3], f32[])", 'factor = 2.0 : f32, fail = ""') + """
    y = f32[3] get-tuple-element(r), index=0
    s = f32[] get-tuple-element(r), index=1
    ROOT t = (f32[3], f32[]) tuple(y, s)"""  # fmt: skip
    y, s = run(body, backend, np.float32([1, 2, 3]))
    assert y.tolist() == [2, 4, 6] and s == 12
    with pytest.raises(
        (CustomCallFailure, UnsupportedError), match="Wrong number of attributes: expected 2 but got 1"
    ):
        run(body.replace(', fail = ""', ""), backend, np.float32([1, 2, 3]))


@backends
def test_errors_have_code_and_message(backend):
    text = "x = f32[3] parameter(0)\nROOT r = " + call(
        "scale", "x", "(f32[3], f32[])", 'factor = 2.0 : f32, fail = "too far: \\C3\\A9"'
    )
    with pytest.raises(CustomCallFailure, match=r"custom-call 'scale'.*: OUT_OF_RANGE: too far: é") as caught:
        run(text, backend, np.float32([1, 2, 3]))
    assert caught.value.status is Status.OUT_OF_RANGE is status_of(caught.value)


@backends
@pytest.mark.parametrize("count", [0, 1, 60])
def test_any_number_of_operands_and_results(backend, count):
    names = [f"x{n}" for n in range(count)]
    lines = [f"{name} = f32[2] parameter({n})" for n, name in enumerate(names)]
    results = ", ".join(["f32[2]"] * 40)
    body = "\n".join([*lines, "ROOT r = " + call("sums", ", ".join(names), f"({results})")])
    values = [np.float32([n, 1]) for n in range(count)]
    found = run(body, backend, *values)
    wanted = np.sum(values, axis=0, initial=0) if values else np.zeros(2)
    assert all((y == wanted * (k + 1)).all() for k, y in enumerate(found)) and len(found) == 40


@backends
def test_element_types_sizes_and_layouts(backend):
    types = {
        "pred[2,3]": 1, "s8[4]": 2, "u64[]": 9, "f16[2,2,2]": 10, "bf16[5]": 16, "f64[0,7]": 12, "c64[3]": 15,
        "c128[1]": 18, "f8e5m2[6]": 19, "f8e4m3fn[6]": 20,
    }  # fmt: skip
    lines = [f"p{n} = {kind} parameter({n})" for n, kind in enumerate(types)]
    operands = ", ".join(f"p{n}" for n in range(len(types)))
    body = "\n".join([*lines, "ROOT r = " + call("describe", operands, f"s64[{len(types)},6]")])
    shapes = [p.shape for p in axla.parse(f"ENTRY e {{ {body} }}").entry.parameters]
    (y,) = run(body, backend, *[np.ones(s.dims, s.dtype.numpy) for s in shapes])
    for row, shape, code in zip(y.tolist(), shapes, types.values(), strict=True):
        dims = [*shape.dims[:2], -1, -1][:2]
        assert row[:5] == [code, shape.rank, shape.byte_size, *dims]
        assert not shape.byte_size or row[5] == np.ones(1, shape.dtype.numpy).tobytes()[0]
    laid = call("describe", "x", "s64[1,6]") + ", operand_layout_constraints={u8[2,3]{0,1}}"
    (y,) = run(
        "x = u8[2,3] parameter(0)\nROOT r = " + laid.replace("s64[1,6]", "s64[1,6]{1,0}"),
        backend,
        np.uint8([[7] * 3] * 2),
    )
    assert y.tolist() == [[6, 2, 6, 2, 3, 7]]


@backends
def test_tokens_are_arrays_without_data(backend):
    (y,) = run(
        "x = f32[3] parameter(0)\nt = token[] after-all()\nr = "
        + call("tokens", "t, x, t", "(token[], f32[3])")
        + "\nROOT y = f32[3] get-tuple-element(r), index=1",
        backend, np.float32([1, 2, 3]),
    )  # fmt: skip
    assert y.tolist() == [1, 2, 3]


@backends
@pytest.mark.parametrize("offsets", [(0, 0), (1, 0), (0, 1), (3, 5)])
def test_arrays_are_aligned(backend, offsets):
    block = np.zeros(400, np.float32)
    first = -block.ctypes.data % 64 // 4
    a, b = (block[first + 100 * n + k :][:5] for n, k in enumerate(offsets))
    a[...], b[...] = np.arange(5) + 2, np.arange(5) * 10
    text = call("aligned", "a, b", "(f32[5], f32[5])") + ", output_to_operand_aliasing={{0}: (1, {})}"
    y, z = run(f"a = f32[5] parameter(0)\nb = f32[5] parameter(1)\nROOT r = {text}", backend, a, b)
    assert y.tolist() == [2, 12, 22, 32, 42] and z.tolist() == [-2, -3, -4, -5, -6]
    assert b.tolist() == [0, 10, 20, 30, 40]


@backends
def test_scratch_memory(backend):
    x, body = np.arange(100, dtype=np.float32), "x = f32[100] parameter(0)\nROOT r = "
    (y,) = run(body + call("reverse", "x", "f32[100]", "alignment = 64 : i64"), backend, x)
    assert (y == x[::-1]).all()
    with pytest.raises(CustomCallFailure, match="RESOURCE_EXHAUSTED: no scratch memory"):
        run(body + call("reverse", "x", "f32[100]", "alignment = 4096 : i64"), backend, x)


@backends
def test_tasks_on_threads(backend):
    x = np.arange(300, dtype=np.float32)
    body = "x = f32[300] parameter(0)\nROOT r = "
    y, threads = run(body + call("tasks", "x", "(f32[300], s64[])"), backend, x)
    assert (y == x * x).all() and threads == axla.num_threads()


@backends
def test_a_handler_that_is_done_later(backend):
    x = np.arange(20, dtype=np.float32)
    body = "x = f32[20] parameter(0)\ny = " + call("later", "x", "f32[20]") + "\nROOT z = f32[20] add(y, x)"
    (z,) = run(body, backend, x)
    assert (z == x * x + x).all()
    with pytest.raises(CustomCallFailure, match="DATA_LOSS: a negative element"):
        run(body, backend, x - 5)


def test_what_a_context_has(library):
    with pytest.raises(
        CustomCallFailure, match="FAILED_PRECONDITION: .*CPUs have no stream.*no user data of this type"
    ):
        run("ROOT r = " + call("context", "", "s64[2]"), "cpu")
    client = axla.Client("cpu", devices=2)
    text = "HloModule m\nENTRY e { ROOT r = " + call("run_of", "", "s64[2]") + " }"
    program = client.compile(axla.parse(text), num_partitions=2)
    (a,), (b,) = program.execute_replicated([[], []])
    assert a[0] == b[0] and [int(a[1]), int(b[1])] == [0, 1]


def _counter(library, backend, first=5):
    text = "HloModule m\nENTRY e { ROOT r = " + call("counter", "", "s64[]", f"first = {first} : i64")
    return axla.compile(axla.parse(text + ", custom_call_has_side_effect=true }"), backend=backend)


def _register_counter(library):
    pointers = [c.CFUNCTYPE(c.c_void_p)((name, library))() for name in ("counter_type", "counter_info")]
    axla.register_ffi_type("test.counter", *pointers)
    stages = {"instantiate": library.counter_begin, "execute": library.counter}
    axla.register_custom_call("counter", stages, api="ffi")


@backends
def test_state_of_a_call_site(library, backend):
    _register_counter(library)
    alive = library.counters_alive
    program, other = _counter(library, backend), _counter(library, backend, 7)
    assert [int(program()) for _ in range(3)] == [5, 6, 7] and int(other()) == 7
    assert alive() == 2
    del program, other
    gc.collect()
    assert alive() == 0
    with pytest.raises((CustomCallFailure, UnsupportedError), match="INVALID_ARGUMENT: first is negative"):
        _counter(library, backend, -1)
    axla.register_custom_call("counter", library, api="ffi")
    with pytest.raises(CustomCallFailure, match="the call has no state: its handler"):
        _counter(library, backend)()


def test_types_are_registered_once(library):
    _register_counter(library)
    _register_counter(library)  # the same type again
    number = c.c_int64(0)
    with pytest.raises(InvalidArgument, match="already registered for type"):
        axla.register_ffi_type("test.counter", c.addressof(number))
    with pytest.raises(InvalidArgument, match="wanted two addresses"):
        axla.register_ffi_type("test.other", "no address")
    axla.register_ffi_type("test.other", c.addressof(number))
    assert number.value


def test_versions(library):
    for name, said in (("0_0", "0.0"), ("1_0", "1.0")):
        axla.register_custom_call("old", library, symbol=f"version_{name}", api="ffi")
        with pytest.raises(
            UnsupportedError, match=f"compiled for FFI version {said}, axla supports 0.1 to 0.5"
        ):
            run("ROOT r = " + call("old", "", "f32[]"), "cpu")
    axla.register_custom_call("old", library, symbol="version_0_1", api="ffi")
    run("ROOT r = " + call("old", "", "f32[]"), "cpu")
    axla.register_custom_call("new", library, symbol="version_0_99", api="ffi")
    with pytest.raises(CustomCallFailure, match="UNIMPLEMENTED: the function is of a newer version"):
        run("ROOT r = " + call("new", "", "f32[]"), "cpu")


def test_a_handler_registers_others(library):
    axla.register_custom_call("registers", library, api="ffi")
    with pytest.raises(CustomCallFailure, match="UNIMPLEMENTED: handler 'registered' is for platform 'CUDA'"):
        run("ROOT r = " + call("registers", "", "f32[]"), "cpu")
    run("ROOT r = " + call("registered", "", "f32[]"), "cpu")


def test_what_is_registered_wrongly_is_refused(library):
    for target, api, said in (
        ({"execute": library.scale}, None, "needs api='ffi', found api=None"),
        ({"run": library.scale}, "ffi", "stage 'run'; there are instantiate, prepare, initialize, execute"),
        ({"instantiate": library.scale}, "ffi", "the stage 'execute' is missing"),
        (lambda x: x, "ffi", "is for native functions"),
        (c.CFUNCTYPE(c.c_void_p)(lambda: None), "ffi", r"wants XLA_FFI_Error \*f\(XLA_FFI_CallFrame \*\)"),
    ):
        with pytest.raises(InvalidArgument, match=said):
            axla.register_custom_call("wrong", target, api=api)
    axla.register_custom_call("scale", library)
    with pytest.raises(
        UnsupportedError, match=r"XLA_FFI_Error \*f\(XLA_FFI_CallFrame \*\), but .* api='original'"
    ):
        run("ROOT r = " + call("scale", "", "f32[]"), "cpu")


def test_runs_of_several_threads_share_nothing():
    text = "HloModule m\nENTRY e { x = f32[20] parameter(0)\nROOT r = " + call("later", "x", "f32[20]") + " }"
    other = (
        "HloModule m\nENTRY e { x = f32[9] parameter(0)\nROOT r = "
        + call("sums", ", ".join("x" * 99), "f32[9]")
        + " }"
    )
    program, many = axla.compile(axla.parse(text)), axla.compile(axla.parse(other))
    wrong = []

    def work(number: int) -> None:
        for k in range(20):
            x = np.full(20, number * 20 + k, np.float32)
            if (
                not (np.asarray(program(x)) == x * x).all()
                or not (np.asarray(many(x[:9])) == x[:9] * 99).all()
            ):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
