"""Expected values are those of Go's time.ParseDuration, to the microsecond, and of its String."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubextend.config import Duration

NS_PER_S = 1_000_000_000


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("0", 0),
        ("1m30s", 90 * NS_PER_S),
        ("1.5h", 5400 * NS_PER_S),
        ("500ms", NS_PER_S // 2),
        (".5s", NS_PER_S // 2),
        ("1.s", NS_PER_S),
        *((f"1{micro}s", 1000) for micro in "u\u00b5\u03bc"),
        ("3999ns", 4000),
        ("1.000001s", NS_PER_S + 1000),
        ("-1m", -60 * NS_PER_S),
        ("+5s", 5 * NS_PER_S),
        ("2562047h", 2562047 * 3600 * NS_PER_S),
    ],
)
def test_a_duration_is_read_as_go_reads_it(text: str, nanoseconds: int) -> None:
    assert Duration.parse(text) == Duration(nanoseconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "-",
        "abc",
        ".s",
        ".",
        "1s 2m",
        "2",
        "1m2",
        "2d",
        "1mm",
        "1s;2m",
        "3000000h",
        "1e3s",
        "9" * 5000 + "s",
    ],
)
def test_what_go_refuses_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"^invalid duration \"") as caught:
        Duration.parse(text)
    assert str(caught.value) == f'invalid duration "{text}"'


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "0s"),
        (1, "1ns"),
        (1100, "1.1\u00b5s"),
        (2_200_000, "2.2ms"),
        (120 * NS_PER_S, "2m0s"),
        (18_367_001_000_000, "5h6m7.001s"),
        (-90 * NS_PER_S, "-1m30s"),
    ],
)
def test_a_duration_is_printed_as_go_prints_it(nanoseconds: int, text: str) -> None:
    assert str(Duration(nanoseconds)) == text


@given(st.integers(-(2**50), 2**50))
def test_what_is_printed_is_read_back(microseconds: int) -> None:
    assert Duration.parse(str(Duration(1000 * microseconds))).nanoseconds == 1000 * microseconds
