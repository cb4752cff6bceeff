"""Which names are numbers."""

from __future__ import annotations

import pytest

from penstock.checkpoint.file_numbers import file_number


@pytest.mark.parametrize("number", [0, 7, 10, 1731801600000, 2**63 - 1])
def test_the_numbers_of_java_are_numbers(number: int) -> None:
    assert file_number(str(number)) == number


@pytest.mark.parametrize(
    "name", ["", "07", "00", "+7", "-7", "7 ", "7.crc", "²", "٣", str(2**63), "9" * 200]
)
def test_other_names_are_not(name: str) -> None:
    assert file_number(name) is None
