//! `Rejection`: a set of nodes that a filter rejects for one reason.

use std::borrow::Cow;

use super::mask::Mask;

/// A set of nodes that a filter rejects for one reason.
#[derive(Debug, Clone)]
pub struct Rejection {
    /// One bit for each node of the request; a set bit rejects the node.
    pub nodes: Mask,
    /// A short, stable text; kube-scheduler counts the nodes with equal texts together.
    pub reason: Cow<'static, str>,
    /// True lists the nodes in `FailedAndUnresolvableNodes`, false in `FailedNodes`, where
    /// preemption may help.
    pub unresolvable: bool,
}
