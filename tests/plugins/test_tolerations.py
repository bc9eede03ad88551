"""Tolerations with Gt and Lt, written from kube-scheduler 1.37."""

import pytest

from kubextend import testing

LOWEST, HIGHEST = -(2**63), 2**63 - 1


@pytest.mark.parametrize(
    ("operator", "value", "taint", "tolerated"),
    [
        # core/v1/toleration.go ToleratesTaint: Gt: taint > toleration, Lt: taint < toleration.
        ("Gt", "900", "950", True),
        ("Gt", "950", "950", False),
        ("Gt", "999", "950", False),
        ("Lt", "900", "950", False),
        ("Lt", "950", "950", False),
        ("Lt", "999", "950", True),
        ("Gt", "-1", "0", True),
        ("Lt", "-1", "-2", True),
        ("Lt", "9", "10", False),
        ("Gt", str(HIGHEST - 1), str(HIGHEST), True),
        ("Gt", str(LOWEST), str(LOWEST + 1), True),
        ("Lt", str(HIGHEST), str(HIGHEST - 1), True),
        # What is no integer of 64 bits, written as people write it, is neither above nor below.
        *(
            ("Gt", value, "950", False)
            for value in ("0900", "+900", "9e2", "900.0", " 900", "", "-0", "many", str(LOWEST - 1))
        ),
        *(("Gt", "900", taint, False) for taint in ("0950", "+950", "", str(HIGHEST + 1))),
        ("Lt", str(HIGHEST + 1), "950", False),
        ("Lt", "999", "", False),
        ("gt", "900", "950", False),
        ("Ge", "900", "900", False),
    ],
)
@pytest.mark.parametrize("more", [0, 1, 40])
def test_a_toleration_may_compare_numbers(
    operator: str, value: str, taint: str, tolerated: bool, more: int
) -> None:
    tainted = testing.make_node("n", taints=[f"example.com/sla={taint}:NoSchedule"])
    nodes = testing.make_nodes([tainted])
    toleration = {"key": "example.com/sla", "operator": operator, "value": value}
    others = [{"key": f"example.com/other-{at}", "operator": "Exists"} for at in range(more)]
    for effect, covered in (("NoSchedule", True), ("", True), ("NoExecute", False)):
        pod = testing.make_pod("p", tolerations=[*others, toleration | {"effect": effect}])
        assert list(nodes.tolerated_by(pod)) == [tolerated and covered]
    other_key = testing.make_pod("p", tolerations=[*others, toleration | {"key": "a"}])
    assert list(nodes.tolerated_by(other_key)) == [False]
