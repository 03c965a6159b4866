"""Prints modules as HLO text, like XLA.

`print_module(module)` prints like XLA with its default options: results with layouts, operands as names,
constants of more than ten elements (and all tuples) as {...}. With `print_large_constants=True` the text has
all values and parses to the same module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from axla.core.dataclass import dataclass
from axla.core.errors import InvalidArgument
from axla.core.shape import AnyShape, ProgramShape
from axla.ir.attributes import Window
from axla.ir.graph import NO_EXTRA, Alias, Computation, Extra, Instruction, Module, SourceLocation
from axla.ir.op import Op
from axla.ir.structure import Constant, Parameter
from axla.ir.traverse import computations_callees_first, schedule_of
from axla.text.attributes import Codec, codec_of, write_integers
from axla.text.literal_printer import constant_text
from axla.text.strings import named_values, quote, quote_unless_braced


@dataclass(frozen=True, slots=True, kw_only=True)
class PrintOptions:
    """Options of the printer; the names are those of XLA's HloPrintOptions."""

    print_large_constants: bool = False
    print_percent: bool = True
    include_layout_in_shapes: bool = True
    print_operand_shape: bool = False
    print_metadata: bool = True
    print_backend_config: bool = True
    print_control_dependencies: bool = True
    print_extra_attributes: bool = True
    print_program_shape: bool = True


DEFAULT = PrintOptions()


def print_module(module: Module, **options: Any) -> str:
    """The text of a module; the keywords are fields of PrintOptions."""
    return "".join(_Printer(_options(options)).module(module))


def instruction_printer(**options: Any) -> Callable[[Instruction], str]:
    """Returns a function that prints an instruction; the keywords are fields of PrintOptions."""
    return _Printer(_options(options)).instruction


def _options(options: dict[str, Any]) -> PrintOptions:
    if not options:
        return DEFAULT
    unknown = [name for name in options if name not in PrintOptions.__slots__]
    if unknown:
        message = f"unknown print option {unknown[0]}; known are {', '.join(PrintOptions.__slots__)}"
        raise InvalidArgument(message)
    return PrintOptions(**options)


@dataclass(slots=True)
class _Printer:
    options: PrintOptions
    shapes: dict[AnyShape, str] = field(default_factory=dict)  # shapes are interned: few, printed often

    # Modules and computations.

    def module(self, module: Module) -> Iterable[str]:
        yield f"HloModule {module.name}{self.header(module)}\n\n"
        tables = [(name, text) for name, text in module.config.more if name in TABLES]
        for name, text in tables:
            yield f"{name}\n{text}\n\n"
        if tables:
            yield "\n"
        starts = (i for c in module.computations for i in c.instructions if i.opcode == ASYNC[0])
        hidden = {wrapped(start) for start in starts}
        for computation in computations_callees_first(module):
            if computation in hidden:
                continue
            if module.has_entry and computation is module.entry:
                yield "ENTRY "
            yield from self.computation(computation, "")
            yield "\n\n"

    def header(self, module: Module) -> str:
        config = module.config
        more = dict(config.more)
        parts: dict[str, str] = {}
        if module.schedule is not None:
            parts["is_scheduled"] = "true"
        if config.aliases:
            parts["input_output_alias"] = "{ " + ", ".join(map(_alias_text, config.aliases)) + " }"
        if config.buffer_donors:
            donors = (f"({number}, {write_integers(index)})" for number, index in config.buffer_donors)
            parts["buffer_donor"] = "{ " + ", ".join(donors) + " }"
        layout = config.entry_layout
        if layout is None and module.has_entry:
            entry = module.entry
            layout = ProgramShape(tuple(p.shape for p in entry.parameters), entry.root.shape)
        if layout is not None:
            parts["entry_computation_layout"] = self.entry_layout(layout)
        if config.replica_count != 1:
            parts["replica_count"] = str(config.replica_count)
        if config.num_partitions != 1:
            parts["num_partitions"] = str(config.num_partitions)
        if config.frontend_attributes:
            parts["frontend_attributes"] = named_values(config.frontend_attributes)
        parts |= {name: text for name, text in more.items() if name not in TABLES}
        ordered = [name for name in HEADER_ORDER if name in parts]
        ordered += [name for name in parts if name not in HEADER_ORDER]
        return "".join(f", {name}={parts[name]}" for name in ordered)

    def entry_layout(self, shape: ProgramShape) -> str:
        parameters = _numbered([s.to_string() for s in shape.parameters])
        return f"{{({parameters})->{shape.result.to_string()}}}"

    def computation(self, computation: Computation, indent: str) -> Iterable[str]:
        percent = "%" if self.options.print_percent else ""
        shape = f" {self.program_shape(computation)}" if self.options.print_program_shape else ""
        yield f"{indent}{percent}{computation.name}{shape} {{\n"
        root = computation.root
        for inst in schedule_of(computation):
            yield f"{indent}  {'ROOT ' if inst is root else ''}{self.instruction(inst)}\n"
        yield f"{indent}}}"
        for name, value in computation.extra.more:
            yield f", {name}={quote(value)}"

    def program_shape(self, computation: Computation) -> str:
        parameters = [f"{p.name}: {p.shape.to_string(layout=False)}" for p in computation.parameters]
        return f"({', '.join(parameters)}) -> {computation.root.shape.to_string(layout=False)}"

    # Instructions.

    def instruction(self, inst: Instruction) -> str:
        percent = "%" if self.options.print_percent else ""
        opcode, parts = inst.op.opcode, []
        if opcode in ASYNC:
            opcode, parts = self.asynchronous(inst)
        elif self.options.print_extra_attributes:
            parts = self.attributes(inst.op)
        head = f"{percent}{inst.name} = {self.shape(inst.shape)} {opcode}({self.operands(inst)})"
        if inst.extra is not NO_EXTRA:
            parts += self.extra(inst.extra)
        return ", ".join((head, *parts)) if parts else head

    def asynchronous(self, inst: Instruction) -> tuple[str, list[str]]:
        """Returns the opcode and attributes of an instruction of an asynchronous call. A call that only
        applies one instruction is printed under its opcode: `add-start`.
        """
        stage = inst.op.opcode
        parts = self.attributes(inst.op) if self.options.print_extra_attributes else []
        start = inst
        while start.opcode in ASYNC[1:]:
            start = start.operands[0]
        inside = wrapped(start) if start.opcode == ASYNC[0] else None
        if inside is None:
            return stage, parts
        if start is inst:
            own = self.attributes(inside.root.op) if self.options.print_extra_attributes else []
            thread = [p for p in parts if p.startswith("async_execution_thread=")]
            aliases = [p for p in parts if p.startswith("output_to_operand_aliasing=")]
            parts = [*thread, *own, *aliases]
            if not inst.extra.frontend_attributes:
                parts += self.extra(Extra(frontend_attributes=inside.root.extra.frontend_attributes))
        return f"{inside.root.opcode}-{stage.removeprefix('async-')}", parts

    def shape(self, shape: AnyShape) -> str:
        found = self.shapes.get(shape)
        if found is None:
            found = shape.to_string(layout=self.options.include_layout_in_shapes)
            self.shapes[shape] = found
        return found

    def operands(self, inst: Instruction) -> str:
        op = inst.op
        if type(op) is Parameter:
            return str(op.parameter_number)
        if type(op) is Constant:
            return constant_text(op.literal, values=self.options.print_large_constants)
        percent = "%" if self.options.print_percent else ""
        if self.options.print_operand_shape:
            return _numbered([f"{self.shape(o.shape)} {percent}{o.name}" for o in inst.operands])
        return _numbered([percent + o.name for o in inst.operands])

    def attributes(self, op: Op) -> list[str]:
        parts = []
        for attribute, codec in _attributes_of(type(op)):
            value = getattr(op, attribute.name)
            if value is None or (value == attribute.default and not attribute.always):
                continue
            if isinstance(value, Window) and not value.size and attribute.default is not None:
                continue  # only a custom call, whose default is None, has an empty window in the text
            text = codec.encode(value)
            if not self.options.print_percent and attribute.name in op.computation_fields:
                text = text.replace("%", "")
            parts.append(f"{attribute.text}={text}")
        return parts

    def extra(self, extra: Extra) -> list[str]:
        options = self.options
        more = dict(extra.more)
        parts = []
        if options.print_extra_attributes:
            parts += [f"{name}={text}" for name, text in more.items() if name not in _LATE]
            if extra.sharding:
                parts.append(f"sharding={{{extra.sharding}}}")
            if extra.frontend_attributes:
                parts.append(f"frontend_attributes={named_values(extra.frontend_attributes)}")
        if options.print_control_dependencies and extra.control_predecessors:
            percent = "%" if options.print_percent else ""
            names = ", ".join(percent + p.name for p in extra.control_predecessors)
            parts.append(f"control-predecessors={{{names}}}")
        if options.print_extra_attributes:
            parts += [f"{name}={more[name]}" for name in _LATE if name in more]
        if options.print_metadata and extra.location is not None:
            parts.append(f"metadata={{{location_text(extra.location)}}}")
        if options.print_backend_config and extra.backend_config:
            parts.append(f"backend_config={quote_unless_braced(extra.backend_config)}")
        return parts


def wrapped(start: Instruction) -> Computation | None:
    """The computation that an async-start calls, if it only applies one instruction to its parameters; else
    None.
    """
    (called,) = start.op.computations()
    plain = len(called.instructions) == len(called.parameters) + 1
    return called if plain and called.root.operands == tuple(called.parameters) else None


ASYNC = ("async-start", "async-update", "async-done")

HEADER_ORDER = (
    "is_scheduled", "input_output_alias", "buffer_donor", "alias_passthrough_params",
    "entry_computation_layout", "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output", "replica_count", "num_partitions", "frontend_attributes",
    "origin_recovery_table",
)  # fmt: skip
TABLES = ("FileNames", "FunctionNames", "FileLocations", "StackFrames")
"""Tables of text after the header, kept in `ModuleConfig.more`."""

_LATE = ("statistics", "origin", "original_value")
"""Attributes kept as text that are printed after the sharding and control predecessors."""

_ATTRIBUTES: dict[type[Op], list[tuple[Any, Codec]]] = {}


def _attributes_of(op: type[Op]) -> list[tuple[Any, Codec]]:
    found = _ATTRIBUTES.get(op)
    if found is None:
        special = op is Constant or op is Parameter  # printed as operands
        found = [] if special else [(a, codec_of(a.type)) for a in op.attributes]
        _ATTRIBUTES[op] = found
    return found


def _numbered(texts: list[str]) -> str:
    """Joins texts with commas, with an index comment before every fifth one."""
    if len(texts) <= 5:
        return ", ".join(texts)
    return ", ".join(f"/*index={n}*/{t}" if n and n % 5 == 0 else t for n, t in enumerate(texts))


def _alias_text(alias: Alias) -> str:
    kind = "must-alias" if alias.must else "may-alias"
    return f"{write_integers(alias.output)}: ({alias.parameter}, {write_integers(alias.index)}, {kind})"


def location_text(location: SourceLocation) -> str:
    """The text of an instruction's `metadata={...}` without the braces."""
    parts = []
    for name in ("op_type", "op_name", "source_file"):
        value = getattr(location, name)
        if value:
            parts.append(f"{name}={quote(value)}")
    if location.source_line:
        parts.append(f"source_line={location.source_line}")
    parts += [f"{name}={text}" for name, text in location.more]
    return " ".join(parts)


Module.printer = print_module
