"""Reads and writes XLA's protos of modules (HloModuleProto, HloProto, HloSnapshot), in the wire format and
the text format.

    module = axla.proto.read(Path("module.hlo.pb").read_bytes())
    data = axla.proto.to_proto(module)
    snapshot = axla.proto.read_snapshot(data)        arguments and result as literals

`decode`, `encode`, `from_text` and `to_text` convert between bytes, texts and messages as dicts (`wire`),
without loss. Fields that a Module cannot hold (unknown ones, XLA's device assignment) are stored outside of
it. `to_proto` writes them again if the module is the one that was read.
"""

from axla.proto.files import FORMS, Snapshot, looks_like_proto, read, read_snapshot, to_proto, to_text_proto
from axla.proto.text_format import from_text, to_text
from axla.proto.wire import decode, encode

__all__ = [
    "FORMS", "Snapshot", "decode", "encode", "from_text", "looks_like_proto", "read",
    "read_snapshot", "to_proto", "to_text", "to_text_proto",
]  # fmt: skip
