"""The import of operations, regions and functions of StableHLO."""

from __future__ import annotations

import numpy as np
import pytest

import axla
from axla.core.errors import InvalidArgument, UnsupportedError, VerifyError
from axla.ir.clone import copy_instructions
from axla.ir.graph import Module
from axla.ir.structure import Parameter
from axla.ir.verify import verify
from axla.stablehlo import mlir
from axla.stablehlo.importer import RULES
from axla.stablehlo.modules import import_source
from axla.stablehlo.text import parse
from axla.text import parse_hlo


def imported(text: str, entry: str = "") -> Module:
    """The module, verified; its HLO text parses to the same text."""
    module = import_source(parse(text), entry)
    verify(module)
    printed = module.to_string()
    assert parse_hlo(printed).to_string() == printed
    return module


def function(body: str, arguments: str = "", results: str = "") -> str:
    return f"func.func @main({arguments}){f' -> ({results})' if results else ''} {{\n{body}\n}}"


def run(module: Module, *inputs: object, backend: str = "interpreter") -> list[np.ndarray]:
    given = [np.asarray(i) for i in inputs]
    return [np.asarray(a) for a in axla.compile(module, backend=backend).execute(given)]


def lines(module: Module) -> list[str]:
    return [line.strip() for line in module.to_string().splitlines()]


# dynamic_conv, _gather and _pad and the quantized ones are rewritten before.
SPECIFIED = """
abs add after_all all_gather all_reduce all_to_all and async_done async_start atan2 batch_norm_grad
batch_norm_inference batch_norm_training bitcast_convert broadcast_in_dim case cbrt ceil cholesky
clamp collective_broadcast collective_permute compare complex composite concatenate constant convert
convolution cosine count_leading_zeros custom_call divide dot_general dynamic_broadcast_in_dim
dynamic_iota dynamic_reshape dynamic_slice dynamic_update_slice exponential exponential_minus_one
fft floor gather get_dimension_size get_tuple_element if imag infeed iota is_finite log log_plus_one
logistic map maximum minimum multiply negate not optimization_barrier or outfeed pad partition_id
popcnt power real recv reduce reduce_precision reduce_scatter reduce_window remainder replica_id
reshape reverse rng rng_bit_generator round_nearest_afz round_nearest_even rsqrt scatter select
select_and_scatter send shift_left shift_right_arithmetic shift_right_logical sign sine slice sort
sqrt subtract tan tanh transpose triangular_solve tuple while xor
"""


def test_every_operation_of_the_specification_has_a_rule():
    assert not [name for name in SPECIFIED.split() if f"stablehlo.{name}" not in RULES]


LOOP = function(
    """
    %limit = stablehlo.constant dense<3> : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %0:2 = stablehlo.while(%x = %a, %i = %n) : tensor<4xf32>, tensor<i32>
     cond {
      %c = stablehlo.compare LT, %i, %limit : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1>
     } do {
      %s = stablehlo.add %x, %b : tensor<4xf32>
      %j = stablehlo.add %i, %one : tensor<i32>
      stablehlo.return %s, %j : tensor<4xf32>, tensor<i32>
     }
    return %0#0, %0#1 : tensor<4xf32>, tensor<i32>""",
    "%a: tensor<4xf32>, %b: tensor<4xf32>, %n: tensor<i32>",
    "tensor<4xf32>, tensor<i32>",
)


def test_loop_carries_what_its_regions_use_and_copies_constants():
    module = imported(LOOP)
    loop = next(i for i in module.entry.instructions if i.opcode == "while")
    assert [s.to_string(layout=False) for s in loop.shape.elements] == ["f32[4]", "s32[]", "f32[4]"]
    constants = [i for i in loop.op.condition.instructions if i.opcode == "constant"]
    assert [i.op.literal.item() for i in constants] == [3]
    x, count = run(module, np.zeros(4, np.float32), np.full(4, 2, np.float32), np.int32(1))
    assert x.tolist() == [4.0] * 4 and count == 3


def test_loop_of_one_array_has_no_tuple():
    text = function(
        """
        %0 = stablehlo.while(%i = %n) : tensor<i32>
         cond {
          %c = stablehlo.constant dense<9> : tensor<i32>
          %t = stablehlo.compare LT, %i, %c : (tensor<i32>, tensor<i32>) -> tensor<i1>
          stablehlo.return %t : tensor<i1>
         } do {
          %j = stablehlo.add %i, %i : tensor<i32>
          stablehlo.return %j : tensor<i32>
         }
        return %0 : tensor<i32>""",
        "%n: tensor<i32>", "tensor<i32>",
    )  # fmt: skip
    module = imported(text)
    assert all(i.opcode != "tuple" for c in module.computations for i in c.instructions)
    assert run(module, np.int32(3))[0] == 12


def test_branches_take_what_they_use():
    text = function(
        """
        %k = stablehlo.constant dense<7.0> : tensor<f32>
        %0:2 = "stablehlo.case"(%i) ({
          %s = stablehlo.add %a, %b : tensor<f32>
          stablehlo.return %s, %a : tensor<f32>, tensor<f32>
        }, {
          stablehlo.return %b, %b : tensor<f32>, tensor<f32>
        }, {
          stablehlo.return %k, %k : tensor<f32>, tensor<f32>
        }) : (tensor<i32>) -> (tensor<f32>, tensor<f32>)
        return %0#0, %0#1 : tensor<f32>, tensor<f32>""",
        "%i: tensor<i32>, %a: tensor<f32>, %b: tensor<f32>", "tensor<f32>, tensor<f32>",
    )  # fmt: skip
    module = imported(text)
    branch = next(i for i in module.entry.instructions if i.opcode == "conditional")
    shapes = [o.shape.to_string(layout=False) for o in branch.operands]
    assert shapes == ["s32[]", "(f32[], f32[])", "f32[]", "()"]
    for index, wanted in ((0, (5, 2)), (1, (3, 3)), (2, (7, 7)), (9, (7, 7))):
        assert tuple(run(module, np.int32(index), np.float32(2), np.float32(3))) == wanted


NESTED = function(
    """
    %0 = "stablehlo.if"(%p) ({
      %1 = "stablehlo.if"(%q) ({
        stablehlo.return %a : tensor<f32>
      }, {
        %2 = stablehlo.negate %b : tensor<f32>
        stablehlo.return %2 : tensor<f32>
      }) : (tensor<i1>) -> tensor<f32>
      stablehlo.return %1 : tensor<f32>
    }, {
      stablehlo.return %b : tensor<f32>
    }) : (tensor<i1>) -> tensor<f32>
    return %0 : tensor<f32>""",
    "%p: tensor<i1>, %q: tensor<i1>, %a: tensor<f32>, %b: tensor<f32>",
    "tensor<f32>",
)


@pytest.mark.parametrize("p, q, wanted", [(1, 1, 2), (1, 0, -3), (0, 1, 3)])
def test_values_reach_regions_inside_of_regions(p, q, wanted):
    found = run(imported(NESTED), np.bool_(p), np.bool_(q), np.float32(2), np.float32(3))
    assert found[0] == wanted


def reduction(inside: str, before: str = "") -> str:
    return function(
        f"""
        {before}
        %z = stablehlo.constant dense<0.0> : tensor<f32>
        %0 = stablehlo.reduce(%a init: %z) across dimensions = [0]
          : (tensor<4xf32>, tensor<f32>) -> tensor<f32>
          reducer(%x: tensor<f32>, %y: tensor<f32>) {{
            %s = stablehlo.add %x, %y : tensor<f32>
            {inside}
            stablehlo.return %t : tensor<f32>
          }}
        return %0 : tensor<f32>""",
        "%a: tensor<4xf32>, %b: tensor<f32>",
        "tensor<f32>",
    )


def test_reduction_copies_a_constant_and_refuses_another_outer_value():
    text = reduction(
        "%t = stablehlo.minimum %s, %k : tensor<f32>", "%k = stablehlo.constant dense<5.0> : tensor<f32>"
    )
    assert run(imported(text), np.arange(4, dtype=np.float32), np.float32(0))[0] == 5
    with pytest.raises(
        UnsupportedError, match=r"stablehlo.minimum at line \d+, column \d+: its region uses an outer value"
    ):
        imported(reduction("%t = stablehlo.minimum %s, %b : tensor<f32>"))


def test_reduction_in_a_wider_type_converts_its_operands():
    text = function(
        """
        %z = stablehlo.constant dense<0.0> : tensor<bf16>
        %0 = "stablehlo.reduce"(%a, %z) ({
          ^bb0(%x: tensor<f32>, %y: tensor<f32>):
            %s = stablehlo.add %x, %y : tensor<f32>
            stablehlo.return %s : tensor<f32>
        }) {dimensions = array<i64: 0>} : (tensor<4xbf16>, tensor<bf16>) -> tensor<f32>
        return %0 : tensor<f32>""",
        "%a: tensor<4xbf16>", "tensor<f32>",
    )  # fmt: skip
    module = imported(text)
    assert module.entry.root.shape.to_string() == "f32[]"


def test_functions_called_twice_are_one_computation():
    text = """
    func.func @main(%a: tensor<f32>) -> tensor<f32> {
      %0:2 = call @pair(%a) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
      %1:2 = call @pair(%0#1) : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
      return %1#0 : tensor<f32>
    }
    func.func private @pair(%a: tensor<f32>) -> (tensor<f32>, tensor<f32>) {
      %0 = call @half(%a) : (tensor<f32>) -> tensor<f32>
      return %a, %0 : tensor<f32>, tensor<f32>
    }
    func.func private @half(%a: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.constant dense<2.0> : tensor<f32>
      %1 = stablehlo.divide %a, %0 : tensor<f32>
      return %1 : tensor<f32>
    }
    func.func private @unused() { return }
    """
    module = imported(text)
    assert [c.name for c in module.computations] == ["half", "pair", "main"]
    assert run(module, np.float32(8))[0] == 4


def test_function_that_calls_itself_is_refused():
    text = """
    func.func @main() { call @f() : () -> () return }
    func.func private @f() { call @g() : () -> () return }
    func.func private @g() { call @f() : () -> () return }
    """
    with pytest.raises(VerifyError, match="calls itself"):
        imported(text)


def test_missing_functions_are_named():
    with pytest.raises(VerifyError, match=r"func.call at line 1, .*there is no function @f"):
        imported("func.func @main() { call @f() : () -> () return }")
    with pytest.raises(InvalidArgument, match="there are f, g"):
        imported("func.func @f() { return }\nfunc.func @g() { return }")


def test_composite_is_a_call_that_says_what_it_is():
    text = """
    func.func @main(%a: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.composite "my.op" %a {
        composite_attributes = {n = 3 : i32}, decomposition = @impl, version = 2 : i32
      } : (tensor<f32>) -> tensor<f32>
      return %0 : tensor<f32>
    }
    func.func private @impl(%a: tensor<f32>) -> tensor<f32> {
      %0 = stablehlo.negate %a : tensor<f32>
      return %0 : tensor<f32>
    }
    """
    root = imported(text).entry.root
    assert root.op.is_composite
    assert dict(root.extra.frontend_attributes) == {
        "composite.attributes": "{n = 3 : i32}", "composite.name": "my.op", "composite.version": "2",
    }  # fmt: skip


def test_custom_call_keeps_all_it_says():
    text = function(
        """
        %0 = stablehlo.custom_call @f(%a) {
          api_version = 4 : i32, backend_config = {mode = 86 : ui8, s = "x"}, has_side_effect = true,
          operand_layouts = [dense<[0, 1]> : tensor<2xindex>],
          result_layouts = [dense<[0, 1]> : tensor<2xindex>],
          output_operand_aliases = [#stablehlo.output_operand_alias<
            output_tuple_indices = [], operand_index = 0, operand_tuple_indices = []>]
        } : (tensor<2x3xf32>) -> tensor<2x3xf32>
        %1:2 = stablehlo.custom_call @g(%0) {backend_config = "text", api_version = 2 : i32}
          : (tensor<2x3xf32>) -> (tensor<f32>, tensor<2xi32>)
        return %1#1 : tensor<2xi32>""",
        "%a: tensor<2x3xf32>", "tensor<2xi32>",
    )  # fmt: skip
    module = imported(text)
    first, second = (i for i in module.entry.instructions if i.opcode == "custom-call")
    assert first.shape.to_string() == "f32[2,3]{0,1}"
    assert str(first.op.operand_layout_constraints[0]) == "f32[2,3]{0,1}"
    assert first.op.custom_call_has_side_effect and first.op.output_to_operand_aliasing[0].operand == 0
    assert str(first.op.api_version) == "API_VERSION_TYPED_FFI"
    assert first.extra.backend_config == '{mode = 86 : ui8, s = "x"}'
    assert second.extra.backend_config == "text" and second.shape.is_tuple


def test_entry_arguments_alias_and_donate():
    text = """
    module @jit_f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 3 : i32} {
      func.func public @main(
        %a: tensor<4xf32> {tf.aliasing_output = 1 : i32, mhlo.sharding = "{devices=[2]<=[2]}"},
        %b: tensor<2x4xf32> {jax.buffer_donor = true, mhlo.layout_mode = "{0,1}"}
      ) -> (tensor<2x4xf32>, tensor<4xf32>) {
        return %b, %a : tensor<2x4xf32>, tensor<4xf32>
      }
    }"""
    module = imported(text)
    config = module.config
    assert module.name == "jit_f" and (config.replica_count, config.num_partitions) == (3, 2)
    assert [(a.output, a.parameter, a.index) for a in config.aliases] == [((1,), 0, ())]
    assert config.buffer_donors == ((1, ()),)
    assert str(config.entry_layout.parameters[1]) == "f32[2,4]{0,1}"
    assert str(module.entry.parameters[0].extra.sharding) == "devices=[2]<=[2]"


def test_names_and_metadata_come_from_locations():
    text = function(
        """
        %0 = stablehlo.add %a, %a : tensor<f32> loc("jit(f)/jit(main)/add_any"("f.py":12:3))
        %1 = stablehlo.add %0, %a : tensor<f32> loc("jit(f)/jit(main)/add_any"("f.py":13:3))
        %2 = stablehlo.tanh %1 : tensor<f32> loc(callsite("h"("g.py":2:1) at "m"("f.py":14:3)))
        return %2 : tensor<f32>""",
        '%a: tensor<f32> loc("x")', "tensor<f32>",
    )  # fmt: skip
    module = imported(text)
    found = {i.name: i.extra.location for i in module.entry.instructions}
    assert list(found) == ["x.1", "add_any.1", "add_any.2", "h.1"]
    assert (found["add_any.2"].source_file, found["add_any.2"].source_line) == ("f.py", 13)
    assert found["h.1"].op_name == "h" and found["h.1"].source_file == "g.py"


def test_one_result_of_many_is_taken_when_it_is_used():
    text = function(
        """
        %0:2 = stablehlo.custom_call @f() : () -> (tensor<f32>, tensor<f32>)
        return %0#1, %0#1 : tensor<f32>, tensor<f32>""",
        "", "tensor<f32>, tensor<f32>",
    )  # fmt: skip
    taken = [i for i in imported(text).entry.instructions if i.opcode == "get-tuple-element"]
    assert [i.op.index for i in taken] == [1]


def test_transfers_have_the_shapes_of_xla():
    text = function(
        """
        %t = stablehlo.after_all : !stablehlo.token
        %0:2 = "stablehlo.infeed"(%t) {infeed_config = "c"}
          : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
        %1 = "stablehlo.send"(%0#0, %0#1) {channel_handle = #stablehlo.channel_handle<handle = 5, type = 2>,
          is_host_transfer = true} : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token
        %2:2 = "stablehlo.recv"(%1) {channel_handle = #stablehlo.channel_handle<handle = 6, type = 3>,
          is_host_transfer = true} : (!stablehlo.token) -> (tensor<3xf32>, !stablehlo.token)
        %3 = "stablehlo.outfeed"(%2#0, %2#1) : (tensor<3xf32>, !stablehlo.token) -> !stablehlo.token
        return""",
    )
    by_opcode = {i.opcode: i for i in imported(text).entry.instructions}
    assert by_opcode["infeed"].shape.to_string(layout=False) == "((f32[3]), token[])"
    assert by_opcode["send"].shape.to_string(layout=False) == "(f32[3], u32[], token[])"
    assert by_opcode["recv-done"].op.channel_id == 6
    assert by_opcode["outfeed"].op.outfeed_shape.to_string(layout=False) == "(f32[3])"


def test_all_to_all_along_two_dimensions_moves_the_parts():
    text = function(
        """
        %0 = "stablehlo.all_to_all"(%a) {split_dimension = 1 : i64, concat_dimension = 0 : i64,
          split_count = 2 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>}
          : (tensor<2x4xf32>) -> tensor<4x2xf32>
        return %0 : tensor<4x2xf32>""",
        "%a: tensor<2x4xf32>", "tensor<4x2xf32>",
    )  # fmt: skip
    module = imported(text)
    exchange = next(i for i in module.entry.instructions if i.opcode == "all-to-all")
    assert exchange.op.dimensions == (1,) and exchange.op.replica_groups.groups == ((0, 1),)
    # Behind the exchange: the halves of the columns, as members sent them, one below the other.
    tail = Module("tail")
    entry = tail.add_computation("tail", entry=True)
    value = entry.add(Parameter(exchange.shape, 0), (), exchange.shape)
    entry.set_root(copy_instructions(module.entry, entry, {exchange: value})[module.entry.root])
    for inst in [i for i in entry.instructions if i.opcode == "parameter" and i is not value]:
        entry.remove(inst)
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    assert (run(tail, x)[0] == np.concatenate([x[:, :2], x[:, 2:]])).all()


def test_bits_and_words():
    text = function(
        """
        %0 = stablehlo.bitcast_convert %a : (tensor<2xi8>) -> tensor<2x8xi1>
        %1 = stablehlo.bitcast_convert %0 : (tensor<2x8xi1>) -> tensor<2xui8>
        return %0, %1 : tensor<2x8xi1>, tensor<2xui8>""",
        "%a: tensor<2xi8>", "tensor<2x8xi1>, tensor<2xui8>",
    )  # fmt: skip
    bits, words = run(imported(text), np.array([5, -1], np.int8))
    assert bits.astype(int).tolist() == [[1, 0, 1, 0, 0, 0, 0, 0], [1] * 8] and words.tolist() == [5, 255]


def test_older_exporters_write_chlo_as_custom_calls():
    text = function(
        """
        %0:2 = stablehlo.custom_call @mhlo.topk(%a) {mhlo.attributes = {k = 2 : i64, largest = true}}
          : (tensor<4xf32>) -> (tensor<2xf32>, tensor<2xi32>)
        return %0#0, %0#1 : tensor<2xf32>, tensor<2xi32>""",
        "%a: tensor<4xf32>", "tensor<2xf32>, tensor<2xi32>",
    )  # fmt: skip
    values, places = run(imported(text), np.array([1, 4, 2, 3], np.float32))
    assert values.tolist() == [4, 3] and places.tolist() == [1, 3]


@pytest.mark.parametrize(
    "body, arguments, message",
    [
        (
            '%0 = "stablehlo.transpose"(%a) : (tensor<2x3xf32>) -> tensor<3x2xf32>\nreturn',
            "%a: tensor<2x3xf32>", "transpose at line 2, column .*: the attribute permutation must be a list",
        ),
        (
            '%0 = "stablehlo.abs"(%a) : (tensor<2xf32>) -> tensor<3xf32>\nreturn',
            "%a: tensor<2xf32>", r"abs at line 2.*result is f32\[2\], but the written type is tensor<3xf32>",
        ),
        (
            '%0 = "stablehlo.nothing"(%a) : (tensor<2xf32>) -> tensor<3xf32>\nreturn',
            "%a: tensor<2xf32>", "stablehlo.nothing at line 2",
        ),
    ],
)  # fmt: skip
def test_refusals_name_the_operation_and_its_place(body, arguments, message):
    with pytest.raises((UnsupportedError, VerifyError), match=message):
        imported(function(body, arguments))


def test_long_programs_need_no_depth():
    count = 20_000
    chain = [f"%{i} = stablehlo.negate %{i - 1 if i else 'a'} : tensor<f32>" for i in range(count)]
    body = "\n".join([*chain, f"return %{count - 1} : tensor<f32>"])
    module = import_source(parse(function(body, "%a: tensor<f32>", "tensor<f32>")))
    assert len(module.entry.instructions) == count + 1


def nest(depth: int) -> mlir.Source:
    """`if` inside of `if`, as bytecode may have it: text stops at 100 levels."""
    scalar = mlir.TensorType((), mlir.IntegerType(1))
    entry = mlir.Block((scalar,))
    pred = entry.arguments[0]

    def returning(operation: mlir.Operation | None, kind: str) -> mlir.Block:
        block = mlir.Block()
        block.operations = [o for o in (operation,) if o is not None]
        value = pred if operation is None else operation.results[0]
        block.operations.append(mlir.Operation(kind, [value], ()))
        return block

    operation = None
    for _ in range(depth):
        regions = [mlir.Region([returning(o, "stablehlo.return")]) for o in (operation, None)]
        operation = mlir.Operation("stablehlo.if", [pred], (scalar,), {}, regions)
    entry.operations = returning(operation, "func.return").operations
    main = mlir.Operation("func.func", [], (), {"sym_name": "main"}, [mlir.Region([entry])])
    body = mlir.Block()
    body.operations.append(main)
    return mlir.Source(mlir.Operation("builtin.module", [], (), {}, [mlir.Region([body])]))


def test_regions_nest_to_a_limit():
    assert run(import_source(nest(60)), np.bool_(True))[0]
    assert import_source(nest(99)).has_entry
    with pytest.raises(UnsupportedError, match="nested more than 100 deep"):
        import_source(nest(400))
