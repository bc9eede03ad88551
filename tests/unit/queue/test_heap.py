"""The heap of the queue: nothing is lost, whatever the order answers."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from queue_world import info, pod

from kubextend.queue.entry import Entry
from kubextend.queue.heap import Heap

Rule = Callable[[int, int], bool]


@dataclass
class ByNumber:
    """An order of entries by their numbers."""

    rule: Rule

    def before(self, a: Entry, b: Entry) -> bool:
        return self.rule(a.sequence, b.sequence)


MADE = pod("any")
SEEDS = range(100)
RANDOM = random.Random(36)


def entries(count: int, seed: int = 36) -> list[Entry]:
    made = [Entry(info(MADE), number) for number in range(count)]
    random.Random(seed).shuffle(made)
    return made


def heap_of(rule: Rule, content: list[Entry]) -> Heap[Entry]:
    heap = Heap(ByNumber(rule))
    for entry in content:
        heap.push(entry)
    return heap


def numbers(content: list[Entry]) -> list[int]:
    return [entry.sequence for entry in content]


def drained(heap: Heap[Entry]) -> list[int]:
    numbers = []
    while heap:
        numbers.append(heap.first.sequence)
        heap.remove(heap.first)
    return numbers


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 257])
def test_entries_come_out_in_order(count: int) -> None:
    heap = heap_of(lambda a, b: a < b, entries(count))
    assert numbers(heap.ordered()) == list(range(count))
    assert drained(heap) == list(range(count))
    assert len(heap) == 0


@pytest.mark.parametrize("number", [-1, 10.5, 99])
def test_an_entry_is_in_it_once_and_moves_when_it_changes(number: int) -> None:
    for seed in SEEDS:
        content = entries(20, seed)
        heap = heap_of(lambda a, b: a < b, content)
        content[7].sequence = number
        heap.push(content[7])
        assert drained(heap) == sorted(numbers(content))


def test_any_entry_can_be_taken_out() -> None:
    for seed in SEEDS:
        content = entries(20, seed)
        heap = heap_of(lambda a, b: a < b, content)
        for entry in content[:10]:
            heap.remove(entry)
            heap.remove(entry)
        assert drained(heap) == sorted(numbers(content[10:]))


def test_what_takes_the_place_of_an_entry_that_was_taken_out_may_have_to_rise() -> None:
    # Pushed in this order every entry stays where it is: 30 and 40 below 20, 2 to 4 below 1.
    content = [Entry(info(MADE), number) for number in (0, 20, 1, 30, 40, 2, 3, 31, 32, 41, 42, 4)]
    heap = heap_of(lambda a, b: a < b, content)
    heap.remove(content[7])
    assert drained(heap) == [0, 1, 2, 3, 4, 20, 30, 32, 40, 41, 42]


def test_an_empty_heap_has_no_first() -> None:
    with pytest.raises(IndexError):
        Heap(ByNumber(lambda a, b: a < b)).first  # noqa: B018


@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(lambda _a, _b: True, id="always"),
        pytest.param(lambda _a, _b: False, id="never"),
        pytest.param(lambda _a, _b: RANDOM.random() < 0.5, id="by chance"),
        pytest.param(lambda a, b: (b - a) % 3 == 1, id="in a circle"),
    ],
)
def test_an_order_that_contradicts_itself_loses_nothing(rule: Rule) -> None:
    content = entries(100)
    heap = heap_of(rule, content)
    for entry in content[:10]:
        heap.push(entry)
    for entry in content[10:20]:
        heap.remove(entry)
    assert sorted(numbers(heap.ordered())) == sorted(numbers(content[:10] + content[20:]))
    assert sorted(drained(heap)) == sorted(numbers(content[:10] + content[20:]))
