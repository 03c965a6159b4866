"""Interfaces that XLA once had, for programs and tutorials written for them. New programs use `axla` itself.

`computation_builder.py`: `ComputationBuilder`, the builder of XLA's first documents (2017).
`client.py`: the client of these documents, `ClientLibrary` and `GlobalData`; public as `axla.client`.
`xla_client.py`: the names of the Python module `xla_client`; public as `axla.xla_client`.
"""
