"""`P.json`: facts about a library for `axla.aot.load` and other tools."""

from __future__ import annotations

import hashlib

from axla.aot.library import CompiledLibrary, LibraryValue
from axla.aot.package import objects
from axla.runtime import manifest as facts
from axla.runtime.loader import digest_of


def manifest(library: CompiledLibrary) -> facts.Manifest:
    """The contents of P.json."""
    target, constants = library.target, library.constants
    return facts.Manifest(
        facts.FORMAT, str(library.name), library.prefix,
        facts.TargetFacts(
            target.name, target.triple, target.cpu, tuple(sorted(target.features)), target.form.format,
            target.form.pointer_bytes, target.form.byte_order,
        ),
        tuple(
            facts.ObjectFacts(name, len(data), hashlib.sha256(data).hexdigest())
            for name, data in objects(library).items()
        ),
        library.weights,
        facts.ConstantsFacts(
            len(constants), digest_of(constants),
            tuple(facts.TensorFacts(t.name, t.offset, t.shape.dtype, t.shape.dims) for t in library.tensors),
        ),
        tuple(
            facts.FunctionFacts(
                str(function.name), function.symbol, function.workspace_bytes,
                _values(function.arguments), _values(function.results), tuple(function.interface.messages),
            )
            for function in library.functions
        ),
        library.batches, tuple(library.externals),
        f"{library.prefix}.weights" if library.takes_weights else "",
    )  # fmt: skip


def _values(values: tuple[LibraryValue, ...]) -> tuple[facts.ValueFacts, ...]:
    return tuple(facts.ValueFacts(v.name, v.label, v.dtype, v.dims, v.bytes, v.role) for v in values)
