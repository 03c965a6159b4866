"""The table of operations: every record is complete, and what names an operation names one of it."""

from __future__ import annotations

import ast
import gc
import re
import sys
import threading

import pytest

from axla.stablehlo.attributes import STRUCTURES
from axla.stablehlo.counterparts import COUNTERPARTS
from axla.stablehlo.exporter import RULES as EXPORTED
from axla.stablehlo.importer import RULES as IMPORTED
from axla.stablehlo.operations import OPERATIONS
from axla.stablehlo.specialize.folding import FUNCTIONS, INTERPRETED
from axla.stablehlo.specialize.forms import DYNAMIC, FORMS
from axla.stablehlo.text.assembly import ATTRIBUTES, PARTS, _compiled
from axla.stablehlo.text.draft import TYPES
from axla.stablehlo.verify.agreement import WORDS, rules_of
from axla.stablehlo.verify.attributes import kind_of_attribute
from axla.stablehlo.verify.kinds import kind
from axla.stablehlo.verify.relations import OF_LISTS, OF_VALUES, relation

KNOWN = {name: record for name, record in OPERATIONS.items() if record.known}


@pytest.mark.parametrize("name", KNOWN)
def test_a_record_is_imported_or_says_why_not(name):
    assert (name in IMPORTED) != bool(KNOWN[name].why_not)


@pytest.mark.parametrize("name", KNOWN)
def test_kinds_are_known(name):
    record = KNOWN[name]
    for value in (*record.operands, *record.results):
        assert kind(value.kind).bits
    for attribute in record.attributes:
        assert kind_of_attribute(attribute.kind)[1]
        assert attribute.optional or not attribute.default


@pytest.mark.parametrize("name", KNOWN)
def test_rules_name_what_the_record_has(name):
    record = KNOWN[name]
    structures = [STRUCTURES.get(a.kind.strip("#"), ()) for a in record.attributes]
    known = {v.name for v in (*record.operands, *record.attributes)}.union(*structures)
    assert len(rules_of(name)) == len(record.rules)
    for text, _ in record.rules:
        names = set(re.findall(r"\b[a-z]\w*", text)) - {*WORDS, *OF_VALUES, *OF_LISTS, "count"}
        assert {name for name in names if not name.startswith("result")} <= known, text


def test_short_forms_are_read():
    for record in OPERATIONS.values():
        if record.form:
            assert _compiled(record.form)
            words = record.form.split()
            assert {w[1:] for w in words if w[0] == "@"} <= TYPES.keys()
            assert {w[1:-1] for w in words if len(w) > 2 and w[0] == "<"} <= PARTS.keys()
    assert "list" in ATTRIBUTES


def test_counterparts_are_exported():
    for counterpart in COUNTERPARTS.values():
        assert counterpart.op.opcode in EXPORTED


def test_what_names_an_operation_of_the_dialects_has_a_record():
    named = {*IMPORTED, *FORMS, *DYNAMIC, *FUNCTIONS, *INTERPRETED}
    others = {
        n for n in named if n.startswith(("stablehlo.", "check.", "interpreter.")) and n not in OPERATIONS
    }
    # Operations of an older StableHLO, whose exporters wrote them around dynamic_reshape.
    assert others == {"stablehlo.compute_reshape_shape", "stablehlo.cstr_reshapable"}


def test_rules_are_read_while_another_thread_reads_some():
    """A garbage collection inside of Python's parser lets another thread parse, which broke it (3.11.7)."""
    record, failures, others = OPERATIONS["stablehlo.transpose"], [], []

    def read():
        try:
            relation("0<=permutation<rank(operand)", record)
        except SystemError as error:
            failures.append(error)

    def collected(phase, info):
        if not others and sys._getframe(1).f_code is ast.parse.__code__:
            others.append(threading.Thread(target=read))
            others[0].start()
            others[0].join(timeout=0.2)

    threshold = gc.get_threshold()
    gc.callbacks.append(collected)
    try:
        gc.set_threshold(1)
        read()
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(collected)
    for other in others:
        other.join()
    assert not failures
