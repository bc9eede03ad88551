from verb_world import Clock

from kubextend.verbs.unknown_node_ages import UnknownNames


def test_a_name_is_new_for_ten_seconds_from_when_it_was_first_seen() -> None:
    clock = Clock()
    unknown = UnknownNames(clock)
    for at_s, new in [(0, True), (5, True), (9.99, True), (10, False), (60, False)]:
        clock.now_s = 1000.0 + at_s
        assert unknown.any_new(["n"]) is new


def test_one_new_name_among_old_ones_is_enough() -> None:
    clock = Clock()
    unknown = UnknownNames(clock)
    unknown.any_new(["old"])
    clock.now_s += 30
    assert unknown.any_new(["old", "new"])
    assert not unknown.any_new(["old"])


def test_no_name_is_not_new() -> None:
    assert not UnknownNames().any_new([])


def test_a_name_asked_about_now_and_then_never_becomes_new_again() -> None:
    clock = Clock()
    unknown = UnknownNames(clock)
    unknown.any_new(["n"])
    for _ in range(10):
        clock.now_s += 330
        assert not unknown.any_new(["n"])


def test_a_name_nobody_asks_about_is_forgotten() -> None:
    clock = Clock()
    unknown = UnknownNames(clock)
    unknown.any_new(["a", "b"])
    clock.now_s += 601
    assert unknown.any_new(["c"])
    assert len(unknown) == 1


def test_the_names_remembered_are_bounded() -> None:
    unknown = UnknownNames(Clock(), limit=100)
    unknown.any_new(f"n{number}" for number in range(1000))
    assert len(unknown) == 100
