import base64
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.doors.credentials import no_temporary_folder, service_account
from tests.doors.kube_api import SkippingTime

from kubextend.cluster import connect
from kubextend.errors import ClusterError

NAMES = ("there", "elsewhere")
WHOLE = {
    "apiVersion": "v1",
    "kind": "Config",
    "current-context": "there",
    "contexts": [{"name": name, "context": {"cluster": name, "user": "me"}} for name in NAMES],
    "clusters": [
        {"name": "there", "cluster": {"server": "https://10.0.0.1:6443"}},
        {"name": "elsewhere", "cluster": {"server": "https://10.0.0.2:6443/prefix/"}},
    ],
    "users": [{"name": "me", "user": {"token": "secret"}}],
}


@pytest.fixture(autouse=True)
def no_credentials_around(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


def written(folder: Path, document: object) -> str:
    file = folder / "config"
    file.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return str(file)


def with_cluster(**fields: str) -> dict[str, Any]:
    cluster = {"server": "https://a"} | fields
    return dict(WHOLE, clusters=[{"name": "there", "cluster": cluster}])


def token_of(cluster: Any) -> str | None:
    """Return what the official client sends in the header Authorization."""
    token = cluster.api_client.configuration.get_api_key_with_prefix("BearerToken")
    return token and token.strip()


def test_a_kubeconfig_says_where_the_api_is(tmp_path: Path) -> None:
    path = written(tmp_path, WHOLE)
    assert connect(path).host == "https://10.0.0.1:6443"
    assert connect(path, "elsewhere").host == "https://10.0.0.2:6443/prefix"
    with pytest.raises(ClusterError, match="nonesuch"):
        connect(path, "nonesuch")


def test_a_kubeconfig_is_found_where_kubectl_finds_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "home" / ".kube"
    folder.mkdir(parents=True)
    written(folder, WHOLE)
    assert connect().host == "https://10.0.0.1:6443"
    other = dict(WHOLE, **{"current-context": "elsewhere"})
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/missing:{written(tmp_path, other)}")
    assert connect().host == "https://10.0.0.2:6443/prefix"


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ("", "file is empty"),
        ("just words", "cannot be used"),
        ("- a\n- b\n", "cannot be used"),
        ("clusters: [", "cannot be used"),
        ("\x00", "cannot be used"),
        (dict(WHOLE, contexts=[]), "there"),
        (dict(WHOLE, contexts="x"), "cannot be used"),
        (dict(WHOLE, contexts=[None]), "cannot be used"),
        (dict(WHOLE, clusters=[]), "there"),
        (dict(WHOLE, clusters=[{"name": "there", "cluster": {}}]), "server: https://"),
        (dict(WHOLE, clusters=[{"name": "there"}]), "cluster"),
        (with_cluster(server="10.0.0.1:6443"), "server: https://"),
        (with_cluster(**{"certificate-authority": "missing.crt"}), "missing.crt"),
        (with_cluster(**{"certificate-authority-data": "a"}), "cannot be used"),
        (dict(WHOLE, **{"current-context": "nonesuch"}), "nonesuch"),
    ],
)
def test_a_broken_kubeconfig_is_named_with_what_is_wrong(
    tmp_path: Path, document: object, sentence: str
) -> None:
    path = written(tmp_path, document)
    with pytest.raises(ClusterError) as caught:
        connect(path)
    assert path in str(caught.value)
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_kubeconfig_says_what_to_do() -> None:
    with pytest.raises(ClusterError, match=r"nowhere/config: no such file; name one with --kube"):
        connect("/nowhere/config")
    with pytest.raises(ClusterError, match=r"~/.kube/config: no such file"):
        connect()


def test_embedded_certificates_without_a_temporary_directory_say_so(tmp_path: Path) -> None:
    data = base64.b64encode(b"certificate of this test alone").decode()
    path = written(tmp_path, with_cluster(**{"certificate-authority-data": data}))
    with no_temporary_folder(), pytest.raises(ClusterError, match="mount one at /tmp"):
        connect(path)


def test_in_a_pod_the_service_account_is_used_unless_a_kubeconfig_is_named(tmp_path: Path) -> None:
    with service_account(tmp_path) as token:
        cluster = connect()
        assert cluster.host == "https://[fd00::1]:443"
        assert token_of(cluster) == "bearer mounted"
        assert connect(written(tmp_path, WHOLE)).host == "https://10.0.0.1:6443"
        token.write_text("")
        with pytest.raises(ClusterError, match=str(tmp_path)):
            connect()


def test_a_mounted_token_is_read_again_as_it_rotates(tmp_path: Path, clock: SkippingTime) -> None:
    with service_account(tmp_path) as token:
        cluster = connect()
        kept_by_a_plugin = cluster.api_client.configuration

        def read_again() -> str | None:
            token_of(cluster)
            clock.settle()
            return token_of(cluster)

        token.write_text("rotated")
        clock.pass_s(59)
        assert read_again() == "bearer mounted"
        clock.pass_s(1)
        assert read_again() == "bearer rotated"
        assert kept_by_a_plugin.get_api_key_with_prefix("BearerToken") == "bearer rotated"
        # Between the two writes of a rotation, and for good.
        for broken in (token.unlink, lambda: token.write_text("")):
            broken()
            clock.pass_s(60)
            assert read_again() == "bearer rotated"


def test_a_token_file_may_end_in_a_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("filed\n")
    users = [{"name": "me", "user": {"tokenFile": "token"}}]
    assert token_of(connect(written(tmp_path, dict(WHOLE, users=users)))) == "Bearer filed"
