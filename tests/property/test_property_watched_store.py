"""A watched store against a dict, through the events and lists that the API sends."""

import json
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kubextend import core

NAMES = st.sampled_from([f"n{i}" for i in range(70)])
LABELS = st.dictionaries(st.sampled_from("xy"), st.sampled_from(["", "1", "2"]))
SELECTORS = ("x", "!x", "x=1", "x in (1,2),y!=2", "y notin (1)")


def slow_match(selector: str, labels: dict[str, str]) -> bool:
    """The five selectors above, spelled out."""
    return {
        "x": "x" in labels,
        "!x": "x" not in labels,
        "x=1": labels.get("x") == "1",
        "x in (1,2),y!=2": labels.get("x") in ("1", "2") and labels.get("y") != "2",
        "y notin (1)": labels.get("y") != "1",
    }[selector]


def written(name: str, labels: dict[str, str], beat: int = 0) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": labels}, "status": {"beat": beat}}


class WatchedStore(RuleBasedStateMachine):
    """Events and relists in any order; the store is the dict after each of them."""

    def __init__(self) -> None:
        super().__init__()
        self.store = core.NodeStore()
        self.model: dict[str, dict[str, str]] = {}
        self.store.replace(b'{"items":[]}')

    @rule(name=NAMES, labels=LABELS, kind=st.sampled_from(["ADDED", "MODIFIED"]))
    def put(self, name: str, labels: dict[str, str], kind: str) -> None:
        seen = self.store.apply(
            json.dumps({"type": kind, "object": written(name, labels)}).encode()
        )
        assert seen.changed is (self.model.get(name) != labels)
        self.model[name] = labels

    @rule(name=NAMES, beat=st.integers())
    def heartbeat(self, name: str, beat: int) -> None:
        if name in self.model:
            node = written(name, self.model[name], beat)
            event = {"object": node, "type": "MODIFIED"}
            assert not self.store.apply(json.dumps(event).encode()).changed

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        event = {"type": "DELETED", "object": written(name, {})}
        seen = self.store.apply(json.dumps(event).encode())
        assert seen.changed is (self.model.pop(name, None) is not None)

    @rule(nodes=st.dictionaries(NAMES, LABELS), cut=st.integers(0, 70), whole=st.booleans())
    def relist(self, nodes: dict[str, dict[str, str]], cut: int, whole: bool) -> None:
        relist = self.store.relist()
        entries = [written(name, labels) for name, labels in nodes.items()]
        for page in (entries[:cut], entries[cut:]):
            assert relist.page(json.dumps({"items": page}).encode()).items == len(page)
        if whole:
            relist.commit()
            self.model = nodes

    @invariant()
    def the_store_is_the_model(self) -> None:
        nodes = self.store.nodes()
        assert sorted(nodes.names) == sorted(self.model)
        assert len(self.store) == len(self.model)
        labels = [self.model[name] for name in nodes.names]
        for key in "xy":
            assert nodes.labels(key) == [each.get(key) for each in labels]
        for selector in SELECTORS:
            assert list(nodes.matches(selector)) == [slow_match(selector, each) for each in labels]


WatchedStore.TestCase.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
test_events_and_lists_in_any_order = WatchedStore.TestCase
