"""A plugin that raises and one that hangs, beside profiles that have nothing to do with them."""

import threading
from collections.abc import Iterator

import pytest

from .kubeapi import NewPool
from .stack import NewStack, Stack, profile
from .workbench import until, within
from .workload import NewWorkload

TROUBLES = ("Raises", "Hangs", "HangsLater")
HANG_S = 20.0
# Whoever waits for a plugin that hangs waits longer.
HEALTH_WITHIN_S = 10.0
PODS = 20
PODS_THAT_FAIL = 3


@pytest.fixture(scope="module")
def stack(new_stack: NewStack) -> Stack:
    hangs = {"seconds": HANG_S}
    more = [profile("trouble-raises", "Raises"), profile("trouble-hangs", Hangs=hangs)]
    more.append(profile("trouble-hangslater", HangsLater=hangs))
    return new_stack(
        "trouble",
        profile=profile("trouble-none", "CountsPods"),
        more_profiles=more,
        out_of_tree=[f"trouble:{plugin}" for plugin in (*TROUBLES, "CountsPods")],
        # A hanging call costs all pods as much: kube-scheduler asks about one after the other.
        extender={"httpTimeout": "2s"},
    )


@pytest.fixture
def health(stack: Stack) -> Iterator[list[str]]:
    """What went wrong with livez and readyz while the test ran."""
    over = threading.Event()
    wrong: list[str] = []

    def watch() -> None:
        while not over.wait(0.1):
            try:
                with within(HEALTH_WITHIN_S, "livez and readyz"):
                    assert stack.is_alive(), "not alive"
                    assert stack.is_ready(), "not ready"
            except AssertionError as error:
                wrong.append(str(error))

    watcher = threading.Thread(target=watch)
    watcher.start()
    yield wrong
    over.set()
    watcher.join()


def count(stack: Stack, name: str, plugin: str) -> float:
    return stack.counts().total(f"kubextend_plugin_{name}_total", plugin=plugin)


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_plugin_that_fails_holds_its_own_pods_only_and_health_stays_fine(
    trouble: str, stack: Stack, health: list[str], new_pool: NewPool, new_workload: NewWorkload
) -> None:
    name = f"trouble-{trouble.lower()}"
    pool = new_pool(name, 3)
    failing, fine = new_workload(stack, pool, name), new_workload(stack, pool)
    (first,) = failing.create("failing", 1)
    if trouble != "HangsLater":
        until(lambda: f'"{trouble}"' in failing.why_pending(first), "the plugin is named")
    failing.create("another", PODS_THAT_FAIL - 1)
    fine.until_placed(fine.create("fine", PODS))
    if trouble == "Raises":
        # Only a hang opens the breaker.
        until(
            lambda: count(stack, "failures", trouble) > PODS_THAT_FAIL, "it fails again and again"
        )
        assert count(stack, "calls_refused", trouble) == 0
    else:
        until(lambda: count(stack, "calls_refused", trouble) > 0, "the plugin is left uncalled")
    assert failing.placed() == {}
    assert health == []
