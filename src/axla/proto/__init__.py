"""HLO protos (HloModuleProto, HloProto, HloSnapshot) in and out: wire and text format, driven by tables."""
