"""Ops that call computations or functions, branch, loop, or order side effects."""

from __future__ import annotations

import numpy as np

from axla.core.dtypes import F32, PRED, S32
from axla.core.shape import TOKEN, AnyShape, BufferShape, Shape, TupleShape
from axla.core.shape_util import subshape
from axla.custom.site import CallSite, leaf_number
from axla.hlo.family import Same, show
from axla.hlo.signature import accepts, returns, sample_of, sample_reducer
from axla.ir.attributes import (
    ApiVersion,
    ConvDims,
    CustomCallSchedule,
    Direction,
    FusionKind,
    OutputAlias,
    PaddingType,
    Precision,
    RawText,
    Window,
)  # fmt: skip
from axla.ir.families import Calling, Composite, External, Looping
from axla.ir.graph import Computation, Instruction, Module
from axla.ir.op import OPS, Op, attr, example, op
from axla.ir.structure import Constant, Parameter
from axla.ir.typed import op_of


@op("while", operands="init", expensive=True, control=True)
class While(Looping):
    """Applies `body` to a value again and again while `condition` of the value is true. The first value is
    the operand.

    Operand, parameters and result have the same shape, which does not change between iterations. The result
    is the last value of the body, or the operand if the condition is false at first.
    """

    condition: Computation
    body: Computation

    def infer(self, init: AnyShape) -> AnyShape:
        """Returns the operand's shape, which must also be that of the parameter and the result of `body`;
        `condition` must return pred[].
        """
        returns(self, accepts(self, self.condition, [init], "condition"), Shape(PRED), "condition")
        returns(self, accepts(self, self.body, [init], "body"), init, "body")
        return init.logical

    @classmethod
    def samples(cls):
        """A loop that multiplies a float by 5 while it is less than 5."""
        module = Module("samples")
        condition, body = module.add_computation("condition"), module.add_computation("body", entry=True)
        for computation, opcode in ((condition, "compare"), (body, "multiply")):
            x = computation.add(Parameter(Shape(F32), 0), name="x")
            limit = computation.add(Constant.of(5.0, F32))
            op_value = OPS[opcode](*[Direction.LT] * (opcode == "compare"))
            computation.set_root(computation.add(op_value, (x, limit)))
        return [(cls(condition, body), (Shape(F32),))]


@op(
    "conditional", operands="branch_index *branch_operands", expensive=True, mixes_floats=True, control=True,
    in_line=True,
)  # fmt: skip
class Conditional(Op):
    """Runs one of the branches on the operand that belongs to it; the value is the result of the branch.

    A pred index selects the first branch if true, else the second. An s32 index selects a branch by number,
    counted from 0; an index out of range selects the last branch.
    """

    true_computation: Computation | None = None
    false_computation: Computation | None = None
    branch_computations: tuple[Computation, ...] = ()

    @property
    def branches(self) -> tuple[Computation, ...]:
        """The branches in the order of their operands: true and false branch, or those of
        `branch_computations`.
        """
        return self.computations()

    def taken(self, index: np.ndarray) -> int:
        """The position in `branches` of the branch that a value of the branch index selects."""
        number, last = int(index), len(self.branches) - 1
        if index.dtype == np.bool_:
            return 0 if number else 1
        return number if 0 <= number <= last else last

    def infer(self, index: AnyShape, *operands: AnyShape) -> AnyShape:
        """Returns the shape that all branches must share; the index must be pred[] or s32[]."""
        branches = self.branches
        by_pred = index.logical is Shape(PRED)
        if not by_pred and index.logical is not Shape(S32):
            self.reject("c1", f"the branch index must be pred[] or s32[], found {show(index)}")
        if not branches or (by_pred and len(branches) != 2):
            message = f"{'two' if by_pred else 'one or more'} branches are wanted, found {len(branches)}"
            self.reject("c2", message)
        if len(operands) != len(branches):
            self.reject("c3", f"{len(branches)} branches need as many operands, found {len(operands)}")
        for number, (branch, operand) in enumerate(zip(branches, operands, strict=True)):
            found = accepts(self, branch, [operand], f"branch {number}")
            returns(self, found, branches[0].root.shape, f"branch {number}")
        return branches[0].root.shape.logical

    @classmethod
    def samples(cls):
        """A conditional with a pred index, and one with an s32 index, each with two branches."""
        double, half = (sample_of(name, OPS[name](), F32) for name in ("negate", "abs"))
        value = Shape(F32)
        return [
            (cls(double, half), (Shape(PRED), value, value)),
            (cls(None, None, (double, half)), (Shape(S32), value, value)),
        ]


@op("call", operands="*operands", expensive=True, mixes_floats=True, control=True, in_line=True)
class Call(Composite):
    """Applies the computation `to_apply` to the operands.

    With `is_composite` the call stands for an op of a frontend, which the frontend attributes name. The
    computation defines what the op computes.
    """

    to_apply: Computation
    is_composite: bool = False

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the shape of the root of `to_apply`, whose parameters must have the shapes of the
        operands.
        """
        return accepts(self, self.to_apply, operands).root.shape.logical

    @classmethod
    def samples(cls):
        """A call of an addition."""
        return [(cls(sample_reducer("add", F32)), (Shape(F32), Shape(F32)))]


@op("fusion", operands="*operands", expensive=True, mixes_floats=True, in_line=True)
class Fusion(Calling):
    """Applies the computation `calls` to the operands; the compiler that made the fusion planned it as one
    kernel.

    axla inlines the fusions of imported modules and forms its own.
    """

    kind: FusionKind = attr(proto="fusion_kind")
    output_to_operand_aliasing: tuple[OutputAlias, ...] = attr(default=(), proto="output_operand_aliasing")
    calls: Computation = attr(always=True, default=None)

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the shape of the root of `calls`, whose parameters must have the shapes of the operands."""
        return accepts(self, self.calls, operands, "calls").root.shape.logical

    @classmethod
    def samples(cls):
        """A fusion of a multiplication."""
        return [(cls(FusionKind.LOOP, calls=sample_reducer("multiply", F32)), (Shape(F32), Shape(F32)))]


@op("custom-call", operands="*operands", effect="custom calls", expensive=True, mixes_floats=True)
class CustomCall(External):
    """Calls the function that is registered as `custom_call_target` with the operands."""

    shape: AnyShape
    window: Window | None = None
    dim_labels: ConvDims | None = attr(default=None, proto="convolution_dimension_numbers")
    feature_group_count: int = 1
    batch_group_count: int = 1
    operand_precision: tuple[Precision, ...] = attr(default=(), proto="precision_config.operand_precision")
    padding_type: PaddingType | None = None
    custom_call_target: str = attr(always=True, default="")
    operand_layout_constraints: tuple[AnyShape, ...] | None = None
    custom_call_has_side_effect: bool = False
    literal: RawText | None = None
    output_to_operand_aliasing: tuple[OutputAlias, ...] = attr(default=(), proto="output_operand_aliasing")
    schedule: CustomCallSchedule = attr(default=CustomCallSchedule.NONE, proto="custom_call_schedule")
    api_version: ApiVersion = attr(default=ApiVersion.ORIGINAL, proto="custom_call_api_version")
    called_computations: tuple[Computation, ...] = ()
    # This attribute exists in axla only. The pass layout-normalization sets it when it rewrites operands and
    # result as arrays with their dimensions in memory order; the layout constraints then hold the shapes that
    # the call declared, and this attribute that of its result.
    result_layout_constraints: tuple[AnyShape, ...] | None = None

    in_order = True

    @property
    def side_effect(self) -> bool:
        """Whether the call must not be removed, duplicated or reordered, as the program declares it."""
        return self.custom_call_has_side_effect

    def infer(self, *operands: AnyShape) -> AnyShape:
        """Returns the declared shape; layout constraints and aliases must fit the operands."""
        wanted = self.operand_layout_constraints
        if wanted is not None and len(wanted) != len(operands):
            self.reject("c1", f"{len(wanted)} operand_layout_constraints do not fit {len(operands)} operands")
        if self.result_layout_constraints is None:
            for number, (shape, operand) in enumerate(zip(wanted or operands, operands, strict=True)):
                if shape.logical is not operand.logical:
                    found = f"operand {number} is {show(operand)}"
                    self.reject("c2", f"{found}, but its layout constraint is {show(shape)}")
            for alias in self.output_to_operand_aliasing:
                self._check_alias(alias, operands)
        return self.shape

    def _check_alias(self, alias: OutputAlias, operands: tuple[AnyShape, ...]) -> None:
        """Rejects an alias of a result and an operand that does not exist, or of leaves with different
        shapes. A buffer counts as its array.
        """
        if not 0 <= alias.operand < len(operands):
            self.reject("c3", f"an alias names operand {alias.operand} of only {len(operands)} operands")
        result = subshape(self.shape, alias.output)
        operand = subshape(operands[alias.operand], alias.index)
        places = [s.array if isinstance(s, BufferShape) else s for s in (result, operand)]
        if places[0].logical is not places[1].logical:
            place = f"operand {alias.operand} {alias.index}, {show(operand)}"
            self.reject("c3", f"result {alias.output}, {show(result)}, cannot share the memory of {place}")

    examples = [example(Shape(F32, (3,)), Shape(S32), shape=Shape(F32, (3,)), custom_call_target="sample")]


def call_site(inst: Instruction) -> CallSite:
    """Describes a custom call as data. Without layout constraints, arrays have the default layout."""
    op = op_of(inst, CustomCall)
    operands, result = tuple(o.shape.logical for o in inst.operands), inst.shape.logical
    if op.operand_layout_constraints is not None:
        operands, result = op.operand_layout_constraints, inst.shape
        if op.result_layout_constraints is not None:
            (result,) = op.result_layout_constraints
    starts = [0]
    for shape in operands:
        starts.append(starts[-1] + shape.leaf_count)
    aliases = tuple(
        (leaf_number(result, a.output), starts[a.operand] + leaf_number(operands[a.operand], a.index))
        for a in op.output_to_operand_aliasing
    )
    location = inst.extra.location
    where = ", ".join(filter(None, (f"%{inst.name}", str(location or ""))))
    return CallSite(
        op.custom_call_target,
        operands,
        result,
        str(op.api_version),
        inst.extra.backend_config,
        aliases,
        where,
    )


@op("opt-barrier", operands="operand", passes_on=True, in_line=True)
class OptBarrier(Same):
    """Returns its operand unchanged. No optimisation moves or simplifies instructions across the barrier."""

    examples = [example(Shape(F32, (3,))), example(TupleShape((Shape(F32), Shape(S32, (2,)))))]


@op("after-all", operands="*tokens", structural=True)
class AfterAll(Op):
    """A token that is available when all operands, which are tokens, are; without operands, at once.

    Tokens order side effects: an op that takes a token runs after the op that returned it.
    """

    def infer(self, *tokens: AnyShape) -> AnyShape:
        """Returns the shape of a token; all operands must be tokens."""
        if any(not t.is_token for t in tokens):
            self.reject("c1", f"operands must be tokens, found {show(tokens)}")
        return TOKEN

    def evaluate(self, *tokens):
        """Returns None, the value of a token."""
        return None

    examples = [example(), example(TOKEN, TOKEN)]


@op("add-dependency", operands="operand token", passes_on=True)
class AddDependency(Op):
    """Returns its first operand unchanged, but not before the token is available."""

    def infer(self, operand: AnyShape, token: AnyShape) -> AnyShape:
        """Returns the shape of the first operand; the second must be a token."""
        if not token.is_token:
            self.reject("c1", f"the second operand must be a token, found {show(token)}")
        return operand.logical

    def evaluate(self, operand, token):
        """Returns the first operand."""
        return operand

    examples = [example(Shape(F32, (3,)), TOKEN)]
