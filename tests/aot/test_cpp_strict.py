"""Generated C++ under every warning that projects turn into errors, and classes that move."""

from __future__ import annotations

import pytest
from c_folder import MATMUL, STEP, STEP_LABELS, compile_cpp, library, run, source, write

from axla.aot import weights
from axla.aot.library import Weights
from axla.core.dtypes import ALL
from axla.program import abi

pytestmark = pytest.mark.cc

STRICT = ["-Wold-style-cast", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Wundef", "-Wcast-qual"]
OWN = {"g++": ["-Wuseless-cast", "-Wcast-align=strict", "-Wextra-semi"], "clang++": ["-Wextra-semi"]}


def every_type() -> str:
    parameters = [f"  p{k} = {d.name}[2,3] parameter({k})" for k, d in enumerate(ALL)]
    shape = ", ".join(f"{d.name}[2,3]" for d in ALL)
    root = f"  ROOT all = ({shape}) tuple({', '.join(f'p{k}' for k in range(len(ALL)))})"
    return "\n".join(["HloModule m", "ENTRY e {", *parameters, root, "}"])


def rows(n: int, table: str):
    text = f"""HloModule m
ENTRY e {{
  x = f32[{n},64] parameter(0)
  t = f32[64] constant({{{table}}})
  b = f32[{n},64] broadcast(t), dimensions={{1}}
  ROOT y = f32[{n},64] multiply(x, b)
}}"""
    return source(text, ("x",), ("y",), suffix=f"b{n}", rows=n)


WARNINGS = """
#include "axla_abi.h"
#include "Types.hpp"
#include "ns_Step.hpp"
#include "Rows.hpp"
#include "Rows_loader.h"
struct Mine {
  template <class F> void parallel_for(int64_t count, F f) { for (int64_t k = 0; k < count; ++k) f(k); }
};
struct Eigens {
  axla::ThreadPool pool{2};
  int64_t numThreads() const { return 2; }
  template <class F> void enqueueNoNotification(F &&f) { pool.Schedule(f); }
};
struct Sized {
  axla::ThreadPool pool{2};
  size_t num_threads() const { return 2; }
  template <class F> void schedule(F &&f) { pool.Schedule(f); }
};
int main() {
  Types types;
  ns::Step step;
  Mine mine;
  Eigens eigens;
  Sized sized;
  axla::ThreadPool pool(2);
  axla::ThreadPoolDevice device(&pool, pool.NumThreads());
  types.set_thread_pool(&mine);
  types.set_thread_pool(&eigens);
  types.set_thread_pool(&sized);
  types.set_thread_pool(&pool);
  step.set_thread_pool(&device);
  types.arg_f16(0, 1) = 1.5f;
  Types moved(std::move(types));
  Rows_batch_args args = {nullptr};
  Rows_batch_results results = {nullptr};
  XlaCustomCallStatus status;
  XlaCustomCallStatusSetFailure(&status, "abc", 3);
  if (Rows_run_batch(3, &args, &results, nullptr, nullptr) != AXLA_NO_BATCH) return 1;
  return moved.Run() && step.Run() && moved.result_f16(0, 1) == 1.5f ? status.length - 3 : 2;
}
"""


@pytest.mark.parametrize("using", ["g++", "clang++"])
@pytest.mark.parametrize("checks", [False, True])
def test_no_warning_where_projects_ask_for_all(tmp_path, using, checks):
    names = [d.name for d in ALL]
    table = ", ".join(str(k / 8) for k in range(64))
    batches = library("Rows", rows(1, table), rows(4, table), weights=Weights.FILE)
    write(tmp_path, library("Types", source(every_type(), names, names)))
    write(tmp_path, library("ns::Step", source(STEP, *STEP_LABELS)))
    write(tmp_path, batches)
    (tmp_path / "Rows_loader.h").write_text(str(weights.write(batches)["Rows_loader.h"]))
    (tmp_path / "axla_abi.h").write_text(abi.c_header())
    (tmp_path / "t.cc").write_text(WARNINGS)
    flags = [*STRICT, *OWN[using], *["-DAXLA_BOUNDS_CHECKS"] * checks]
    run(compile_cpp(tmp_path, "t.cc", "Types.o", "ns_Step.o", "Rows.o", using=using, flags=flags))


def test_objects_move_with_their_memory(tmp_path):
    write(tmp_path, library("M", source(MATMUL, ("x", "y"), ("z",))))
    write(tmp_path, library("Step", source(STEP, *STEP_LABELS)))
    (tmp_path / "t.cc").write_text("""
#include <type_traits>
#include <vector>
#include "M.hpp"
#include "Step.hpp"
#define CHECK(what) \\
  do { if (!(what)) return std::printf("line %d: %s\\n", __LINE__, #what), 1; } while (0)
static M made(float value) {
  M m;
  std::fill_n(m.arg_x_data(), m.arg_x_count(), value);
  std::fill_n(m.arg_y_data(), m.arg_y_count(), 1.0f);
  return m;
}
int main() {
  static_assert(std::is_nothrow_move_constructible<M>::value, "");
  static_assert(std::is_nothrow_move_assignable<M>::value, "");
  static_assert(!std::is_copy_constructible<M>::value && !std::is_copy_assignable<M>::value, "");
  std::vector<M> all;
  for (int k = 0; k < 5; ++k) all.push_back(made(static_cast<float>(k)));
  for (M &m : all) CHECK(m.Run());
  for (size_t k = 0; k < 5; ++k) CHECK(all[k].result_z(1, 1) == 3 * static_cast<float>(k));
  float own[4];
  all[1].set_result_z_data(own);
  int32_t stop = 1;
  all[2].set_cancel(&stop);
  M first(std::move(all[1]));
  CHECK(first.result_z_data() == own && first.Run() && own[3] == 3);
  CHECK(!all[1].Run() && !all[1].error_msg().empty() && !all[1].arg_x_data());
  all[1] = std::move(first);
  first = made(7);
  CHECK(all[1].Run() && first.Run() && first.result_z(0, 0) == 21);

  Step step;
  step.var_w(0, 0) = 5;
  Step next(std::move(step));
  CHECK(next.var_w(0, 0) == 5 && next.Run());
  const float after = next.var_w(0, 0);
  step = std::move(next);
  CHECK(step.var_w(0, 0) == after);
  return 0;
}
""")
    flags = ["-fsanitize=address,undefined", "-g"]
    assert run(compile_cpp(tmp_path, "t.cc", "M.o", "Step.o", flags=flags)) == ""
