"""Native functions as targets: by library and symbol, by address, in the conventions of XLA and of axla."""

from __future__ import annotations

import ctypes as c
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from entries import run

import axla
from axla.core.errors import CustomCallFailure, InvalidArgument, UnsupportedError
from axla.program.abi import c_header

BACKENDS = ["interpreter", "cpu", "one-lane"]
backends = pytest.mark.parametrize("backend", BACKENDS)

SOURCE = r"""
#include <string.h>
#include "axla_abi.h"

/* the example of the documentation */
void myfunc(void *out, void **in) {
  float (*x)[2] = in[0], (*y)[2][3] = in[1], (*z)[3][3] = out;
  for (int i = 0; i < 3; i++)
    for (int j = 0; j < 3; j++) (*z)[i][j] = 100 * i + 10 * j;
  (*z)[0][0] = (*x)[1] + (*y)[1][0];
}

/* ((f32[3], token, f32[3]), f32[2]) of (f32[3], f32[3]), token, f32[2] */
void leaves(void **out, void **in) {
  float *a = in[0], *b = in[1], *c = in[3];
  int tokens = !in[2] && !out[1];
  for (int k = 0; k < 3; k++) ((float *)out[0])[k] = b[k], ((float *)out[2])[k] = a[k] + tokens;
  for (int k = 0; k < 2; k++) ((float *)out[3])[k] = -c[k];
}

void bytes_as_they_lie(void *out, void **in) { memcpy(out, in[0], 24); }

void add_one_in_place(void *out, void **in) {
  if (out != in[0]) return; /* the test sees it */
  for (int k = 0; k < 100; k++) ((float *)out)[k] += 1;
}

void positive(void *out, void **in, XlaCustomCallStatus *status) {
  float x = *(float *)in[0];
  *(float *)out = x;
  if (x < 0) XlaCustomCallStatusSetFailure(status, "it is negative", 14);
}

void count(void *out, void **in, const char *opaque, size_t length, XlaCustomCallStatus *status) {
  *(int32_t *)out = *(int32_t *)in[0] + (int32_t)length;
  if (length && opaque[0] == 'x') XlaCustomCallStatusSetFailure(status, opaque, length);
}

int32_t framed(axla_frame *frame, void *const *in, void *const *out, const char *opaque, int64_t length) {
  if (frame->version != AXLA_FRAME_VERSION) return 99;
  if (length == 4 && !memcmp(opaque, "fail", 4)) return 42;
  *(float *)out[0] = *(float *)in[0] * 2;
  return AXLA_OK;
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        pytest.skip("no C compiler on the PATH")
    folder = tmp_path_factory.mktemp("library")
    (folder / "axla_abi.h").write_text(c_header())
    (folder / "calls.c").write_text(SOURCE)
    path = folder / "calls.so"
    subprocess.run(
        [compiler, "-O1", "-Wall", "-Werror", "-shared", "-fPIC", "-o", path, folder / "calls.c"], check=True
    )
    return path


MYFUNC = """x = f32[2] constant({1, 2})
y = f32[2,3] constant({{10, 20, 30}, {40, 50, 60}})
ROOT r = f32[3,3] custom-call(x, y), custom_call_target="myfunc\""""


@backends
@pytest.mark.cc
def test_custom_call_of_the_documents(backend, library):
    for target in (library, str(library), c.CDLL(str(library))):
        axla.register_custom_call("myfunc", target)
        (z,) = run(MYFUNC, backend)
        assert z.tolist() == [[42, 10, 20], [100, 110, 120], [200, 210, 220]]
    axla.register_custom_call("myfunc", library, symbol="bytes_as_they_lie")
    x = np.arange(6, dtype=np.float32)
    text = 'a = f32[6] parameter(0)\nROOT r = f32[6] custom-call(a), custom_call_target="myfunc"'
    assert (run(text, backend, x)[0] == x).all()


@backends
def test_a_symbol_of_the_process(backend):
    with pytest.raises(InvalidArgument, match="has no symbol 'no_such_function'"):
        axla.register_custom_call("no_such_function", c.CDLL(None))
    axla.register_custom_call("getpid", c.CDLL(None))
    (z,) = run('ROOT r = f32[] custom-call(), custom_call_target="getpid"', backend)
    assert z.shape == ()


@backends
@pytest.mark.cc
def test_all_symbols_of_a_library(backend, library):
    axla.register_custom_calls(library)
    try:
        assert run(MYFUNC, backend)[0].tolist() == [[42, 10, 20], [100, 110, 120], [200, 210, 220]]
        axla.register_custom_call("myfunc", lambda x, y: np.zeros((3, 3), np.float32))
        assert not run(MYFUNC, backend)[0].any(), "what is registered by its name goes first"
        with pytest.raises(UnsupportedError, match="no such target is registered"):
            run('ROOT r = f32[] custom-call(), custom_call_target="no_such_function"', backend)
    finally:
        axla.unregister_custom_calls()
        axla.unregister_custom_call("myfunc")
    with pytest.raises(UnsupportedError, match="no such target is registered"):
        run(MYFUNC, backend)
    for wrong in (lambda: axla.register_custom_calls("/no/such.so"), lambda: axla.register_custom_calls(3),
                  lambda: axla.register_custom_calls(library, api="python")):  # fmt: skip
        with pytest.raises(InvalidArgument, match="register_custom_calls"):
            wrong()


@backends
@pytest.mark.cc
def test_leaves_in_order_tokens_are_null(backend, library):
    axla.register_custom_call("leaves", library)
    a, b, d = np.float32([1, 2, 3]), np.float32([4, 5, 6]), np.float32([7, 8])
    found = run(
        """a = f32[3] parameter(0)
        b = f32[3] parameter(1)
        d = f32[2] parameter(2)
        p = (f32[3], f32[3]) tuple(a, b)
        t = token[] after-all()
        r = ((f32[3], token[], f32[3]), f32[2]) custom-call(p, t, d), custom_call_target="leaves"
        q = (f32[3], token[], f32[3]) get-tuple-element(r), index=0
        x = f32[3] get-tuple-element(q), index=0
        y = f32[3] get-tuple-element(q), index=2
        z = f32[2] get-tuple-element(r), index=1
        ROOT w = (f32[3], f32[3], f32[2]) tuple(x, y, z)""",
        backend, a, b, d,
    )  # fmt: skip
    assert [x.tolist() for x in found] == [[4, 5, 6], [2, 3, 4], [-7, -8]]


@backends
@pytest.mark.cc
def test_layouts_say_how_bytes_lie(backend, library):
    axla.register_custom_call("raw", library, symbol="bytes_as_they_lie")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    call = 'a = f32[2,3] parameter(0)\nROOT r = f32[2,3]{%s} custom-call(a), custom_call_target="raw"'
    limits = ", operand_layout_constraints={f32[2,3]{%s}}"
    # Without constraints a call sees default layouts, whatever its own shape says.
    assert (run(call % "0,1", backend, x)[0] == x).all()
    assert (run(call % "0,1" + limits % "0,1", backend, x)[0] == x).all()
    assert (run(call % "1,0" + limits % "0,1", backend, x)[0] == x.T.reshape(2, 3)).all()
    assert (run(call % "0,1" + limits % "1,0", backend, x)[0] == x.reshape(3, 2).T).all()


@backends
@pytest.mark.cc
def test_a_result_in_the_memory_of_an_operand(backend, library):
    axla.register_custom_call("inc", library, symbol="add_one_in_place")
    x = np.zeros(100, np.float32)
    y, z, w = run(
        """a = f32[100] parameter(0)
        r = f32[100] custom-call(a), custom_call_target="inc", output_to_operand_aliasing={{}: (0, {})}
        s = f32[100] custom-call(r), custom_call_target="inc", output_to_operand_aliasing={{}: (0, {})}
        ROOT t = (f32[100], f32[100], f32[100]) tuple(a, r, s)""",
        backend, x,
    )  # fmt: skip
    assert (x == 0).all() and (y == 0).all() and (z == 1).all() and (w == 2).all()


@pytest.mark.parametrize("aliases, message", [
    ("{{0}: (0, {})}", "no subshape"),
    ("{{}: (1, {})}", "names operand 1 of only 1 operands"),
    ("{{}: (0, {1})}", "no subshape"),
])  # fmt: skip
def test_aliases_of_what_is_not_there(aliases, message):
    text = (
        'ENTRY e {\n a = f32[3] parameter(0)\n ROOT r = f32[3] custom-call(a), custom_call_target="x", '
        f"output_to_operand_aliasing={aliases}\n}}"
    )
    with pytest.raises(axla.AxlaError, match=message):
        axla.compile(axla.parse(text))


def test_constraints_of_other_shapes():
    text = """ENTRY e {
    a = f32[3] parameter(0)
    ROOT r = f32[3] custom-call(a), custom_call_target="x", operand_layout_constraints={f32[4]{0}} }"""
    with pytest.raises(axla.AxlaError, match=r"operand 0 is f32\[3\], but its layout constraint is f32\[4\]"):
        axla.compile(axla.parse(text))


STATUS = ", api_version=API_VERSION_STATUS_RETURNING"
UNIFIED = ", api_version=API_VERSION_STATUS_RETURNING_UNIFIED"


@backends
@pytest.mark.cc
def test_status_returning(backend, library):
    axla.register_custom_call("positive", library, api="status_returning")
    text = 'a = f32[] parameter(0)\nROOT r = f32[] custom-call(a), custom_call_target="positive"' + STATUS
    assert run(text, backend, np.float32(2)) == [2]
    for _ in range(2):
        with pytest.raises(CustomCallFailure, match=r"custom-call 'positive' \(%r\): it is negative"):
            run(text, backend, np.float32(-2))
    axla.register_custom_call("count", library, api="status_returning_unified")
    text = 'a = s32[] parameter(0)\nROOT r = s32[] custom-call(a), custom_call_target="count"' + UNIFIED
    assert run(text, backend, np.int32(2)) == [2]
    assert run(text + ', backend_config="abc"', backend, np.int32(2)) == [5]
    with pytest.raises(CustomCallFailure, match="custom-call 'count'.*: xyz"):
        run(text + ', backend_config="xyz"', backend, np.int32(2))


@backends
@pytest.mark.cc
def test_frame_and_error_code(backend, library):
    axla.register_custom_call("framed", library, api="axla")
    text = 'a = f32[] parameter(0)\nROOT r = f32[] custom-call(a), custom_call_target="framed"'
    assert run(text, backend, np.float32(2)) == [4]
    with pytest.raises(CustomCallFailure, match=r"'framed' \(%r\): it returned the error code 42"):
        run(text + ', backend_config="fail"', backend, np.float32(2))


@backends
def test_callbacks_of_ctypes(backend):
    @c.CFUNCTYPE(None, c.POINTER(c.c_float), c.POINTER(c.POINTER(c.c_float)))
    def double(out, ins):
        for k in range(3):
            out[k] = 2 * ins[0][k]

    text = 'a = f32[3] parameter(0)\nROOT r = f32[3] custom-call(a), custom_call_target="double"'
    address = c.cast(double, c.c_void_p)
    for target in (double, address, address.value):
        axla.register_custom_call("double", target)
        assert run(text, backend, np.float32([1, 2, 3]))[0].tolist() == [2, 4, 6]


def test_objects_with_an_address():
    class Compiled:  # as Numba's cfunc
        def __init__(self, function):
            self.function = function
            self.address = c.cast(function, c.c_void_p).value

        def __call__(self):
            raise AssertionError("the address is what is called")

    @c.CFUNCTYPE(None, c.POINTER(c.c_int32), c.c_void_p)
    def seven(out, ins):
        out[0] = 7

    axla.register_custom_call("seven", Compiled(seven))
    assert run('ROOT r = s32[] custom-call(), custom_call_target="seven"', "cpu") == [7]


def test_callbacks_of_cffi():
    cffi = pytest.importorskip("cffi", reason="cffi is not installed")
    ffi = cffi.FFI()

    @ffi.callback("void(int *, void **)")
    def seven(out, ins):
        out[0] = 7

    axla.register_custom_call("seven", seven)
    assert run('ROOT r = s32[] custom-call(), custom_call_target="seven"', "cpu") == [7]


@backends
def test_versions_are_honoured_or_refused(backend):
    function = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p)(lambda out, ins: None)
    axla.register_custom_call("f", function)
    text = 'a = f32[] parameter(0)\nROOT r = f32[] custom-call(a), custom_call_target="f"'
    wanted = r"API_VERSION_STATUS_RETURNING, void f\(.*registered with api='original', void f\("
    with pytest.raises(UnsupportedError, match=wanted):
        run(text + STATUS, backend, np.float32(0))
    with pytest.raises(UnsupportedError, match=r"TYPED_FFI, XLA_FFI_Error \*f\(.* api='original'"):
        run(text + ", api_version=API_VERSION_TYPED_FFI", backend, np.float32(0))
    function = c.CFUNCTYPE(None, c.c_void_p, c.c_void_p, c.c_void_p)(lambda out, ins, status: None)
    axla.register_custom_call("f", function, api="status_returning")
    with pytest.raises(UnsupportedError, match="ORIGINAL, .*registered with api='status_returning'"):
        run(text, backend, np.float32(0))


def test_what_is_no_function_is_refused(tmp_path):
    with pytest.raises(InvalidArgument, match="cannot load the library"):
        axla.register_custom_call("f", tmp_path / "nothing.so")
    with pytest.raises(InvalidArgument, match="the process has no symbol 'no_such_symbol'"):
        axla.register_custom_call("f", c.CDLL(None), symbol="no_such_symbol")
    for address in (0, -1, 1 << 64, c.c_void_p()):
        with pytest.raises(InvalidArgument, match="is not the address of a function"):
            axla.register_custom_call("f", address)
    with pytest.raises(InvalidArgument, match="api='python' is for Python functions"):
        axla.register_custom_call("f", 1 << 20, api="python")
    for path in ("nothing\0.so", "\udc80.so"):
        with pytest.raises(InvalidArgument, match="cannot load the library"):
            axla.register_custom_call("f", path)


@pytest.mark.parametrize(
    "result, types, api",
    [
        (None, [c.c_void_p], "original"),
        (None, [c.c_void_p] * 3, "original"),
        (None, [c.c_void_p] * 2, "status_returning"),
        (None, [c.c_void_p, c.c_int], "original"),
        (None, [c.c_void_p, c.c_double], "original"),
        (None, [c.c_void_p] * 4 + [c.c_int64], "axla"),
        (c.c_int32, [c.c_void_p] * 4, "axla"),
    ],
)
def test_ctypes_functions_of_another_signature_are_refused(result, types, api):
    function = c.CFUNCTYPE(result, *types)(lambda *arguments: 0)
    with pytest.raises(InvalidArgument, match=f"api='{api}' wants"):
        axla.register_custom_call("f", function, api=api)


@pytest.mark.cc
def test_a_program_in_another_process(library, tmp_path):
    """The program is loaded where the name means a function of another convention."""
    import pickle

    axla.register_custom_call("myfunc", library)
    (tmp_path / "program").write_bytes(pickle.dumps(axla.compile(axla.parse(f"ENTRY e {{\n{MYFUNC}\n}}"))))
    code = f"""
import pickle, axla, numpy
data = open({str(tmp_path / "program")!r}, "rb").read()
axla.register_custom_call("myfunc", lambda x, y: y)
try:
    pickle.loads(data)
except axla.UnsupportedError as error:
    assert "compiled for api='original'" in str(error), error
else:
    raise AssertionError
axla.register_custom_call("myfunc", {str(library)!r})
assert numpy.asarray(pickle.loads(data)())[0, 0] == 42
"""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


@backends
@pytest.mark.cc
def test_untyped_functions_are_called_as_the_call_says(backend, library):
    axla.register_custom_call("positive", library, api="untyped")
    text = 'a = f32[] parameter(0)\nROOT r = f32[] custom-call(a), custom_call_target="positive"' + STATUS
    assert run(text, backend, np.float32(3))[0] == 3
    with pytest.raises(CustomCallFailure, match="it is negative"):
        run(text, backend, np.float32(-3))
    with pytest.raises(
        UnsupportedError, match="registered with api='untyped', the function that the version"
    ):
        run(text.replace("STATUS_RETURNING", "TYPED_FFI"), backend, np.float32(3))


def test_capsules_hold_addresses():
    made = c.CFUNCTYPE(None, c.c_void_p, c.POINTER(c.POINTER(c.c_float)))
    function = made(lambda out, ins: c.memmove(out, c.byref(c.c_float(ins[0][0] + 1)), 4) and None)
    new = c.PYFUNCTYPE(c.py_object, c.c_void_p, c.c_char_p, c.c_void_p)(("PyCapsule_New", c.pythonapi))
    for name in (None, b"xla._CUSTOM_CALL_TARGET"):
        axla.register_custom_call("f", new(c.cast(function, c.c_void_p), name, None))
        text = 'a = f32[] parameter(0)\nROOT r = f32[] custom-call(a), custom_call_target="f"'
        assert run(text, "cpu", np.float32(2))[0] == 3
