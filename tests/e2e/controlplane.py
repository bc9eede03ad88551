"""A real control plane on loopback: etcd and kube-apiserver, built from pinned Go modules.

There is no kubelet and no controller: a pod counts as placed when spec.nodeName is set, nothing
taints a node, and nothing finishes the deletion of a namespace.
"""

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from http import HTTPStatus
from pathlib import Path

from .certificates import Authority, write_signing_key
from .kubeapi import Api, Object
from .versions import KUBE, MODULES
from .workbench import Program, Workbench, until

ROOT = Path(__file__).resolve().parents[2]
BINARIES = ROOT / "build" / "e2e-tools"
ETCD = {"etcd": "go.etcd.io/etcd/server/v3"}
KUBERNETES = {
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
}
USERS = {
    "admin": ("admin-token", "system:masters"),
    "system:kube-scheduler": ("scheduler-token", "system:authenticated"),
    "kubextend": ("kubextend-token", "system:authenticated"),
    "reader": ("reader-token", "system:authenticated"),
}
# The audit log holds the writes of kubextend, and the Bindings of everybody.
BINDINGS = [{"group": "", "resources": ["pods/binding"]}]
WRITES = ["create", "update", "patch", "delete", "deletecollection"]
AUDITED = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [
        {"level": "Metadata", "users": ["kubextend"], "verbs": WRITES},
        {"level": "Metadata", "verbs": ["create"], "resources": BINDINGS},
        {"level": "None"},
    ],
}
START_TIMEOUT_S = 300.0


def build_binaries() -> Path:
    """Build etcd, and kube-apiserver and kube-scheduler of the version KUBE, unless they are built.

    Returns: the folder of kube-apiserver and kube-scheduler; etcd is in the folder above.

    Raises: RuntimeError: there is no Go toolchain; CalledProcessError: the build fails.
    """
    build(MODULES / "etcd", ETCD, BINARIES)
    build(MODULES / KUBE, KUBERNETES, BINARIES / KUBE)
    return BINARIES / KUBE


def build(module: Path, packages: Mapping[str, str], into: Path) -> None:
    """Build programs of a pinned Go module, each from its package, unless they are built.

    Raises: RuntimeError: there is no Go toolchain; CalledProcessError: the build fails.
    """
    stamp = into / f"{module.name}.sha256"
    pinned = hashlib.sha256((module / "go.mod").read_bytes() + (module / "go.sum").read_bytes())
    built = stamp.exists() and stamp.read_text() == pinned.hexdigest()
    if built and all((into / name).exists() for name in packages):
        return
    go = shutil.which("go")
    if go is None:
        message = "the e2e tests build their programs: a Go toolchain has to be on the PATH"
        raise RuntimeError(message)
    into.mkdir(parents=True, exist_ok=True)
    for name, package in packages.items():
        command = [go, "build", "-trimpath", "-ldflags=-s -w", "-o", str(into / name), package]
        environment = {**os.environ, "GOFLAGS": "-mod=readonly", "CGO_ENABLED": "0"}
        subprocess.run(command, cwd=module, env=environment, check=True)
    stamp.write_text(pinned.hexdigest())


class ControlPlane:
    """etcd and one kube-apiserver that keeps its address when it is started again.

    Attributes:
        gates: ``--feature-gates`` of kube-apiserver and of each kube-scheduler.
        apis: ``--runtime-config`` of kube-apiserver.
    """

    def __init__(self, bench: Workbench, binaries: Path, gates: str = "", apis: str = "") -> None:
        self.bench = bench
        self.binaries = binaries
        self.gates = gates
        self.apis = apis
        self._folder = bench.folder
        self.authority = Authority(bench.folder / "pki")
        self._serving = self.authority.issue("kube-apiserver")
        self._signing = write_signing_key(bench.folder / "pki" / "service-account.key")
        self._tokens = bench.folder / "tokens.csv"
        lines = [f'{token},{user},{user},"{group}"' for user, (token, group) in USERS.items()]
        self._tokens.write_text("\n".join(lines) + "\n")
        self._audited = bench.folder / "audit.jsonl"
        self._audit_policy = bench.folder / "audit.json"
        self._audit_policy.write_text(json.dumps(AUDITED))
        self._etcd_url = f"http://127.0.0.1:{bench.free_port()}"
        self._start_etcd()
        self.port = bench.free_port()
        self.url = f"https://127.0.0.1:{self.port}"
        self.api = Api(self.url, self.authority.cert, USERS["admin"][0])
        self._server = self._start_server(self.port)

    def close(self) -> None:
        self.api.close()

    def api_of(self, account: str, pod: str = "") -> Api:
        """Return a client that acts as a user, or as a service account, that a pod may use."""
        return Api(self.url, self.authority.cert, USERS["admin"][0], account, pod)

    def kubeconfig(self, user: str, url: str | None = None) -> Path:
        """Write the kubeconfig of a user, for kube-apiserver or a proxy at ``url``."""
        server = url or self.url
        way = server.rsplit(":", 1)[1]
        path = self._folder / f"{user.replace(':', '-')}-{way}.kubeconfig"
        return self.kubeconfig_of({"token": USERS[user][0]}, path, server)

    def kubeconfig_of(self, user: Object, path: Path, url: str | None = None) -> Path:
        """Write a kubeconfig with a user's credentials into a file; return the file."""
        ca = str(self.authority.cert)
        cluster = {"server": url or self.url, "certificate-authority": ca}
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "e2e", "cluster": cluster}],
            "users": [{"name": "e2e", "user": user}],
            "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
            "current-context": "e2e",
        }
        path.write_text(json.dumps(config, indent=1))
        return path

    def written(self, namespace: str) -> list[Object]:
        """Return every write request of kubextend in a namespace, as audit Events, in order."""
        return [e for e in self._audit(namespace) if e["user"]["username"] == "kubextend"]

    def bindings(self, namespace: str) -> list[Object]:
        """Return each Binding of a namespace that kube-apiserver took, as an audit Event."""
        return [
            event
            for event in self._audit(namespace)
            if event["objectRef"].get("subresource") == "binding"
            and event["responseStatus"]["code"] == HTTPStatus.CREATED
        ]

    def given_up(self, namespace: str) -> set[str]:
        """Return the pods of a namespace with a Binding that kube-apiserver itself gave up.

        kube-apiserver answers 504 if etcd is slow, and the Binding may take effect afterwards.
        """
        return {
            event["objectRef"]["name"]
            for event in self._audit(namespace)
            if event["objectRef"].get("subresource") == "binding"
            and event["responseStatus"]["code"] == HTTPStatus.GATEWAY_TIMEOUT
        }

    def _audit(self, namespace: str) -> list[Object]:
        events = map(json.loads, self._audited.read_text().splitlines())
        return [e for e in events if e["objectRef"].get("namespace") == namespace]

    @contextlib.contextmanager
    def without_server(self) -> Iterator[None]:
        """Kill kube-apiserver for the block, which ends all watches; start it again at the end."""
        self.bench.end(self._server, signal.SIGKILL)
        try:
            yield
        finally:
            self._server = self._start_server(self.port)

    @contextlib.contextmanager
    def second_server(self) -> Iterator[Api]:
        """Run one more kube-apiserver on the same etcd."""
        port = self.bench.free_port()
        program = self._start_server(port)
        with Api(f"https://127.0.0.1:{port}", self.authority.cert, USERS["admin"][0]) as api:
            yield api
        self.bench.end(program, signal.SIGKILL)

    def _start_server(self, port: int) -> Program:
        command: list[str | Path] = [
            self.binaries / "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self._serving.cert}",
            f"--tls-private-key-file={self._serving.key}",
            f"--cert-dir={self._folder / 'apiserver'}",
            "--service-cluster-ip-range=10.0.0.0/24",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self._signing}",
            f"--service-account-signing-key-file={self._signing}",
            "--authorization-mode=RBAC",
            f"--token-auth-file={self._tokens}",
            "--endpoint-reconciler-type=none",
            f"--audit-policy-file={self._audit_policy}",
            f"--audit-log-path={self._audited}",
            "--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
            f"--feature-gates={self.gates}",
            f"--runtime-config={self.apis}",
        ]
        program = self.bench.start(f"kube-apiserver-{port}", *command)
        url = f"https://127.0.0.1:{port}"
        with Api(url, self.authority.cert, USERS["admin"][0]) as api:
            until(api.is_ready, "kube-apiserver is ready", START_TIMEOUT_S, program=program)
        return program

    def _start_etcd(self) -> None:
        peers = f"http://127.0.0.1:{self.bench.free_port()}"
        self.bench.start(
            "etcd",
            self.binaries.parent / "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )


if __name__ == "__main__":
    build_binaries()
