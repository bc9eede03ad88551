"""The public face of the native core: usable with no server and no cluster.

Reads what kube-scheduler sends an extender, keeps nodes, filters by label, normalises scores and
writes answers. Must import nothing but the native module.
"""

from kubextend._native import (
    BindingArgs,
    ExtenderArgs,
    KubextendError,
    ListPage,
    Mask,
    NativePlugin,
    Nodes,
    NodeStore,
    NodeStoreStats,
    Pod,
    PreemptionArgs,
    Relist,
    Selector,
    WatchEvent,
    WireError,
    checked_scores,
    normalize,
    read_args,
    read_binding_args,
    read_preemption_args,
    weigh,
)

__all__ = [
    "BindingArgs",
    "ExtenderArgs",
    "KubextendError",
    "ListPage",
    "Mask",
    "NativePlugin",
    "NodeStore",
    "NodeStoreStats",
    "Nodes",
    "Pod",
    "PreemptionArgs",
    "Relist",
    "Selector",
    "WatchEvent",
    "WireError",
    "checked_scores",
    "normalize",
    "read_args",
    "read_binding_args",
    "read_preemption_args",
    "weigh",
]
