"""Runs somebody else's mutating webhook for pods, behind a real kube-apiserver."""

import base64
import contextlib
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path

from .certificates import Authority
from .json_server import answering
from .kubeapi import Api, Object

# Returns the operations of a JSON patch for a pod; none: the pod stays as it is.
Patch = Callable[[Object], list[Object]]
NEW_PODS = {"apiGroups": [""], "apiVersions": ["v1"]}
NEW_PODS |= {"operations": ["CREATE"], "resources": ["pods"]}
REGISTRATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"


@contextlib.contextmanager
def webhook_installed(
    api: Api, name: str, patch: Patch, folder: Path, reinvocation: str
) -> Iterator[None]:
    """Make kube-apiserver ask a webhook about each new pod that has the label ``other=name``."""
    authority = Authority(folder / "pki")
    pair = authority.issue("webhook")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pair.cert, pair.key)

    def review(asked: Object) -> Object:
        request = asked["request"]
        operations = json.dumps(patch(request["object"])).encode()
        response = {"uid": request["uid"], "allowed": True, "patchType": "JSONPatch"}
        response["patch"] = base64.b64encode(operations).decode()
        kind = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview"}
        return {**kind, "response": response}

    with answering(review, context) as port:
        url, bundle = f"https://127.0.0.1:{port}/", base64.b64encode(authority.cert.read_bytes())
        webhook = {
            "name": f"{name}.example.com",
            "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": url, "caBundle": bundle.decode()},
            "failurePolicy": "Fail",
            "objectSelector": {"matchLabels": {"other": name}},
            "reinvocationPolicy": reinvocation,
            "rules": [NEW_PODS],
            "sideEffects": "None",
        }
        api.call("POST", REGISTRATIONS, {"metadata": {"name": name}, "webhooks": [webhook]})
        try:
            yield
        finally:
            api.call("DELETE", f"{REGISTRATIONS}/{name}")
