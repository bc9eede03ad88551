"""``Selector``: the grammar of labels.Parse, from Python."""

from types import MappingProxyType

import pytest

from kubextend import core

LABELS = {"zone": "a", "rack": "7", "empty": ""}


@pytest.mark.parametrize(
    ("text", "matches"),
    [
        ("", True),
        ("zone", True),
        ("!zone", False),
        ("zone=a", True),
        ("zone==a", True),
        ("zone!=a", False),
        ("absent!=a", True),
        ("zone in (a, b)", True),
        ("zone notin (a)", False),
        ("absent notin (a)", True),
        ("rack>6", True),
        ("rack>7", False),
        ("rack<8,zone=a", True),
        ("empty=", True),
        ("empty in ()", True),
        ("absent=", False),
    ],
)
def test_a_selector_matches_as_in_kubernetes(text: str, matches: bool) -> None:
    assert core.Selector(text).matches(LABELS) is matches


@pytest.mark.parametrize("text", ["a,", "a in", "a in (b", "=a", "a>b", "a>-5", "a b", "é=1"])
def test_what_is_not_a_selector_is_a_value_error_with_one_line(text: str) -> None:
    with pytest.raises(ValueError, match=r".+") as caught:
        core.Selector(text)
    assert "\n" not in str(caught.value)
    assert not isinstance(caught.value, core.KubextendError)


def test_any_mapping_of_strings_is_a_set_of_labels() -> None:
    selector = core.Selector("zone=a")
    assert selector.matches(MappingProxyType(LABELS))
    assert not selector.matches({})


@pytest.mark.parametrize("labels", [None, [("zone", "a")], {"zone": 1}, {1: "a"}, "zone=a"])
def test_anything_but_a_mapping_of_strings_is_a_type_error(labels: object) -> None:
    with pytest.raises(TypeError):
        core.Selector("zone=a").matches(labels)  # type: ignore[arg-type]


def test_equal_selectors_are_equal_hash_alike_and_print_in_canonical_form() -> None:
    one, other = core.Selector("b in (y,x) , a = 1"), core.Selector("a=1,b in (x,y)")
    assert one == other
    assert len({one, other}) == 1
    assert str(one) == "a=1,b in (x,y)"
    assert repr(one) == 'Selector("a=1,b in (x,y)")'
    assert one != core.Selector("a=2")
    assert one != "a=1,b in (x,y)"


@pytest.mark.parametrize("text", [None, 7, b"a=1", "\udc80"])
def test_a_selector_is_made_from_text_alone(text: object) -> None:
    with pytest.raises((TypeError, UnicodeEncodeError)):
        core.Selector(text)  # type: ignore[arg-type]
