"""StableHLO, CHLO and the dialects around them as they are written without VHLO: codes of attributes and
types, and the attributes of each operation in the order of their properties: those that are declared for the
verifier. VHLO's operations are made of StableHLO's here (`vhlo.py`).

No version of this form is promised to be readable by another: it is that of 2026, with a few older ones.
"""

from __future__ import annotations

from axla.stablehlo import mlir
from axla.stablehlo.bytecode import values
from axla.stablehlo.bytecode.builtin import constant
from axla.stablehlo.bytecode.entries import Encoding
from axla.stablehlo.verify.declarations import DECLARATIONS

_enum, _struct = values.enumeration, values.structure

ATTRIBUTES: dict[int, Encoding] = {
    1: ("ss", _struct("channel_handle")),
    2: ("v", _enum("comparison_direction")),
    3: ("v", _enum("comparison_type")),
    4: ("ssSssSssS", _struct("conv")),
    5: ("SSSS", _struct("dot")),
    6: ("v", _enum("fft_type")),
    7: ("SSSSSs", _struct("gather")),
    8: ("v", _enum("precision")),
    9: ("v", _enum("rng_algorithm")),
    10: ("v", _enum("rng_distribution")),
    11: ("SSSSSs", _struct("scatter")),
    12: ("v", _enum("transpose")),
    13: ("S", values.bounds),
    14: ("SsS", _struct("output_operand_alias")),
    15: ("tttsssy", lambda *fields: _struct("dot_algorithm")(*fields[:6], bool(fields[6]))),
    16: ("v", _enum("result_accuracy_mode")),
    17: ("ffsa", _struct("result_accuracy")),
    18: ("aA", _struct("replica_group_mesh_axes")),
    19: ("ss", _struct("sub_axis_info")),
    20: ("nB", _struct("axis_ref")),
    21: ("ns", _struct("mesh_axis")),
    22: ("aB", _struct("mesh")),
}
TYPES: dict[int, Encoding] = {0: constant(mlir.TokenType()), 1: ("T", mlir.FutureType)}

CHLO_ATTRIBUTES: dict[int, Encoding] = {
    0: ("v", _enum("comparison_direction", "chlo")),
    1: ("v", _enum("comparison_type", "chlo")),
}

# Operations whose properties are not just the attributes that are declared: in the order of their names,
# `?` where one can be missing, `+` for the sizes of segments. A name that comes again has several forms, the
# newest first.
_OPERATIONS = """
stablehlo.collective_broadcast: channel_handle? has_dynamic_root? replica_groups
stablehlo.collective_broadcast: channel_handle? replica_groups
stablehlo.custom_call: api_version? backend_config? call_target_name called_computations? has_side_effect?
  operand_layouts? output_operand_aliases? result_layouts? result_tilings?
stablehlo.custom_call: api_version? backend_config? call_target_name called_computations? has_side_effect?
  operand_layouts? output_operand_aliases? result_layouts?
chlo.scan: dimension is_associative? is_reverse? scan_dim_size? +operandSegmentSizes +resultSegmentSizes
chlo.top_k: is_stable? k
chlo.top_k: k
builtin.module: sym_name? sym_visibility?
func.func: arg_attrs? function_type no_inline? res_attrs? sym_name sym_visibility?
func.func: arg_attrs? function_type res_attrs? sym_name sym_visibility?
func.call: arg_attrs? callee no_inline? res_attrs?
func.call: callee no_inline?
func.call: callee
sdy.all_gather: gathering_axes out_sharding
sdy.all_reduce: out_sharding reduction_axes reduction_op?
sdy.all_reduce: out_sharding reduction_axes
sdy.all_slice: out_sharding slicing_axes
sdy.all_to_all: out_sharding params
sdy.collective_permute: out_sharding
sdy.constant: value
sdy.data_flow_edge: sharding?
sdy.manual_computation: in_shardings manual_axes out_shardings
sdy.mesh: mesh sym_name
sdy.named_computation: in_shardings? name out_shardings?
sdy.propagation_barrier: allowed_direction
sdy.reduce_scatter: out_sharding reduce_scatter_axes reduction_op?
sdy.reduce_scatter: out_sharding reduce_scatter_axes
sdy.replicated_to_unreduced sdy.sharded_to_unreduced: axes out_sharding
sdy.reshard sdy.sharding_constraint: sharding
sdy.sharding_group: group_id
"""


def _forms() -> dict[str, list[tuple[str, ...]]]:
    forms: dict[str, list[tuple[str, ...]]] = {}
    for line in _OPERATIONS.replace("\n  ", " ").strip().splitlines():
        names, attributes = line.split(":")
        for name in names.split():
            forms.setdefault(name, []).append(tuple(attributes.split()))
    for name, declared in DECLARATIONS.items():
        if name.startswith("stablehlo.") or (name.startswith("chlo.") and declared.attributes):
            attributes = sorted(declared.attributes, key=lambda attribute: attribute.name)
            forms.setdefault(name, [tuple(a.name + "?" * a.optional for a in attributes)])
    return forms


FORMS = _forms()
