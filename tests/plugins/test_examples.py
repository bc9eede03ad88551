"""The folders of deploy/examples with bundled plugins do what their READMEs and comments say."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from kubextend import config, testing
from kubextend.plugins import (
    IN_TREE,
    Coscheduling,
    NetworkOverhead,
    NodeResourceTopologyMatch,
    SySched,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "deploy" / "examples"


def loaded(folder: str) -> Any:
    return config.load(EXAMPLES / folder / "kubextend.yaml", known=IN_TREE)


def world(plugin: Any, folder: str, objects: str, **cluster: Any) -> testing.Cluster:
    """A cluster with the objects of an example, and the plugin with the example's arguments."""
    name = plugin.name
    [profile] = loaded(folder).profiles
    args = profile.args[name].model_dump(by_alias=True)
    # With a weight of ten, the answer is the score.
    made = testing.Cluster(plugin, args={name: args}, weights={name: 10}, **cluster)
    for each in yaml.safe_load_all((EXAMPLES / folder / objects).read_text()):
        [resource] = [one for one in plugin.informers if one.startswith(each["apiVersion"])]
        made.put(resource, each)
    return made


def test_a_pod_needs_a_numa_zone_of_the_example_with_four_cpus() -> None:
    room = {"cpu": "16", "memory": "64Gi", "pods": "110"}
    nodes = [testing.node_manifest(name, allocatable=room) for name in ("node-a", "node-b")]
    folder = "node-resource-topology-match"
    made = world(NodeResourceTopologyMatch, folder, "zones.yaml", nodes=nodes)
    asked = {"cpu": "4", "memory": "8Gi"}
    container = {"name": "c", "resources": {"requests": asked, "limits": asked}}
    pod = testing.pod_manifest("pod", containers=[container])
    assert made.filter(pod).kept == ("node-b",)


def test_a_web_pod_of_the_example_goes_near_the_db() -> None:
    places = {"db-node": ("east", "east-1"), "near": ("east", "east-2"), "far": ("west", "west-1")}
    nodes = {
        node: {"topology.kubernetes.io/region": region, "topology.kubernetes.io/zone": zone}
        for node, (region, zone) in places.items()
    }

    def member(workload: str, **fields: Any) -> Any:
        labels = {"appgroup.diktyo.x-k8s.io": "shop", "appgroup.diktyo.x-k8s.io.workload": workload}
        return testing.pod_manifest(workload, uid=f"uid-{workload}", labels=labels, **fields)

    pods = [member("db", node_name="db-node")]
    made = world(NetworkOverhead, "network-overhead", "shop.yaml", nodes=nodes, pods=pods)
    assert made.filter(member("web")).kept == ("db-node", "near")
    assert made.prioritize(member("web")) == {"db-node": 100, "near": 90, "far": 0}


def test_a_pod_goes_beside_a_pod_with_the_profile_web_of_the_example() -> None:
    def web(name: str, **fields: Any) -> Any:
        profile = {"type": "Localhost", "localhostProfile": "operator/default/web.json"}
        return testing.pod_manifest(
            name, uid=f"uid-{name}", securityContext={"seccompProfile": profile}, **fields
        )

    pods = [web("like", node_name="a"), testing.pod_manifest("free", uid="uid-free", node_name="b")]
    made = world(SySched, "sy-sched", "profiles.yaml", nodes=["a", "b"], pods=pods)
    assert made.prioritize(web("asked")) == {"a": 100, "b": 0}


def test_the_example_of_node_resources_loads_with_every_argument_of_its_readme() -> None:
    [profile] = loaded("node-resources").profiles
    names = {f"NodeResources{name}" for name in ("Fit", "BalancedAllocation", "Allocatable")}
    assert profile.args.keys() == names | {"PodState"}
    assert profile.args["NodeResourcesFit"] is not None
    text = (EXAMPLES / "node-resources" / "README.md").read_text()
    for name in ("scoringStrategy.type", "ignoredResources", "ignoredResourceGroups", "mode"):
        assert f"| `{name}`" in text


@pytest.mark.parametrize(
    ("known", "reason"), [(3, None), (2, "pod group has fewer pods than its minimum")]
)
def test_the_pods_of_the_example_of_gangs_need_each_other(known: int, reason: str | None) -> None:
    gangs = loaded("coscheduling")
    assert (set(gangs.verbs), gangs.needs_pods) == ({"filter", "preempt", "bind"}, True)
    [profile] = gangs.profiles
    assert isinstance(profile.args["Coscheduling"], Coscheduling.Args)
    assert profile.args["Coscheduling"].permit_waiting_time_seconds == 90
    items = yaml.safe_load((EXAMPLES / "coscheduling" / "pods.yaml").read_text())["items"]
    for item in items:
        item["metadata"] |= {"namespace": "default", "uid": item["metadata"]["name"]}
    assert {item["spec"]["schedulerName"] for item in items} == {profile.scheduler_name}
    cluster = testing.Cluster(gangs, nodes=1, pods=items[:known])
    assert set(cluster.filter(items[0]).rejected.values()) == ({reason} if reason else set())
