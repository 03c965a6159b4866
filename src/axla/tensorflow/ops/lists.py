"""To be written."""

RECORDS = ""
