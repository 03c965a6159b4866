"""The programs that tfcompile is tested with, as JAX functions or builders, and what C++ says of them.

A twin has the same graph, the same names and the same calls as its original. `checks` are C++ statements;
`expect` ends the program with a message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import axla

F32, S32 = np.float32, np.int32
SAVED = (np.arange(1000) ** 2 % 97).astype(S32)


@dataclass(frozen=True)
class Twin:
    """One program: `make` gives what `axla.aot.compile` takes, with its arguments."""

    make: Callable[[], tuple[Any, Any]]
    checks: str
    options: dict[str, Any] = field(default_factory=dict)


def _like(*shape: int, dtype: Any = F32) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, dtype)


def _function(function: Callable[..., Any], *args: Any) -> Callable[[], tuple[Any, Any]]:
    return lambda: (function, args)


def _uniform() -> tuple[Any, Any]:
    b = axla.XlaBuilder("random_uniform")
    low, high = (axla.ops.Constant(b, np.float32(value)) for value in (0, 1))
    axla.ops.RngUniform(low, high, axla.Shape(axla.dtypes.F32, (5,)))
    return b.build(), None


def _split(x: Any, y: Any) -> Any:
    left, right = jnp.split(x, 2)
    first = left @ y + right @ y
    return left, first


def _top_k(x: Any) -> dict[str, Any]:
    values, indices = jax.lax.top_k(x, 2)
    return {"values": values, "indices": indices}


def _counted(x: Any, y: Any) -> dict[str, Any]:
    return {"x": x + y, "y": y + 1}  # `x` is kept: it takes what is added to it


def _sequential(x: Any) -> dict[str, Any]:
    x = x + 1
    before = x
    x = x * 3
    return {"x": x, "before": before}


def _summed(x: Any, y: Any) -> Any:
    return jax.jit(lambda a: a + y)(x)  # a function that is called


MATMUL_CONFIG = """
feed { id { node_name: "x_hold" } shape { dim { size: 2 } dim { size: 3 } } }
feed { id { node_name: "y_hold" } shape { dim { size: 3 } dim { size: 2 } } name: "second" }
fetch { id { node_name: "result" } name: "x_y_prod" }
"""

ADD_CONFIG = """
feed { id { node_name: "x" } shape { dim { size: 1 } } type: DT_INT32 name: "left" }
feed { id { node_name: "y" } shape { dim { size: 1 } } type: DT_INT32 name: "right" }
fetch { id { node_name: "result" } name: "sum" }
"""

# JAX donates by shape; the config says by name what is written where.
UPDATES_CONFIG = """
fetch { id { node_name: "result['before']" } name: "before" }
variable { node_name: "x" shape { dim { size: 2 } } type: DT_FLOAT }
"""

TWINS: dict[str, Twin] = {
    "Add": Twin(
        _function(lambda x, y: x + y, _like(1, dtype=S32), _like(1, dtype=S32)),
        """
        c.arg0() = 1; c.arg1() = 2;
        expect(c.Run() && c.error_msg().empty() && c.result0() == 3 && c.result0_data()[0] == 3);
        c.arg0_data()[0] = 123; *c.arg_right_data() = 456;
        expect(c.Run() && c.result0() == 579 && &c.result0() == c.result_sum_data());
        const Add &fixed = c;
        expect(fixed.arg0() == 123 && fixed.arg_left() == 123 && fixed.result_sum() == 579);
        expect(c.LookupArgIndex("left") == 0 && c.LookupArgIndex("right") == 1);
        expect(c.LookupArgIndex("up") == -1 && c.LookupResultIndex("sum") == 0);
        expect(c.LookupResultIndex("left") == -1 && c.LookupVariableIndex("left") == -1);
        expect(std::string(c.GetArgName(1)) == "right" && std::string(c.GetResultName(0)) == "sum");
        expect(Add::kNumArgs == 2 && Add::kNumResults == 1 && Add::kNumVariables == 0);
        """,
        {"config": ADD_CONFIG},
    ),
    "AddNoAlloc": Twin(
        _function(lambda x, y: x + y, _like(1, dtype=S32), _like(1, dtype=S32)),
        """
        AddNoAlloc d(AddNoAlloc::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
        expect(d.arg0_data() == nullptr && d.arg1_data() == nullptr && !d.Run() && !d.error_msg().empty());
        int32_t x = 10, y = 32;
        d.set_arg0_data(&x); d.set_arg1_data(&y);
        expect(d.arg0() == 10 && d.arg1() == 32 && d.Run() && d.result0() == 42);
        x = 100;
        expect(d.Run() && d.result0() == 132 && d.arg0_data() == &x);
        """,
    ),
    "AddWithCkpt": Twin(
        _function(lambda x: x + jnp.asarray([42], S32), _like(1, dtype=S32)),
        """
        c.arg0() = 1; expect(c.Run() && c.result0() == 43);
        c.arg0() = 111; expect(c.Run() && c.result0() == 153);
        """,
    ),
    "AddWithCkptSaver": Twin(
        # The values that were saved are a file of weights: 1,000 of them stand beside the program.
        _function(lambda x: x + SAVED, _like(1, dtype=S32)),
        "c.arg0() = 42; expect(c.Run() && c.result0(0) == 42 && c.result0(999) == 107);",
        {"weights": "separate"},
    ),
    "AssertEq": Twin(
        _function(lambda x, y: {"ok": (x == y).all(), "x": x - y}, _like(1, dtype=S32), _like(1, dtype=S32)),
        """
        c.arg0() = 2; c.arg1() = 1;
        expect(c.Run() && !c.result_ok() && c.result_x() == 1);
        c.arg1() = 2;
        expect(c.Run() && c.result_ok() && c.result_x() == 0);
        """,
    ),
    "Cond": Twin(
        _function(
            lambda c, x, y: jax.lax.cond(c, lambda x, y: x, lambda x, y: y, x, y),
            _like(dtype=np.bool_), _like(dtype=S32), _like(dtype=S32),
        ),
        """
        c.arg1() = 10; c.arg2() = 20;
        c.arg0() = true; expect(c.Run() && c.result0() == 10);
        c.arg0() = false; expect(c.Run() && c.result0() == 20);
        """,
    ),
    "Function": Twin(
        _function(_summed, _like(1, dtype=S32), _like(1, dtype=S32)),
        "c.arg0() = 1; c.arg1() = 2; expect(c.Run() && c.result0() == 3 && c.result0_count() == 1);",
    ),
    "Gather": Twin(
        _function(lambda x, i: x[i], _like(4), _like(2, dtype=S32)),
        """
        const float params[4] = {1, 2, 3, 4}; const int32_t indices[2] = {1, 3};
        std::copy(params, params + 4, c.arg0_data()); std::copy(indices, indices + 2, c.arg1_data());
        expect(c.Run() && c.result0(0) == 2 && c.result0(1) == 4);
        """,
    ),
    "MatMul": Twin(
        _function(lambda x_hold, y_hold: x_hold @ y_hold, _like(2, 3), _like(3, 2)),
        """
        const float args[12] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
        std::copy(args, args + 6, c.arg0_data()); std::copy(args + 6, args + 12, c.arg1_data());
        expect(c.Run() && c.result0(0, 0) == 58 && c.result0(0, 1) == 64);
        expect(c.result0(1, 0) == 139 && c.result0(1, 1) == 154 && c.result_x_y_prod(1, 1) == 154);
        expect(c.arg0(1, 0) == 4 && c.arg_second(2, 1) == 12 && c.arg0_size() == 24 && c.arg0_count() == 6);
        float other[6] = {10, 20, 30, 40, 50, 60};
        c.set_arg0_data(other);
        expect(c.Run() && c.result0(0, 0) == 580 && c.arg0_data() == other);
        axla::ThreadPool pool(2);
        c.set_thread_pool(&pool);
        expect(c.Run() && c.result0(1, 1) == 1540);
        c.set_thread_pool(nullptr);
        expect(MatMul::ArgSize(1) == 24 && MatMul::ArgShapeInfos()[0].num_dimensions == 2);
        expect(MatMul::ArgShapeInfos()[0].dimensions[1] == 3);
        """,
        {"config": MATMUL_CONFIG},
    ),
    "MatMulNoAlloc": Twin(
        _function(lambda x, y: x @ y, _like(2, 3), _like(3, 2)),
        """
        MatMulNoAlloc d(MatMulNoAlloc::AllocMode::RESULTS_AND_TEMPS_ONLY);
        const float x[6] = {1, 2, 3, 4, 5, 6}; float y[6] = {7, 8, 9, 10, 11, 12};
        d.set_arg0_data(x); d.set_arg1_data(y);
        expect(d.Run() && d.result0(0, 0) == 58 && d.result0(1, 1) == 154);
        y[0] = 8;
        expect(d.Run() && d.result0(0, 0) == 59);
        """,
    ),
    "MatMulAndAdd": Twin(
        _function(lambda x, y: {"x_y_prod": x @ y, "x_y_sum": x + y}, _like(2, 2), _like(2, 2)),
        """
        const float args[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        std::copy(args, args + 4, c.arg_x_data()); std::copy(args + 4, args + 8, c.arg_y_data());
        expect(c.Run() && c.result_x_y_prod(0, 0) == 19 && c.result_x_y_prod(1, 1) == 50);
        expect(c.result_x_y_sum(0, 0) == 6 && c.result_x_y_sum(1, 1) == 12 && c.result1(1, 0) == 10);
        expect(c.LookupResultIndex("x_y_sum") == 1 && c.num_results() == 2);
        """,
    ),
    "MatMulWithConstant": Twin(
        _function(
            lambda x: x @ jnp.asarray([[5, 6], [7, 8]], F32) + jnp.asarray([[1, 2], [3, 4]], F32), _like(2, 2)
        ),
        """
        const float x[4] = {1, 2, 3, 4};
        std::copy(x, x + 4, c.arg0_data());
        expect(c.Run() && c.result0(0, 0) == 20 && c.result0(0, 1) == 24);
        expect(c.result0(1, 0) == 46 && c.result0(1, 1) == 54);
        """,
    ),
    "RandomUniform": Twin(
        _uniform,
        """
        expect(c.Run());
        float first[5], distinct = 0;
        for (size_t i = 0; i < 5; ++i) {
          first[i] = c.result0(i);
          expect(first[i] >= 0 && first[i] < 1);
          for (size_t j = 0; j < i; ++j) distinct += first[i] != first[j];
        }
        expect(distinct > 0 && c.Run() && c.result0(0) != first[0]);
        RandomUniform again;
        expect(again.Run() && again.result0(0) == first[0]);
        """,
    ),
    "Scatter": Twin(
        _function(lambda i, x: jnp.zeros(5, F32).at[i].set(x), _like(3, dtype=S32), _like(3)),
        """
        const int32_t indices[3] = {4, 0, 2}; const float updates[3] = {1, 2, 3};
        std::copy(indices, indices + 3, c.arg0_data()); std::copy(updates, updates + 3, c.arg1_data());
        expect(c.Run() && c.result0(0) == 2 && c.result0(1) == 0 && c.result0(2) == 3 && c.result0(4) == 1);
        """,
    ),
    "Splits": Twin(
        _function(_split, _like(4, 2), _like(2, 2)),
        """
        const float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, y[4] = {1, 2, 3, 4};
        std::copy(x, x + 8, c.arg0_data()); std::copy(y, y + 4, c.arg1_data());
        expect(c.Run() && c.result0(1, 1) == 4 && c.result1(0, 0) == 30 && c.result1(1, 1) == 68);
        """,
    ),
    "TopK": Twin(
        _function(_top_k, _like(4)),
        """
        const float x[4] = {5, 9, 7, 3};
        std::copy(x, x + 4, c.arg0_data());
        expect(c.Run() && c.result_values(0) == 9 && c.result_values(1) == 7);
        expect(c.result_indices(0) == 1 && c.result_indices(1) == 2);
        """,
    ),
    "Variable": Twin(
        lambda: (jax.jit(_counted, donate_argnums=0), (_like(1), _like(1))),
        """
        expect(Variable::kNumVariables == 1 && Variable::kNumArgs == 1 && c.num_variables() == 1);
        expect(c.LookupVariableIndex("x") == 0 && c.LookupArgIndex("x") == -1);
        c.var_x() = 1; c.arg_y() = 42;
        expect(c.Run() && c.var_x() == 43 && c.result_y() == 43);
        expect(c.Run() && c.var_x() == 85);
        float mine = -42;
        c.set_var_x_data(&mine);
        expect(c.Run() && mine == 0 && c.var_x_data() == &mine && c.var_x_size() == 4);
        """,
    ),
    "VariableReadonly": Twin(
        _function(lambda x, y: x + y, _like(1), _like(1)),
        """
        VariableReadonly d(VariableReadonly::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
        static const float x = 42; const float y = 1;
        d.set_var_x_data(&x); d.set_arg0_data(&y);
        expect(d.Run() && d.result_sum() == 43 && *d.var_x_data() == 42);
        static_assert(std::is_same<decltype(d.var_x_data()), const float *>::value, "it is only read");
        """,
        {"variables": ("x",), "names": (None, ["sum"])},
    ),
    "VariableSequentialUpdates": Twin(
        _function(_sequential, _like(2)),
        """
        c.var_x(0) = 1; c.var_x(1) = 2;
        expect(c.Run() && c.result_before(0) == 2 && c.var_x(0) == 6 && c.var_x(1) == 9);
        expect(c.Run() && c.result_before(1) == 10 && c.var_x(0) == 21 && c.var_x(1) == 30);
        """,
        {"config": UPDATES_CONFIG},
    ),
    "VariableSequentialUpdatesByName": Twin(
        _function(_sequential, _like(2)),
        """
        expect(c.num_variables() == 1 && c.num_results() == 1);
        c.var_x(0) = 1; c.var_x(1) = 2;
        expect(c.Run() && c.result_before(0) == 2 && c.var_x(0) == 6 && c.var_x(1) == 9);
        expect(c.Run() && c.result_before(1) == 10 && c.var_x(0) == 21 && c.var_x(1) == 30);
        """,
        {"variables": ("x",)},
    ),
    "VariableSequentialUpdatesNoAlloc": Twin(
        _function(_sequential, _like(2)),
        """
        VariableSequentialUpdatesNoAlloc d(
            VariableSequentialUpdatesNoAlloc::AllocMode::RESULTS_PROFILES_AND_TEMPS_ONLY);
        float x[2] = {1, 2};
        d.set_var_x_data(x);
        expect(d.Run() && x[0] == 6 && x[1] == 9 && d.Run() && x[0] == 21);
        """,
        {"config": UPDATES_CONFIG},
    ),
}  # fmt: skip
