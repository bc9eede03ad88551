"""deploy/examples/coscheduling does what its README says."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubextend import config, core
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.handle import ClusterPorts, Handle
from kubextend.plugins import IN_TREE, Coscheduling
from kubextend.profile import WaitingPods

EXAMPLE = Path(__file__).resolve().parents[3] / "deploy" / "examples" / "coscheduling"


class Pods:
    """Watched pods that are listed by hand."""

    synced = True

    def __init__(self, items: list[dict[str, Any]]) -> None:
        self.store = core.PodStore()
        listed = {"metadata": {"resourceVersion": "1"}, "items": items}
        self.store.replace(json.dumps(listed).encode())


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
    handle = Handle(WaitingPods(), ClusterPorts(pods=Pods(items[:known])))
    plugin = IN_TREE["Coscheduling"].make(profile.args["Coscheduling"], handle)
    assert isinstance(plugin, Coscheduling)
    asked = core.read_args(json.dumps({"Pod": items[0], "NodeNames": []}).encode()).pod
    assert asked is not None
    said = plugin.pre_filter(CycleState(), asked, core.NodeStore().nodes())
    assert (said and said.reason) == reason
