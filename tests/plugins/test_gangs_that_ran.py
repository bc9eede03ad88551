"""A gang that ran is repaired: its completed pods count, its crashed pods are replaced.

The model is what the Job controller does. It replaces a crashed pod and never a completed one, so
that of a Job of four of which one pod has completed only three can run. kube-apiserver deletes a
completed pod at once when it is told to; a pod that is deleted while it runs has a
``deletionTimestamp`` first, whatever it ends as.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest
from tests.doors.stories import pod_of

from kubextend import testing
from kubextend.errors import TruncatedObjectError
from kubextend.framework import Handle
from kubextend.plugins import Coscheduling, PodGroupCoscheduling

GROUP = "scheduling.x-k8s.io/pod-group"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
JOB = "batch.kubernetes.io/controller-uid"
POD_GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
WHEN = "2030-01-01T00:00:00Z"
SIZE = 4
PHASES = {"c": "Succeeded", "f": "Failed", ".": "Running"}
both = pytest.mark.parametrize("plugin", [Coscheduling, PodGroupCoscheduling])

Pod = Mapping[str, Any]


def member(name: str, job: str = "first", **more: Any) -> Pod:
    """A pod of the gang of four; without a Job, ``job`` is empty."""
    labels = {GROUP: "train", MINIMUM: str(SIZE)} | ({JOB: job} if job else {})
    fields = {"uid": f"uid-{name}", "labels": labels, "requests": {"cpu": "1"}} | more
    return {"kind": "Pod", **testing.pod_manifest(name, **fields)}


def on_a_node(pod: Pod, phase: str = "Running", **metadata: Any) -> Pod:
    return {
        "kind": "Pod",
        "metadata": {**pod["metadata"], **metadata},
        "spec": {**pod["spec"], "nodeName": "a"},
        "status": {"phase": phase},
    }


def gang(job: str = "first", prefix: str = "train") -> list[Pod]:
    return [member(f"{prefix}-{index}", job) for index in range(SIZE)]


def cluster(plugin: type, pods: Iterable[Pod] = (), **options: Any) -> testing.Cluster:
    spec = {"minMember": SIZE, **options.pop("spec", {})}
    group = {"metadata": {"name": "train", "namespace": "default"}, "spec": spec}
    objects = {POD_GROUPS: [group]} if plugin is PodGroupCoscheduling else {}
    given = {"nodes": ["a"], "objects": objects, **options}
    return testing.Cluster(plugin, pods=pods, **given)


def nodes_of(world: testing.Cluster, pods: Sequence[Pod]) -> list[str | None]:
    """Create pods, ask about each as kube-scheduler does, and let a second pass."""
    world.add(*pods)
    for pod in pods:
        world.schedule(pod)
    world.advance(1)
    return [world.outcome(pod).node for pod in pods]


def assert_not_split(world: testing.Cluster, pods: Sequence[Pod]) -> None:
    """Assert that the pods of a gang are bound once the last one has a node, and not before."""
    world.add(*pods)
    assert nodes_of(world, pods[:-1]) == [None] * (len(pods) - 1)
    assert nodes_of(world, pods[-1:]) == ["a"]
    assert [world.outcome(pod).node for pod in pods] == ["a"] * len(pods)


def ran(world: testing.Cluster, job: str = "first", prefix: str = "train") -> list[Pod]:
    """Bind a whole gang, and return its pods."""
    pods = gang(job, prefix)
    assert nodes_of(world, pods) == ["a"] * SIZE
    return pods


def end(world: testing.Cluster, phase: str, *pods: Pod) -> None:
    world.add(*(on_a_node(pod, phase) for pod in pods))


def become(world: testing.Cluster, pods: Sequence[Pod], fates: str) -> None:
    """Let pods complete (``c``, and ``C`` with a deletion after that), crash (``f``), be deleted
    while they run (``d``), go (``-``) or run on (``.``)."""
    for pod, fate in zip(pods, fates, strict=True):
        if fate in "cCf":
            end(world, "Failed" if fate == "f" else "Succeeded", pod)
        if fate in "C-":
            world.delete(pod)
        if fate == "d":
            world.add(on_a_node(pod, deletionTimestamp=WHEN))


@both
@pytest.mark.parametrize(
    ("job", "fates"),
    [
        *(("first", each) for each in ("c..f", "cc.f", "cccf", "cd..", "Cf..", "CCCf", "CCC-")),
        *(("", each) for each in ("c..f", "cc.f", "Cf..")),
    ],
)
def test_the_replacement_of_a_lost_pod_is_bound_though_other_pods_have_completed(
    plugin: type, job: str, fates: str
) -> None:
    with cluster(plugin) as world:
        become(world, ran(world, job), fates)
        assert nodes_of(world, [member("again", job)]) == ["a"]


@both
@pytest.mark.parametrize(("job", "fates"), [("first", "c..f"), ("first", "cccf"), ("", "c..f")])
def test_another_process_counts_the_completed_pods(plugin: type, job: str, fates: str) -> None:
    pods = zip(gang(job), (PHASES[fate] for fate in fates), strict=True)
    again = member("again", job)
    with cluster(plugin, [on_a_node(pod, phase) for pod, phase in pods]) as world:
        world.add(again)
        assert world.plugins[0].pre_enqueue(pod_of(again)) is None, "the queue releases the pod"
        assert nodes_of(world, [again]) == ["a"]


@both
def test_the_replacements_of_several_crashed_pods_are_bound_together(plugin: type) -> None:
    with cluster(plugin) as world:
        become(world, ran(world), "cfff")
        assert_not_split(world, [member(f"again-{index}") for index in range(3)])


@both
@pytest.mark.parametrize(
    ("job", "fates", "later"),
    [
        pytest.param("first", "ffff", "first", id="failed pods do not count"),
        pytest.param("first", "cccc", "second", id="the next Job, though the last one is listed"),
        # Pods without a Job:
        pytest.param("", "cccc", "", id="after a finished gang of the same name"),
        *(pytest.param("", each, "", id=f"created again {each}") for each in ("C---", "CCCC")),
        *(pytest.param("", each, "", id=f"aborted {each}") for each in ("c---", "ccc-")),
    ],
)
def test_the_gang_after_a_run_is_not_split(plugin: type, job: str, fates: str, later: str) -> None:
    with cluster(plugin) as world:
        become(world, ran(world, job), fates)
        pods = gang(later, "later")
        assert_not_split(world, pods)
        end(world, "Failed", pods[0])
        assert nodes_of(world, [member("again", later)]) == ["a"]


@both
@pytest.mark.parametrize("job", ["first", ""])
def test_a_gang_that_never_ran_is_not_split_for_completed_pods(plugin: type, job: str) -> None:
    others = {
        "": [member(f"other-{index}", "") for index in range(3)],
        "first": [
            member("in-another-namespace", namespace="elsewhere"),
            member("of-another-group", labels={GROUP: "other", JOB: "first"}),
            member("of-no-group", labels={JOB: "first"}),
            member("of-another-job", "second"),
        ],
    }
    with cluster(plugin, [on_a_node(pod, "Succeeded") for pod in others[job]]) as world:
        assert_not_split(world, gang(job))


@both
def test_the_end_of_a_large_run_counts_at_once(plugin: type) -> None:
    """A list of these pods is used for longer than it takes to end and to create them."""
    with cluster(plugin) as world:
        run = [on_a_node(member(f"old-{index}", "")) for index in range(100)]
        world.add(*run)
        world.schedule(member("extra", ""))
        world.delete(*run[1:])
        end(world, "Succeeded", run[0])
        first = gang("", "later")[0]
        world.add(first)
        assert world.schedule(first).node is None


@pytest.mark.parametrize("job", ["first", ""])
def test_a_gang_with_a_completed_pod_is_told_that_its_pods_cannot_be_listed(job: str) -> None:
    labels = {"a" * 50_000: "", "b" * 50_000: ""}
    huge = {"kind": "Pod", **testing.pod_manifest("huge", labels=labels)}
    with cluster(Coscheduling, [on_a_node(member("done", job), "Succeeded"), huge]) as world:
        pod = testing.make_pod("train", labels=member("train", job)["metadata"]["labels"])
        [gangs] = world.plugins
        said = gangs.pre_enqueue(pod)
        assert said is not None
        assert "cannot be listed" in said.reason
        [why] = world.filter(pod).rejected.values()
        assert "cannot be listed: pod default/huge" in why
        assert not world.failures


def test_a_completed_pod_with_large_labels_is_no_failure_of_the_plugin() -> None:
    labels = {GROUP: "train", JOB: "first"} | {f"l{index}": "v" * 63 for index in range(1200)}
    with cluster(Coscheduling) as world:
        world.add(on_a_node(member("big", labels=labels), "Succeeded"))
        world.delete(on_a_node(member("big", labels=labels), "Succeeded"))
        assert_not_split(world, gang())
        assert not world.failures


@both
@pytest.mark.parametrize(("job", "node"), [("first", "a"), ("", None)])
def test_a_pod_that_completes_while_it_is_deleted_counts_for_a_job_alone(
    plugin: type, job: str, node: str | None
) -> None:
    """The Job controller counts such a pod as completed; a ReplicaSet replaces it."""
    with cluster(plugin) as world:
        pods = ran(world, job)
        drained = on_a_node(pods[0], "Succeeded", deletionTimestamp=WHEN)
        world.add(drained)
        world.delete(drained)
        end(world, "Failed", pods[1])
        assert nodes_of(world, [member("again", job)]) == [node]


@both
@pytest.mark.parametrize(("run_label", "node"), [(JOB, None), ("jobset-uid", "a"), ("", "a")])
def test_a_gang_of_two_jobs_is_repaired_where_the_argument_names_what_they_share(
    plugin: type, run_label: str, node: str | None
) -> None:
    labels = {GROUP: "train", MINIMUM: "4", "jobset-uid": "set"}
    driver = member("driver", labels=labels | {JOB: "driver"})
    workers = [member(f"worker-{index}", labels=labels | {JOB: "workers"}) for index in range(3)]
    with cluster(plugin, args={plugin.__name__: {"runLabel": run_label}}) as world:
        assert nodes_of(world, [driver, *workers]) == ["a"] * SIZE
        end(world, "Succeeded", driver)
        end(world, "Failed", workers[0])
        again = member("again", labels=labels | {JOB: "workers"})
        assert nodes_of(world, [again]) == [node]


def test_a_group_that_ran_needs_no_room_for_its_completed_pods() -> None:
    """Replacements of a group pass though minResources exceeds the three of five free cores."""
    node = testing.make_node("a", allocatable={"cpu": "5"})
    spec = {"minResources": {"cpu": "4"}}
    with cluster(PodGroupCoscheduling, nodes=[node], spec=spec) as world:
        pods = ran(world)
        end(world, "Succeeded", pods[0])
        world.add(testing.make_pod("other", node_name="a", requests={"cpu": "2"}))
        end(world, "Failed", pods[1])
        assert nodes_of(world, [member("again")]) == ["a"]


class Completed:
    """Reads the pods that have completed."""

    name = "Completed"
    informers = ("pods?status.phase=Succeeded",)

    def __init__(self, handle: Handle) -> None:
        self.pods = handle.informer("pods?status.phase=Succeeded")

    filter: Callable[..., None] = lambda *_: None


def test_an_informer_with_a_field_selector_has_the_selected_objects_alone() -> None:
    pods = gang()
    world = testing.Cluster(Completed, nodes=["a"], pods=[on_a_node(pod) for pod in pods])
    become(world, pods, "cf..")
    [plugin] = world.plugins

    def names() -> list[str]:
        return [pod["metadata"]["name"] for pod in plugin.pods.list()]

    assert names() == ["train-0"]
    end(world, "Succeeded", pods[2])
    assert names() == ["train-0", "train-2"]
    world.delete(pods[0])
    assert names() == ["train-2"]


def test_an_informer_with_a_field_selector_keeps_names_labels_and_the_deletion_alone() -> None:
    pod = on_a_node(member("done", annotations={"a": "b"}), "Succeeded", deletionTimestamp=WHEN)
    world = testing.Cluster(Completed, nodes=["a"], pods=[pod])
    [plugin] = world.plugins
    [kept] = plugin.pods.list()
    assert set(kept) == {"metadata"}
    metadata = dict(kept["metadata"])
    metadata.pop("resourceVersion", "")
    assert dict(metadata.pop("labels")) == pod["metadata"]["labels"]
    names = {"name": "done", "namespace": "default", "uid": "uid-done", "deletionTimestamp": WHEN}
    assert metadata == names
    world.add(on_a_node(member("large", labels={"l": "v" * 5000}), "Succeeded"))
    large = plugin.pods.get("default", "large")
    assert large is not None
    with pytest.raises(TruncatedObjectError, match="default/large is too large"):
        large["metadata"]["labels"]
