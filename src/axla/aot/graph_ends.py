"""Finds the arguments and results of a program by their names; `cut` changes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from axla.aot.build import Label
from axla.aot.names import derived
from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument
from axla.core.shape import Shape, TupleShape
from axla.core.shape_util import LeafPath, indexed_leaves
from axla.custom.site import nest
from axla.hlo import GetTupleElement, Parameter, Tuple
from axla.ir.clone import clone_module
from axla.ir.graph import Alias, Computation, Instruction, Module
from axla.ir.traverse import below, post_order


def flattened(module: Module) -> Module:
    """A copy of a module whose parameters are arrays: tuples are flattened, and rebuilt inside. Its header
    has no layouts.
    """
    copy = clone_module(module)
    entry = copy.entry
    old = list(entry.parameters)
    numbers: dict[tuple[int, LeafPath], int] = {}
    for number, parameter in enumerate(old):
        for index, _ in indexed_leaves(parameter.shape):
            numbers[number, index] = len(numbers)
    if any(isinstance(parameter.shape, TupleShape) for parameter in old):
        fresh: list[Instruction] = []
        for parameter in old:
            fresh += _apart(entry, parameter, len(old) + len(fresh))
        for parameter in old:
            entry.remove(parameter)
        for number, parameter in enumerate(fresh):
            entry.set_op(parameter, Parameter(parameter.shape, number))
    aliases = tuple(Alias(a.output, numbers[a.parameter, a.index], (), a.must) for a in copy.config.aliases)
    copy.set_config(entry_layout=None, aliases=aliases, buffer_donors=())
    return copy


def _apart(entry: Computation, parameter: Instruction, number: int) -> list[Instruction]:
    """Adds a parameter for each leaf of `parameter`, numbered from `number` on, and rebuilds the value of
    `parameter` from the new parameters for its users. Returns the new parameters.
    """
    users = list(parameter.users)
    alone = not isinstance(parameter.shape, TupleShape)
    leaves = [
        entry.add(
            Parameter(shape, number + k), name=parameter.name if alone else f"{parameter.name}.{k}",
            extra=parameter.extra,
        )
        for k, shape in enumerate(parameter.shape.leaves())
    ]  # fmt: skip
    whole = nest(parameter.shape, iter(leaves), lambda parts: entry.add(Tuple(), parts))
    entry.replace(parameter, whole, users)
    # An element that is taken from a rebuilt tuple is used directly, so that no leaf needs the others.
    work = list(users)
    while work:
        user = work.pop()
        if isinstance(user.op, GetTupleElement) and isinstance(user.operands[0].op, Tuple):
            work += user.users
            entry.replace(user, user.operands[0].operands[user.op.index])
    return leaves


def result_indices(module: Module) -> list[LeafPath]:
    """The index paths of the array leaves of the result."""
    return [index for index, leaf in indexed_leaves(module.entry.root.shape) if isinstance(leaf, Shape)]


def array_shape(value: Instruction, what: str) -> Shape:
    """The shape of a value. Raises InvalidArgument, which begins with `what`, if it is not an array."""
    if not isinstance(value.shape, Shape):
        raise InvalidArgument(f"{what}: {value!r} is not an array; its output_index selects an array")
    return value.shape


def element(value: Instruction, index: LeafPath) -> Instruction:
    """The element of a tuple value at an index path: an operand of a tuple instruction, or a new
    get-tuple-element.
    """
    for k in index:
        if isinstance(value.op, Tuple):
            value = value.operands[k]
        else:
            value = value.computation.add(GetTupleElement(k), (value,))
    return value


@dataclass(frozen=True, slots=True)
class Ends:
    """Finds arguments, results and instructions of a flattened module by the names that users see."""

    module: Module
    arguments: tuple[Label, ...]
    results: tuple[Label, ...]

    def argument(self, node: str, output: int, what: str) -> tuple[Instruction, Label]:
        """Finds an argument: a parameter whose name, label or C identifier is `node`, or output number
        `output` of the instruction `node` of the entry computation. Returns it, and a label for it. `what`
        begins the message of an error.
        """
        for parameter, label in zip(self.module.entry.parameters, self.arguments, strict=True):
            alone = output == 0 and node in (parameter.name, label.name, label.label)
            if alone or label.label == f"{node}[{output}]":
                return parameter, label
        return self._instruction(node, output, what, [label.name for label in self.arguments])

    def result(self, node: str, output: int, what: str) -> tuple[Instruction, Label]:
        """Finds a result: one whose label or C identifier is `node`, or output number `output` of the
        instruction `node` of the entry computation. Returns it, and a label for it. `what` begins the message
        of an error.
        """
        for index, label in zip(result_indices(self.module), self.results, strict=True):
            if node in (label.name, label.label) and output == 0:
                return element(self.module.entry.root, index), label
        return self._instruction(node, output, what, [label.name for label in self.results])

    def update_of(self, parameter: Instruction, variable: Label) -> Instruction | None:
        """The new value of a variable: the result that the module writes to it, or that has the variable's
        name; None if there is none. `parameter` is the variable's value in the module, `variable` its label.
        """
        root = self.module.entry.root
        numbers = {p: k for k, p in enumerate(self.module.entry.parameters)}
        for alias in self.module.config.aliases:
            if numbers.get(parameter) == alias.parameter:
                return element(root, alias.output)
        own = self.arguments[numbers[parameter]] if parameter in numbers else variable
        for index, label in zip(result_indices(self.module), self.results, strict=True):
            if label.name in (variable.name, own.name) or label.label == own.label:
                return element(root, index)
        return None

    def _instruction(
        self, node: str, output: int, what: str, known: Sequence[str]
    ) -> tuple[Instruction, Label]:
        found = next((i for i in self.module.entry.instructions if i.name == node), None)
        if found is None:
            raise InvalidArgument(f"{what}: there is no such value; there are {', '.join(known)}")
        name = derived([node], "value")[0]
        if isinstance(found.shape, TupleShape):
            if output >= len(found.shape.elements) or output < 0:
                raise InvalidArgument(f"{what}: {found!r} has only {len(found.shape.elements)} outputs")
            if len(found.shape.elements) > 1:
                name = f"{name}_{output}"
            return element(found, (output,)), Label(name, f"{node}:{output}")
        if output:
            raise InvalidArgument(f"{what}: {found!r} has only one output")
        return found, Label(name, node)


def cut(
    module: Module, takes: Sequence[Instruction], gives: Sequence[Instruction], labels: Sequence[Label]
) -> None:
    """Makes `takes` the parameters and `gives` the results of a flattened module, and removes the rest.

    Raises InvalidArgument with the names of parameters that the results need but `takes` lacks; `labels` are
    those of the original parameters.
    """
    entry = module.entry
    old = list(entry.parameters)
    # A new parameter replaces each value in `takes`, also where the value is a result.
    fresh = {
        place: entry.add(Parameter(array_shape(place, "feed").logical, len(old) + k), stem=place.name,
                         extra=replace(place.extra, control_predecessors=()))
        for k, place in enumerate(takes)
    }  # fmt: skip
    results = [fresh.get(value, value) for value in gives]
    for place, parameter in fresh.items():
        entry.replace(place, parameter)
    entry.set_root(results[0] if len(results) == 1 else entry.add(Tuple(), results))
    needed = set(below(entry.root, set()))
    missing = [label.label for p, label in zip(old, labels, strict=True) if p in needed]
    if missing:
        message = f"config: the fetches need {', '.join(missing)}, which no feed or variable provides"
        raise InvalidArgument(message)
    kept = needed.union(fresh.values())
    for inst in reversed(post_order(entry)):
        if inst not in kept:
            entry.remove(inst)
    for k, parameter in enumerate(fresh.values()):
        entry.set_op(parameter, Parameter(parameter.shape, k))
    module.set_schedule(None)
    module.set_config(is_scheduled=False)
