"""What ``kubextend check --scheduler``, ``convert`` and ``new-plugin`` say, and who may patch pods.

A real kube-scheduler reads the same files in tests/e2e/test_scheduler_files.py.
"""

import copy
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from kubextend.cli import main
from scheduler_files import BIND, CASES, CONFIGURATION, FILTER, PROFILE, Case

ROOT = Path(__file__).resolve().parents[2]
FITS = " fits: kube-scheduler calls kubextend as this configuration says"
KUBECONFIG = "/etc/kubernetes/scheduler.conf"


def run(*arguments: str | Path, given: str | None = None) -> Result:
    return CliRunner().invoke(main, [str(each) for each in arguments], input=given)


def compared(tmp_path: Path, ours: dict[str, Any], theirs: dict[str, Any]) -> Result:
    """Run ``check --scheduler`` with both configurations."""
    (tmp_path / "kubextend.yaml").write_text(json.dumps(ours))
    (tmp_path / "kube-scheduler.yaml").write_text(json.dumps(theirs))
    file = tmp_path / "kube-scheduler.yaml"
    return run("check", tmp_path / "kubextend.yaml", "--scheduler", file)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_check_accepts_a_file_exactly_if_kube_scheduler_starts_with_it(
    case: Case, tmp_path: Path
) -> None:
    result = compared(tmp_path, CONFIGURATION, case.file(KUBECONFIG))
    assert (FITS in result.output, result.exit_code) == (case.starts, int(not case.starts))


@pytest.mark.parametrize(
    ("name", "said"),
    {
        "another extender binds, too": (
            "extenders[2].bindVerb: another extender has a bindVerb, and only one can bind: "
            "kube-scheduler does not start"
        ),
        "two extenders manage one resource": (
            "extenders[1].managedResources[0].name: is managed already, by this or another "
            "extender: kube-scheduler does not start"
        ),
        "resourceLock endpointsleases": (
            "leaderElection.resourceLock: must be leases: kube-scheduler does not start"
        ),
        "a renewal no longer than 1.2 tries": (
            "leaderElection.renewDeadline: must be more than 2.4s, 1.2 times retryPeriod: "
            "kube-scheduler does not start"
        ),
        "parallelism below 0": "parallelism: must be at least 1",
        "a longest backoff below the first": (
            "podMaxBackoffSeconds: must be at least podInitialBackoffSeconds, 20: kube-scheduler "
            "does not start"
        ),
        "a plugin that kube-scheduler no longer has": (
            "profiles[0].plugins.score.enabled[0].name: kube-scheduler has no plugin of this name "
            "and does not start"
        ),
        "arguments that there are not": (
            'profiles[0].pluginConfig[0].args.scoringStrategies: unknown field "scoringStrategies"'
        ),
    }.items(),
)
def test_check_names_the_field_because_of_which_kube_scheduler_does_not_start(
    name: str, said: str, tmp_path: Path
) -> None:
    case = next(case for case in CASES if case.name == name)
    result = compared(tmp_path, CONFIGURATION, case.file(KUBECONFIG))
    errors = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
    assert errors == [f"error: {tmp_path / 'kube-scheduler.yaml'}: {said}"]


def test_check_claims_no_more_than_it_checked(tmp_path: Path) -> None:
    result = compared(tmp_path, CONFIGURATION, CASES[-1].file(KUBECONFIG))
    *_, note, fits = result.stdout.splitlines()
    assert fits.endswith(FITS)
    assert note.startswith("note: checked as kube-scheduler 1.37 does at its start; it alone can")
    for unseen in (
        "files",
        "certificates",
        "addresses",
        "feature gates",
        "node affinity in arguments",
    ):
        assert unseen in note


BASE = CASES[-1].file(KUBECONFIG) | {"profiles": [{"schedulerName": PROFILE}]}


def in_profile(**fields: Any) -> dict[str, Any]:
    return {"profiles": [{"schedulerName": PROFILE, **fields}]}


@pytest.mark.parametrize(
    ("change", "at", "hint"),
    [
        (in_profile(extenders=[]), "profiles[0].extenders", "extenders belongs at the top"),
        (in_profile(leaderElection={}), "profiles[0].leaderElection", "belongs at the top"),
        (in_profile(parallelism=3), "profiles[0].parallelism", "belongs at the top of the file"),
        (in_profile(filterVerb="f"), "profiles[0].filterVerb", "belongs in extenders[]"),
        (in_profile(score={}), "profiles[0].score", "score belongs in profiles[].plugins"),
        ({"plugins": {}}, "plugins", "plugins belongs in profiles[]"),
        ({"pluginConfig": []}, "pluginConfig", "pluginConfig belongs in profiles[]"),
        ({"schedulerName": "x"}, "schedulerName", "schedulerName belongs in profiles[]"),
        ({"kubeconfig": "x"}, "kubeconfig", "kubeconfig belongs in clientConnection"),
        ({"resourceName": "x"}, "resourceName", "resourceName belongs in leaderElection"),
        (
            {"leaderElection": {"leaderElect": False, "percentageOfNodesToScore": 1}},
            "leaderElection.percentageOfNodesToScore",
            "belongs at the top of the file or in profiles[]",
        ),
        ({"extender": []}, "extender", "did you mean extenders?"),
    ],
)
def test_check_says_where_a_field_at_the_wrong_level_belongs(
    change: dict[str, Any], at: str, hint: str, tmp_path: Path
) -> None:
    lines = compared(tmp_path, CONFIGURATION, BASE | change).stderr.splitlines()
    (place,) = [index for index, line in enumerate(lines) if f": {at}: unknown field" in line]
    assert next(line for line in lines[place:] if line.startswith("  hint:")).count(hint) == 1


@pytest.mark.parametrize(
    ("change", "hint"),
    [
        ({"urlPrefix": "http://a"}, "urlPrefix belongs in extender"),
        ({"plugins": {}}, "plugins belongs in profiles[]"),
        ({"kubeconfig": "x"}, "kubeconfig belongs in cluster"),
        (in_profile(extender={}), "extender belongs at the top of the file"),
        (in_profile(filter={}), "filter belongs in profiles[].plugins"),
    ],
)
def test_check_says_where_a_field_of_kubextends_own_file_belongs(
    change: dict[str, Any], hint: str, tmp_path: Path
) -> None:
    file = tmp_path / "kubextend.yaml"
    file.write_text(json.dumps(CONFIGURATION | change))
    assert f"  hint: {hint}\n" in run("check", file).stderr


def at_host(server: dict[str, Any], **extender: Any) -> dict[str, Any]:
    return CONFIGURATION | {"server": server, "extender": extender}


def calling(url: str) -> dict[str, Any]:
    return BASE | {"extenders": [FILTER | {"urlPrefix": url}, BIND | {"urlPrefix": url}]}


NAMED = [
    name
    for line in Path("/etc/hosts").read_text().splitlines()
    if (words := line.partition("#")[0].split()) and words[0] == "127.0.0.1"
    for name in words[1:]
]


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ({}, "http://localhost:8888"),
        ({}, "http://localhost:8888/"),
        ({}, "HTTP://LOCALHOST:8888"),
        ({"host": "localhost"}, "http://127.0.0.1:8888"),
        ({"host": "localhost"}, "http://[::1]:8888"),
        ({"host": "::1"}, "http://localhost:8888"),
        ({"host": "::1"}, "http://[0:0:0:0:0:0:0:1]:8888"),
        ({"host": "127.0.0.2"}, "http://127.0.0.2:8888"),
        ({"port": 80}, "http://127.0.0.1"),
        ({"port": 80, "path": "/v1"}, "http://localhost:80/v1/"),
        *(({}, f"http://{name}:8888") for name in NAMED),
    ],
)
def test_check_accepts_every_name_of_the_address_that_kubextend_listens_on(
    server: dict[str, Any], url: str, tmp_path: Path
) -> None:
    result = compared(tmp_path, at_host(server), calling(url))
    assert FITS in result.stdout, result.stderr


@pytest.mark.parametrize(
    ("server", "url"),
    [
        ({}, "http://127.0.0.2:8888"),
        ({}, "http://[::1]:8888"),
        ({"host": "127.0.0.2"}, "http://localhost:8888"),
        ({}, "http://localhost:8889"),
        ({}, "http://localhost"),
        ({}, "http://localhost:8888/v1"),
        ({}, "https://localhost:8888"),
        ({}, "http://name.invalid:8888"),
        ({}, "http://[:8888"),
    ],
)
def test_check_refuses_a_url_at_which_kubextend_does_not_answer(
    server: dict[str, Any], url: str, tmp_path: Path
) -> None:
    result = compared(tmp_path, at_host(server), calling(url))
    assert result.exit_code == 1
    assert "urlPrefix" in result.stderr


def test_another_name_in_the_url_is_an_error_where_a_certificate_is_judged_by_it(
    tmp_path: Path,
) -> None:
    for name in ("server.crt", "server.key"):
        (tmp_path / name).touch()
    server = {"tls": {"certFile": "server.crt", "keyFile": "server.key"}}
    ours = at_host(server, urlPrefix="https://127.0.0.1:8888", tlsConfig={"caFile": "/ca"})
    theirs = calling("https://localhost:8888")
    for entry in theirs["extenders"]:
        entry |= {"enableHTTPS": True, "tlsConfig": {"caFile": "/ca"}}
    result = compared(tmp_path, ours, theirs)
    assert "tlsConfig.serverName: the server's certificate is judged by another name" in (
        result.stderr
    )
    for entry in theirs["extenders"]:
        entry["tlsConfig"]["serverName"] = "127.0.0.1"
    assert FITS in compared(tmp_path, ours, theirs).stdout


def test_an_https_url_in_upper_case_is_https(tmp_path: Path) -> None:
    ours = at_host({}, urlPrefix="HTTPS://kubextend.example:8888", tlsConfig={"caFile": "/ca"})
    (tmp_path / "kubextend.yaml").write_text(json.dumps(ours))
    written = yaml.safe_load(
        run("scheduler-config", "--config", tmp_path / "kubextend.yaml").stdout
    )
    assert written["extenders"][0]["enableHTTPS"] is True
    assert FITS in compared(tmp_path, ours, written).stdout


USERS = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "leaderElection": {"leaderElect": False},
    "clientConnection": {"kubeconfig": "/etc/k"},
    "profiles": [
        {
            "schedulerName": "default-scheduler",
            "plugins": {"multiPoint": {"enabled": [{"name": "CapacityScheduling"}]}},
        }
    ],
}


@pytest.mark.parametrize("change", [{}, {"cluster": {}}, {"apiVersion": "x/v9"}, {"extender": 1}])
def test_every_command_says_what_to_do_with_kube_schedulers_own_file(
    change: dict[str, Any], tmp_path: Path
) -> None:
    file = tmp_path / "users.yaml"
    file.write_text(json.dumps(USERS | change))
    for words in (
        ["check"],
        ["serve", "--config"],
        ["doctor", "--config"],
        ["plugins", "--config"],
    ):
        result = run(*words, file)
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr == (
            "error: kind: this is kube-scheduler's own configuration, not kubextend's\n"
            '  found: "KubeSchedulerConfiguration"\n'
            "  hint: run kubextend convert FILE > kubextend.yaml, and give kubextend that file\n"
        )


@pytest.mark.parametrize("version", ["v1", "v1beta3", "v1beta2", "v1beta1"])
def test_what_convert_prints_is_a_configuration_that_check_accepts(
    version: str, tmp_path: Path
) -> None:
    file = tmp_path / "users.yaml"
    file.write_text(json.dumps(USERS | {"apiVersion": f"kubescheduler.config.k8s.io/{version}"}))
    converted = run("convert", file)
    assert (converted.exit_code, converted.stderr) == (0, "")
    checked = run("check", "-", given=converted.stdout)
    assert checked.exit_code == 0
    assert "profile default-scheduler:\n" in checked.stdout
    assert "CapacityScheduling" in checked.stdout


def test_convert_takes_over_the_plugins_of_kubextend_alone(tmp_path: Path) -> None:
    group = "kubescheduler.config.k8s.io/v1"
    profile = {
        "schedulerName": "ml",
        "percentageOfNodesToScore": 100,
        "plugins": {
            "queueSort": {"enabled": [{"name": "PrioritySort"}], "disabled": [{"name": "*"}]},
            "multiPoint": {
                "enabled": [{"name": "LabelMatch"}, {"name": "NodeAffinity", "weight": 3}],
                "disabled": [{"name": "ImageLocality"}],
            },
            "score": {
                "enabled": [
                    {"name": "NodeResourcesFit", "weight": 0},
                    {"name": "LabelMatch", "weight": 7},
                ],
                "disabled": [{"name": "*"}, {"name": "VolumeBinding"}],
            },
        },
        "pluginConfig": [
            {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            {
                "name": "LabelMatch",
                "args": {"apiVersion": group, "kind": "LabelMatchArgs", "scores": []},
            },
        ],
    }
    file = tmp_path / "users.yaml"
    file.write_text(json.dumps(USERS | {"profiles": [profile, {"schedulerName": "plain"}]}))
    assert yaml.safe_load(run("convert", file).stdout) == {
        "apiVersion": "kubextend.dev/v1alpha1",
        "kind": "ExtenderConfiguration",
        "cluster": {},
        "profiles": [
            {
                "schedulerName": "ml",
                "percentageOfNodesToScore": 100,
                "plugins": {
                    "queueSort": {"disabled": [{"name": "*"}]},
                    "multiPoint": {"enabled": [{"name": "LabelMatch"}]},
                    "score": {
                        "enabled": [{"name": "LabelMatch", "weight": 7}],
                        "disabled": [{"name": "*"}],
                    },
                },
                "pluginConfig": [{"name": "LabelMatch", "args": {"scores": []}}],
            },
            {"schedulerName": "plain"},
        ],
    }


def test_convert_names_a_plugin_that_nobody_has_and_a_field_that_there_is_not(
    tmp_path: Path,
) -> None:
    users = copy.deepcopy(USERS)
    users["profiles"][0]["plugins"]["multiPoint"]["enabled"].append({"name": "Mine"})  # type: ignore[index]
    file = tmp_path / "users.yaml"
    file.write_text(json.dumps(users))
    result = run("convert", file)
    assert result.exit_code == 1
    assert 'multiPoint.enabled[1].name: plugin "Mine" does not exist' in result.stderr
    file.write_text(json.dumps(USERS | {"plugins": {}}))
    assert "hint: plugins belongs in profiles[]" in run("convert", file).stderr
    file.write_text(json.dumps(CONFIGURATION))
    assert run("convert", file).stderr.startswith("error: kind: is not a kube-scheduler's")


def test_convert_warns_where_the_profiles_have_no_plugin_of_kubextend(tmp_path: Path) -> None:
    file = tmp_path / "users.yaml"
    file.write_text(json.dumps({key: USERS[key] for key in ("apiVersion", "kind")}))
    result = run("convert", file)
    assert result.exit_code == 0
    assert result.stderr.startswith("warning: no profile enables a plugin")


def scaffold(tmp_path: Path, origin: dict[str, Any] | None) -> dict[str, Any]:
    """Write a new plugin by a kubextend that was installed from there; return its pyproject.toml.

    Python finds what is on PYTHONPATH before the package of this environment.
    """
    record = tmp_path / "site" / "kubextend-0.1.0.dist-info"
    record.mkdir(parents=True)
    (record / "METADATA").write_text("Metadata-Version: 2.4\nName: kubextend\nVersion: 0.1.0\n")
    if origin is not None:
        (record / "direct_url.json").write_text(json.dumps(origin))
    package = tmp_path / "package"
    command = [sys.executable, "-m", "kubextend", "new-plugin", "Mine", "--directory", package]
    environment = os.environ | {"PYTHONPATH": str(record.parent)}
    subprocess.run(command, env=environment, check=True, capture_output=True)
    return tomllib.loads((package / "pyproject.toml").read_text())


# Source: https://packaging.python.org/en/latest/specifications/direct-url-data-structure/
@pytest.mark.parametrize(
    ("origin", "requirement"),
    [
        (
            {"url": "file:///home/me/kubextend", "dir_info": {"editable": True}},
            "kubextend @ file:///home/me/kubextend",
        ),
        (
            {
                "url": "file:///tmp/kubextend-0.1.0-cp311-abi3-linux_x86_64.whl",
                "archive_info": {"hash": f"sha256={'a' * 64}"},
            },
            (
                "kubextend @ file:///tmp/kubextend-0.1.0-cp311-abi3-linux_x86_64.whl"
                f"#sha256={'a' * 64}"
            ),
        ),
        (
            {
                "url": "https://git.example/kubextend.git",
                "vcs_info": {"vcs": "git", "commit_id": "b" * 40},
            },
            f"kubextend @ git+https://git.example/kubextend.git@{'b' * 40}",
        ),
    ],
)
def test_a_new_plugin_depends_on_the_kubextend_that_wrote_it(
    origin: dict[str, Any], requirement: str, tmp_path: Path
) -> None:
    project = scaffold(tmp_path, origin)["project"]
    assert project["dependencies"] == [requirement, "pydantic>=2"]


def test_a_new_plugin_names_no_kubextend_that_came_from_an_unknown_place(tmp_path: Path) -> None:
    assert scaffold(tmp_path, None)["project"]["dependencies"] == ["pydantic>=2"]
    text = (tmp_path / "package" / "pyproject.toml").read_text()
    assert "# kubextend is not here: it does not know where it was installed from" in text


def test_no_example_depends_on_a_name_that_anybody_may_register() -> None:
    projects = [*ROOT.joinpath("deploy").rglob("pyproject.toml")]
    named = [
        name
        for path in projects
        for name in tomllib.loads(path.read_text())["project"]["dependencies"]
    ]
    assert len(projects) == 2
    assert [name for name in named if name.startswith("kubextend")] == []
    texts = [*ROOT.glob("*.md"), *ROOT.joinpath("docs").rglob("*.md")]
    texts += [path for path in ROOT.joinpath("deploy").rglob("*") if path.is_file()]
    bare = re.compile(rb"\b(?:pip|uv|pipx) (?!.*--no-index).*install .*\bkubextend(?![-./@])")
    assert [path for path in texts if bare.search(path.read_bytes())] == []
