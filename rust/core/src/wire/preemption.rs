//! `PreemptionArgs`: parses preempt requests, and writes their responses.

use std::borrow::Cow;
use std::sync::Arc;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, Map, Slice, decode_struct, object};
use super::details::Placed;
use super::pod::{WirePod, asked_about};
use super::write;
use crate::node::{Mask, NodeTable, Nodes};
use crate::pod::{Pod, PodSnapshot};

/// A parsed preempt request.
#[derive(Debug)]
pub struct PreemptionArgs {
    pod: Option<Arc<Pod>>,
    nodes: Arc<Nodes>,
    victims: Vec<Victims>,
}

/// The pods that would be evicted for one candidate node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Victims {
    /// The UIDs of the victims on the candidate node, in the request's order: kube-scheduler puts
    /// the most important pod first. A victim whose node the request does not say is one of these.
    pub uids: Vec<String>,
    /// The node's name and the UID of each victim on another node.
    pub elsewhere: Vec<(String, String)>,
    /// How many violations of disruption budgets the eviction of the victims causes.
    pub pdb_violations: i64,
}

impl PreemptionArgs {
    /// The pod that preempts; None if it is null or absent.
    pub fn pod(&self) -> Option<&Arc<Pod>> {
        self.pod.as_ref()
    }

    /// The candidate nodes (on which kube-scheduler would evict pods), ordered by name as Go writes
    /// them.
    pub fn nodes(&self) -> &Arc<Nodes> {
        &self.nodes
    }

    /// The victims (pods to evict) of each candidate node, in the order of `nodes`.
    pub fn victims(&self) -> &[Victims] {
        &self.victims
    }

    /// Returns a snapshot in which each candidate node lacks its victims. The victims on other nodes
    /// stay.
    pub fn pods_left(&self, pods: &PodSnapshot) -> PodSnapshot {
        let victims = self.victims.iter().enumerate();
        pods.without(victims.map(|(at, of_node)| (self.nodes.name(at), &*of_node.uids)))
    }

    /// Writes an `ExtenderPreemptionResult` with the candidate nodes of the mask and their victims,
    /// in the form that every kube-scheduler reads. The response has no null, because a null would
    /// crash kube-scheduler.
    ///
    /// kube-scheduler refuses an answer that names a victim on another node than the candidate's, so
    /// such victims are left out.
    pub fn result(&self, kept: &Mask) -> Vec<u8> {
        let mut out = br#"{"NodeNameToMetaVictims":{"#.to_vec();
        for (i, at) in kept.indices().enumerate() {
            write::separate(&mut out, i > 0);
            write::string(&mut out, self.nodes.name(at));
            self.victims[at].write(&mut out);
        }
        out.extend_from_slice(b"}}");
        out
    }
}

object! {
    struct WirePreemption<'a> {
        "Pod" => pod: Option<Placed<WirePod<'a>>>,
        "NodeNameToVictims" => victims: Map<'a, Option<WireVictims<VictimPod<'a>>>>,
        "NodeNameToMetaVictims" => meta_victims: Map<'a, Option<WireVictims<MetaPod<'a>>>>,
    }
}

#[derive(Debug)]
struct WireVictims<P> {
    pods: Slice<Option<P>>,
    pdb_violations: i64,
}

impl<P> Default for WireVictims<P> {
    fn default() -> Self {
        Self {
            pods: Slice::default(),
            pdb_violations: 0,
        }
    }
}

object! {
    /// A victim that the request has as a whole pod; only its UID and its node are decoded.
    struct VictimPod<'a> {
        "metadata" => metadata: VictimMeta<'a>,
        "spec" => spec: VictimSpec<'a>,
    }
}

object! {
    struct VictimSpec<'a> {
        "nodeName" => node: Cow<'a, str>,
    }
}

object! {
    struct VictimMeta<'a> {
        "uid" => uid: Cow<'a, str>,
    }
}

object! {
    struct MetaPod<'a> {
        "UID" => uid: Cow<'a, str>,
    }
}

impl<'a, P: Decode<'a> + Default> Decode<'a> for WireVictims<P> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        decode_struct!(cursor, {
            "Pods" => self.pods,
            "NumPDBViolations" => self.pdb_violations,
        })
        .map(drop)
    }
}

trait Victim {
    /// Returns the UID, and the name of the node; the name is empty if the request does not say it.
    fn uid_and_node(self) -> (String, String);
}

impl Victim for VictimPod<'_> {
    fn uid_and_node(self) -> (String, String) {
        let uid = self.metadata.uid.into_owned();
        (uid, self.spec.node.into_owned())
    }
}

impl Victim for MetaPod<'_> {
    fn uid_and_node(self) -> (String, String) {
        (self.uid.into_owned(), String::new())
    }
}

impl Victims {
    fn of<P: Victim>(candidate: &str, wire: WireVictims<P>) -> Self {
        let mut victims = Self {
            pdb_violations: wire.pdb_violations,
            ..Self::default()
        };
        for pod in wire.pods.into_vec().into_iter().flatten() {
            let (uid, node) = pod.uid_and_node();
            if node.is_empty() || node == candidate {
                victims.uids.push(uid);
            } else {
                victims.elsewhere.push((node, uid));
            }
        }
        victims
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#":{"Pods":["#);
        for (i, uid) in self.uids.iter().enumerate() {
            write::separate(out, i > 0);
            out.extend_from_slice(br#"{"UID":"#);
            write::string(out, uid);
            out.push(b'}');
        }
        out.extend_from_slice(br#"],"NumPDBViolations":"#);
        write::integer(out, self.pdb_violations);
        out.push(b'}');
    }
}

/// Converts the candidate nodes of a request; leaves out a candidate whose victims are null.
fn candidates<P: Victim>(
    map: Map<'_, Option<WireVictims<P>>>,
) -> impl Iterator<Item = (Cow<'_, str>, Victims)> {
    map.into_sorted().into_iter().filter_map(|(name, victims)| {
        let victims = Victims::of(&name, victims?);
        Some((name, victims))
    })
}

/// Parses a preempt request; looks up the candidate nodes in the table of a store.
///
/// # Errors
/// The body is not one JSON value of the right shape.
pub fn read_preemption_args(body: &[u8], table: Option<&NodeTable>) -> Result<PreemptionArgs> {
    let parts = table.map(NodeTable::parts).unwrap_or_default();
    let mut cursor = Cursor::new(body)?.with_parts(parts);
    let mut wire = WirePreemption::default();
    wire.decode(&mut cursor)?;
    cursor.finish()?;
    let pod = wire.pod.map(|pod| asked_about(pod, &cursor));
    let mut found: Vec<_> = candidates(wire.meta_victims).collect();
    if found.is_empty() {
        found = candidates(wire.victims).collect();
    }
    let snapshot = table.map(NodeTable::snapshot);
    let mut nodes = Nodes::over(snapshot.unwrap_or_default(), found.len());
    let mut victims = Vec::with_capacity(found.len());
    for (name, of_node) in found {
        nodes.push_name(&name);
        victims.push(of_node);
    }
    Ok(PreemptionArgs {
        pod: pod.transpose()?.map(Arc::new),
        nodes: Arc::new(nodes),
        victims,
    })
}
