"""Python functions as targets: what they are given, what they may give, how they fail."""

from __future__ import annotations

import pickle
import threading

import ml_dtypes
import numpy as np
import pytest
from entries import run

import axla
from axla.core.errors import CustomCallFailure, InvalidArgument, UnsupportedError

BACKENDS = ["interpreter", "cpu", "one-lane"]
backends = pytest.mark.parametrize("backend", BACKENDS)


@backends
def test_arrays_in_and_out(backend):
    seen = []

    @axla.register_custom_call("sum_and_difference")
    def both(x, y):
        seen.append((type(x), x.dtype, x.shape, x.flags.writeable))
        return x + y, (x - y).astype(np.float64)

    x, y = np.arange(100, dtype=np.float32), np.full(100, 3, np.float32)
    total, difference = run(
        "a = f32[100] parameter(0)\nb = f32[100] parameter(1)\n"
        'ROOT r = (f32[100], f64[100]) custom-call(a, b), custom_call_target="sum_and_difference"',
        backend, x, y,
    )  # fmt: skip
    assert (total == x + y).all() and (difference == x - y).all()
    assert seen == [(np.ndarray, np.float32, (100,), False)]


@backends
def test_what_a_function_keeps_stays_as_it_was(backend):
    kept = []

    def keep(x):
        kept.append(x)
        mine = x * 2
        kept.append(mine)
        return mine

    axla.register_custom_call("keep", keep)
    text = """HloModule m
    ENTRY e {
      a = f32[1000] parameter(0)
      n = f32[1000] negate(a)
      r = f32[1000] custom-call(n), custom_call_target="keep"
      ROOT s = f32[1000] add(r, n)
    }"""
    program = axla.compile(axla.parse(text), backend=backend)
    for k in range(3):
        program(np.full(1000, k, np.float32))
    assert [x[0] for x in kept] == [0, 0, -1, -2, -2, -4]
    assert all((x == x[0]).all() for x in kept)
    kept[1][:] = 7  # what it gave is its own
    assert np.asarray(program(np.ones(1000, np.float32)))[0] == -3


@backends
@pytest.mark.parametrize("dtype", ["pred", "s4", "u8", "bf16", "f16", "c64", "s64", "f8e4m3fn"])
def test_element_types(backend, dtype):
    from axla.core.dtypes import BY_NAME

    kind = BY_NAME[dtype].numpy
    axla.register_custom_call("same", lambda x: x)
    x = np.array([1, 0, 1, 1, 0], kind)
    (y,) = run(
        f'a = {dtype}[5] parameter(0)\nROOT r = {dtype}[5] custom-call(a), custom_call_target="same"',
        backend, x,
    )  # fmt: skip
    assert y.dtype == kind and (y == x).all()


@backends
def test_layouts_change_no_values(backend):
    strides = []

    def doubled(x):
        strides.append(x.strides)
        return x * 2

    axla.register_custom_call("doubled", doubled)
    x = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    (y,) = run(
        "a = f32[2,3,4] parameter(0)\n"
        'ROOT r = f32[2,3,4]{0,1,2} custom-call(a), custom_call_target="doubled",'
        " operand_layout_constraints={f32[2,3,4]{1,2,0}}",
        backend, x,
    )  # fmt: skip
    assert (y == 2 * x).all()
    if backend != "interpreter":
        assert strides == [(48, 4, 12)]


@backends
def test_nested_tuples_and_tokens(backend):
    def swap(token, pair):
        assert token is None
        x, (y, z) = pair
        return (z, None), y

    axla.register_custom_call("swap", swap)
    x, y, z = (np.arange(n, dtype=np.float32) for n in (3, 40, 50))
    found = run(
        """a = f32[3] parameter(0)
        b = f32[40] parameter(1)
        c = f32[50] parameter(2)
        t = token[] after-all()
        p = (f32[40], f32[50]) tuple(b, c)
        q = (f32[3], (f32[40], f32[50])) tuple(a, p)
        r = ((f32[50], token[]), f32[40]) custom-call(t, q), custom_call_target="swap"
        s = (f32[50], token[]) get-tuple-element(r), index=0
        u = f32[50] get-tuple-element(s), index=0
        v = f32[40] get-tuple-element(r), index=1
        ROOT w = (f32[50], f32[40]) tuple(u, v)""",
        backend, x, y, z,
    )  # fmt: skip
    assert (found[0] == z).all() and (found[1] == y).all()


@backends
def test_attributes_and_opaque(backend):
    axla.register_custom_call("scaled", lambda x, *, factor, add: x * factor + add)
    axla.register_custom_call("named", lambda x, opaque: x * len(opaque))
    axla.register_custom_call("unnamed", lambda x: x)
    (y, z, w) = run(
        """a = f32[3] parameter(0)
        r = f32[3] custom-call(a), custom_call_target="scaled", api_version=API_VERSION_TYPED_FFI,
          backend_config={factor = 3.0 : f32, add = 1 : i8}
        s = f32[3] custom-call(a), custom_call_target="named", backend_config="four"
        t = f32[3] custom-call(a), custom_call_target="unnamed", backend_config="four"
        ROOT u = (f32[3], f32[3], f32[3]) tuple(r, s, t)""",
        backend, np.ones(3, np.float32),
    )  # fmt: skip
    assert y.tolist() == [4, 4, 4] and z.tolist() == [4, 4, 4] and w.tolist() == [1, 1, 1]


@backends
def test_in_a_loop_and_in_a_branch(backend):
    calls = []

    def next_(x):
        calls.append(x.item())
        return x + np.float32(1)

    axla.register_custom_call("next", next_)
    text = """HloModule m
    body { p = f32[] parameter(0)
      ROOT r = f32[] custom-call(p), custom_call_target="next" }
    cond { q = f32[] parameter(0)
      n = f32[] constant(4)
      ROOT l = pred[] compare(q, n), direction=LT }
    yes { y = f32[] parameter(0)
      ROOT s = f32[] custom-call(y), custom_call_target="next" }
    no { ROOT z = f32[] parameter(0) }
    ENTRY e { a = f32[] parameter(0)
      w = f32[] while(a), condition=cond, body=body
      zero = f32[] constant(0)
      p = pred[] compare(a, zero), direction=GE
      ROOT c = f32[] conditional(p, w, w), true_computation=yes, false_computation=no }"""
    program = axla.compile(axla.parse(text), backend=backend)
    assert float(np.asarray(program(np.float32(1)))) == 5 and calls == [1, 2, 3, 4]
    calls.clear()
    assert float(np.asarray(program(np.float32(-1)))) == 4 and calls == [-1, 0, 1, 2, 3]


@backends
def test_effects_stay_and_keep_their_order(backend):
    seen = []
    axla.register_custom_call("log", lambda x, opaque: seen.append((opaque, x.item())))
    text = """HloModule m
    ENTRY e { a = f32[] parameter(0)
      t = token[] after-all()
      r = () custom-call(a), custom_call_target="log", custom_call_has_side_effect=true, backend_config="1"
      b = f32[] add(a, a)
      s = () custom-call(b), custom_call_target="log", custom_call_has_side_effect=true, backend_config="2"
      u = () custom-call(a), custom_call_target="log", custom_call_has_side_effect=true, backend_config="1"
      dead = f32[] custom-call(a), custom_call_target="nobody"
      ROOT c = f32[] negate(b) }"""
    program = axla.compile(axla.parse(text), backend=backend)
    program(np.float32(2))
    assert seen == [(b"1", 2.0), (b"2", 4.0), (b"1", 2.0)]


@backends
def test_equal_calls_differ_by_their_configuration(backend):
    axla.register_custom_call("plus", lambda x, *, n: x + np.float32(n))
    (y, z) = run(
        """a = f32[] parameter(0)
        r = f32[] custom-call(a), custom_call_target="plus", api_version=API_VERSION_TYPED_FFI,
          backend_config={n = 1 : i8}
        s = f32[] custom-call(a), custom_call_target="plus", api_version=API_VERSION_TYPED_FFI,
          backend_config={n = 2 : i8}
        ROOT u = (f32[], f32[]) tuple(r, s)""",
        backend, np.float32(0),
    )  # fmt: skip
    assert (y, z) == (1, 2)


@backends
def test_many_threads(backend):
    barrier = threading.Barrier(4, timeout=30)

    def meet(x):
        barrier.wait()
        return x * 2

    axla.register_custom_call("meet", meet)
    text = 'ENTRY e {\n a = s32[] parameter(0)\n ROOT r = s32[] custom-call(a), custom_call_target="meet"\n}'
    program = axla.compile(axla.parse(text), backend=backend)
    found = {}
    threads = [
        threading.Thread(target=lambda k=k: found.update({k: int(np.asarray(program(np.int32(k))))}))
        for k in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert found == {0: 0, 1: 2, 2: 4, 3: 6}


ONE = 'a = f32[3] parameter(0)\nROOT r = f32[3] custom-call(a), custom_call_target="one"'


@backends
def test_an_exception_names_the_call_and_is_the_cause(backend):
    def fails(x):
        raise KeyError("lost")

    axla.register_custom_call("one", fails)
    body = ONE + ', metadata={op_name="jit(f)/one" source_file="/src/model.py" source_line=7}'
    with pytest.raises(CustomCallFailure) as caught:
        run(body, backend, np.zeros(3, np.float32))
    assert "custom-call 'one'" in str(caught.value) and "/src/model.py:7" in str(caught.value)
    assert "KeyError: 'lost'" in str(caught.value)
    assert isinstance(caught.value.__cause__, KeyError)
    # The program is as good as before.
    axla.register_custom_call("one", lambda x: x + np.float32(1))
    assert run(body, backend, np.zeros(3, np.float32))[0].tolist() == [1, 1, 1]


@backends
def test_ctrl_c_goes_through(backend):
    def interrupted(x):
        raise KeyboardInterrupt

    axla.register_custom_call("one", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(ONE, backend, np.zeros(3, np.float32))


WRONG = [
    (lambda x: x.astype(np.float64), r"the result is float64\[3\], wanted f32\[3\]"),
    (lambda x: x[:2], r"the result is float32\[2\], wanted f32\[3\]"),
    (lambda x: None, r"the result is None, wanted f32\[3\]"),
    (lambda x: [[1], [2, 3]], "the result is not an array"),
    (lambda x: (x, x), r"the result is float32\[2, 3\], wanted f32\[3\]"),
]


@backends
@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_results_are_refused(backend, number):
    function, message = WRONG[number]
    axla.register_custom_call("one", function)
    with pytest.raises(CustomCallFailure, match=message):
        run(ONE, backend, np.zeros(3, np.float32))


@backends
def test_wrong_tuples_are_refused(backend):
    body = 'a = f32[3] parameter(0)\nROOT r = (f32[3], (s32[])) custom-call(a), custom_call_target="two"'
    axla.register_custom_call("two", lambda x: (x, x, x))
    with pytest.raises(CustomCallFailure, match=r"the result is a tuple of 3, wanted a tuple of 2"):
        run(body, backend, np.zeros(3, np.float32))
    axla.register_custom_call("two", lambda x: (x, 3))
    with pytest.raises(CustomCallFailure, match=r"result\[1\] is of type int, wanted a tuple of 1"):
        run(body, backend, np.zeros(3, np.float32))
    axla.register_custom_call("two", lambda x: (x, (np.int64(3),)))
    with pytest.raises(CustomCallFailure, match=r"result 1 is int64\[\], wanted s32\[\]"):
        run(body, backend, np.zeros(3, np.float32))


@backends
def test_refused_at_compile_time(backend):
    def compile_(body):
        return axla.compile(axla.parse(f"ENTRY e {{\n{body}\n}}"), backend=backend)

    with pytest.raises(UnsupportedError, match=r"custom-call 'one' \(%r\): no such target .*\(registered: "):
        compile_(ONE)
    axla.register_custom_call("ones", lambda x: x)
    with pytest.raises(UnsupportedError, match="did you mean ones"):
        compile_(ONE)
    with pytest.raises(UnsupportedError, match="did you mean lapack_[sdcz]potrf_ffi"):
        compile_(ONE.replace('"one"', '"lapack_potrf_ffi"'))
    axla.register_custom_call("one", lambda x, y: x)
    with pytest.raises(UnsupportedError, match="cannot be called so: missing a required argument: 'y'"):
        compile_(ONE)
    axla.register_custom_call("one", lambda x: x)
    with pytest.raises(UnsupportedError, match="unexpected keyword argument 'n'"):
        compile_(ONE + ", api_version=API_VERSION_TYPED_FFI, backend_config={n = 1 : i32}")
    with pytest.raises(UnsupportedError, match="backend_config: expected"):
        compile_(ONE + ", api_version=API_VERSION_TYPED_FFI, backend_config={n = }")


def test_names():
    for wrong in ("", None, 3):
        with pytest.raises(InvalidArgument, match="name="):
            axla.register_custom_call(wrong, lambda x: x)
    with pytest.raises(InvalidArgument, match="wanted a library"):
        axla.register_custom_call("one", [])
    with pytest.raises(InvalidArgument, match="api='what'; there are original"):
        axla.register_custom_call("one", lambda x: x, api="what")
    with pytest.raises(InvalidArgument, match="api='original' is for native functions"):
        axla.register_custom_call("one", lambda x: x, api="original")
    with pytest.raises(InvalidArgument, match="symbol='s' names a function of a library"):
        axla.register_custom_call("one", lambda x: x, symbol="s")
    with pytest.raises(InvalidArgument, match="'one' is not registered"):
        axla.unregister_custom_call("one")


def test_a_program_keeps_the_target_it_was_compiled_with():
    axla.register_custom_call("one", lambda x: x + np.float32(1))
    program = axla.compile(axla.parse(f"ENTRY e {{\n{ONE}\n}}"))
    axla.unregister_custom_call("one")
    assert np.asarray(program(np.zeros(3, np.float32)))[0] == 1
    # Another process has to register what it calls, too.
    data = pickle.dumps(program)
    with pytest.raises(UnsupportedError, match="no such target"):
        pickle.loads(data)
    axla.register_custom_call("one", lambda x: x + np.float32(2))
    assert np.asarray(pickle.loads(data)(np.zeros(3, np.float32)))[0] == 2


def test_dtypes_that_numpy_lacks():
    axla.register_custom_call("cast", lambda x: x.astype(ml_dtypes.bfloat16))
    (y,) = run(
        'a = f32[2] parameter(0)\nROOT r = bf16[2] custom-call(a), custom_call_target="cast"',
        "cpu", np.float32([1, 2.5]),
    )  # fmt: skip
    assert y.dtype == ml_dtypes.bfloat16 and y.tolist() == [1, 2.5]


class _Owner:
    """A target that unregisters another one when it goes."""

    def __call__(self, x):
        return x

    def __del__(self):
        axla.unregister_custom_call("owned")


@pytest.mark.parametrize("way", ["unregister", "replace"])
def test_a_target_that_goes_may_unregister_another(way):
    done = []

    def run():
        axla.register_custom_call("owned", lambda x: x)
        axla.register_custom_call("owner", _Owner())
        if way == "unregister":
            axla.unregister_custom_call("owner")
        else:
            axla.register_custom_call("owner", lambda x: x)
        done.append(True)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(timeout=30)
    assert done
    with pytest.raises(InvalidArgument, match="not registered"):
        axla.unregister_custom_call("owned")
