"""SySched beside its recorded cases: profiles that are missing, misformed or changed."""

from typing import Any

import pytest
from tests.doors.stories_work import profiles_remembered, reads_of_annotations

from kubextend import testing
from kubextend.plugins import SySched

PROFILES = "security-profiles-operator.x-k8s.io/v1beta1/seccompprofiles"


def profile(name: str, *calls: str, namespace: str = "default", action: str = "ALLOW") -> Any:
    rules = [{"action": f"SCMP_ACT_{action}", "names": list(calls)}]
    return {"metadata": {"name": name, "namespace": namespace}, "spec": {"syscalls": rules}}


EVERY = profile("all-syscalls", "read", "write", "mount", "ptrace")
WEB = profile("web", "read", "write")
DB = profile("db", "read", "mount")


def confined(name: str, of: str, **fields: Any) -> Any:
    context = {"seccompProfile": {"type": "Localhost", "localhostProfile": of}}
    return testing.pod_manifest(name, uid=f"uid-{name}", securityContext=context, **fields)


def world(*pods: Any, found: Any = (EVERY, WEB, DB)) -> testing.Cluster:
    made = testing.Cluster(SySched, nodes=["a", "b", "c"], pods=pods, weights={"SySched": 10})
    for each in found:
        made.put(PROFILES, each)
    return made


ASKED = confined("asked", "operator/default/web.json")
LIKE = confined("like", "localhost/operator/default/web.json", node_name="a")
OTHER = confined("other", "operator/default/db.json", node_name="b")
FREE = testing.pod_manifest("free", uid="uid-free", node_name="c")


def test_a_pod_goes_beside_pods_that_may_call_what_it_may_call() -> None:
    # a: 0. b: the pod sees mount, the db sees write: 2. c: the pod sees mount and ptrace: 2.
    assert world(LIKE, OTHER, FREE).prioritize(ASKED) == {"a": 100, "b": 0, "c": 0}
    two = confined("two", "operator/default/db.json", node_name="b")
    # b: the pod sees mount, each of two pods sees write: 3.
    assert world(LIKE, OTHER, two, FREE).prioritize(ASKED) == {"a": 100, "b": 0, "c": 34}


def test_nodes_without_pods_are_best() -> None:
    assert world(OTHER).prioritize(ASKED) == {"a": 100, "b": 0, "c": 100}


def test_containers_and_annotations_name_profiles_too() -> None:
    container = {
        "name": "c",
        "securityContext": {
            "seccompProfile": {"type": "Localhost", "localhostProfile": "operator/default/web.json"}
        },
    }
    by_container = testing.pod_manifest("asked", containers=[container])
    key = "container.seccomp.security.alpha.kubernetes.io/c"
    by_annotation = testing.pod_manifest("asked", annotations={key: "operator/default/web.json"})
    for pod in (by_container, by_annotation):
        assert world(LIKE, OTHER).prioritize(pod) == {"a": 100, "b": 0, "c": 100}


def test_what_a_profile_forbids_does_not_count() -> None:
    forbids = profile("db", "mount", action="ERRNO")
    # The db has no profile left: it may call everything.
    assert world(OTHER, found=(EVERY, WEB, forbids)).prioritize(ASKED)["b"] == 0
    assert world(OTHER, found=(WEB, forbids)).prioritize(ASKED)["b"] == 0


def test_without_any_profile_all_nodes_are_equal() -> None:
    pod = testing.pod_manifest("asked")
    assert set(world(LIKE, OTHER, found=(WEB, DB)).prioritize(pod).values()) == {100}


def test_a_changed_profile_counts_at_once() -> None:
    of = world(LIKE, OTHER)
    assert of.prioritize(ASKED)["b"] == 0
    of.put(PROFILES, profile("db", "read", "write"))
    assert set(of.prioritize(ASKED).values()) == {100}


@pytest.mark.parametrize(
    "broken",
    [
        {"metadata": DB["metadata"]},
        {"metadata": DB["metadata"], "spec": {"syscalls": [{"names": ["read"]}]}},
        {"metadata": DB["metadata"], "spec": {"syscalls": 7}},
        profile("db", *(f"{number:020}" for number in range(4000))),
    ],
)
def test_a_profile_that_cannot_be_read_allows_what_the_default_allows(broken: Any) -> None:
    # As if the db had no profile: the pod sees mount and ptrace.
    pods = (OTHER, testing.pod_manifest("free", uid="uid-free", node_name="a"))
    scores = world(*pods, found=(EVERY, WEB, broken)).prioritize(ASKED)
    assert scores == {"a": 0, "b": 0, "c": 100}


@pytest.mark.parametrize("path", ["", "web.json", "/web.json", "operator/default/.json"])
def test_a_path_without_a_namespace_or_a_name_is_no_profile(path: str) -> None:
    scores = world(confined("odd", path, node_name="a"), FREE).prioritize(ASKED)
    assert scores == {"a": 0, "b": 100, "c": 0}


def test_a_pod_whose_annotations_are_too_large_to_be_kept_has_the_default_profile() -> None:
    large = testing.pod_manifest(
        "large", uid="uid-large", node_name="c", annotations={"example.com/a": "x" * 70_000}
    )
    assert world(LIKE, OTHER, large).prioritize(ASKED) == {"a": 100, "b": 0, "c": 0}


def test_a_pod_that_is_too_large_to_be_kept_has_the_default_profile() -> None:
    large = confined(
        "large",
        "operator/default/web.json",
        node_name="a",
        containers=[{"name": "c", "args": ["x" * (2 << 20)]}],
    )
    assert world(large).prioritize(ASKED)["a"] == 0


def test_the_annotations_of_a_pod_on_a_node_are_read_once() -> None:
    """A tenant may write thousands, and each call would read those of all pods on nodes."""
    among = world(LIKE, OTHER, FREE)
    with reads_of_annotations() as read:
        assert among.prioritize(ASKED) == among.prioritize(ASKED)
    assert sorted(read) == ["asked", "asked", "free", "like", "other"]


def test_deleted_pods_are_forgotten_and_no_others() -> None:
    """A tenant may create and delete pods all day, each with 57 KB of names of profiles."""
    among = world(LIKE, OTHER, FREE)
    among.prioritize(ASKED)
    for batch in range(4):
        made = [
            {"kind": "Pod"}
            | confined(f"p{batch}-{at}", f"operator/default/{at}.json", node_name="a")
            for at in range(60)
        ]
        among.add(*made)
        # A call need not see all nodes.
        among.prioritize(ASKED, nodes=["a"])
        among.delete(*made)
        assert profiles_remembered(among).keys() >= {"uid-like", "uid-other", "uid-free"}
        # At most twice the pods that there are, and a hundred; and the 60 of the last call.
        assert len(profiles_remembered(among)) <= 2 * (3 + 60) + 100


def test_names_that_no_profile_can_have_are_not_kept() -> None:
    long, longest = "x" * 254, "x" * 253
    paths = (f"default/{long}", f"{long}/web", "default/\u00e4", f"{longest}/{longest}")
    among = world(
        *(confined(f"p{at}", f"operator/{of}.json", node_name="a") for at, of in enumerate(paths))
    )
    among.prioritize(ASKED)
    assert profiles_remembered(among) == {"uid-p0": 0, "uid-p1": 0, "uid-p2": 0, "uid-p3": 1}


def by_annotations(name: str, profiles: int) -> Any:
    key = "seccomp.security.alpha.kubernetes.io"
    paths = {f"c{at}.{key}": f"operator/default/{name}-{at}.json" for at in range(profiles)}
    return testing.pod_manifest(name, uid=f"uid-{name}", node_name="a", annotations=paths)


def by_containers(name: str, profiles: int) -> Any:
    containers = [
        {
            "name": f"c{at}",
            "securityContext": {
                "seccompProfile": {
                    "type": "Localhost",
                    "localhostProfile": f"operator/default/{name}-{at}.json",
                }
            },
        }
        for at in range(profiles)
    ]
    return testing.pod_manifest(name, uid=f"uid-{name}", node_name="a", containers=containers)


@pytest.mark.parametrize("made", [by_annotations, by_containers])
def test_a_pod_that_names_more_than_32_profiles_has_the_default_profile(made: Any) -> None:
    """Each profile is looked up at each call, and tenants may name thousands."""
    # With 32 profiles, one of which allows little, the pod runs on a; with 33 it may call all.
    few, many = made("few", 32), made("many", 33)
    small = [profile(f"{name}-0", "read", "write") for name in ("few", "many")]
    assert world(few, found=(EVERY, WEB, *small)).prioritize(ASKED)["a"] == 100
    assert world(many, found=(EVERY, WEB, *small)).prioritize(ASKED)["a"] == 0
