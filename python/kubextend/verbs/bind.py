"""bind: the pod is bound to the node that kube-scheduler chose, or the answer says why not."""

import logging

from kubextend import core
from kubextend.errors import ClusterError
from kubextend.framework.handle import Binder
from kubextend.verbs.answer import Answer, binding

__all__ = ["BindVerb"]

_LOGGER = logging.getLogger(__name__)
_NO_BINDER = (
    "kubextend cannot bind: it has no access to the Kubernetes API; configure `cluster`, or take "
    "bindVerb out of kube-scheduler's extender entry"
)


class BindVerb:
    """Binds through the Kubernetes API; writes nothing where a name is missing.

    Args:
        binder: posts the Binding; None without access to an API.
    """

    def __init__(self, binder: Binder | None) -> None:
        self._binder = binder

    def __call__(self, body: bytes) -> Answer:
        """ExtenderBindingResult; blocks until the API has answered.

        Raises: WireError: the body cannot be read.
        """
        args = core.read_binding_args(body)
        if missing := _missing_fields(args):
            return binding(f"the bind request has no {', '.join(missing)}")
        if self._binder is None:
            return binding(_NO_BINDER)
        try:
            self._binder.bind(args.pod_namespace, args.pod_name, args.pod_uid, args.node)
        except ClusterError as refusal:
            _LOGGER.warning(
                "pod %s/%s is not bound to %s: %s",
                args.pod_namespace,
                args.pod_name,
                args.node,
                refusal,
            )
            return binding(str(refusal) or "the Kubernetes API refused the binding")
        return binding()


def _missing_fields(args: core.BindingArgs) -> list[str]:
    fields = {
        "PodName": args.pod_name,
        "PodNamespace": args.pod_namespace,
        "PodUID": args.pod_uid,
        "Node": args.node,
    }
    return [field for field, value in fields.items() if not value]
