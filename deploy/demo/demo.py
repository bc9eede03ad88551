"""What kubextend answers to requests that a real kube-scheduler 1.36 sent.

Starts ``kubextend serve`` twice, sends it the recorded requests of every verb over HTTP, prints
what was kept, rejected and scored, and why, and ends it again. Needs no cluster and nothing beside
the standard library; exits with 1 and says where, if an answer is not what it should be.
"""
# ruff: noqa: T201, INP001  a script that prints

import contextlib
import http.client
import json
import re
import socket
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RECORDED = HERE.parents[1] / "tests" / "data" / "wire"
KUBEXTEND = Path(sys.executable).with_name("kubextend")
LABEL_MATCH = HERE / "label-match.yaml"

SPOT = "ip-10-0-0-1.cn-north-1.compute.internal"
ON_DEMAND = "ip-10-0-0-0.cn-north-1.compute.internal"
RDMA_LABEL = "node.kubernetes.io/rdma-enabled"
NO_RDMA = "Node does not support RDMA"
TAKEN_AWAY = "Node may be taken away"

TIMEOUT_S = 60.0
WIDTH = 100
OK = 200
NOT_FOUND = 404
BAD_REQUEST = 400

Object = dict[str, Any]


class DemoError(Exception):
    """An answer is not what it should be."""


@dataclass(frozen=True)
class Reply:
    """An HTTP answer and how long it took."""

    status: int
    body: bytes
    took_ms: float

    def json(self) -> Any:
        """The body's JSON value."""
        return json.loads(self.body)


class Server:
    """A running kubextend."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)

    def post(self, verb: str, body: bytes) -> Reply:
        """Calls a verb with a body, as kube-scheduler does."""
        connection = http.client.HTTPConnection(*self._address, timeout=TIMEOUT_S)
        with contextlib.closing(connection):
            started_s = time.perf_counter()
            connection.request("POST", f"/{verb}", body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
        return Reply(answer.status, content, (time.perf_counter() - started_s) * 1000)


@contextlib.contextmanager
def serving(*options: str) -> Iterator[Server]:
    """A kubextend of our own on a free port, which has ended with exit code 0 afterwards."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [str(KUBEXTEND), "serve", f"--port={port}", "--log-level=warning", *options]
    print(f"\n$ kubextend {' '.join(_short(word) for word in command[1:])}")
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603  our own
    try:
        said = process.stdout.readline() if process.stdout else ""
        expect(said.startswith("listening on "), f"kubextend did not start: {said!r}")
        print(said, end="")
        yield Server("127.0.0.1", port)
    finally:
        process.terminate()
        try:
            code = process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
    expect(code == 0, f"kubextend ended with exit code {code}")
    print("\nkubextend was asked to end, and did: exit code 0")


def main() -> int:
    """Both parts; the exit code."""
    try:
        with serving() as server:
            with_no_configuration(server)
        with serving("--config", str(LABEL_MATCH)) as server:
            with_label_match(server)
        with_no_server()
    except (DemoError, OSError, http.client.HTTPException) as error:
        print(f"\nThis went wrong: {error}", file=sys.stderr)
        return 1
    print("\nEvery answer was as expected. README.md says how to go on with a real cluster.")
    return 0


def with_no_configuration(server: Server) -> None:
    """HighCommPodFilter over whole nodes, then what cannot work without a cluster."""
    explain(
        "Without a configuration HighCommPodFilter runs: a pod with the label high-comm needs a "
        f"node with {RDMA_LABEL}=true. Requests carry whole nodes."
    )
    whole = recorded("full/filter")

    title("filter, as recorded: a high-comm pod, two nodes, neither with the label")
    both = {SPOT: NO_RDMA, ON_DEMAND: NO_RDMA}
    show_filter(server.post("filter", whole), kept=[], rejected=both)

    title("filter of a nominated node, which comes alone, as recorded")
    one = {SPOT: NO_RDMA}
    show_filter(server.post("filter", recorded("full/filter-one-node")), kept=[], rejected=one)

    title("preempt, as recorded: kube-scheduler offers to evict pods on both nodes")
    explain(
        "Its dry run knows nothing of our filters. Either node would be refused again once its "
        "pods are gone."
    )
    show_preempt(server.post("preempt", recorded("full/preempt")), kept=[])

    title(f"filter again, with {RDMA_LABEL}=true added to the second node")
    labelled = with_label(whole, ON_DEMAND)
    rest = {SPOT: NO_RDMA}
    answer = server.post("filter", labelled)
    show_filter(answer, kept=[ON_DEMAND], rejected=rest)
    expect(node_bytes(labelled, ON_DEMAND) in answer.body, "the kept node lost some of its bytes")
    print("  The kept node went back byte for byte.")

    title("preempt again: one of the two nodes is worth it now")
    show_preempt(server.post("preempt", recorded("full/preempt")), kept=[ON_DEMAND])

    title("filter with the lower-case keys of kube-scheduler 1.16 and older")
    show_filter(server.post("filter", lower_cased(labelled)), kept=[ON_DEMAND], rejected=rest)

    title("prioritize and bind: this configuration has no plugin for them, so they are not served")
    for verb in ("prioritize", "bind"):
        show_unserved(server.post(verb, recorded(f"full/{verb}")))

    title("filter with names instead of nodes, as recorded")
    answer = server.post("filter", recorded("names/filter"))
    show_error(answer, "the request brings node names, but kubextend has no node cache")

    title("filter with half a body")
    show_refusal(server.post("filter", whole[: len(whole) // 2]))


def with_label_match(server: Server) -> None:
    """A policy that was written down: LabelMatch over the requests exactly as recorded."""
    explain(
        "Now LabelMatch runs: high-comm pods stay away from spot nodes; zone cn-north-a scores 70, "
        "on-demand 30, and the plugin has weight 2."
    )
    title("filter, as recorded")
    answer = server.post("filter", recorded("full/filter"))
    show_filter(answer, kept=[ON_DEMAND], rejected={SPOT: TAKEN_AWAY})

    title("prioritize, as recorded")
    explain(
        "kube-scheduler multiplies what an extender says by 10, so the answer is score times "
        "weight divided by 10."
    )
    show_scores(server.post("prioritize", recorded("full/prioritize")), {SPOT: 14, ON_DEMAND: 6})

    title("preempt, as recorded")
    show_preempt(server.post("preempt", recorded("full/preempt")), kept=[ON_DEMAND])


def with_no_server() -> None:
    """Names mode: the names are looked up among nodes from a file, as otherwise from a cluster."""
    title("names mode (nodeCacheCapable: true), with the same configuration and no server")
    explain(
        "Requests with names are a fortieth of the size. Their nodes come from the Kubernetes API, "
        "or here from a file such as `kubectl get nodes -o json` writes."
    )
    with tempfile.TemporaryDirectory() as folder:
        nodes = Path(folder) / "nodes.json"
        items = json.loads(recorded("full/filter"))["Nodes"]["items"]
        nodes.write_text(json.dumps({"kind": "NodeList", "metadata": {}, "items": items}))
        options = ("--nodes", str(nodes), "--config", str(LABEL_MATCH))
        show_command("filter", "names/filter", *options, says=[TAKEN_AWAY, f"{ON_DEMAND}  kept"])
        show_command("prioritize", "names/prioritize", *options, says=[f"{SPOT}  14"])


def recorded(name: str) -> bytes:
    """The bytes that kube-scheduler sent."""
    return (RECORDED / f"{name}.json").read_bytes()


def with_label(body: bytes, node: str) -> bytes:
    """The same request in which a node has the RDMA label too."""
    args = json.loads(body)
    for item in args["Nodes"]["items"]:
        if item["metadata"]["name"] == node:
            item["metadata"]["labels"][RDMA_LABEL] = "true"
    return compact(args)


def lower_cased(body: bytes) -> bytes:
    """The same request with the keys of an old kube-scheduler."""
    return compact({key.lower(): value for key, value in json.loads(body).items()})


def node_bytes(body: bytes, node: str) -> bytes:
    """A node of a compact request as it stands there."""
    items = json.loads(body)["Nodes"]["items"]
    return compact(next(item for item in items if item["metadata"]["name"] == node))


def compact(value: Any) -> bytes:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def show_filter(answer: Reply, *, kept: list[str], rejected: Mapping[str, str]) -> None:
    """Prints an ExtenderFilterResult, which has to be exactly this."""
    result = good(answer)
    expect(not result["Error"], f"filter answered the error {result['Error']!r}")
    nodes = [item["metadata"]["name"] for item in result["Nodes"]["items"] or ()]
    reasons = (result["FailedNodes"] or {}) | (result["FailedAndUnresolvableNodes"] or {})
    for node in nodes:
        print(f"  kept      {node}")
    for node, reason in reasons.items():
        print(f"  rejected  {node}  {reason}")
    expect(nodes == kept, f"{nodes} were kept, and not {kept}")
    expect(reasons == rejected, f"rejected were {reasons}, and not {rejected}")
    took(answer)


def show_preempt(answer: Reply, *, kept: list[str]) -> None:
    """Prints an ExtenderPreemptionResult, which has to have these candidates."""
    victims = good(answer)["NodeNameToMetaVictims"]
    for node, meta in victims.items():
        print(f"  kept      {node}  with {len(meta['Pods'])} pods to evict")
    if not victims:
        print("  no candidate is kept: nobody is evicted")
    expect(list(victims) == kept, f"{list(victims)} were kept, and not {kept}")
    took(answer)


def show_scores(answer: Reply, expected: Mapping[str, int]) -> None:
    """Prints a HostPriorityList, which has to be exactly this."""
    scores = {host["Host"]: host["Score"] for host in good(answer)}
    for node, score in scores.items():
        print(f"  {score:>8}  {node}")
    if not scores:
        print("  no scores")
    expect(scores == expected, f"scores were {scores}, and not {expected}")
    took(answer)


def show_error(answer: Reply, beginning: str) -> None:
    """Prints the Error of an answer with status 200."""
    error = good(answer)["Error"]
    explain(f"Error: {error}", indent="  ")
    expect(error.startswith(beginning), f"expected an Error that begins with {beginning!r}")
    took(answer)


def show_refusal(answer: Reply) -> None:
    """Prints why a body is not taken."""
    expect(answer.status == BAD_REQUEST, f"expected status 400, got {answer.status}")
    error = answer.json()["Error"]
    explain(f"HTTP {answer.status}: {error}", indent="  ")
    expect(bool(re.match(r"byte \d+: ", error)), "the refusal does not say where")
    took(answer)


def show_unserved(answer: Reply) -> None:
    """Prints that there is no such verb."""
    expect(answer.status == NOT_FOUND, f"expected status 404, got {answer.status}")
    explain(f"HTTP {answer.status}: {answer.json()['Error']}", indent="  ")
    took(answer)


def show_command(verb: str, request: str, *options: str, says: list[str]) -> None:
    """Runs ``kubextend VERB REQUEST``, whose table has to say these things."""
    command = [str(KUBEXTEND), verb, str(RECORDED / f"{request}.json"), *options]
    print(f"\n$ kubextend {' '.join(_short(word) for word in command[1:])}")
    done = subprocess.run(  # noqa: S603  our own
        command, capture_output=True, text=True, check=False, timeout=TIMEOUT_S
    )
    print(done.stdout, end="")
    expect(done.returncode == 0, f"it ended with exit code {done.returncode}: {done.stderr}")
    missing = [text for text in says if text not in done.stdout]
    expect(not missing, f"its table does not say {missing}")


def good(answer: Reply) -> Any:
    """The JSON value of an answer that kube-scheduler would read."""
    expect(answer.status == OK, f"expected status 200, got {answer.status}: {answer.body!r}")
    return answer.json()


def title(text: str) -> None:
    """Begins a step."""
    print(f"\n== {text}")


def explain(text: str, indent: str = "") -> None:
    """Prints sentences in lines of a readable length."""
    print(textwrap.fill(text, WIDTH, initial_indent=indent, subsequent_indent=indent))


def took(answer: Reply) -> None:
    """Ends a step."""
    print(f"  ({answer.took_ms:.1f} ms, {len(answer.body):,} bytes)")


def expect(holds: bool, otherwise: str) -> None:
    """Ends the demo if something is not as it should be.

    Raises: DemoError: it does not hold.
    """
    if not holds:
        raise DemoError(otherwise)


def _short(word: str) -> str:
    """An argument without the folders that are different on every machine."""
    for folder in (HERE.parents[1], tempfile.gettempdir()):
        word = word.removeprefix(f"{folder}/")
    return word


if __name__ == "__main__":
    sys.exit(main())
