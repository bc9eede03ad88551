"""SySched beside its recorded cases: profiles that are missing, misformed or changed."""

from typing import Any

import pytest
from tests.doors.stories_work import profiles_remembered, reads_of_annotations

from kubextend import testing
from kubextend.plugins import SySched

PROFILES = "security-profiles-operator.x-k8s.io/v1beta1/seccompprofiles"
ANNOTATION = "container.seccomp.security.alpha.kubernetes.io/"


def profile(name: str, *calls: str, namespace: str = "default", action: str = "ALLOW") -> Any:
    rules = [{"action": f"SCMP_ACT_{action}", "names": list(calls)}]
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"metadata": metadata, "spec": {"syscalls": rules}}


EVERY = profile("all-syscalls", "read", "write", "mount", "ptrace")
WEB = profile("web", "read", "write")
DB = profile("db", "read", "mount")


def pod(name: str, **fields: Any) -> Any:
    return testing.pod_manifest(name, uid=f"uid-{name}", **fields)


def context(path: str) -> dict[str, Any]:
    """The field of a pod or container that names the profile at a path."""
    named = {"seccompProfile": {"type": "Localhost", "localhostProfile": path}}
    return {"securityContext": named}


def confined(name: str, of: str, **fields: Any) -> Any:
    return pod(name, **context(of), **fields)


def world(*pods: Any, found: Any = (EVERY, WEB, DB)) -> testing.Cluster:
    made = testing.Cluster(SySched, nodes=["a", "b", "c"], pods=pods, weights={"SySched": 10})
    for each in found:
        made.put(PROFILES, each)
    return made


ASKED = confined("asked", "operator/default/web.json")
LIKE = confined("like", "localhost/operator/default/web.json", node_name="a")
OTHER = confined("other", "operator/default/db.json", node_name="b")
FREE = pod("free", node_name="c")


def test_a_pod_goes_beside_pods_that_may_call_what_it_may_call() -> None:
    # a: 0. b: the pod sees mount, the db sees write: 2. c: the pod sees mount and ptrace: 2.
    assert world(LIKE, OTHER, FREE).prioritize(ASKED) == {"a": 100, "b": 0, "c": 0}
    two = confined("two", "operator/default/db.json", node_name="b")
    # b: the pod sees mount, each of two pods sees write: 3.
    assert world(LIKE, OTHER, two, FREE).prioritize(ASKED) == {"a": 100, "b": 0, "c": 34}
    # Nodes without pods are best.
    assert world(OTHER).prioritize(ASKED) == {"a": 100, "b": 0, "c": 100}


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("operator/{}.json", ""),
        ("localhost/operator/{}.json", ""),
        ("operator/apps/{}.json", "apps"),
        ("localhost/operator/apps/{}.json", "apps"),
        # A pod from before the operator's update names the namespace still.
        ("operator/apps/{}.json", ""),
    ],
)
@pytest.mark.parametrize("where", ["pod", "container", "sidecar", "annotation"])
@pytest.mark.parametrize("suffix", ["", ".v1.2"])
def test_profiles_in_a_namespace_and_in_none_are_found(
    path: str, namespace: str, where: str, suffix: str
) -> None:
    def with_profile(name: str, of: str, **fields: Any) -> Any:
        at = path.format(of + suffix)
        container = {"name": "c", "image": "x", **context(at)}
        named: dict[str, dict[str, Any]] = {
            "pod": context(at),
            "container": {"containers": [container]},
            "sidecar": {"initContainers": [container | {"restartPolicy": "Always"}]},
            "annotation": {"annotations": {f"{ANNOTATION}c": at}},
        }
        return pod(name, **named[where], **fields)

    quiet = profile(f"quiet{suffix}", "read", namespace=namespace)
    loud = profile(f"loud{suffix}", "read", "mount", "ptrace", namespace=namespace)
    there = [with_profile("q", "quiet", node_name="a"), with_profile("l", "loud", node_name="b")]
    scores = world(*there, found=(quiet, loud)).prioritize(with_profile("new", "quiet"))
    assert (scores["a"], scores["b"]) == (100, 0)


def test_a_profile_of_another_namespace_is_not_found() -> None:
    elsewhere = profile("quiet", "read", namespace="apps")
    # The pod on the node counts as one without a profile, and may call everything.
    there = confined("q", "operator/other/quiet.json", node_name="a")
    scores = world(there, LIKE, found=(EVERY, WEB, elsewhere)).prioritize(ASKED)
    assert scores["a"] == 0


def test_the_default_profile_may_be_in_no_namespace() -> None:
    every = EVERY | {"metadata": {"name": "all-syscalls"}}
    assert world(LIKE, FREE, found=(every, WEB)).prioritize(ASKED) == {"a": 100, "b": 100, "c": 0}


def test_profiles_that_are_missing_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    among = world(found=[WEB])
    for name in ("one", "two"):
        scores = among.prioritize(confined(name, "operator/absent.json"))
        assert set(scores.values()) == {100}
    said = [record.getMessage() for record in caplog.records]
    assert sum("absent" in line for line in said) == 1
    assert sum("no SeccompProfile all-syscalls in namespace default" in line for line in said) == 1


def test_tenants_fill_no_log_with_missing_profiles(caplog: pytest.LogCaptureFixture) -> None:
    among = world()
    for number in range(300):
        among.prioritize(confined(f"p{number}", f"operator/absent-{number}.json"))
    assert 1 < len(caplog.records) < 150


def test_what_a_profile_forbids_does_not_count() -> None:
    forbids = profile("db", "mount", action="ERRNO")
    # The db has no profile left: it may call everything.
    assert world(OTHER, found=(EVERY, WEB, forbids)).prioritize(ASKED)["b"] == 0
    assert world(OTHER, found=(WEB, forbids)).prioritize(ASKED)["b"] == 0


def test_without_any_profile_all_nodes_are_equal() -> None:
    assert set(world(LIKE, OTHER, found=(WEB, DB)).prioritize(pod("asked")).values()) == {100}


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
    pods = (OTHER, pod("free", node_name="a"))
    scores = world(*pods, found=(EVERY, WEB, broken)).prioritize(ASKED)
    assert scores == {"a": 0, "b": 0, "c": 100}


@pytest.mark.parametrize("path", ["", "web.json", "/web.json", "operator/default/.json"])
def test_a_path_without_a_namespace_or_a_name_is_no_profile(path: str) -> None:
    scores = world(confined("odd", path, node_name="a"), FREE).prioritize(ASKED)
    assert scores == {"a": 0, "b": 100, "c": 0}


def test_a_pod_whose_annotations_are_too_large_to_be_kept_has_the_default_profile() -> None:
    large = pod("large", node_name="c", annotations={"example.com/a": "x" * 70_000})
    assert world(LIKE, OTHER, large).prioritize(ASKED) == {"a": 100, "b": 0, "c": 0}
    # So has a pod of which nothing is kept.
    containers = [{"name": "c", "args": ["x" * (2 << 20)]}]
    larger = confined("l", "operator/default/web.json", node_name="a", containers=containers)
    assert world(larger).prioritize(ASKED)["a"] == 0


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
        path = "operator/default/{}.json"
        made = [
            {"kind": "Pod", **confined(f"p{batch}-{at}", path.format(at), node_name="a")}
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


@pytest.mark.parametrize("where", ["annotations", "containers"])
def test_a_pod_that_names_more_than_32_profiles_has_the_default_profile(where: str) -> None:
    """Each profile is looked up at each call, and tenants may name thousands."""

    def made(name: str, profiles: int) -> Any:
        paths = {f"c{at}": f"operator/default/{name}-{at}.json" for at in range(profiles)}
        containers = [{"name": each, **context(path)} for each, path in paths.items()]
        annotations = {f"{ANNOTATION}{each}": path for each, path in paths.items()}
        fields = {"annotations": annotations, "containers": containers}
        return pod(name, node_name="a", **{where: fields[where]})

    # With 32 profiles, one of which allows little, the pod runs on a; with 33 it may call all.
    small = [profile(f"{name}-0", "read", "write") for name in ("few", "many")]
    for name, profiles, score in (("few", 32, 100), ("many", 33, 0)):
        among = world(made(name, profiles), found=(EVERY, WEB, *small))
        assert among.prioritize(ASKED)["a"] == score
