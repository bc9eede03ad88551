"""Who is next among the items of many namespaces, and what is dropped."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kubextend.cluster.fair_order import IN_A_ROW, Turns


def filled(*items: tuple[str, int, str]) -> Turns[str]:
    turns = Turns[str]()
    for namespace, group, item in items:
        turns.put(namespace, group, item)
    return turns


def all_of(turns: Turns[str]) -> list[str]:
    return [turns.take() for _ in range(len(turns))]


def test_namespaces_take_turns() -> None:
    turns = filled(*(("a", 0, f"a{n}") for n in range(4)), *(("b", 0, f"b{n}") for n in range(2)))
    assert all_of(turns) == ["b0", "a0", "b1", "a1", "a2", "a3"]


def test_the_pods_of_a_group_come_one_after_another_up_to_a_limit() -> None:
    large = [("a", 1, f"x{n}") for n in range(IN_A_ROW + 2)]
    small = [("a", 2, f"y{n}") for n in range(2)]
    taken = all_of(filled(*small, *large))
    assert taken == [f"x{n}" for n in range(IN_A_ROW)] + ["y0", "y1", f"x{IN_A_ROW}", "x21"]


def test_a_group_that_is_new_in_its_namespace_is_next() -> None:
    turns = filled(*(("a", 1, f"x{n}") for n in range(3)))
    assert turns.take() == "x0"
    turns.put("a", 2, "y0")
    assert all_of(turns) == ["y0", "x1", "x2"]


def test_a_group_that_comes_in_the_turn_of_another_has_a_whole_turn() -> None:
    turns = filled(*(("a", 1, f"x{n}") for n in range(5)))
    taken = [turns.take() for _ in range(3)]
    gang = [f"y{n}" for n in range(IN_A_ROW)]
    for item in gang:
        turns.put("a", 2, item)
    assert taken + all_of(turns) == ["x0", "x1", "x2", *gang, "x3", "x4"]


def test_a_group_that_follows_a_dropped_one_has_a_whole_turn() -> None:
    turns = filled(("a", 3, "z0"), ("a", 2, "y0"), *(("a", 1, f"x{n}") for n in range(4)))
    assert [turns.take() for _ in range(3)] == ["x0", "x1", "x2"]
    assert turns.drop() == "x3"
    gang = [f"y{n}" for n in range(IN_A_ROW)]
    for item in gang[1:]:
        turns.put("a", 2, item)
    assert all_of(turns) == [*gang, "z0"]


def test_who_puts_an_item_whenever_one_is_taken_is_not_always_first() -> None:
    turns = filled(*(("patient", 0, f"p{n}") for n in range(3)))
    taken = []
    for number in range(6):
        turns.put("greedy", number, f"g{number}")
        taken.append(turns.take())
    assert [item for item in taken if item.startswith("p")] == ["p0", "p1", "p2"]


def test_what_is_dropped_is_of_the_namespace_and_the_group_with_the_most() -> None:
    turns = filled(
        ("a", 1, "x0"),
        *(("b", 1, f"y{n}") for n in range(2)),
        *(("b", 2, f"z{n}") for n in range(3)),
    )
    assert turns.drop() == "z2"
    assert len(turns) == 5
    assert sorted(all_of(turns)) == ["x0", "y0", "y1", "z0", "z1"]


@given(st.integers(0, 2**64))
def test_nothing_is_lost_and_nobody_waits_for_more_than_a_turn_of_each(seed: int) -> None:
    """The slow model keeps one list and counts who was served since an item came."""
    draw = random.Random(seed)
    turns = Turns[tuple[str, int, int]]()
    waiting: list[tuple[str, int, int]] = []
    came: dict[tuple[str, int, int], int] = {}
    taken: list[tuple[str, int, int]] = []
    for number in range(draw.randint(1, 200)):
        what = draw.random()
        if what < 0.55 or not waiting:
            item = (draw.choice("abcd"), draw.randint(0, 3), number)
            turns.put(item[0], item[1], item)
            waiting.append(item)
            came[item] = len(taken)
        elif what < 0.95:
            took = turns.take()
            of_its_group = [each for each in waiting if each[:2] == took[:2]]
            assert took == of_its_group[0], "the first of its group"
            waiting.remove(took)
            taken.append(took)
            ahead = sum(each[0] == took[0] for each in taken[came[took] : -1])
            others = Counter(each[0] for each in taken[came[took] : -1] if each[0] != took[0])
            # Each namespace has a turn between two of this one, and one more if it was new.
            assert all(number <= ahead + 2 for number in others.values())
        else:
            dropped = turns.drop()
            sizes = Counter(each[0] for each in waiting)
            groups = Counter(each[1] for each in waiting if each[0] == dropped[0])
            assert sizes[dropped[0]] == max(sizes.values())
            assert groups[dropped[1]] == max(groups.values())
            assert dropped == [each for each in waiting if each[:2] == dropped[:2]][-1]
            waiting.remove(dropped)
        assert len(turns) == len(waiting)
    assert sorted(turns.take() for _ in range(len(turns))) == sorted(waiting)
