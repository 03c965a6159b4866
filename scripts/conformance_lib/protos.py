"""The section for protos: every text that XLA parses becomes a proto and a text again, by axla and by XLA."""

from __future__ import annotations

import os

from axla import proto
from axla.core.errors import AxlaError, UnsupportedError
from axla.text import parse_hlo
from conformance_lib.corpora import NotAtHand
from conformance_lib.section import OK, REFUSED, UNSUPPORTED, Outcome, said
from conformance_lib.texts import NO_ROUND_TRIP, NOT_AS_XLA, Text, difference

NOT_BY_XLA = "XLA does not read its own"


class Protos(Text):
    """The backends are kinds of comparison. wire, text: axla converts the text to a proto and back to the
    same text. to-xla: XLA prints axla's proto as it prints its own. from-xla: axla prints XLA's proto as XLA
    does.
    """

    name = "proto"
    backends = ("wire", "text", "to-xla", "from-xla")
    good = frozenset({OK, NOT_BY_XLA})

    def __init__(self) -> None:
        super().__init__()
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")  # XLA's messages about errors are long
        try:
            from jaxlib import _hlo
        except ImportError:
            raise NotAtHand("the section proto needs jaxlib, which reads and writes protos too") from None
        self.xla = _hlo

    def run(self, case: str, backend: str = "") -> Outcome:
        try:
            found = self.compared(self.text(case), backend)
        except UnsupportedError as error:
            found = UNSUPPORTED, error.message
        except AxlaError as error:
            found = REFUSED, said(error)
        return Outcome(self.name, case, backend, *found)

    def compared(self, text: str, way: str) -> tuple[str, str]:
        if way in ("wire", "text"):
            module = parse_hlo(text)
            data = proto.to_proto(module) if way == "wire" else proto.to_text_proto(module)
            wanted, found = (m.to_string(print_large_constants=True) for m in (module, proto.read(data)))
            return (OK, "") if wanted == found else (NO_ROUND_TRIP, difference(wanted, found))
        data = self.xla.hlo_module_from_text(text).as_serialized_hlo_module_proto()
        try:
            wanted = self.printed(data)
        except Exception as error:  # jaxlib has no exception class for this
            return NOT_BY_XLA, said(error)
        if way == "to-xla":
            found = self.printed(proto.to_proto(parse_hlo(text)))
        else:
            found = proto.read(data).to_string()
        return (OK, "") if wanted.strip() == found.strip() else (NOT_AS_XLA, difference(wanted, found))

    def printed(self, data: bytes) -> str:
        return self.xla.XlaComputation(data).get_hlo_module().to_string()
