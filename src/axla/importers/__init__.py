"""Code that the importers of other formats share: records that declare operations, and the HLO ops that the
operations correspond to.

The importers are `stablehlo/` (MLIR text and bytecode), `tensorflow/` (graphs), `proto/` (XLA's protos) and
`text/` (HLO text). `records.py` reads tables of records; `counterparts.py` finds the HLO ops that records
name, with their fields. Each format has its own tables, and defines its kinds, rules and short forms: those
of StableHLO are in `stablehlo/operations.py`.
"""
