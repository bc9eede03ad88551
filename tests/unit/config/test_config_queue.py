"""What turns the queue on, how it runs, and what may not be said of it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from config_world import document
from pydantic import BaseModel

from kubextend import config
from kubextend.errors import ConfigError, Issue


class WaitArgs(BaseModel, extra="forbid"):
    seconds: int = 1


@dataclass(frozen=True)
class Info:
    extension_points: frozenset[str]
    args_model: type[BaseModel] | None = None
    needs_pods: bool = False


KNOWN: Mapping[str, Any] = {
    "PrioritySort": Info(frozenset({"queueSort"})),
    "QOSSort": Info(frozenset({"queueSort"})),
    "WaitSort": Info(frozenset({"queueSort"}), WaitArgs),
    "Hold": Info(frozenset({"preEnqueue"})),
    "Both": Info(frozenset({"preEnqueue", "queueSort", "filter"})),
    "RdmaAware": Info(frozenset({"filter"})),
}
CLUSTER: dict[str, Any] = {"cluster": {}}


def named(*names: str) -> dict[str, Any]:
    return {"enabled": [{"name": name} for name in names]}


def profile(name: str | None = None, config: Any = (), **points: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"plugins": points, "pluginConfig": list(config)}
    return made if name is None else made | {"schedulerName": name}


def sorted_by(plugin: str = "QOSSort", **sections: Any) -> dict[str, Any]:
    return document(profiles=[profile(queueSort=named(plugin))], **(CLUSTER | sections))


def parse(tree: Mapping[str, Any]) -> config.ExtenderConfiguration:
    return config.parse(tree, known=KNOWN)


def issues(tree: Mapping[str, Any]) -> tuple[Issue, ...]:
    with pytest.raises(ConfigError) as caught:
        parse(tree)
    return caught.value.issues


def test_a_queue_sort_plugin_turns_the_queue_on_and_nothing_else_does() -> None:
    assert parse(sorted_by()).queues
    assert parse(document(profiles=[profile(multiPoint=named("Both"))], **CLUSTER)).queues
    assert not parse(document(**CLUSTER, profiles=[profile(filter=named("RdmaAware"))])).queues
    left_out = profile(multiPoint=named("Both"), queueSort={"disabled": [{"name": "*"}]})
    assert not parse(document(profiles=[left_out], **CLUSTER)).queues


def test_one_pod_at_a_time_and_no_waiting_for_unschedulable_ones_unless_said_otherwise() -> None:
    queue = parse(sorted_by()).queue
    assert (queue.strategy, queue.window, str(queue.max_hold), queue.gate) == (
        "BestEffortFIFO",
        1,
        "1m0s",
        "kubextend.dev/queue",
    )
    assert (queue.lease.name, queue.lease.namespace) == ("kubextend-queue", None)
    assert queue.fair_queuing == "None"


def test_everything_can_be_said_otherwise() -> None:
    given = {
        "strategy": "StrictFIFO",
        "window": 20,
        "maxHold": "90s",
        "fairQueuing": "ByNamespace",
        "gate": "Example_gate",
        "lease": {"name": "my.queue", "namespace": "kube-system"},
    }
    queue = parse(sorted_by(queue=given)).queue
    assert queue.model_dump(by_alias=True) == given | {"maxHold": "1m30s"}


QUEUE: dict[str, tuple[dict[str, Any], str, str, Any]] = {
    "no such strategy": (
        {"strategy": "FIFO"},
        "strategy",
        "must be 'StrictFIFO' or 'BestEffortFIFO'",
        "FIFO",
    ),
    "no such turns": (
        {"fairQueuing": "ByUser"},
        "fairQueuing",
        "must be 'None' or 'ByNamespace'",
        "ByUser",
    ),
    "no window": ({"window": 0}, "window", "must be at least 1", 0),
    "a window without an end": ({"window": 10_001}, "window", "must be at most 10000", 10_001),
    "no time": ({"maxHold": "0s"}, "maxHold", "must be more than 0", "0s"),
    "no duration": (
        {"maxHold": 60},
        "maxHold",
        'expected a duration such as "2s" or "1m30s", found 60',
        60,
    ),
    "no name of a gate": (
        {"gate": "kubextend.dev/"},
        "gate",
        "must be a qualified name such as kubextend.dev/queue",
        "kubextend.dev/",
    ),
    "a gate of two slashes": (
        {"gate": "a/b/c"},
        "gate",
        "must be a qualified name such as kubextend.dev/queue",
        "a/b/c",
    ),
    "no name of a lease": (
        {"lease": {"name": "My_Lease"}},
        "lease.name",
        "must be a name of lower case letters, digits, - and .",
        "My_Lease",
    ),
}


@pytest.mark.parametrize(("queue", "field", "message", "value"), QUEUE.values(), ids=QUEUE)
def test_a_field_that_makes_no_sense_is_named(
    queue: dict[str, Any], field: str, message: str, value: Any
) -> None:
    (issue,) = issues(sorted_by(queue=queue))
    assert (issue.path, issue.message, issue.value) == (f"queue.{field}", message, value)


def test_the_queue_needs_the_kubernetes_api() -> None:
    (issue,) = issues(document(profiles=[profile(queueSort=named("QOSSort"))]))
    assert issue == Issue(
        "cluster",
        "Required value: the queue watches pods and takes their gates off",
        None,
        "add cluster: {}",
    )


def test_settings_of_a_queue_that_is_off_are_noted() -> None:
    loaded = parse(document(profiles=[profile(filter=named("RdmaAware"))], queue={"window": 3}))
    assert loaded.notes == ("queue: not used: no profile enables a queueSort plugin",)


@pytest.mark.parametrize(("turns", "window"), [("ByNamespace", 1), ("None", 20)])
def test_turns_and_a_larger_window_go_badly_together_and_alone_well(
    turns: str, window: int
) -> None:
    assert parse(sorted_by(queue={"fairQueuing": turns, "window": window})).notes == ()
    both = {"fairQueuing": "ByNamespace", "window": 20}
    assert parse(sorted_by(queue=both)).notes == (
        "queue.window: kube-scheduler sorts a larger window, whatever the turns of namespaces",
    )


def test_one_plugin_sorts_also_where_multi_point_brings_another() -> None:
    both = profile("ml", multiPoint=named("Both", "PrioritySort"))
    (issue,) = issues(document(profiles=[both], **CLUSTER))
    assert issue == Issue(
        "profiles[0].plugins.multiPoint",
        'only one queue sort plugin required for profile with scheduler name "ml", but got 2',
        ["Both", "PrioritySort"],
        "name those that it is not to be in queueSort.disabled",
    )
    chosen = {"disabled": [{"name": "Both"}]}
    parse(
        document(
            profiles=[profile("ml", multiPoint=named("Both", "PrioritySort"), queueSort=chosen)],
            **CLUSTER,
        )
    )


def test_all_profiles_have_the_same_order() -> None:
    (issue,) = issues(
        document(
            profiles=[
                profile("a", multiPoint=named("Both")),
                profile("b", multiPoint=named("PrioritySort")),
            ],
            **CLUSTER,
        )
    )
    assert (issue.path, issue.message, issue.value) == (
        "profiles[1].plugins.queueSort",
        "must be the same for all profiles",
        ["PrioritySort"],
    )


def test_all_profiles_have_the_same_order_with_the_same_arguments() -> None:
    def waiting(name: str, seconds: int) -> dict[str, Any]:
        entry = {"name": "WaitSort", "args": {"seconds": seconds}}
        return profile(name, [entry], queueSort=named("WaitSort"))

    parse(document(profiles=[waiting("a", 1), waiting("b", 1)], **CLUSTER))
    (issue,) = issues(document(profiles=[waiting("a", 1), waiting("b", 2)], **CLUSTER))
    assert (issue.path, issue.message) == (
        "profiles[1].pluginConfig.args",
        "queueSort must be the same for all profiles",
    )


def test_pods_are_held_back_in_a_queue_or_not_at_all() -> None:
    (issue,) = issues(document(profiles=[profile(preEnqueue=named("Hold"))], **CLUSTER))
    assert issue == Issue(
        "profiles[0].plugins.preEnqueue",
        "PreEnqueue plugins hold pods back in the queue, and no queueSort plugin turns it on",
        ["Hold"],
        "enable one, such as PrioritySort, which is kube-scheduler's own order",
    )
    loaded = parse(document(profiles=[profile(multiPoint=named("Hold", "RdmaAware"))], **CLUSTER))
    assert loaded.notes == (
        (
            "profiles[0].plugins.preEnqueue: Hold not used: PreEnqueue plugins hold pods back in "
            "the queue, and no queueSort plugin turns it on"
        ),
    )
    # A plugin that is of use without a queue needs no note.
    without = profile(multiPoint=named("Both"), queueSort={"disabled": [{"name": "*"}]})
    assert parse(document(profiles=[without], **CLUSTER)).notes == ()
    assert parse(
        document(
            profiles=[profile(preEnqueue=named("Hold"), queueSort=named("PrioritySort"))],
            **CLUSTER,
        )
    ).resolved[0].at("preEnqueue") == (config.EnabledPlugin("Hold"),)


def test_the_written_configuration_of_kube_scheduler_knows_nothing_of_the_queue() -> None:
    from kubextend.config.scheduler import scheduler_configuration  # noqa: PLC0415 - one test's

    written = scheduler_configuration(parse(sorted_by()))
    assert "QOSSort" not in written
    assert "extenders: []" in written
