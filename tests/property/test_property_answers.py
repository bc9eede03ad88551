"""Answers against Python's own JSON: subsets, first reasons, bytes as they came in."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubextend import core

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
NAME = st.from_regex(r"[a-z][a-z0-9.-]{0,10}", fullmatch=True)
LABELS = st.dictionaries(TEXT, TEXT, max_size=4)
DEEP = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
READ = {"metadata", "spec", "status"}
EXTRA = st.dictionaries(TEXT.filter(lambda key: key.casefold() not in READ), DEEP, max_size=3)


@st.composite
def node_objects(draw: st.DrawFn) -> dict[str, Any]:
    meta = {"name": draw(TEXT), "labels": draw(LABELS)}
    return {"metadata": meta, **draw(EXTRA)}


@st.composite
def spelled(draw: st.DrawFn, value: object) -> str:
    """JSON text with or without white space, with or without escapes beyond ASCII."""
    indent = draw(st.sampled_from([None, None, 1]))
    separators = draw(st.sampled_from([(",", ":"), (", ", ": "), (" ,\r\n", "\t:")]))
    return json.dumps(value, indent=indent, separators=separators, ensure_ascii=draw(st.booleans()))


@st.composite
def rejections(draw: st.DrawFn, length: int) -> list[tuple[list[bool], str, bool]]:
    bits = st.lists(st.booleans(), min_size=length, max_size=length)
    return draw(st.lists(st.tuples(bits, TEXT, st.booleans()), max_size=4))


STORE = core.RequestStore(max_bytes=100_000)  # one for all examples: what was seen before, helps


@pytest.mark.slow
@given(st.data(), st.lists(node_objects(), max_size=6))
def test_full_answers_keep_bytes_and_give_each_other_node_its_first_reason(
    data: st.DataObject, objects: list[dict[str, Any]]
) -> None:
    texts = [data.draw(spelled(each)) for each in objects]
    items = data.draw(st.sampled_from([",", " , ", ",\n"])).join(texts)
    body = f'{{"Nodes":{{"metadata":{{}},"items":[{items}]}}}}'
    entries = data.draw(rejections(len(objects)))
    for store in (None, STORE, STORE):
        args = core.read_args(body.encode(), store)
        assert args.nodes.names == [each["metadata"]["name"] for each in objects]
        written = args.filter_answer([(core.Mask(m), reason, kind) for m, reason, kind in entries])
        answer = json.loads(written)
        firsts = [next((e for e in entries if e[0][i]), None) for i in range(len(objects))]
        kept = [i for i, first in enumerate(firsts) if first is None]
        assert answer["Nodes"]["items"] == [objects[i] for i in kept]
        assert all(texts[i].encode() in written for i in kept)
        for key, kind in (("FailedNodes", False), ("FailedAndUnresolvableNodes", True)):
            expected = {
                each["metadata"]["name"]: first[1]
                for each, first in zip(objects, firsts, strict=True)
                if first is not None and first[2] is kind
            }
            assert answer[key] == (expected or None)
        assert (answer["NodeNames"], answer["Error"]) == (None, "")


@given(st.data(), st.lists(TEXT | st.none(), max_size=8))
def test_names_come_back_in_order_with_one_score_each(
    data: st.DataObject, names: list[str | None]
) -> None:
    body = data.draw(spelled({"NodeNames": names})).encode()
    args = core.read_args(body)
    assert args.nodes.names == [name or "" for name in names]
    kept = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    answer = json.loads(args.filter_result(core.Mask(kept), "no"))
    assert answer["NodeNames"] == [
        name or "" for name, keep in zip(names, kept, strict=True) if keep
    ]
    int64 = st.integers(-(1 << 63), (1 << 63) - 1)
    scores = data.draw(st.lists(int64, min_size=len(names), max_size=len(names)))
    assert json.loads(args.prioritize_result(scores)) == [
        {"Host": name or "", "Score": score} for name, score in zip(names, scores, strict=True)
    ]


@given(
    st.dictionaries(
        TEXT,
        st.none()
        | st.fixed_dictionaries(
            {
                "Pods": st.none() | st.lists(st.none() | st.fixed_dictionaries({"UID": TEXT})),
                "NumPDBViolations": st.integers(-(1 << 63), (1 << 63) - 1),
            }
        ),
        max_size=6,
    ),
    st.data(),
)
def test_a_preemption_answer_is_a_subset_without_nulls(
    victims: dict[str, dict[str, Any] | None], data: st.DataObject
) -> None:
    body = data.draw(spelled({"NodeNameToMetaVictims": victims})).encode()
    args = core.read_preemption_args(body)
    names = args.nodes.names
    assert names == sorted((n for n, v in victims.items() if v is not None), key=str.encode)
    kept = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    answer = json.loads(args.result(core.Mask(kept)))
    expected = {}
    for name in (name for name, keep in zip(names, kept, strict=True) if keep):
        of_node = victims[name] or {}
        pods = [pod for pod in of_node["Pods"] or [] if pod is not None]
        expected[name] = {**of_node, "Pods": pods}
    assert answer == {"NodeNameToMetaVictims": expected}


@given(st.binary(max_size=60) | TEXT.map(str.encode))
def test_no_body_does_more_than_raise_a_wire_error(body: bytes) -> None:
    def read(reader: Any) -> str:
        try:
            reader(body)
        except core.WireError as error:
            text = str(error)
            assert text.startswith("byte ")
            assert "\n" not in text
            return "refused"
        return "read"

    store = core.NodeStore()
    readers = (core.read_args, core.read_preemption_args, core.read_binding_args)
    verdicts = {read(reader) for reader in (*readers, store.apply, store.replace)}
    try:
        valid = isinstance(json.loads(body.decode()), dict | None)
    except ValueError:
        valid = False
    assert valid or verdicts == {"refused"}
    assert len(store) == 0
