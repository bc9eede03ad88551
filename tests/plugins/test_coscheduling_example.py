"""deploy/examples/coscheduling does what its README says."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubextend import config, testing
from kubextend.plugins import IN_TREE, Coscheduling

EXAMPLE = Path(__file__).resolve().parents[2] / "deploy" / "examples" / "coscheduling"


def workers() -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = yaml.safe_load((EXAMPLE / "pods.yaml").read_text())["items"]
    for item in items:
        item["metadata"] |= {"namespace": "default", "uid": item["metadata"]["name"]}
    return items


def test_the_configuration_makes_kube_scheduler_call_what_a_gang_needs() -> None:
    loaded = config.load(EXAMPLE / "kubextend.yaml", known=IN_TREE)
    assert set(loaded.verbs) == {"filter", "preempt", "bind"}
    assert loaded.needs_pods
    (profile,) = loaded.resolved
    args = profile.args["Coscheduling"]
    assert isinstance(args, Coscheduling.Args)
    assert args.permit_waiting_time_seconds == 90


@pytest.mark.parametrize(
    ("known", "reason"), [(3, None), (2, "pod group has fewer pods than its minimum")]
)
def test_the_pods_need_each_other(known: int, reason: str | None) -> None:
    items = workers()
    loaded = config.load(EXAMPLE / "kubextend.yaml", known=IN_TREE)
    (profile,) = loaded.resolved
    assert {item["spec"]["schedulerName"] for item in items} == {profile.scheduler_name}
    cluster = testing.Cluster(loaded, nodes=1, pods=items[:known])
    assert set(cluster.filter(items[0]).rejected.values()) == ({reason} if reason else set())
