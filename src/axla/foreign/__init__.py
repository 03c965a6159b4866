"""What every importer of foreign operations shares: a record per operation, and the op of HLO that it is.

`records.py` reads tables of records; `counterparts.py` finds the ops of HLO that they name, field by field.
The tables, and what kinds, rules and short forms mean, belong to each dialect: StableHLO's are in
`stablehlo/operations.py`.
"""
