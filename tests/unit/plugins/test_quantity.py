"""Quantities mean what they mean in Kubernetes; the expected numbers follow from its rules."""

import pytest

from kubextend.plugins.quantity import amount


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("0", 0),
        (4, 4),
        ("+2k", 2_000),
        ("1.5Ki", 1_536),
        (".5Mi", 524_288),
        ("5.", 5),
        ("3E", 3 * 10**18),
        ("3e2", 300),
        ("12E-1", 2),
        ("1Ei", 2**60),
        ("1500m", 2),
        ("1n", 1),
        ("-1500m", -1),
    ],
)
def test_amounts_are_in_units_and_rounded_up(quantity: object, expected: int) -> None:
    assert amount("memory", quantity) == expected


@pytest.mark.parametrize(
    ("quantity", "expected"), [("2", 2_000), ("250m", 250), ("0.0001", 1), ("1u", 1), ("1k", 10**6)]
)
def test_cpu_is_in_milli_cpus(quantity: str, expected: int) -> None:
    assert amount("cpu", quantity) == expected


@pytest.mark.parametrize(
    "quantity", ["", "1K", "Ki", "1 Gi", "1e1000000000", "9" * 30, "٣", "1\n", None, {}, 1.5e300]
)
def test_anything_else_is_no_quantity(quantity: object) -> None:
    with pytest.raises(ValueError, match="is no quantity of memory"):
        amount("memory", quantity)
