"""Numbers as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hespas.support.text_tables import format_scaled

FACTORS = {p: 1000.0**n for n, p in enumerate(["", "k", "M", "G", "T", "P", "E"])} | {
    p: 1000.0**-n for n, p in enumerate("munpf", 1)
}


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (40, "40 B"), (1000, "1.000 kB"), (1.318e12, "1.318 TB"), (2.5, "2.500 B"),
     (4.851e-9, "4.851 nB"), (-0.647, "-647.000 mB"), (1e-18, "0.001 fB")],
)  # fmt: skip
def test_numbers_have_prefixes(value, text):
    assert format_scaled(value, "B") == text


@given(st.floats(1e-14, 1e20), st.sampled_from([1, -1]))
def test_a_scaled_number_is_the_number_to_half_a_thousandth_of_its_prefix(size, sign):
    number, unit = format_scaled(sign * size, "J").split(" ")
    factor = FACTORS[unit.removesuffix("J")]
    assert float(number) * factor == pytest.approx(sign * size, abs=0.000501 * factor)
    assert size < 1e-12 or 1 <= abs(float(number)) <= 1000
