"""HLO protos (HloModuleProto, HloProto, HloSnapshot) in and out: wire and text format, driven by tables.

    module = axla.proto.read(Path("module.hlo.pb").read_bytes())
    data = axla.proto.to_proto(module)
    snapshot = axla.proto.read_snapshot(data)        arguments and result as literals

`decode`, `encode`, `from_text` and `to_text` go between bytes, texts and messages as dicts (`wire`); they
lose nothing. What axla has no place for in a Module - fields it does not know, XLA's device assignment - is
kept beside it, and written back by `to_proto` as long as the module is the one that was read.
"""

from axla.proto.files import FORMS, Snapshot, looks_like_proto, read, read_snapshot, to_proto, to_text_proto
from axla.proto.text_format import from_text, to_text
from axla.proto.wire import decode, encode

__all__ = [
    "FORMS", "Snapshot", "decode", "encode", "from_text", "looks_like_proto", "read",
    "read_snapshot", "to_proto", "to_text", "to_text_proto",
]  # fmt: skip
