"""The C++ class: what users of tfcompile know, threads, variables, every element type."""

from __future__ import annotations

import re
import subprocess

import numpy as np
import pytest
from c_folder import (
    CPP,
    MATMUL,
    STEP,
    STEP_LABELS,
    compile_cpp,
    initializer,
    jit,
    library,
    run,
    source,
    write,
)

from axla.aot import cpp
from axla.aot.library import Weights
from axla.core.dtypes import ALL
from axla.core.errors import InvalidArgument
from document_program import DOCUMENT

pytestmark = pytest.mark.cc


def example(*, pool: bool) -> str:
    """The document's program over the one header, with our threads in the place of Eigen's, or without."""
    text = DOCUMENT[DOCUMENT.index("int main(") :].replace("int argc, char** argv", "int, char**")
    lines = text.replace("Eigen::", "axla::").splitlines(keepends=True)
    kept = [line for line in lines if pool or not re.search("ThreadPool|thread_pool", line)]
    return "".join(["#include <iostream>\n", '#include "foo_bar_MatMulComp.hpp"\n', *kept])


@pytest.mark.parametrize("using", ["g++", "clang++"])
@pytest.mark.parametrize("pool", [True, False])
def test_the_example_of_tfcompile_prints_success(tmp_path, using, pool):
    write(tmp_path, library("foo::bar::MatMulComp", source(MATMUL, ("x_hold", "y_hold"), ("x_y_prod",))))
    (tmp_path / "my_code.cc").write_text(example(pool=pool))
    (tmp_path / "foo_bar_MatMulComp.h").unlink()  # the one header is enough
    flags = [] if pool else ["-DAXLA_NO_THREADS"]
    binary = compile_cpp(tmp_path, "my_code.cc", "foo_bar_MatMulComp.o", using=using, flags=flags)
    assert run(binary) == "Success\n"


CHECK = """
#define CHECK(what) \\
  do { if (!(what)) return std::printf("line %d: %s\\n", __LINE__, #what), 1; } while (0)
"""


def test_members_of_the_class(tmp_path):
    write(tmp_path, library("foo::MatMul", source(MATMUL, ("x", "y"), ("z",))))
    (tmp_path / "t.cc").write_text(f"""
#include "foo_MatMul.hpp"
{CHECK}
template <class T> void ignore(const T &) {{}}
int main() {{
  typedef foo::MatMul M;
  M m;
  ignore(M::kNumArgs); /* takes an address */
  CHECK(M::kNumArgs == 2 && M::kNumVariables == 0 && M::kNumResults == 1);
  CHECK(m.num_args() == 2 && m.num_variables() == 0 && m.num_results() == 1);
  CHECK(M::ArgSize(0) == 24 && m.arg_size(1) == 24 && m.result_size(0) == 16);
  CHECK(m.arg0_size() == 24 && m.arg0_count() == 6 && M::arg_x_count() == 6 && M::result_z_size() == 16);
  for (size_t i = 0; i < 6; ++i) m.arg0(i / 3, i % 3) = static_cast<float>(i + 1);
  for (size_t i = 0; i < 6; ++i) m.arg_y_data()[i] = static_cast<float>(i + 7);
  CHECK(m.error_msg().empty() && m.Run());
  const M &c = m;
  CHECK(c.arg_x(1, 2) == 6 && c.arg0(1, 2) == 6 && c.arg_x_data() == c.arg0_data());
  CHECK(m.result0(0, 0) == 58 && c.result_z(1, 1) == 154 && c.result0_data()[2] == 139);
  CHECK(m.result_data(0) == m.result0_data() && m.arg_data(1) == m.arg1_data());
  CHECK(m.args()[0] == m.arg0_data() && c.results()[0] == c.result0_data());
  for (void *p : {{m.arg_data(0), m.arg_data(1), m.result_data(0)}}) {{
    CHECK(reinterpret_cast<uintptr_t>(p) % 64 == 0);
  }}

  CHECK(m.HasNameIndices() && m.LookupArgIndex("y") == 1 && m.LookupArgIndex("z") == -1);
  CHECK(m.LookupResultIndex("z") == 0 && m.LookupVariableIndex("x") == -1);
  CHECK(std::string(m.GetArgName(1)) == "y" && std::string(m.GetResultName(0)) == "z");
  CHECK(!m.GetArgName(2) && !m.GetVariableName(0) && !m.GetResultName(1));
  CHECK(M::ArgShapeInfos()[1].num_dimensions == 2 && M::ArgShapeInfos()[1].dimensions[0] == 3);
  CHECK(std::string(M::ResultShapeInfos()[0].dtype) == "f32" && M::StaticData().workspace_size == 0);
  CHECK(!m.profile_counters() && !m.hlo_profiling_enabled());
  m.set_error_msg("mine");
  CHECK(m.error_msg() == "mine");

  M few(M::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
  typedef M::AllocMode A;
  static_assert(A::RESULTS_AND_TEMPS_ONLY == A::RESULTS_PROFILES_AND_TEMPS_ONLY, "");
  static_assert(A::ARGS_RESULTS_AND_TEMPS == A::ARGS_VARIABLES_RESULTS_PROFILES_AND_TEMPS, "");
  CHECK(!few.arg0_data() && !few.Run() && few.error_msg() == "x has no data");
  const float x[6] = {{1, 0, 0, 0, 1, 0}}, y[6] = {{1, 2, 3, 4, 5, 6}};
  float z[4];
  few.set_arg0_data(x);
  few.set_arg_data(1, y);
  few.set_result_z_data(z);
  CHECK(few.Run() && z[0] == 1 && z[3] == 4 && few.result0(1, 0) == 3);
  int32_t stop = 1;
  few.set_cancel(&stop);
  return 0;
}}
""")
    assert run(compile_cpp(tmp_path, "t.cc", "foo_MatMul.o")) == ""


def test_objects_cannot_be_copied(tmp_path):
    write(tmp_path, library("M", source(MATMUL, ("x", "y"), ("z",))))
    (tmp_path / "t.cc").write_text('#include "M.hpp"\nint main() { M a; M b(a); return 0; }\n')
    command = ["c++", *CPP, "-fsyntax-only", "t.cc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0 and "deleted" in done.stderr


def test_variables_have_numbers_of_their_own_and_keep_their_value(tmp_path):
    lib = library("Step", source(STEP, *STEP_LABELS))
    write(tmp_path, lib)
    rng = np.random.default_rng(5)
    w, x, scale = (rng.normal(size=s).astype(np.float32) for s in ((4, 3), (5, 4), (3,)))
    (tmp_path / "t.cc").write_text(f"""
#include "Step.hpp"
{CHECK}
int main() {{
  static const unsigned char ws[] = {initializer(w)}, xs[] = {initializer(x)}, ss[] = {initializer(scale)};
  Step s, other(Step::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
  float w[12], scale[3];
  CHECK(Step::kNumArgs == 1 && Step::kNumVariables == 2 && Step::kNumResults == 1);
  CHECK(s.LookupArgIndex("x") == 0 && s.LookupVariableIndex("scale") == 1 && s.LookupArgIndex("w") == -1);
  CHECK(std::string(s.GetVariableName(0)) == "w" && s.arg_x_data() == s.arg0_data());
  CHECK(s.arg_data(1) == s.var_w_data() && Step::var_w_count() == 12 && Step::var_scale_size() == 12);
  static_assert(std::is_same<decltype(s.var_scale_data()), const float *>::value, "only read");
  static_assert(std::is_same<decltype(s.var_w(0, 0)), float &>::value, "written");
  std::memcpy(s.var_w_data(), ws, sizeof ws);
  std::memcpy(s.arg_x_data(), xs, sizeof xs);
  std::memcpy(scale, ss, sizeof ss);
  s.set_var_scale_data(scale);
  std::memcpy(w, ws, sizeof ws);
  other.set_var_w_data(w);
  other.set_var_scale_data(scale);
  other.set_arg_x_data(s.arg_x_data());
  std::FILE *out = std::fopen("out", "wb");
  for (int k = 0; k < 2; ++k) {{
    CHECK(s.Run() && other.Run());
    CHECK(std::memcmp(w, s.var_w_data(), sizeof w) == 0 && s.var_w(3, 2) == w[11]);
    std::fwrite(s.result_y_data(), 1, s.result_y_size(), out);
    std::fwrite(w, 1, sizeof w, out);
  }}
  std::fclose(out);
  return 0;
}}
""")
    assert run(compile_cpp(tmp_path, "t.cc", "Step.o")) == ""
    wanted = b""
    for _ in range(2):
        y, w = jit(STEP, [w, x, scale])
        wanted += y.tobytes() + w.tobytes()
    assert (tmp_path / "out").read_bytes() == wanted


def test_every_element_type_has_accessors(tmp_path):
    numbered = [*enumerate(ALL)]
    parameters = "\n".join(f"  p{k} = {d.name}[2,3] parameter({k})" for k, d in numbered)
    turned = "\n".join(f"  r{k} = {d.name}[2,3] reverse(p{k}), dimensions={{0,1}}" for k, d in numbered)
    shape = ", ".join(f"{d.name}[2,3]" for d in ALL)
    root = f"  ROOT all = ({shape}) tuple({', '.join(f'r{k}' for k, _ in numbered)})"
    names = [d.name for d in ALL]
    text = f"HloModule m\nENTRY e {{\n{parameters}\n{turned}\n{root}\n}}"
    write(tmp_path, library("Types", source(text, names, names)))
    fills = [f"  fill(t.arg_{d.name}_data(), t.arg_{d.name}_size(), {d.itemsize});" for d in ALL]
    checks = [
        f"  CHECK(t.result_{d.name}_size() == {6 * d.itemsize});\n"
        f"  CHECK(!std::memcmp(&a.arg_{d.name}(0, 1), &a.result_{d.name}(1, 1), {d.itemsize}));"
        for d in ALL
    ]
    (tmp_path / "t.cc").write_text(
        TYPES.replace("@FILLS@", "\n".join(fills)).replace("@CHECKS@", "\n".join(checks))
    )
    assert run(compile_cpp(tmp_path, "t.cc", "Types.o")) == ""


TYPES = (
    '#include "Types.hpp"'
    + CHECK
    + """
static void fill(void *to, size_t size, size_t width) {
  for (size_t k = 0; k < size; ++k) static_cast<unsigned char *>(to)[k] = k % width == 0 && k % 5 < 2;
}
int main() {
  Types t;
  const Types &a = t;
@FILLS@
  t.arg_f16(0, 1) = 1.5f;
  t.arg_bf16(0, 1) = -3;
  t.arg_c64(0, 1) = std::complex<float>(1, 2);
  t.arg_pred(0, 1) = true;
  t.arg_s4(0, 1) = 13;
  t.arg_u64(0, 1) = ~UINT64_C(0);
  CHECK(t.Run());
@CHECKS@
  const axla::half h = t.result_f16(1, 1);
  CHECK(h == 1.5f && t.result_bf16(1, 1) + 1 == -2 && t.result_c64(1, 1).imag() == 2);
  CHECK(t.result_pred(1, 1) && axla_s4_to_int(t.result_s4(1, 1)) == -3);
  CHECK(a.result_u64(1, 1) == ~UINT64_C(0));
  t.arg_s4(0, 1) = -3; /* the low bits count */
  CHECK(t.Run() && axla_s4_to_int(a.result_s4(1, 1)) == -3 && a.result_s4(1, 1) == 13);
  return 0;
}
"""
)


SCALARS = """
HloModule m
ENTRY e {
  a = f32[] parameter(0)
  b = f32[1] parameter(1)
  none = s32[0,2] parameter(2)
  c = f32[1] broadcast(a), dimensions={}
  sum = f32[1] add(b, c)
  ROOT all = (f32[1], f32[], s32[0,2]) tuple(sum, a, none)
}
"""


def test_scalars_and_single_elements_have_no_index(tmp_path):
    write(tmp_path, library("S", source(SCALARS, ("a", "b", "none"), ("sum", "a", "none"))))
    (tmp_path / "t.cc").write_text(f"""
#define AXLA_BOUNDS_CHECKS
#include "S.hpp"
{CHECK}
int main() {{
  S s;
  s.arg0() = 1.5f;
  s.arg_b() = 2.25f;
  CHECK(s.Run() && s.result0() == 3.75f && s.result_a() == 1.5f);
  CHECK(S::ArgShapeInfos()[0].num_dimensions == 0 && S::ArgShapeInfos()[2].dimensions[1] == 2);
  CHECK(s.arg_none_count() == 0);
  return 0;
}}
""")
    assert run(compile_cpp(tmp_path, "t.cc", "S.o")) == ""


def test_bounds_checks_end_the_process_where_wanted(tmp_path):
    write(tmp_path, library("M", source(MATMUL, ("x", "y"), ("z",))))
    (tmp_path / "t.cc").write_text("""
#include "M.hpp"
int main() {
  M m;
  m.arg_x(1, 2) = 1;
  volatile size_t three = 3;
  return m.arg_x(0, three) == 0 ? 0 : 1; /* the first of the second row */
}
""")
    run(compile_cpp(tmp_path, "t.cc", "M.o"))
    binary = compile_cpp(tmp_path, "t.cc", "M.o", flags=["-DAXLA_BOUNDS_CHECKS"])
    done = subprocess.run([binary], capture_output=True, text=True, check=False)
    assert done.returncode < 0
    assert done.stderr == "arg_x: index 3 of dimension 1 is not below 3\n"


def test_names_that_meet_names_of_accessors(tmp_path):
    names = ("x", "x_size", "data")
    text = """HloModule m
ENTRY e {
  x = f32[2] parameter(0)
  n = s32[] parameter(1)
  d = f32[3] parameter(2)
  ROOT all = (f32[2], s32[], f32[3]) tuple(x, n, d)
}"""
    write(tmp_path, library("Names", source(text, names, names)))
    (tmp_path / "t.cc").write_text(f"""
#include "Names.hpp"
{CHECK}
int main() {{
  Names n;
  n.arg_x(1) = 1;
  n.arg_x_size() = 5; /* the argument x_size */
  n.arg_data(2) = 7;
  CHECK(n.Run() && n.result_x(1) == 1 && n.result_x_size() == 5 && n.result2(2) == 7);
  CHECK(n.arg0_size() == 8 && n.arg_x_count() == 2 && n.arg_x_size_size() == 4);
  return 0;
}}
""")
    assert run(compile_cpp(tmp_path, "t.cc", "Names.o")) == ""


@pytest.mark.parametrize("name", ["Run", "arg0", "a::arg_x_data", "StaticData"])
def test_a_class_cannot_be_called_like_its_members(name):
    with pytest.raises(InvalidArgument, match="is a member of"):
        cpp.write(library(name, source(MATMUL, ("x", "y"), ("z",))))


def test_several_functions_and_headers_in_one_program(tmp_path):
    negate = "HloModule m\nENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] negate(x) }"
    double = "HloModule m\nENTRY e { x = f32[3] parameter(0) ROOT y = f32[3] add(x, x) }"
    parts = [source(t, ("x",), ("y",), suffix=s) for t, s in ((negate, "negate"), (double, "double_it"))]
    write(tmp_path, library("ns::Two", *parts))
    write(tmp_path, library("ns::MatMul", source(MATMUL, ("x", "y"), ("z",))))
    (tmp_path / "t.cc").write_text(f"""
#include "ns_MatMul.h"
#include "ns_Two.hpp"
#include "ns_MatMul.hpp"
{CHECK}
int main() {{
  ns::Two_negate a;
  ns::Two_double_it b;
  ns::MatMul c;
  a.arg_x(1) = 2;
  CHECK(a.Run() && a.result_y(1) == -2);
  b.set_arg0_data(a.result0_data());
  CHECK(b.Run() && b.result_y(1) == -4 && c.Run() && c.result_z(0, 0) == 0);
  return 0;
}}
""")
    assert run(compile_cpp(tmp_path, "t.cc", "ns_Two.o", "ns_MatMul.o")) == ""


LARGE = """
HloModule large
add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }
ENTRY e {
  x = f32[512,700] parameter(0)
  y = f32[700,96] parameter(1)
  d = f32[512,96] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[512,96] tanh(d)
  s = f32[512,700] sine(x)
  zero = f32[] constant(0)
  r = f32[] reduce(s, zero), dimensions={0,1}, to_apply=add
  ROOT all = (f32[512,96], f32[]) tuple(t, r)
}
"""


def test_any_number_and_kind_of_threads_gives_the_same_bits(tmp_path):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(512, 700)).astype(np.float32)
    y = rng.normal(size=(700, 96)).astype(np.float32)
    lib = library("Large", source(LARGE, ("x", "y"), ("t", "r")))
    write(tmp_path, lib)
    t, r = jit(LARGE, [x, y])
    (tmp_path / "in").write_bytes(x.tobytes() + y.tobytes())
    (tmp_path / "wanted").write_bytes(t.tobytes() + r.tobytes())
    (tmp_path / "t.cc").write_text(THREADS)
    text = run(compile_cpp(tmp_path, "t.cc", "Large.o", flags=["-O1"]))
    assert text == "ok\n"


THREADS = (
    """
#include "Large.hpp"
"""
    + CHECK
    + """
static std::vector<unsigned char> in, wanted;
static std::vector<unsigned char> contents(const char *name) {
  std::vector<unsigned char> all(4u << 20);
  std::FILE *file = std::fopen(name, "rb");
  all.resize(std::fread(all.data(), 1, all.size(), file));
  std::fclose(file);
  return all;
}
struct Mine { /* ranges backwards, on the caller's thread */
  int64_t calls = 0;
  template <class F> void parallel_for(int64_t count, F f) {
    ++calls;
    for (int64_t i = count; i-- > 0;) f(i);
  }
};
struct Never { /* tasks begin after all is done */
  std::vector<std::function<void()>> tasks;
  size_t num_threads() const { return 3; }
  void schedule(std::function<void()> task) { tasks.push_back(task); }
};
struct Eigens {
  axla::ThreadPool pool{3};
  int numThreads() const { return 3; }
  template <class F> void enqueueNoNotification(F &&f) { pool.Schedule(f); }
};
static bool good(Large &f) {
  for (int k = 0; k < 3; ++k) {
    std::memset(f.result0_data(), 0, f.result0_size());
    if (!f.Run()) return false;
    if (std::memcmp(f.result0_data(), wanted.data(), f.result0_size())) return false;
    if (std::memcmp(f.result1_data(), wanted.data() + f.result0_size(), 4)) return false;
  }
  return true;
}
static void fill(Large &f) {
  std::memcpy(f.arg0_data(), in.data(), f.arg0_size());
  std::memcpy(f.arg1_data(), in.data() + f.arg0_size(), f.arg1_size());
}
int main() {
  in = contents("in");
  wanted = contents("wanted");
  Large f;
  CHECK(in.size() == f.arg0_size() + f.arg1_size());
  fill(f);
  CHECK(good(f));
  for (int threads : {1, 2, 4}) {
    axla::ThreadPool pool(threads);
    CHECK(pool.NumThreads() == threads);
    f.set_thread_pool(&pool);
    CHECK(good(f));
  }
  Mine mine;
  f.set_thread_pool(&mine);
  CHECK(good(f) && mine.calls > 0);
  Never never;
  f.set_thread_pool(&never);
  CHECK(good(f) && !never.tasks.empty());
  for (auto &task : never.tasks) task(); /* finds nothing to do */
  Eigens eigens;
  f.set_thread_pool(&eigens);
  CHECK(good(f));
  int32_t stop = 1;
  f.set_cancel(&stop);
  CHECK(!f.Run() && f.error_msg() == "the run was cancelled");
  f.set_thread_pool(nullptr);
  CHECK(!f.Run());
  f.set_cancel(nullptr);
  CHECK(good(f));
  bool fine[2] = {false, false};
  {
    axla::ThreadPool shared(2);
    auto work = [&](int k) { Large own; fill(own); own.set_thread_pool(&shared); fine[k] = good(own); };
    std::thread a(work, 0), b(work, 1);
    a.join();
    b.join();
  }
  CHECK(fine[0] && fine[1]);
  std::puts("ok");
  return 0;
}
"""
)

RANDOM = """
HloModule m
ENTRY e {
  low = u32[] constant(0)
  high = u32[] constant(1000)
  ROOT r = u32[8] rng(low, high), distribution=rng_uniform
}
"""


def test_random_numbers_go_on_as_those_of_the_jit_do(tmp_path):
    import axla

    write(tmp_path, library("R", source(RANDOM, (), ("r",))))
    (tmp_path / "t.cc").write_text("""
#include "R.hpp"
int main() {
  R r;
  R_args args = { nullptr };
  R_results results = { r.result0_data() };
  static char memory[R_WORKSPACE_SIZE + 64];
  for (int k = 0; k < 2; ++k) {
    if (!r.Run()) return 1;
    for (size_t i = 0; i < 8; ++i) std::printf("%u ", r.result_r(i));
  }
  if (R_run(&args, &results, memory + (64 - reinterpret_cast<uintptr_t>(memory) % 64) % 64)) return 2;
  for (size_t i = 0; i < 8; ++i) std::printf("%u ", r.result_r(i));
  return 0;
}
""")
    found = [int(word) for word in run(compile_cpp(tmp_path, "t.cc", "R.o")).split()]
    executable = axla.compile(axla.parse(RANDOM), target_cpu="x86-64")
    first, second = (np.asarray(executable.execute([])[0]).tolist() for _ in range(2))
    assert first != second
    assert found == [*first, *second, *first]


def test_weights_of_a_side_file_are_set(tmp_path):
    numbers = ", ".join(str(float(n % 7)) for n in range(100))
    text = f"""HloModule m
ENTRY e {{
  x = f32[100] parameter(0)
  w = f32[100] constant({{{numbers}}})
  ROOT y = f32[100] multiply(x, w)
}}"""
    lib = library("Net", source(text, ("x",), ("y",)), weights=Weights.FILE)
    write(tmp_path, lib)
    (tmp_path / "t.cc").write_text(f"""
#include "Net.hpp"
{CHECK}
int main() {{
  alignas(64) static const unsigned char weights[] = {initializer(np.frombuffer(lib.constants, np.uint8))};
  Net a, b(weights), c(weights, Net::AllocMode::RESULTS_AND_TEMPS_ONLY);
  CHECK(!a.Run() && a.error_msg() == "the weights are not set: call set_weights");
  a.set_weights(weights);
  a.arg_x(5) = b.arg_x(5) = 2;
  CHECK(a.Run() && b.Run() && a.result_y(5) == 10 && b.result_y(5) == 10 && !c.arg_x_data());
  return 0;
}}
""")
    assert run(compile_cpp(tmp_path, "t.cc", "Net.o")) == ""
