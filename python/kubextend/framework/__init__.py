"""The API for authors of plugins: the plugin interfaces, Status, CycleState and Handle."""

from kubextend.framework.admission import (
    AdmissionPlugin,
    AdmissionRules,
    PreferredNodes,
    RequiredNodes,
)
from kubextend.framework.cycle_state import CycleState
from kubextend.framework.events import PluginEvents
from kubextend.framework.handle import Handle, HeldPod, HeldPods
from kubextend.framework.informer import Informer, KubeObject
from kubextend.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    NormalizeScorePlugin,
    PermitPlugin,
    PerNodeFilterPlugin,
    PerNodeScorePlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueuedPodInfo,
    QueueSortPlugin,
    Rejection,
    ReservePlugin,
    ScorePlugin,
    Scores,
)
from kubextend.framework.plugin_logger import PluginLogger
from kubextend.framework.status import Code, Status

__all__ = [
    "AdmissionPlugin",
    "AdmissionRules",
    "BindPlugin",
    "Code",
    "CycleState",
    "FilterPlugin",
    "Handle",
    "HeldPod",
    "HeldPods",
    "Informer",
    "KubeObject",
    "NormalizeScorePlugin",
    "PerNodeFilterPlugin",
    "PerNodeScorePlugin",
    "PermitPlugin",
    "Plugin",
    "PluginEvents",
    "PluginLogger",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PreBindPlugin",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "PreferredNodes",
    "QueueSortPlugin",
    "QueuedPodInfo",
    "Rejection",
    "RequiredNodes",
    "ReservePlugin",
    "ScorePlugin",
    "Scores",
    "Status",
]
