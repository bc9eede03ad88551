"""A gang that ran is repaired: its completed pods count, its crashed pods are replaced.

The model is what the Job controller does. It replaces a crashed pod and never a completed one, so
that of a Job of four of which one pod has completed only three can run. kube-apiserver deletes a
completed pod at once when it is told to; a pod that is deleted while it runs has a
``deletionTimestamp`` first, whatever it ends as.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from kubextend import testing
from kubextend.errors import TruncatedObjectError
from kubextend.framework import Handle
from kubextend.plugins import Coscheduling, PodGroupCoscheduling

GROUP = "scheduling.x-k8s.io/pod-group"
MINIMUM = "pod-group.scheduling.sigs.k8s.io/min-available"
JOB = "batch.kubernetes.io/controller-uid"
POD_GROUPS = "scheduling.x-k8s.io/v1alpha1/podgroups"
PLUGINS = [Coscheduling, PodGroupCoscheduling]
SIZE = 4
PHASES = ["Succeeded", "Failed", "Running", "Running"]

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


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(
    ("job", "completed"), [("first", 1), ("first", 2), ("first", 3), ("", 1), ("", 2)]
)
def test_the_replacement_of_a_crashed_pod_is_bound_though_other_pods_have_completed(
    plugin: type, job: str, completed: int
) -> None:
    with cluster(plugin) as world:
        pods = ran(world, job)
        end(world, "Succeeded", *pods[:completed])
        end(world, "Failed", pods[-1])
        assert nodes_of(world, [member("again", job)]) == ["a"]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_replacement_of_a_deleted_pod_is_bound_though_other_pods_have_completed(
    plugin: type,
) -> None:
    with cluster(plugin) as world:
        pods = ran(world)
        end(world, "Succeeded", pods[0])
        world.add(on_a_node(pods[1], deletionTimestamp="2030-01-01T00:00:00Z"))
        assert nodes_of(world, [member("again")]) == ["a"]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_replacements_of_several_crashed_pods_are_bound_together(plugin: type) -> None:
    with cluster(plugin) as world:
        pods = ran(world)
        end(world, "Succeeded", pods[0])
        end(world, "Failed", *pods[1:])
        assert_not_split(world, [member(f"again-{index}") for index in range(3)])


@pytest.mark.parametrize("plugin", PLUGINS)
def test_failed_pods_do_not_count(plugin: type) -> None:
    with cluster(plugin) as world:
        end(world, "Failed", *ran(world))
        assert_not_split(world, gang(prefix="again"))


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("job", ["first", ""])
def test_a_completed_pod_counts_after_its_deletion(plugin: type, job: str) -> None:
    with cluster(plugin) as world:
        pods = ran(world, job)
        end(world, "Succeeded", pods[0])
        world.delete(pods[0])
        end(world, "Failed", pods[1])
        assert nodes_of(world, [member("again", job)]) == ["a"]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_completed_pods_of_a_job_count_after_their_deletion_though_no_pod_runs(
    plugin: type,
) -> None:
    with cluster(plugin) as world:
        pods = ran(world)
        end(world, "Succeeded", *pods[:3])
        end(world, "Failed", pods[3])
        world.delete(*pods)
        assert nodes_of(world, [member("again")]) == ["a"]


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(("job", "completed"), [("first", 1), ("first", 3), ("", 1)])
def test_another_process_of_kubextend_counts_the_completed_pods(
    plugin: type, job: str, completed: int
) -> None:
    pods = gang(job)
    left = [on_a_node(pod, "Succeeded") for pod in pods[:completed]]
    left += [on_a_node(pod) for pod in pods[completed:3]]
    with cluster(plugin, [*left, on_a_node(pods[3], "Failed")]) as world:
        assert nodes_of(world, [member("again", job)]) == ["a"]


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_next_job_of_a_group_is_not_split_though_the_last_one_is_still_listed(
    plugin: type,
) -> None:
    with cluster(plugin) as world:
        end(world, "Succeeded", *ran(world))
        assert_not_split(world, gang("second", "later"))


@pytest.mark.parametrize("plugin", PLUGINS)
def test_pods_without_a_job_that_follow_a_finished_gang_of_the_same_name_are_not_split(
    plugin: type,
) -> None:
    with cluster(plugin) as world:
        end(world, "Succeeded", *ran(world, job=""))
        later = gang("", "later")
        assert_not_split(world, later)
        end(world, "Failed", later[0])
        assert nodes_of(world, [member("again", "")]) == ["a"]


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("completed", [1, 3, 4])
def test_pods_without_a_job_that_are_created_again_are_not_split(
    plugin: type, completed: int
) -> None:
    with cluster(plugin) as world:
        pods = ran(world, job="")
        end(world, "Succeeded", *pods[:completed])
        world.delete(*pods)
        assert_not_split(world, gang("", "again"))


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize("completed", [1, 2, 3])
def test_pods_without_a_job_that_follow_an_aborted_run_are_not_split(
    plugin: type, completed: int
) -> None:
    with cluster(plugin) as world:
        pods = ran(world, job="")
        end(world, "Succeeded", *pods[:completed])
        world.delete(*pods[completed:])
        assert_not_split(world, gang("", "later"))


@pytest.mark.parametrize("plugin", PLUGINS)
def test_pods_without_a_job_of_a_gang_that_never_ran_are_not_split(plugin: type) -> None:
    others = [on_a_node(member(f"other-{index}", ""), "Succeeded") for index in range(3)]
    with cluster(plugin, others) as world:
        assert_not_split(world, gang(""))


@pytest.mark.parametrize("plugin", PLUGINS)
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
    huge = {
        "kind": "Pod",
        **testing.pod_manifest("huge", labels={"a" * 50_000: "", "b" * 50_000: ""}),
    }
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


class CountsLists:
    """A plugin's handle that counts how often the plugin lists pods by label."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self.lists = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._handle, name)

    def labelled_pods(self, *arguments: Any) -> Any:
        self.lists += 1
        return self._handle.labelled_pods(*arguments)


class Counted(Coscheduling):
    """Coscheduling with a handle that counts, at one moment."""

    def __init__(self, args: Coscheduling.Args, handle: Handle) -> None:
        self.counts: Any = CountsLists(handle)
        super().__init__(args, self.counts, clock=lambda: 0.0)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_calls_do_not_list_a_large_group_each_time_though_one_pod_has_completed(
    phase: str,
) -> None:
    pods = [member(f"train-{index}", "") for index in range(100)]
    ended = on_a_node(member("ended", ""), phase)
    with cluster(Counted, [ended, *pods], args={"Coscheduling": {}}) as world:
        [gangs] = world.plugins
        for index in range(20):
            pod = testing.make_pod(f"train-{index}", labels=pods[index]["metadata"]["labels"])
            gangs.pre_enqueue(pod)
            world.filter(pod)
        assert gangs.counts.lists <= 2


@pytest.mark.parametrize("plugin", PLUGINS)
def test_a_gang_that_never_ran_is_not_split_for_the_completed_pods_of_others(
    plugin: type,
) -> None:
    others = [
        member("in-another-namespace", namespace="elsewhere"),
        member("of-another-group", labels={GROUP: "other", JOB: "first"}),
        member("of-no-group", labels={JOB: "first"}),
        member("of-another-job", "second"),
    ]
    with cluster(plugin, [on_a_node(pod, "Succeeded") for pod in others]) as world:
        assert_not_split(world, gang())


@pytest.mark.parametrize("plugin", PLUGINS)
@pytest.mark.parametrize(("job", "node"), [("first", "a"), ("", None)])
def test_a_pod_that_completes_while_it_is_deleted_counts_for_a_job_alone(
    plugin: type, job: str, node: str | None
) -> None:
    """The Job controller counts such a pod as completed; a ReplicaSet replaces it."""
    with cluster(plugin) as world:
        pods = ran(world, job)
        drained = on_a_node(pods[0], "Succeeded", deletionTimestamp="2030-01-01T00:00:00Z")
        world.add(drained)
        world.delete(drained)
        end(world, "Failed", pods[1])
        assert nodes_of(world, [member("again", job)]) == [node]


@pytest.mark.parametrize("plugin", PLUGINS)
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


@pytest.mark.parametrize("plugin", PLUGINS)
def test_the_queue_releases_the_replacement_of_a_crashed_pod(plugin: type) -> None:
    pods = gang()
    left = [on_a_node(pod, phase) for pod, phase in zip(pods, PHASES, strict=True)]
    with cluster(plugin, left) as world:
        again = testing.make_pod("again", labels=member("again")["metadata"]["labels"])
        world.add(again)
        [gangs] = world.plugins
        assert gangs.pre_enqueue(again) is None


class Completed:
    """Reads the pods that have completed."""

    name = "Completed"
    informers = ("pods?status.phase=Succeeded",)

    def __init__(self, handle: Handle) -> None:
        self.pods = handle.informer("pods?status.phase=Succeeded")

    filter: Callable[..., None] = lambda *_: None


def test_an_informer_with_a_field_selector_has_the_selected_objects_alone() -> None:
    pods = [on_a_node(pod, phase) for pod, phase in zip(gang(), PHASES, strict=True)]
    world = testing.Cluster(Completed, nodes=["a"], pods=pods)
    [plugin] = world.plugins

    def names() -> list[str]:
        return [pod["metadata"]["name"] for pod in plugin.pods.list()]

    assert names() == ["train-0"]
    end(world, "Succeeded", pods[2])
    assert names() == ["train-0", "train-2"]
    world.delete(pods[0])
    assert names() == ["train-2"]


def test_an_informer_with_a_field_selector_keeps_names_labels_and_the_deletion_alone() -> None:
    when = "2030-01-01T00:00:00Z"
    pod = on_a_node(member("done", annotations={"a": "b"}), "Succeeded", deletionTimestamp=when)
    world = testing.Cluster(Completed, nodes=["a"], pods=[pod])
    [plugin] = world.plugins
    [kept] = plugin.pods.list()
    assert set(kept) == {"metadata"}
    metadata = dict(kept["metadata"])
    names = {"name": "done", "namespace": "default", "uid": "uid-done", "deletionTimestamp": when}
    assert metadata.pop("resourceVersion", "") is not None
    assert dict(metadata.pop("labels")) == pod["metadata"]["labels"]
    assert metadata == names
    world.add(on_a_node(member("large", labels={"l": "v" * 5000}), "Succeeded"))
    large = plugin.pods.get("default", "large")
    assert large is not None
    with pytest.raises(TruncatedObjectError, match="default/large is too large"):
        large["metadata"]["labels"]


@pytest.mark.parametrize(
    "name", ["pods?", "pods?status.phase", "?a=b", "pods?a=b?c=d", "pods?a=b&c"]
)
def test_no_field_selector_is_refused(name: str) -> None:
    wrong = type("Wrong", (Completed,), {"name": "Wrong", "informers": (name,)})
    with pytest.raises(Exception, match="names no resource"):
        testing.Cluster(wrong)
