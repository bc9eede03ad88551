"""What an informer keeps after lists and watch events, and what plugins read from it."""

import gc
import json
import random
import tracemalloc
from collections.abc import Iterable
from typing import Any

import pytest
from tests.doors.kube_objects import MAX_OBJECT_BYTES, KubeObject, Objects, kept, path_of, unwatched

from kubextend.errors import NotListedError, TruncatedObjectError, WireError

Key = tuple[str, str]


def claim(name: str, namespace: str = "ml", version: str = "1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, "uid": name, "resourceVersion": version}
    return {"apiVersion": "v1", "kind": "Claim", "metadata": metadata, "spec": spec}


def event(kind: str, found: dict[str, Any]) -> bytes:
    return json.dumps({"type": kind, "object": found}).encode()


def relist(store: Objects, *items: dict[str, Any]) -> Objects:
    """Show the objects of a fresh start: each as added, and then all others as deleted."""
    for each in items:
        store.apply(event("ADDED", each))
    for namespace, name in {*store.keys()} - {key(each) for each in items}:
        store.apply(event("DELETED", claim(name, namespace)))
    return store


def listed(*items: dict[str, Any]) -> Objects:
    return relist(kept(), *items)


def names(found: Iterable[KubeObject]) -> list[str]:
    return sorted(each["metadata"]["name"] for each in found)


def test_an_object_may_have_no_namespace() -> None:
    store = kept()
    store.apply(event("ADDED", {"metadata": {"name": "fast", "uid": "f", "resourceVersion": "1"}}))
    assert names(store.list("")) == ["fast"]
    assert store.get(("", "fast")) is not None


def test_what_is_no_event_is_an_error() -> None:
    for text in ("{", "{}", '{"type":"ADDED"}', '{"type":"NEW","object":{}}', '{"type":1}', "[]"):
        with pytest.raises(WireError):
            kept().apply(text.encode())


def test_an_error_and_a_bookmark_change_nothing() -> None:
    store = listed(claim("a"))
    error = store.apply(event("ERROR", {"code": 410, "message": "too old"}))
    assert (error.type, error.code, error.message) == ("ERROR", 410, "too old")
    mark = store.apply(event("BOOKMARK", {"metadata": {"resourceVersion": "12"}}))
    assert (mark.resource_version, mark.changed) == ("12", False)
    assert names(store.list()) == ["a"]


def test_a_value_cannot_be_changed_at_any_depth() -> None:
    store = listed(claim("a", rules=[{"verbs": ["get"]}, [1, [2]]], size=3))
    found: Any = store.get(("ml", "a"))
    rules = found["spec"]["rules"]
    assert rules[0]["verbs"][0] == "get"
    assert found["spec"] == {"size": 3, "rules": [{"verbs": ["get"]}, [1, [2]]]}
    assert "spec" in found
    assert found.get("status") is None
    places = [(found, "spec"), (found["spec"], "size"), (rules, 0), (rules[0]["verbs"], 0)]
    for place, key in [*places, (rules[1], 0), (rules[0:1][0], "verbs")]:
        with pytest.raises(TypeError):
            place[key] = "else"
        with pytest.raises(TypeError):
            del place[key]
    with pytest.raises(AttributeError):
        rules.append(1)


def test_managed_fields_are_not_kept() -> None:
    item = claim("a")
    item["metadata"]["managedFields"] = [{"manager": "x" * 100}]
    store = listed(item)
    found: Any = store.get(("ml", "a"))
    assert "managedFields" not in found["metadata"]
    del item["metadata"]["managedFields"]
    assert store.held_bytes == len(json.dumps(item, separators=(",", ":")))


def test_of_an_object_that_is_too_large_only_the_names_can_be_read(
    caplog: pytest.LogCaptureFixture,
) -> None:
    whole = len(json.dumps(claim("fits", note=""), separators=(",", ":")))
    fits = claim("fits", note="x" * (MAX_OBJECT_BYTES - whole))
    store = listed(claim("big", note="x" * MAX_OBJECT_BYTES), fits)
    found: Any = store.get(("ml", "big"))
    assert found["kind"] == "Claim"
    assert found["metadata"]["uid"] == "big"
    for read in (
        lambda: found["spec"],
        lambda: found.get("spec"),
        lambda: "spec" in found,
        lambda: found["metadata"]["labels"],
    ):
        with pytest.raises(TruncatedObjectError, match="ml/big is too large"):
            read()
    assert names(store.list("ml")) == ["big", "fits"]
    assert "ml/big has 656" in caplog.text
    found = store.get(("ml", "fits"))
    assert found["spec"]["note"]


@pytest.mark.parametrize("small", ["[]", "{}", '{"":0}', '{"":' * 100 + "0" + "}" * 100])
def test_an_object_of_small_objects_takes_no_more_memory_than_security_says(small: str) -> None:
    most = MAX_OBJECT_BYTES - len(json.dumps(claim("dense", note=[]), separators=(",", ":")))
    dense = claim("dense", note=json.loads(f"[{','.join([small] * (most // (len(small) + 1)))}]"))
    shown = event("ADDED", dense)
    del dense
    tracemalloc.start()
    try:
        store = kept()
        store.apply(shown)
        gc.collect()
        held_bytes = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    found: Any = store.get(("ml", "dense"))
    assert "spec" in found
    assert store.held_bytes > 0.98 * MAX_OBJECT_BYTES
    assert held_bytes < 2.4 * 2**20


def deep_event(depth: int) -> bytes:
    before, after = '{"a":[' * (depth // 2), "]}" * (depth // 2)
    mark = json.dumps('[{\\\\"')
    deep = json.dumps(claim("deep", note=1)).replace("1}", f'{before}{mark}{after}, "b": {mark}}}')
    return f'{{"type": "ADDED", "object": {deep}}}'.encode()


@pytest.mark.parametrize("depth", [300, 1000])
def test_of_an_object_that_is_too_deep_only_the_names_can_be_read(depth: int) -> None:
    # orjson writes 254 levels and reads 1,024.
    store = listed(claim("small", note="{["))
    store.apply(deep_event(depth))
    found: Any = store.get(("ml", "deep"))
    assert found["metadata"]["uid"] == "deep"
    with pytest.raises(TruncatedObjectError, match="too deep"):
        found.get("spec")
    assert names(store.list()) == ["deep", "small"]


@pytest.mark.parametrize("depth", [1100, 9000])
def test_an_object_that_cannot_be_parsed_for_depth_is_passed_over_and_hides_no_other(
    depth: int, caplog: pytest.LogCaptureFixture
) -> None:
    # kube-apiserver takes 10,000 levels in a custom resource.
    store = listed(claim("small"))
    passed = store.apply(deep_event(depth))
    assert (passed.type, passed.resource_version, passed.changed) == ("", "", False)
    assert names(store.list()) == ["small"]
    assert caplog.messages == ["an object of claims is too deep; it is passed over"]


def test_an_object_whose_value_changes_is_found_by_the_old_or_the_new_one_at_any_time() -> None:
    class Value:
        """A value that looks into the store whenever the index handles the value."""

        def __hash__(self) -> int:
            seen.append(names(store.by_index("owner", "old")))
            return 1

    store, seen, new = listed(claim("a", owner="old")), list[list[str]](), Value()
    values: dict[str, Any] = {"old": "old", "new": new}
    store.add_index("owner", lambda found: [values[found["spec"]["owner"]]], lambda _: None)
    store.apply(event("MODIFIED", claim("a", version="2", owner="new")))
    assert seen
    assert all(each == ["a"] for each in seen)
    assert names(store.by_index("owner", new)) == ["a"]


def test_an_index_that_raises_tells_and_leaves_the_object_out() -> None:
    store = listed(claim("a", size=1), claim("b"))
    errors: list[Exception] = []
    store.add_index("size", lambda found: [found["spec"]["size"]], errors.append)
    assert names(store.by_index("size", 1)) == ["a"]
    assert [type(error) for error in errors] == [KeyError]
    store.add_index("text", lambda found: found["metadata"]["name"], errors.append)
    assert store.by_index("text", "a") == []
    assert "returned the str 'b'" in str(errors[-1])
    with pytest.raises(KeyError):
        store.by_index("none", 1)


class Compared:
    """A store beside the slow obvious model of it: a dict that is searched."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.store = kept()
        self.model: dict[Key, dict[str, Any]] = {}
        self.told: dict[Key, KubeObject | None] = {}
        self.store.listen(lambda key: self.told.update({key: self.store.get(key)}))

    def drawn(self) -> dict[str, Any]:
        draw = self.draw
        sizes = draw.sample(range(4), draw.randrange(3))
        names = f"c{draw.randrange(5)}", f"n{draw.randrange(3)}", str(draw.randrange(1 << 30))
        return claim(*names, sizes=sizes)

    def lists(self) -> None:
        items = [self.drawn() for _ in range(self.draw.randrange(6))]
        items += [each for each in self.model.values() if self.draw.random() < 0.3]
        relist(self.store, *items)
        self.model = {key(item): item for item in items}

    def watches(self) -> None:
        found = self.drawn()
        if self.draw.random() < 0.4:
            self.store.apply(event("DELETED", found))
            self.model.pop(key(found), None)
        else:
            self.store.apply(event(self.draw.choice(["ADDED", "MODIFIED"]), found))
            self.model[key(found)] = found

    def agrees(self, *, indexed: bool) -> None:
        store = self.store
        assert names(store.list()) == self.names()
        assert len(store) == len(self.model)
        for namespace in ("n0", "n1", "n2"):
            assert names(store.list(namespace)) == self.names(namespace=namespace)
        for size in range(4 if indexed else 0):
            assert names(store.by_index("size", size)) == self.names(size=size)
        held = {where: store.get(where) for where in self.model}
        assert {where: kept for where, kept in self.told.items() if kept is not None} == held

    def names(self, *, size: int | None = None, namespace: str | None = None) -> list[str]:
        return sorted(
            name
            for (where, name), found in self.model.items()
            if namespace in {None, where} and (size is None or size in found["spec"]["sizes"])
        )


def key(found: dict[str, Any]) -> Key:
    return found["metadata"]["namespace"], found["metadata"]["name"]


@pytest.mark.parametrize("seed", range(10))
def test_lists_events_and_indexes_agree_with_a_slow_model(seed: int) -> None:
    both = Compared(seed)
    store = both.store
    for step in range(120):
        if step == 40:
            store.add_index("size", lambda found: found["spec"]["sizes"], lambda _error: None)
        (both.lists if both.draw.random() < 0.1 else both.watches)()
        both.agrees(indexed=step >= 40)
    for found in list(both.model.values()):
        store.apply(event("DELETED", found))
    assert store.held_bytes == 0
    assert [store.by_index("size", size) for size in range(4)] == [[], [], [], []]


def test_an_object_that_a_list_shows_unchanged_is_the_same_and_no_change() -> None:
    store = listed(claim("a"), claim("b"))
    before = store.get(("ml", "a"))
    changes: list[Key] = []
    store.listen(changes.append)
    assert changes == store.keys()
    relist(store, claim("a"), claim("b", version="2"))
    assert store.get(("ml", "a")) is before
    assert changes[2:] == [("ml", "b")]


def test_a_resource_is_named_as_plugins_name_it_and_nothing_else_is_a_name() -> None:
    for name, path in (
        ("persistentvolumeclaims", "/api/v1/persistentvolumeclaims"),
        ("apps/v1/deployments", "/apis/apps/v1/deployments"),
        ("pods?status.phase=Succeeded", "/api/v1/pods"),
    ):
        assert path_of(name) == (path, name)
    for name in ("", "PVC", "v1/pods", "apps/deployments", "a/b/c", "a/v1/x/y", "a/v1/x?", "../x"):
        with pytest.raises(Exception, match="names no resource: write the plural"):
            path_of(name)


def test_without_an_api_nothing_can_be_read() -> None:
    informer = unwatched("services")
    informer.add_index("x", lambda _: [])
    informer.on_change(lambda _before, _now: None)
    assert not informer.synced
    for read in (informer.list, lambda: informer.get("a", "b"), lambda: informer.by_index("x", 1)):
        with pytest.raises(NotListedError, match="services cannot be watched: configure"):
            read()
