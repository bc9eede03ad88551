"""The page of a running kubextend, in Chromium, shows what the endpoints and the API say.

With PAGE_PICTURES=FOLDER in the environment, a run also writes the pictures that docs/page.md has.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import Browser
from decision_page import SIGNED_IN, open_pod, sign_in, step, table, text

from .kubeapi import Api, NewPool, Object, pod
from .stack import HIGH_COMM, Mode, NewStack, Stack, profile
from .workbench import until

TOKEN = "reads-and-decides-nothing"
NAMESPACE = "page"
NODES = 12
PATIENCE_S = 60.0
PICTURES = os.environ.get("PAGE_PICTURES")
RULES = {"scores": [{"podSelector": "likes", "nodeSelector": "liked=yes", "score": 80}]}


@pytest.fixture
def stack(new_pool: NewPool, new_stack: NewStack, api: Api, tmp_path: Path) -> Stack:
    """Run a kubextend with nodes, of which pods like one."""
    pool = new_pool("page", NODES)
    api.label_node(pool.names[4], {"liked": "yes"})
    token = tmp_path / "token"
    token.write_text(TOKEN)
    return new_stack(
        "page",
        Mode(binds=True),
        profile=profile("page", "HighCommPodFilter", "OnDemand", LabelMatch=RULES),
        out_of_tree=["on_demand:OnDemand"],
        extender={"permitMaxWait": "300s"},
        readers=token,
    )


@pytest.fixture
def pods(api: Api) -> Iterator[list[Object]]:
    """A pod that likes a node, one that no node fits, and one that Permit holds."""
    api.create_namespace(NAMESPACE)
    labels = {"likes": {"likes": "it"}, "no-rdma": HIGH_COMM, "held": {"at-permit": "waits"}}
    yield [pod(name, "page", "page", each) for name, each in labels.items()]
    api.delete_pods(NAMESPACE)


def test_the_page_shows_what_the_endpoints_and_the_kubernetes_api_say(
    stack: Stack, pods: list[Object], api: Api, tmp_path: Path
) -> None:
    def told(path: str) -> Any:
        answer = stack.client.get(path, headers={"Authorization": f"Bearer {TOKEN}"})
        assert answer.status_code == 200, answer.text
        return answer.json()

    def states() -> dict[str, str]:
        listed = told("/overview")["pods"]["items"]
        return {each["name"]: each["state"] for each in listed if each["namespace"] == NAMESPACE}

    api.create_pods(NAMESPACE, pods)
    decided = {"likes": "Bound", "no-rdma": "Rejected", "held": "Waiting"}
    until(lambda: states() == decided, "all pods are decided", PATIENCE_S)
    chosen = api.pod(NAMESPACE, "likes")["spec"]["nodeName"]
    # Another attempt of a rejected pod, with its nodes in another order, would come in between.
    with stack.paused_scheduler(), Browser(tmp_path) as page:
        until(lambda: states() == decided, "no pod is tried", PATIENCE_S)
        page.size(1400, 1000)
        sign_in(page, stack.url, TOKEN)
        page.until(SIGNED_IN)
        open_pod(page, NAMESPACE, "likes")
        shown = {row["Pod"]: row["State"] for row in table(page, "#pod-list")}
        assert shown == {f"{NAMESPACE}/{name}": state for name, state in decided.items()}
        assert f"{NODES} of {NODES} nodes passed" in step(page, "Filter")
        assert f"best: {chosen} with 80" in step(page, "Score")
        assert f"bound to node {chosen}" in step(page, "Bind")
        picture(page, "page-bound")
        shows_rejected(page, told)
        open_pod(page, NAMESPACE, "held")
        (held,) = told("/overview")["waiting"]["items"]
        (waiting,) = table(page, "#waiting")
        names = (waiting["Waiting pod"], waiting["Node"], waiting["Held by"])
        assert names == (f"{NAMESPACE}/held", held["node"], "OnDemand")
        picture(page, "page-waiting")
        assert all(url.startswith(f"{stack.url}/") for url in page.requests())


def shows_rejected(page: Browser, told: Callable[[str], Any]) -> None:
    pods = {each["name"]: each["uid"] for each in told("/overview")["pods"]["items"]}
    uid = pods["no-rdma"]
    open_pod(page, NAMESPACE, "no-rdma")
    assert f"0 of {NODES} nodes passed" in step(page, "Filter")
    assert step(page, "Bind") == "Bind\nnot called"
    reasons = [(row["Node"], row["HighCommPodFilter"]) for row in table(page, "#nodes")]
    items = told(f"/decisions/{uid}/nodes")["items"]
    assert reasons == [(each["node"], each["reason"]) for each in items]
    near = told(f"/decisions?pod={uid}")["nearest"]
    assert near
    for each in near:
        said = f"node {each['node']} lacks {each['lacks'][0]['lacks']}"
        assert said in text(page, "#unblock")
    page.media(prefers_color_scheme="dark")
    picture(page, "page-rejected")
    page.media()


def picture(page: Browser, name: str) -> None:
    """Write a picture of the page, without a ring around what has the focus, if somebody asks."""
    if PICTURES:
        page.run("document.activeElement.blur()")
        page.screenshot(Path(PICTURES) / f"{name}.png")
