"""Calls: results, arguments of all kinds, wrong ones, errors of programs."""

from __future__ import annotations

import pickle
import sys

import ml_dtypes
import native_programs as programs
import numpy as np
import pytest

import axla
from axla.backends.native import NativeExecutable as Executable
from axla.core import dtypes
from axla.core.errors import InvalidArgument, OutOfMemory, RuntimeFailure, UnsupportedError
from axla.core.shape import Shape
from axla.custom.registry import register_custom_call
from axla.custom.site import TableFunction
from axla.program.interface import Interface, ValueSpec
from axla.runtime.array import Array, device_put

A = np.arange(64, dtype=np.float32)
B = np.linspace(-1, 1, 64, dtype=np.float32)


@pytest.fixture(scope="module", params=[False, True], ids=["short", "long"])
def add(request):
    return programs.add(64, long_running=request.param)


def test_arrays_and_numpy_arrays(add):
    for x in (A, device_put(A)):
        for y in (B, device_put(B)):
            result = add(x, y)
            assert isinstance(result, Array) and result.shape == (64,) and result.dtype == np.float32
            np.testing.assert_array_equal(np.asarray(result), A + B)


def test_execute_gives_a_list(add):
    results = add.execute([A, B])
    assert type(results) is list and len(results) == 1
    np.testing.assert_array_equal(results[0], A + B)


@pytest.mark.parametrize(
    "argument",
    [
        np.repeat(A, 2)[::2],
        A[::-1].copy()[::-1],
        np.asfortranarray(A),
        np.frombuffer(b"x" + A.tobytes(), np.uint8)[1:].view(np.float32),
        A.astype(">f4").astype("<f4"),
        np.ma.array(A),
        memoryview(A),
    ],
    ids=["strided", "reversed", "fortran", "unaligned", "swapped", "subclass", "memoryview"],
)
def test_unusual_arguments_are_converted(add, argument):
    np.testing.assert_array_equal(np.asarray(add(argument, B)), A + B)


def test_inputs_are_not_kept(add):
    x = A.copy()
    before = sys.getrefcount(x)
    result = add(x, B)
    assert sys.getrefcount(x) == before
    x[:] = 0
    np.testing.assert_array_equal(np.asarray(result), A + B)


def test_scalars_of_python_take_the_parameters_type():
    add = programs.add(1)
    one = Interface("one", (programs.spec("x"), programs.spec("y")), (programs.spec("z"),))
    scalar = Executable(add._images, one)
    assert float(scalar(1.5, 2)) == 3.5
    assert scalar(np.float32(1), np.array(2, np.float32)).shape == ()
    with pytest.raises(InvalidArgument, match=r"parameter 1 \(y\): wanted f32\[\], found complex128"):
        scalar(1.0, 2j)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((A,), r"add: 1 arguments, wanted 2 \(a, b\): parameter b is missing"),
        ((A, B, A), r"add: 3 arguments, wanted 2 \(a, b\): argument 2 is one too many"),
        ((A, B[:10]), r"add, parameter 1 \(b\): wanted f32\[64\], found float32\[10\]"),
        ((A.astype(np.float64), B), r"add, parameter 0 \(a\): wanted f32\[64\], found float64\[64\]"),
        ((A.reshape(8, 8), B), r"parameter 0 \(a\): wanted f32\[64\], found float32\[8, 8\]"),
        ((A, None), r"parameter 1 \(b\): wanted f32\[64\], found object\[\]"),
        ((A, object()), r"parameter 1 \(b\)"),
        ((A, [[1], [1, 2]]), r"parameter 1 \(b\): not an array"),
        ((A, "text"), r"parameter 1 \(b\)"),
    ],
)
def test_wrong_arguments(add, arguments, message):
    with pytest.raises(InvalidArgument, match=message):
        add(*arguments)
    with pytest.raises(InvalidArgument, match=message):
        add.execute(arguments)


def test_wrong_arrays(add):
    gone = device_put(A)
    gone.delete()
    with pytest.raises(InvalidArgument, match=r"parameter 1 \(b\): the array was deleted"):
        add(A, gone)
    with pytest.raises(InvalidArgument, match=r"parameter 0 \(a\): wanted f32\[64\], found f32\[65\]"):
        add(device_put(np.zeros(65, np.float32)), B)
    with pytest.raises(InvalidArgument, match="found keyword 'b'"):
        add._native_call(A, b=B)


def test_too_many_arguments_do_not_overflow_the_stack(add):
    with pytest.raises(InvalidArgument, match="3000000 arguments"):
        add(*[A] * 3_000_000)


def test_many_parameters_and_results():
    count = 3000
    moves = "\n".join(
        f"  %s{i} = getelementptr ptr, ptr %arguments, i64 {i}\n  %p{i} = load ptr, ptr %s{i}\n"
        f"  %v{i} = load i32, ptr %p{i}\n  %d{i} = getelementptr ptr, ptr %results, i64 {count - 1 - i}\n"
        f"  %q{i} = load ptr, ptr %d{i}\n  store i32 %v{i}, ptr %q{i}"
        for i in range(0, count, 100)
    )
    text = f"define i32 @axla_entry(ptr %frame) {{\n{programs.addresses(of='arguments')}\n"
    text += f"{programs.addresses(of='results')}\n{moves}\n  ret i32 0\n}}"
    specs = tuple(programs.spec(f"x{i}", dtype=dtypes.S32) for i in range(count))
    many = Executable(programs.image(text), Interface("many", specs, specs, result_tree=tuple(range(count))))
    results = many(*range(count))
    assert len(results) == count
    assert [int(results[count - 1 - i]) for i in range(0, count, 100)] == list(range(0, count, 100))


def test_zero_sized_arrays():
    add = programs.add(0)
    result = add(np.zeros(0, np.float32), device_put(np.zeros(0, np.float32)))
    assert result.shape == (0,) and np.asarray(result).size == 0


def test_nested_results_and_arguments():
    pair = programs.add(4)
    facts = pair.interface
    trees = {"result_tree": ((), (0,)), "parameter_trees": ((0, (1,)),)}
    interface = Interface("nested", facts.parameters, facts.results, **trees)
    nested = Executable(pair._images, interface)
    x = np.ones(4, np.float32)
    empty, (inner,) = nested((x, [x]))
    assert empty == () and np.array_equal(inner, x + x)
    with pytest.raises(InvalidArgument, match=r"argument 0\[1\]: wanted a tuple of 1, found ndarray"):
        nested((x, x))
    with pytest.raises(InvalidArgument, match="2 arguments, wanted 1"):
        nested(x, x)


@pytest.mark.parametrize("dtype", dtypes.ALL, ids=str)
def test_every_element_type_passes_through(dtype):
    copy = f"""
declare void @llvm.memcpy.inline.p0.p0.i64(ptr, ptr, i64, i1)
define i32 @axla_entry(ptr %frame) {{
{programs.addresses("x", of="arguments")}
{programs.addresses("y", of="results")}
  call void @llvm.memcpy.inline.p0.p0.i64(ptr %y, ptr %x, i64 {3 * dtype.itemsize}, i1 false)
  ret i32 0
}}
"""
    spec = ValueSpec("x", Shape(dtype, (3,)), 3 * dtype.itemsize)
    program = Executable(programs.image(copy), Interface("copy", (spec,), (spec,), long_running=False))
    values = np.array([0, 1, 1]).astype(dtype.numpy)
    for argument in (values, device_put(values)):
        result = program(argument)
        assert result.dtype == dtype.numpy
        assert np.asarray(result).tobytes() == values.tobytes()


def test_element_types_are_not_mixed_up():
    assert device_put(np.zeros(3, ml_dtypes.float8_e5m2)).xla_shape is Shape(dtypes.F8E5M2, (3,))
    with pytest.raises(InvalidArgument, match="wanted f32"):
        programs.add(3)(device_put(np.zeros(3, ml_dtypes.bfloat16)), np.zeros(3, np.float32))


FAIL = """
define i32 @axla_entry(ptr %frame) {{
  %step = getelementptr i8, ptr %frame, i64 {step}
  store i32 17, ptr %step
  %detail = getelementptr i8, ptr %frame, i64 {detail}
  store i64 -5, ptr %detail
  ret i32 {code}
}}
"""


@pytest.mark.parametrize("long_running", [False, True])
@pytest.mark.parametrize(
    "code, kind, text",
    [
        (1001, RuntimeFailure, "failing: index -5 is out of range"),
        (4, OutOfMemory, "failing: out of memory"),
        (77, RuntimeFailure, "failing: error code 77"),
    ],
)
def test_error_codes_become_exceptions(code, kind, text, long_running):
    from axla.program.abi import FRAME

    source = FAIL.format(code=code, step=FRAME.offset("error_step"), detail=FRAME.offset("error_detail"))
    messages = ("unused", "index {detail} is out of range")
    interface = Interface(
        "failing", (), (programs.spec("x", 3),), messages=messages, long_running=long_running
    )
    failing = Executable(programs.image(source), interface)
    with pytest.raises(kind) as caught:
        failing()
    assert type(caught.value) is kind and str(caught.value).startswith(text)
    assert (caught.value.code, caught.value.step, caught.value.detail) == (code, 17, -5)


def test_objects_of_one_program_refer_to_each_other():
    entry = "declare hidden i32 @kernel(ptr)\ndefine i32 @axla_entry(ptr %f) {\n"
    entry += "  %r = call i32 @kernel(ptr %f)\n  ret i32 %r\n}"
    kernel = "define hidden i32 @kernel(ptr %f) {\n  ret i32 0\n}"
    images = [programs.image(entry), programs.image(kernel)]
    assert Executable(images, Interface("two", (), (), result_tree=()))() == ()
    with pytest.raises(InvalidArgument, match="kernel"):
        Executable(images[:1], Interface("half", (), (), result_tree=()))


@pytest.mark.parametrize("image", [b"", b"junk", b"\x7fELF" + bytes(100)])
def test_broken_images_are_refused(image):
    with pytest.raises(InvalidArgument):
        Executable(image, Interface("broken", (), (), result_tree=()))


def test_constants_and_pickle():
    source = f"""
define i32 @axla_entry(ptr %frame) {{
{programs.field("constants")}
{programs.addresses("y", of="results")}
  %v = load float, ptr %constants, align 64
  store float %v, ptr %y
  ret i32 0
}}
"""
    interface = Interface("constant", (), (programs.spec("y"),), constants_bytes=4)
    program = Executable(programs.image(source), interface, np.float32(2.5).tobytes())
    again = pickle.loads(pickle.dumps(program))
    assert float(program()) == float(again()) == 2.5
    with pytest.raises(InvalidArgument, match="constants have 3 bytes, the interface says 4"):
        Executable(programs.image(source), interface, b"abc")


def test_functions_are_found_by_name():
    import ctypes as c

    source = f"""
define i32 @axla_entry(ptr %frame) {{
{programs.field("functions")}
{programs.addresses("x", of="arguments")}
{programs.field("arguments")}
{programs.field("results")}
  %f = load ptr, ptr %functions
  %r = call i32 %f(ptr %frame, ptr %arguments, ptr %results, ptr null, i64 0)
  ret i32 %r
}}
""".replace(programs.addresses("x", of="arguments") + "\n", "")
    functions = (TableFunction("test.double"),)
    interface = Interface("calls", (programs.spec("x"),), (programs.spec("y"),), functions=functions)
    with pytest.raises(UnsupportedError, match="'test.double' is not registered"):
        Executable(programs.image(source), interface)

    @c.CFUNCTYPE(c.c_int32, c.c_void_p, c.c_void_p, c.c_void_p, c.c_char_p, c.c_int64)
    def double(frame, operands, results, opaque, length):
        x = c.c_float.from_address(c.c_void_p.from_address(operands).value)
        c.c_float.from_address(c.c_void_p.from_address(results).value).value = 2 * x.value
        return 0 if x.value >= 0 else 5

    register_custom_call("test.double", double, api="axla")
    program = Executable(programs.image(source), interface)
    assert float(program(4.0)) == 8.0
    from axla.core.errors import CustomCallFailure

    with pytest.raises(CustomCallFailure, match="calls: a custom call reported an error"):
        program(-1.0)


def test_memory_that_is_not_there():
    huge = ValueSpec("x", Shape(dtypes.F32, (1 << 43,)), 1 << 45)
    spin = programs.spin()
    with pytest.raises(OutOfMemory, match="35184372088832 bytes"):
        Executable(spin._images, Interface("huge", (), (huge,)))()
    with pytest.raises(OutOfMemory, match="70368744177664 bytes"):
        Executable(spin._images, Interface("scratch", (), (), result_tree=(), workspace_bytes=1 << 46))()
    with pytest.raises(OutOfMemory, match="more than can be addressed"):
        beyond = ValueSpec("x", Shape(dtypes.F32, (1 << 62,)), 1 << 64)
        Executable(spin._images, Interface("beyond", (), (beyond,)))


@pytest.mark.parametrize("size, long", [(1000, False), (1_000_000, True)])
def test_a_serial_kernel_of_much_data_lets_other_threads_run(size, long):
    text = f"""
        less {{ p = f32[] parameter(0)  q = f32[] parameter(1)  ROOT r = pred[] compare(p, q), direction=LT }}
        ENTRY e {{ x = f32[{size}] parameter(0)
          ROOT r = f32[{size}] sort(x), dimensions={{0}}, to_apply=less }}"""
    assert axla.compile(axla.parse(text)).interface.long_running is long
