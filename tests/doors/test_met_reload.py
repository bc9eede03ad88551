"""What people met: other ASGI servers, changed configurations, pods of unknown schedulers."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from click.testing import CliRunner
from tests.e2e.stack import KUBEXTEND
from tests.e2e.workbench import Program, Workbench, until

from kubextend import app, config, core, discovery
from kubextend.cli import main
from kubextend.config import ExtenderConfiguration
from kubextend.errors import ConfigError
from kubextend.framework import Status
from kubextend.testing import Cluster, make_node, make_pod

# For what is to happen in the end, however busy the machine is.
PATIENT_S = 60
TOKEN = "0123456789abcdef"
JSON = {"content-type": "application/json"}

APPLICATION = '''
import sys
from pathlib import Path

from kubextend import app, discovery
from kubextend.framework import Status


class Sunny:
    """Keeps the nodes with the label ``sunny``, and notes when it is started and stopped."""

    name = "Sunny"

    def start(self):
        self._note("started")

    def stop(self):
        self._note("stopped")

    def _note(self, what):
        with Path("diary").open("a") as diary:
            diary.write(f"{what}\\n")

    def filter(self, state, pod, node):
        if "sunny" not in node.labels:
            return Status.unschedulable("node lies in the shade")


def factory():
    return app.create_app(discovery.load("kubextend.yaml", {"Sunny": Sunny}))


application = factory()

if __name__ == "__main__":
    import uvicorn

    uvicorn.run(application, fd=int(sys.argv[1]))
'''
SERVERS = {
    "uvicorn.run": "program.py {fd}",
    "uvicorn": "-m uvicorn program:application --fd {fd}",
    "uvicorn --factory": "-m uvicorn --factory program:factory --fd {fd}",
    "hypercorn": "-m hypercorn program:application --bind fd://{fd}",
}


def configuration(*profiles: Any, **sections: Any) -> dict[str, Any]:
    kind = {"apiVersion": "kubextend.dev/v1alpha1", "kind": "ExtenderConfiguration"}
    return {**kind, **sections, "profiles": list(profiles)}


@contextmanager
def served_by(arguments: str, folder: Path) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server of the application in a folder, and its URL, where it accepts once it is ready."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        fd, port = listening.fileno(), listening.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, *arguments.format(fd=fd).split()],
            cwd=folder,
            pass_fds=[fd],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": str(folder)},
            # hypercorn serves from a process of its own.
            start_new_session=True,
        )
    # Only the server listens now, so that a client hears if the server ends.
    try:
        yield process, f"http://127.0.0.1:{port}"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


@pytest.mark.parametrize("server", SERVERS)
def test_any_asgi_server_serves_the_application(server: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(APPLICATION)
    (tmp_path / "kubextend.yaml").write_text(
        json.dumps(configuration(profile("Sunny", scheduler="default-scheduler")))
    )
    asked = request()
    with (
        served_by(SERVERS[server], tmp_path) as (process, url),
        httpx.Client(base_url=url, timeout=PATIENT_S) as client,
    ):
        assert client.get("/livez").status_code == 200
        assert client.get("/metrics").status_code == 200
        filtered = client.post("/filter", content=json.dumps(asked), headers=JSON)
        assert filtered.status_code == 200
        assert filtered.json()["FailedNodes"] == {"dark": "node lies in the shade"}
        assert client.post("/bind", content=b"{}", headers=JSON).status_code == 404
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=PATIENT_S)
    assert (tmp_path / "diary").read_text() == "started\nstopped\n", said
    assert "Traceback" not in said


# --- Pods whose schedulerName no profile has.

UNKNOWN = (
    'no profile of kubextend is named "gang2": its profiles are gang, idle; '
    "add it, or list it in passThrough; did you mean gang?"
)
UNLIKE = UNKNOWN.replace("gang2", "default-scheduler").removesuffix("; did you mean gang?")


class Sunny:
    """Rejects nodes without the label ``sunny``, and gives points to the others."""

    name = "Sunny"

    def filter(self, _state: Any, _pod: core.Pod, node: core.NodeInfo) -> Status | None:
        return None if "sunny" in node.labels else Status.unschedulable("node lies in the shade")

    def score(self, _state: Any, _pod: core.Pod, node: core.NodeInfo) -> int:
        return 100 if "sunny" in node.labels else 0


class Reserves:
    """Notes which pods it reserves something for."""

    name = "Reserves"

    def __init__(self) -> None:
        self.told: list[str] = []

    def reserve(self, _state: Any, pod: core.Pod, _node: str) -> None:
        self.told.append(pod.name)

    def unreserve(self, *_: Any) -> None:
        return None


def profile(*plugins: str, scheduler: str) -> dict[str, Any]:
    enabled = [{"name": name} for name in plugins]
    return {"schedulerName": scheduler, "plugins": {"multiPoint": {"enabled": enabled}}}


IDLE = profile(scheduler="idle")
SUNNY, BINDS = profile("Sunny", scheduler="gang"), profile("Sunny", "Reserves", scheduler="gang")


def parsed(tree: dict[str, Any]) -> ExtenderConfiguration:
    known = discovery.known_plugins({"Sunny": Sunny, "Reserves": Reserves})
    return config.parse(tree, known=known)


def a_cluster(*profiles: Any, **sections: Any) -> Cluster:
    nodes = [make_node("sunny", labels={"sunny": ""}), make_node("dark")]
    sections = {"cluster": {}} | sections
    return Cluster(parsed(configuration(*profiles, **sections)), nodes=nodes)


def test_a_pod_of_an_unknown_scheduler_is_rejected_on_every_node_for_good() -> None:
    found = a_cluster(SUNNY, IDLE).filter(make_pod(scheduler_name="gang2"))
    assert found.kept == ()
    assert found.error == ""
    assert found.rejected == {"sunny": UNKNOWN, "dark": UNKNOWN}
    # No eviction makes a profile.
    assert found.unresolvable == {"sunny", "dark"}


def test_no_error_that_kube_scheduler_ignores_lets_a_pod_of_an_unknown_scheduler_pass() -> None:
    cluster = a_cluster(SUNNY, IDLE, extender={"ignorable": True})
    outcome = cluster.schedule(make_pod(scheduler_name="gang2"))
    assert (outcome.node, outcome.error) == (None, "")
    assert outcome.rejected == {"sunny": UNKNOWN, "dark": UNKNOWN}


def test_a_pod_of_an_unknown_scheduler_gets_no_scores_and_nobody_is_evicted_for_it() -> None:
    cluster = a_cluster(SUNNY, IDLE)
    pod, victim = make_pod("new", scheduler_name="gang2"), make_pod("old", node_name="sunny")
    cluster.add(victim)
    assert cluster.prioritize(pod) == {}
    assert cluster.preempt(pod, {"sunny": [victim]}) == {}


# Bind with a plugin of the profile, without any, and with a guard.
BINDING: list[Any] = [
    pytest.param([BINDS, IDLE], {}, id="a-plugin-binds"),
    pytest.param([SUNNY, IDLE], {"extender": {"bind": True}}, id="no-plugin-binds"),
    pytest.param([IDLE, profile(scheduler="gang")], {"extender": {"bind": True}}, id="no-plugin"),
    pytest.param([SUNNY, IDLE], {"guard": {"resources": True}}, id="guard"),
]


@pytest.mark.parametrize(("profiles", "sections"), BINDING)
def test_a_pod_of_an_unknown_scheduler_is_not_bound(profiles: Any, sections: Any) -> None:
    cluster = a_cluster(*profiles, **sections)
    outcome = cluster.bind(make_pod(scheduler_name="gang2"), "sunny")
    assert (outcome.node, outcome.error) == (None, UNKNOWN)
    assert cluster.bindings.nodes == {}
    assert not [each for each in cluster.plugins if getattr(each, "told", [])]
    assert cluster.bind(make_pod("known", scheduler_name="idle"), "sunny").node == "sunny"


@pytest.mark.parametrize(("profiles", "sections"), BINDING)
def test_a_pod_that_is_passed_through_is_left_alone(profiles: Any, sections: Any) -> None:
    cluster = a_cluster(*profiles, **sections, passThrough=["gang2", "other"])
    pod, victim = make_pod("new", scheduler_name="gang2"), make_pod("old", node_name="dark")
    cluster.add(victim)
    found = cluster.filter(pod)
    assert (found.kept, found.rejected, found.error) == (("sunny", "dark"), {}, "")
    assert cluster.prioritize(pod) == {}
    assert cluster.preempt(pod, {"dark": [victim]}) == {"dark": [victim.uid]}
    assert cluster.bind(pod, "dark").node == "dark"
    assert not [each for each in cluster.plugins if getattr(each, "told", [])]


@pytest.mark.parametrize("given", [None, ""])
@pytest.mark.parametrize("passed", [[], ["default-scheduler"]])
def test_a_pod_without_a_scheduler_name_is_one_of_default_scheduler(
    given: str | None, passed: list[str]
) -> None:
    """A pod without a schedulerName is default-scheduler's; v1.37 pkg/apis/core/v1/defaults.go."""
    pod = make_pod("p")
    spec = {} if given is None else {"schedulerName": given}
    manifest = {"kind": "Pod", "metadata": {"name": "p", "namespace": pod.namespace, "uid": "u"}}
    found = a_cluster(SUNNY, IDLE, passThrough=passed).filter({**manifest, "spec": spec})
    assert found.rejected == ({} if passed else {"sunny": UNLIKE, "dark": UNLIKE})
    own = a_cluster(profile("Sunny", scheduler="default-scheduler")).filter(
        {**manifest, "spec": spec}
    )
    assert own.kept == ("sunny",)


def test_a_profile_without_filters_lets_its_pods_pass() -> None:
    assert a_cluster(SUNNY, IDLE).filter(make_pod(scheduler_name="idle")).rejected == {}


def test_many_profiles_and_a_long_name_make_no_long_answer() -> None:
    names = [f"gang-{number:02}" for number in range(60)]
    cluster = a_cluster(*(profile("Sunny", scheduler=name) for name in names))
    (said,) = {*cluster.filter(make_pod(scheduler_name="x" * 100_000)).rejected.values()}
    assert len(said) < 500
    assert "; add it, or list it in passThrough" in said
    assert "gang-00" in said


def request(pod: dict[str, Any] | None = None) -> dict[str, Any]:
    """A filter request with whole nodes."""
    nodes = [{"metadata": {"name": name, "labels": {name: ""}}} for name in ("sunny", "dark")]
    of = pod or pod_of()
    return {"Pod": of, "Nodes": {"items": nodes}, "NodeNames": None}


def pod_of(scheduler: str | None = None) -> dict[str, Any]:
    spec = {"schedulerName": scheduler} if scheduler else {}
    return {"metadata": {"name": "p", "namespace": "ml", "uid": "u"}, "spec": spec}


class Http:
    """kubextend's HTTP interface, without a socket."""

    def __init__(self, folder: Path, **sections: Any) -> None:
        (folder / "token").write_text(TOKEN)
        server = {"decisions": {"tokenFile": str(folder / "token")}}
        tree = configuration(SUNNY, IDLE, server=server, **sections)
        self._application = app.create_app(parsed(tree))

    def post(self, verb: str, body: dict[str, Any]) -> Any:
        return self._call("POST", f"/{verb}", content=json.dumps(body), headers=JSON).json()

    def get(self, path: str) -> httpx.Response:
        return self._call("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})

    def _call(self, method: str, path: str, **given: Any) -> httpx.Response:
        async def called() -> httpx.Response:
            transport = httpx.ASGITransport(app=self._application)
            async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
                return await client.request(method, path, **given)

        answer = asyncio.run(called())
        assert answer.status_code == 200, answer.text
        return answer


def test_rejections_of_unknown_schedulers_are_counted_and_logged_once_a_name(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    http = Http(tmp_path, passThrough=["other"])
    for scheduler in ("gang2", "gang2", "gang", "other", "gang3"):
        http.post("filter", request(pod_of(scheduler)))
    http.post("prioritize", request(pod_of("gang2")))
    said = http.get("/metrics").text
    total = "kubextend_verb_requests_total"
    assert f'{total}{{result="unknown_scheduler",verb="filter"}} 3.0' in said
    assert f'{total}{{result="ok",verb="filter"}} 2.0' in said
    assert f'{total}{{result="unknown_scheduler",verb="prioritize"}} 1.0' in said
    warned = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warned == [
        f"pod ml/p is rejected: {UNKNOWN}",
        f"pod ml/p is rejected: {UNKNOWN.replace('gang2', 'gang3')}",
    ]


def why(http: Http, folder: Path, pod: dict[str, Any] | None) -> tuple[str, str, list[str]]:
    """Cause, sentence and what would unblock the pod, as `kubextend why` says from the records."""
    facts = {"namespace": "ml", "name": "p", "pod": pod, "pod_unknown": "" if pod else "no API"}
    facts["decisions"] = http.get("/decisions?pod=ml/p").json()
    (folder / "facts.json").write_text(json.dumps({"facts": facts}))
    asked = ["why", "--file", str(folder / "facts.json"), "--output", "json"]
    said = json.loads(CliRunner().invoke(main, asked).output)
    return said["cause"], said["sentence"], said["unblock"]


def condition(message: str) -> dict[str, Any]:
    scheduled = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    return {"status": {"conditions": [scheduled | {"message": message}]}}


def test_why_names_the_profile_that_was_meant(tmp_path: Path) -> None:
    http = Http(tmp_path)
    pod = pod_of("gang2")
    http.post("filter", request(pod))
    rejected = condition(f"0/2 nodes are available: 2 {UNKNOWN}. no new claims to deallocate.")
    for known in (pod | rejected, pod, None):
        cause, sentence, _ = why(http, tmp_path, known)
        assert cause == "Rejected"
        assert sentence.startswith("kubextend rejected 2 nodes: ")
        assert sentence.endswith(UNKNOWN)
    # After a restart kube-scheduler's message is all that is left.
    assert UNKNOWN in why(Http(tmp_path), tmp_path, pod | rejected)[1]


def test_why_shows_each_node_of_a_pod_of_an_unknown_scheduler(tmp_path: Path) -> None:
    http = Http(tmp_path)
    http.post("filter", request(pod_of("gang2")))
    listed = http.get("/decisions/u/nodes").json()["items"]
    assert {each["node"]: (each["reason"], each["unresolvable"]) for each in listed} == {
        "sunny": (UNKNOWN, True),
        "dark": (UNKNOWN, True),
    }
    (shown,) = http.get("/overview").json()["pods"]["items"]
    assert (shown["state"], shown["nodes"], shown["passed"]) == ("Rejected", 2, 0)


def test_why_looks_for_a_scheduler_of_a_pod_that_nobody_has_tried(tmp_path: Path) -> None:
    http = Http(tmp_path, passThrough=["other"])
    cause, sentence, _ = why(http, tmp_path, pod_of("gang2"))
    assert cause == "NoScheduler"
    assert sentence.endswith("did you mean gang?")
    cause, sentence, _ = why(http, tmp_path, pod_of("other"))
    assert cause == "NotTried"
    assert "a kube-scheduler runs with the profile other" in sentence


def test_why_blames_no_profile_for_a_pod_that_another_scheduler_rejected(tmp_path: Path) -> None:
    pod = pod_of("other") | condition("0/2 nodes are available: 2 Insufficient cpu.")
    cause, sentence, _ = why(Http(tmp_path), tmp_path, pod)
    assert cause != "Rejected"
    assert "profile" not in sentence


@pytest.mark.parametrize(
    ("passed", "scheduler", "last"),
    [
        ([], "gang2", f"pod ml/p: {UNKNOWN}"),
        (["gang2"], "gang2", "pod ml/p: passThrough lists gang2, so it passes through untouched"),
        (["gang2"], "gang", "pod ml/p, profile gang"),
    ],
)
def test_the_offline_filter_says_why_a_pod_is_rejected_or_passes(
    passed: list[str], scheduler: str, last: str, tmp_path: Path
) -> None:
    label = {"filters": [{"nodeSelector": "sunny", "reason": "node lies in the shade"}]}
    gang = profile("LabelMatch", scheduler="gang")
    gang["pluginConfig"] = [{"name": "LabelMatch", "args": label}]
    tree = configuration(gang, IDLE, passThrough=passed)
    (tmp_path / "kubextend.yaml").write_text(json.dumps(tree))
    (tmp_path / "request.json").write_text(json.dumps(request(pod_of(scheduler))))
    config_file, request_file = str(tmp_path / "kubextend.yaml"), str(tmp_path / "request.json")
    done = CliRunner().invoke(main, ["filter", request_file, "--config", config_file])
    assert done.exit_code == 0
    *rows, footer = done.stdout.splitlines()
    assert footer == last
    kept = [row.split()[0] for row in rows if " kept" in row]
    assert kept == ([] if not passed else ["sunny", "dark"] if scheduler == "gang2" else ["sunny"])


# --- The names in both configurations.


@pytest.mark.parametrize(
    ("profiles", "passed", "said"),
    [
        ([SUNNY], ["gang"], 'passThrough[0]: Duplicate value: "gang"'),
        ([SUNNY], ["a", "b", "a"], 'passThrough[2]: Duplicate value: "a"'),
        ([SUNNY], ["a", ""], "passThrough[1]: Required value"),
        ([SUNNY], "a", "passThrough: expected a list"),
        ([SUNNY], [7], "passThrough[0]: expected a string"),
        ([SUNNY], ["x" * 254], "passThrough[0]: Too long"),
        ([SUNNY], ["*"], "passThrough[0]: Invalid value"),
        ([SUNNY], ["batch-*"], "passThrough[0]: Invalid value"),
        ([SUNNY], ["a b"], "passThrough[0]: Invalid value"),
        ([SUNNY], ["batch\n"], "passThrough[0]: Invalid value"),
        ([SUNNY], [" batch"], "passThrough[0]: Invalid value"),
        ([SUNNY], ["-batch"], "passThrough[0]: Invalid value"),
        # The one profile without a name is for default-scheduler.
        ([{"plugins": SUNNY["plugins"]}], ["default-scheduler"], "passThrough[0]: Duplicate value"),
    ],
)
def test_a_name_that_cannot_be_passed_through_is_refused(
    profiles: Any, passed: Any, said: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(configuration(*profiles, passThrough=passed))
    assert len(refused.value.issues) == 1
    assert said in str(refused.value)


@pytest.mark.parametrize("name", ["a", "my-scheduler", "MyScheduler", "a_b.c", "example.com/mine"])
def test_a_name_that_kube_scheduler_can_write_events_with_can_be_passed_through(name: str) -> None:
    parsed(configuration(SUNNY, passThrough=[name]))


def written(folder: Path, *passed: str) -> Path:
    """kubextend's configuration in a file."""
    file = folder / "kubextend.yaml"
    high = profile("HighCommPodFilter", scheduler="gang")
    file.write_text(json.dumps(configuration(high, cluster={}, passThrough=list(passed))))
    return file


def test_scheduler_config_writes_a_profile_for_each_name_that_is_passed_through(
    tmp_path: Path,
) -> None:
    file = written(tmp_path, "default-scheduler", "batch")
    done = CliRunner().invoke(main, ["scheduler-config", "--config", str(file)])
    assert done.exit_code == 0
    assert yaml.safe_load(done.output)["profiles"] == [
        {"schedulerName": "gang"},
        {"schedulerName": "default-scheduler"},
        {"schedulerName": "batch"},
    ]
    before, after = done.output.split("- schedulerName: default-scheduler\n")
    assert before.splitlines()[-1].startswith("# passThrough: ")
    assert after.startswith("- schedulerName: batch\n")
    # It is the cluster's own kube-scheduler then, with the Lease of that one.
    assert "leaderElection" not in yaml.safe_load(done.output)


def scheduler_config(file: Path) -> str:
    """What `kubextend scheduler-config` writes for a configuration."""
    done = CliRunner().invoke(main, ["scheduler-config", "--config", str(file)])
    assert done.exit_code == 0, done.output
    return done.stdout


def test_check_finds_that_what_scheduler_config_writes_fits(tmp_path: Path) -> None:
    file, scheduler = written(tmp_path, "batch"), tmp_path / "kube-scheduler.yaml"
    scheduler.write_text(scheduler_config(file))
    done = CliRunner().invoke(main, ["check", str(file), "--scheduler", str(scheduler)])
    assert done.exit_code == 0
    assert "passed through: batch" in done.output


@pytest.mark.parametrize(
    ("passed", "theirs", "said", "code"),
    [
        ((), ("gang", "batch"), "profiles[1].schedulerName: no profile of kubextend has this", 1),
        (("batch",), ("gang", "batch"), "", 0),
        (("batch",), ("gang",), "profiles: none has schedulerName batch, which passThrough", 0),
    ],
)
def test_check_finds_profiles_of_kube_scheduler_whose_pods_would_be_rejected(
    passed: tuple[str, ...], theirs: tuple[str, ...], said: str, code: int, tmp_path: Path
) -> None:
    file, scheduler = written(tmp_path, *passed), tmp_path / "kube-scheduler.yaml"
    fitting = yaml.safe_load(scheduler_config(file))
    fitting["profiles"] = [{"schedulerName": name} for name in theirs]
    scheduler.write_text(json.dumps(fitting))
    done = CliRunner().invoke(main, ["check", str(file), "--scheduler", str(scheduler)])
    assert done.exit_code == code
    assert said in done.output
    if code:
        assert "filter and bind reject its pods" in done.output
        assert "passThrough: [batch] in kubextend's file" in done.output


def test_a_sample_of_the_nodes_is_enough_for_a_profile_that_is_passed_through(
    tmp_path: Path,
) -> None:
    file, scheduler = written(tmp_path, "batch"), tmp_path / "kube-scheduler.yaml"
    fitting = yaml.safe_load(scheduler_config(file))
    fitting["profiles"][1]["percentageOfNodesToScore"] = 10
    scheduler.write_text(json.dumps(fitting))
    done = CliRunner().invoke(main, ["check", str(file), "--scheduler", str(scheduler)])
    assert done.exit_code == 0, done.output


# --- A change of the configuration is a rollout.


def rejecting(reason: str, port: int) -> str:
    """A configuration that rejects nodes without the label ``sunny`` for a reason."""
    of = profile("LabelMatch", scheduler="default-scheduler")
    args = {"filters": [{"nodeSelector": "sunny", "reason": reason}]}
    of["pluginConfig"] = [{"name": "LabelMatch", "args": args}]
    return json.dumps(configuration(of, server={"port": port}))


def seen(port: int) -> tuple[dict[str, str], str]:
    """The rejected nodes with their reasons, and the hash of the configuration that runs."""
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        answer = client.post("/filter", json=request(), timeout=PATIENT_S).json()
        metrics = client.get("/metrics", timeout=PATIENT_S).text
    rejected = (answer["FailedNodes"] or {}) | (answer["FailedAndUnresolvableNodes"] or {})
    (found,) = re.findall(r"^kubextend_configuration_info(.*)$", metrics, re.MULTILINE)
    return rejected, found


def test_an_edited_configuration_changes_nothing_before_a_restart(tmp_path: Path) -> None:
    file = tmp_path / "kubextend.yaml"

    def started(times: int) -> Program:
        program = bench.start("kubextend", KUBEXTEND, "serve", "--config", file)
        until(lambda: said(program, "listening on") == times, "it listens", program=program)
        return program

    def said(program: Program, what: str) -> int:
        return program.log.read_text().count(what)

    def hang_up(program: Program, times: int) -> None:
        os.kill(program.pid, signal.SIGHUP)
        until(lambda: said(program, "SIGHUP") == times, "it has heard", program=program)

    def replace(text: str) -> None:
        # In one step, as the kubelet replaces what it has mounted.
        (tmp_path / "new").write_text(text)
        (tmp_path / "new").rename(file)

    with Workbench(tmp_path / "bench") as bench:
        port = bench.free_port()
        replace(rejecting("before", port))
        program = started(1)
        before = seen(port)
        assert before[0] == {"dark": "before"}
        for times, text in enumerate(("profiles: [", rejecting("after", port)), 1):
            replace(text)
            hang_up(program, times)
            assert seen(port) == before
        bench.end(program)
        started(2)
        after = seen(port)
    assert after[0] == {"dark": "after"}
    assert after[1] != before[1]


DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
PLACES = ("second-scheduler", "service", "static-pod")


def kustomization(place: str) -> dict[str, Any]:
    read: dict[str, Any] = yaml.safe_load((DEPLOY / place / "kustomization.yaml").read_text())
    return read


@pytest.mark.parametrize("place", PLACES)
def test_a_changed_configmap_of_deploy_has_another_name_and_so_its_pods_are_rolled_out(
    place: str,
) -> None:
    """kustomize appends a hash of the content, unless it is told not to."""
    found = kustomization(place)
    hashed = {
        each["name"]: set(each["files"])
        for each in found.get("configMapGenerator", [])
        if not each.get("options", {}).get("disableNameSuffixHash")
    }
    assert "generatorOptions" not in found
    mounted: dict[str, set[str]] = {}
    for resource in found["resources"]:
        for each in yaml.safe_load_all((DEPLOY / place / resource).read_text()):
            if each and each["kind"] == "Deployment":
                volumes = each["spec"]["template"]["spec"]["volumes"]
                maps = [volume["configMap"] for volume in volumes if "configMap" in volume]
                mounted |= {name["name"]: hashed[name["name"]] for name in maps}
    files = {file.name for file in (DEPLOY / place).glob("kube*.yaml")}
    if place == "service":
        # A kube-scheduler elsewhere reads this file.
        files.remove("kube-scheduler.yaml")
    assert {*mounted} == {*hashed}
    assert set().union(*mounted.values()) == (set() if place == "static-pod" else files)


def test_a_changed_configuration_of_a_static_pod_makes_another_pod(tmp_path: Path) -> None:
    """The kubelet restarts a static pod whose manifest changed, and for nothing else."""
    shutil.copytree(DEPLOY / "static-pod", tmp_path / "static-pod")
    text = (DEPLOY / "README.md").read_text()
    commands = re.findall(r"^(?:hash=|sed \"s/CONFIGURATION_SHA256/).*$", text, re.MULTILINE)
    script = "\n".join(commands).replace("/etc/kubernetes/manifests", str(tmp_path))
    assert len(commands) == 2
    manifests = []
    for file in ("none", "kubextend.yaml", "kube-scheduler.yaml"):
        if file != "none":
            with (tmp_path / "static-pod" / file).open("a") as configuration_file:
                configuration_file.write("# another\n")
        subprocess.run(["bash", "-ec", script], cwd=tmp_path / "static-pod", check=True)
        pod = yaml.safe_load((tmp_path / "kube-scheduler.yaml").read_text())
        manifests.append(pod["metadata"].pop("annotations"))
        assert pod["spec"]["containers"][0]["name"] == "kube-scheduler"
    hashes = [annotations["kubextend.dev/configuration-sha256"] for annotations in manifests]
    assert len({*hashes}) == 3
    assert all(re.fullmatch("[0-9a-f]{64}", each) for each in hashes)
