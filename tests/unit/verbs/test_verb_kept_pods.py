"""What is remembered of pods has an end in bytes, and nobody pushes out what is another's."""

import random
from collections import Counter
from dataclasses import dataclass

import pytest
from verb_world import names_request, pod

from kubextend import core
from kubextend.verbs.memory_bounded_map import KeptPods

MOST_BYTES = 20_000


@dataclass
class Kept:
    pod: core.Pod
    held_bytes: int


def of(name: str, held_bytes: int, namespace: str = "ml") -> Kept:
    found = core.read_args(names_request([], pod(name, namespace=namespace))).pod
    assert found is not None
    return Kept(found, held_bytes)


def names(kept: KeptPods[Kept]) -> list[str]:
    return [each.pod.name for each in kept.values()]


@pytest.mark.parametrize(("number", "held_bytes"), [(500, 100), (5, 9_000)])
def test_a_namespace_of_many_or_large_pods_pushes_out_its_own_oldest_alone(
    number: int, held_bytes: int
) -> None:
    kept: KeptPods[Kept] = KeptPods(MOST_BYTES)
    kept.put(of("mine", 2_000))
    for each in range(number):
        kept.put(of(f"p{each}", held_bytes, "another"))
    fit = (MOST_BYTES - 2_000) // held_bytes
    assert names(kept) == ["mine", *(f"p{each}" for each in range(number - fit, number))]


def test_what_is_larger_than_all_may_be_is_not_kept() -> None:
    kept: KeptPods[Kept] = KeptPods(MOST_BYTES)
    kept.put(of("mine", 9_000))
    gone = kept.put(of("huge", 50_000, "another"))
    assert [each.pod.name for each in gone] == ["huge"]
    assert names(kept) == ["mine"]


@pytest.mark.parametrize("seed", range(20))
def test_it_keeps_what_a_plain_list_would(seed: int) -> None:
    chance = random.Random(seed)
    kept: KeptPods[Kept] = KeptPods(MOST_BYTES)
    model: list[Kept] = []
    pods = [of(f"p{number}", 0, f"ns{number % 3}").pod for number in range(15)]
    for _ in range(300):
        asked = chance.choice(pods)
        what = chance.random()
        size = chance.choice([10, 2_000, 9_000, 30_000])
        if what < 0.2:
            kept.pop(asked.uid)
            model = [each for each in model if each.pod is not asked]
        elif what < 0.4 and model:
            lighter = chance.choice(model)
            lighter.held_bytes //= 10
            kept.recount(lighter.pod.uid)
        else:
            value = Kept(asked, size)
            gone = kept.put(value)
            model = [*(each for each in model if each.pod is not asked), value]
            expected = []
            while sum(each.held_bytes for each in model) > MOST_BYTES:
                sums: Counter[str] = Counter()
                for each in model:
                    sums[each.pod.namespace] += each.held_bytes
                heaviest = max(sums.values())
                oldest = {each.pod.namespace: each for each in reversed(model)}
                # Of namespaces that hold equally much, either may lose.
                may_go = [each for name, each in oldest.items() if sums[name] == heaviest]
                assert gone[len(expected)] in may_go
                expected.append(gone[len(expected)])
                model.remove(expected[-1])
            assert gone == expected
        assert list(kept.values()) == model
        assert len(kept) == len(model)
        assert kept.held_bytes == sum(each.held_bytes for each in model)
