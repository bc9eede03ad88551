"""What is remembered of pods has an end in number and in bytes."""

import random

import pytest
from verb_world import names_request, pod

from kubextend import core
from kubextend.verbs.kept_pods import KeptPods

MOST_BYTES = 20_000


def pod_of(name: str, length: int) -> core.Pod:
    made = pod(name)
    made["metadata"]["annotations"] = {"a": "x" * length}
    found = core.read_args(names_request([], made)).pod
    assert found is not None
    return found


def test_a_large_pod_goes_before_small_ones_that_came_first() -> None:
    kept: KeptPods[str, str] = KeptPods(100, MOST_BYTES)
    for name, length in [("a", 100), ("b", 12_000), ("c", 100), ("d", 7_000), ("e", 8_000)]:
        kept.put(name, name, pod_of(name, length))
    assert list(kept.values()) == ["a", "c", "d", "e"]


def test_a_pod_that_is_larger_than_all_may_be_is_not_kept_and_pushes_nobody_out() -> None:
    kept: KeptPods[str, str] = KeptPods(100, MOST_BYTES)
    for name, length in [("a", 100), ("b", 9_000), ("huge", 50_000)]:
        kept.put(name, name, pod_of(name, length))
    assert list(kept.values()) == ["a", "b"]
    assert kept.get("huge") is None


@pytest.mark.parametrize("seed", range(20))
def test_it_keeps_what_a_plain_list_would(seed: int) -> None:
    chance = random.Random(seed)
    kept: KeptPods[int, int] = KeptPods(8, MOST_BYTES)
    model: list[tuple[int, int]] = []
    for _ in range(200):
        key = chance.randrange(15)
        model = [each for each in model if each[0] != key]
        if chance.random() < 0.3:
            kept.pop(key)
        else:
            asked = pod_of(f"p-{key:02}", chance.choice([10, 2_000, 9_000, 30_000]))
            kept.put(key, key, asked)
            model = [*model, (key, asked.held_bytes)][-8:]
            while sum(size for _, size in model) > MOST_BYTES:
                model.remove(max(model, key=lambda each: each[1]))
        assert list(kept.values()) == [key for key, _ in model]
        assert len(kept) == len(model)
