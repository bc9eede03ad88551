"""``read_preemption_args`` and ``read_binding_args``, and the answer to a preemption."""

import json
from pathlib import Path

import core_world as world
import pytest

from kubextend import core

WIRE = Path(__file__).resolve().parents[2] / "data" / "wire"
WHOLE = {"Pods": [{"metadata": {"uid": "u1"}}, None, {"metadata": {}}], "NumPDBViolations": 3}
META = {"Pods": [{"UID": "u1"}, None, {}], "NumPDBViolations": 3}


@pytest.mark.parametrize(
    "body",
    [
        {"NodeNameToVictims": {"b": WHOLE, "a": {}, "gone": None}},
        {"NodeNameToMetaVictims": {"b": META, "a": {"Pods": None}, "gone": None}},
        {"NodeNameToMetaVictims": {"b": META, "a": {}}, "NodeNameToVictims": {"other": {}}},
        {"nodenametometavictims": {"b": META, "a": {}}},
    ],
)
def test_both_forms_of_victims_give_the_same_candidates_and_answer(body: world.Json) -> None:
    args = core.read_preemption_args(world.compact({"Pod": world.pod(), **body}))
    assert args.nodes.names == ["a", "b"]
    assert args.victims == [([], 0), (["u1", ""], 3)]
    assert args.pod is not None
    assert args.pod.name == "p"
    assert json.loads(args.result(core.Mask([False, True]))) == {
        "NodeNameToMetaVictims": {
            "b": {"Pods": [{"UID": "u1"}, {"UID": ""}], "NumPDBViolations": 3}
        }
    }
    assert args.result(core.Mask([False, False])) == b'{"NodeNameToMetaVictims":{}}'


def test_victims_on_other_nodes_are_told_apart_and_not_named() -> None:
    pods = [
        {"metadata": {"uid": uid}, "spec": {"nodeName": node}}
        for uid, node in [("u1", "b"), ("u2", "a"), ("u3", "")]
    ]
    candidates = {"a": {"Pods": pods, "NumPDBViolations": 2}, "b": META}
    args = core.read_preemption_args(world.compact({"NodeNameToVictims": candidates}))
    assert args.victims == [(["u2", "u3"], 2), (["", ""], 3)]
    assert args.elsewhere == [[("b", "u1")], []]
    assert json.loads(args.result(core.Mask([True, False]))) == {
        "NodeNameToMetaVictims": {
            "a": {"Pods": [{"UID": "u2"}, {"UID": "u3"}], "NumPDBViolations": 2}
        }
    }


def test_candidates_are_looked_up_in_the_watched_store_before_the_other() -> None:
    request, watched = core.RequestStore(), world.watched(world.node("w", {"x": "1"}))
    core.read_args(world.full([world.node("r")]), request)
    body = world.compact({"NodeNameToMetaVictims": {"r": {}, "w": {}}})
    assert list(core.read_preemption_args(body, request).nodes.known) == [True, False]
    args = core.read_preemption_args(body, request, watched=watched)
    assert list(args.nodes.known) == [False, True]
    watched.apply(world.event("ADDED", world.node("r", {"x": "2"})))
    assert args.nodes.latest().labels("x") == ["2", "1"]
    assert args.nodes.labels("x") == [None, "1"]


def test_recorded_preemptions_are_answered_with_every_victim_they_brought() -> None:
    for folder in ("full", "names"):
        body = (WIRE / folder / "preempt.json").read_bytes()
        sent = json.loads(body)
        args = core.read_preemption_args(body)
        answer = json.loads(args.result(args.nodes.everything()))["NodeNameToMetaVictims"]
        if sent["NodeNameToMetaVictims"] is not None:
            assert answer == sent["NodeNameToMetaVictims"]
            continue
        uids = {
            name: [pod["metadata"]["uid"] for pod in victims["Pods"]]
            for name, victims in sent["NodeNameToVictims"].items()
        }
        assert {n: [pod["UID"] for pod in v["Pods"]] for n, v in answer.items()} == uids


def test_a_mask_of_another_length_is_refused() -> None:
    args = core.read_preemption_args(b'{"NodeNameToMetaVictims":{"a":{}}}')
    with pytest.raises(ValueError, match="a mask of 2 nodes where there are 1"):
        args.result(core.Mask([True, True]))


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (b"", "byte 0: the body ends too early"),
        (
            b'{"NodeNameToMetaVictims":{"a":{"NumPDBViolations":1.5}}}',
            "byte 50: NodeNameToMetaVictims.NumPDBViolations: expected an integer of 64 bits",
        ),
        (
            b'{"NodeNameToVictims":[]}',
            "byte 21: NodeNameToVictims: expected an object, found a list",
        ),
    ],
)
def test_a_preemption_that_cannot_be_read_is_a_wire_error(body: bytes, sentence: str) -> None:
    with pytest.raises(core.WireError) as caught:
        core.read_preemption_args(body)
    assert str(caught.value) == sentence


def test_bindings_are_read_in_any_case_and_what_is_absent_is_empty() -> None:
    exact = b'{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}'
    for body in (exact, exact.lower()):
        args = core.read_binding_args(body)
        assert (args.pod_name, args.pod_namespace, args.pod_uid, args.node) == ("p", "ns", "u", "n")
    for body in (b"{}", b"null", b'{"PodName":null,"Other":[{}]}'):
        args = core.read_binding_args(body)
        assert (args.pod_name, args.pod_namespace, args.pod_uid, args.node) == ("", "", "", "")


@pytest.mark.parametrize("body", [b"", b"[]", b'{"Node":7}', b'{"Node":"n"', b'{"Node":"\xff"}'])
def test_a_binding_that_cannot_be_read_is_a_wire_error(body: bytes) -> None:
    with pytest.raises(core.WireError, match=r"^byte \d+: "):
        core.read_binding_args(body)
