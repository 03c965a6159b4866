"""Values of XLA's options that axla does not have."""

import pytest

from axla.pjrt.errors import StatusError
from axla.pjrt.options import check_option


@pytest.mark.parametrize(
    "name, value",
    [
        ("xla_embed_ir_in_executable", {"bool_field": False}),
        ("xla_embed_ir_in_executable", {"string_field": "True"}),
        ("xla_dump_max_hlo_modules", {"int_field": -1}),
        ("xla_dump_max_hlo_modules", {"string_field": " 5 "}),
        ("xla_while_loop_all_reduce_dus_code_motion_max_size_bytes", {"int_field": 1 << 62}),
        ("xla_of_another_release", {"string_field": "anything"}),
    ],
)
def test_values_that_fit(name, value):
    check_option(name, value)


@pytest.mark.parametrize(
    "name, value, said",
    [
        ("xla_embed_ir_in_executable", {"string_field": "true"}, "'true' is not a valid bool value."),
        ("xla_embed_ir_in_executable", {"int_field": 1}, "'1' is not a valid bool value."),
        ("xla_dump_max_hlo_modules", {"int_field": 1 << 31}, "'2147483648' is not a valid int32 value."),
        ("xla_dump_max_hlo_modules", {"bool_field": True}, "'1' is not a valid int32 value."),
        ("xla_dump_max_hlo_modules", {"double_field": 1.5}, "'1.5' is not a valid int32 value."),
        ("xla_cmd_buffer_trace_cache_size", {"string_field": "much"}, "'much' is not a valid int64 value."),
    ],
)
def test_values_that_do_not_fit(name, value, said):
    with pytest.raises(StatusError, match=f"While setting option {name}, {said}"):
        check_option(name, value)
