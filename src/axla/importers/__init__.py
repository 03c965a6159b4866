"""The parts that importers of other formats share: a record per operation, and the op of HLO that it stands
for.

The importers are `stablehlo/` (MLIR text and bytecode), `tensorflow/` (graphs), `proto/` (XLA's protos) and
`text/` (HLO text). `records.py` reads tables of records; `counterparts.py` finds the ops of HLO that they
name, field by field. The tables, and what kinds, rules and short forms mean, belong to each format:
StableHLO's are in `stablehlo/operations.py`.
"""
