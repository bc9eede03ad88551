//! What a filter says of nodes.

use std::borrow::Cow;

use super::mask::Mask;

/// Some nodes, and why they are rejected.
#[derive(Debug, Clone)]
pub struct Rejection {
    /// One bit a node.
    pub nodes: Mask,
    /// Short and stable: kube-scheduler counts equal ones together.
    pub reason: Cow<'static, str>,
    /// `FailedAndUnresolvableNodes`; else `FailedNodes`, where preemption may help.
    pub unresolvable: bool,
}
