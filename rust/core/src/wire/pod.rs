//! Parses a v1.Pod: decodes the fields that plugins read, and skips all others.

use std::borrow::Cow;
use std::sync::Arc;

use super::affinity::Affinity;
use super::container::{Resources, Statuses, WireContainer, WireContainerStatus, held};
use super::cursor::Result;
use super::decode::{Map, Slice, converted, object};
use super::error::{Problem, WireError};
use super::quantity::WireQuantity;
use super::time::WireTime;
use crate::labels::{RequiredNodeAffinity, Toleration};
use crate::pod::{ContainerResources, Missing, Pod, PodResources, Word, qos_class, word};

object! {
    pub(crate) struct WirePod<'a> {
        "metadata" => pub(crate) metadata: PodMeta<'a>,
        "spec" => spec: PodSpec<'a>,
        "status" => status: PodStatus<'a>,
    }
}

object! {
    pub(crate) struct PodMeta<'a> {
        "name" => pub(crate) name: Cow<'a, str>,
        "namespace" => namespace: Cow<'a, str>,
        "uid" => uid: Cow<'a, str>,
        "resourceVersion" => pub(crate) resource_version: Cow<'a, str>,
        "generation" => generation: i64,
        "creationTimestamp" => creation_timestamp: WireTime<'a>,
        "deletionTimestamp" => deletion_timestamp: Option<WireTime<'a>>,
        "labels" => labels: Map<'a, Cow<'a, str>>,
        "annotations" => annotations: Map<'a, Cow<'a, str>>,
    }
}

object! {
    struct PodSpec<'a> {
        "schedulerName" => scheduler_name: Cow<'a, str>,
        "nodeName" => node_name: Cow<'a, str>,
        "priority" => priority: Option<i32>,
        "nodeSelector" => node_selector: Map<'a, Cow<'a, str>>,
        "tolerations" => tolerations: Slice<WireToleration<'a>>,
        "affinity" => affinity: Option<Affinity<'a>>,
        "containers" => containers: Slice<WireContainer<'a>>,
        "initContainers" => init_containers: Slice<WireContainer<'a>>,
        "resources" => resources: Option<Resources<'a>>,
        "overhead" => overhead: Map<'a, WireQuantity>,
        "schedulingGates" => scheduling_gates: Slice<Gate<'a>>,
        "schedulingGroup" => scheduling_group: Option<SchedulingGroup<'a>>,
    }
}

object! {
    struct SchedulingGroup<'a> {
        "podGroupName" => pod_group_name: Option<Cow<'a, str>>,
    }
}

object! {
    struct Gate<'a> {
        "name" => name: Cow<'a, str>,
    }
}

object! {
    struct PodStatus<'a> {
        "phase" => phase: Cow<'a, str>,
        "qosClass" => qos_class: Cow<'a, str>,
        "nominatedNodeName" => nominated_node_name: Cow<'a, str>,
        "startTime" => start_time: Option<WireTime<'a>>,
        "conditions" => conditions: Slice<Condition<'a>>,
        "containerStatuses" => container_statuses: Slice<WireContainerStatus<'a>>,
        "initContainerStatuses" => init_container_statuses: Slice<WireContainerStatus<'a>>,
        "resources" => resources: Option<Resources<'a>>,
        "allocatedResources" => allocated_resources: Map<'a, WireQuantity>,
    }
}

object! {
    struct Condition<'a> {
        "type" => kind: Cow<'a, str>,
        "reason" => reason: Cow<'a, str>,
    }
}

object! {
    struct WireToleration<'a> {
        "key" => key: Cow<'a, str>,
        "operator" => operator: Cow<'a, str>,
        "value" => value: Cow<'a, str>,
        "effect" => effect: Cow<'a, str>,
    }
}

impl From<WirePod<'_>> for Pod {
    fn from(
        WirePod {
            metadata,
            spec,
            status,
        }: WirePod<'_>,
    ) -> Self {
        let node_affinity = spec
            .affinity
            .and_then(|affinity| affinity.node_affinity)
            .unwrap_or_default();
        let conditions = status.conditions.into_vec();
        let mut statuses = Statuses::of(status.container_statuses, status.init_container_statuses);
        let (asked, containers) = statuses.joined_with(spec.containers);
        let (asked_first, init_containers) = statuses.joined_with(spec.init_containers);
        let whole_is_given = spec.resources.is_some();
        let whole = spec.resources.unwrap_or_default();
        let resources = PodResources {
            containers: asked,
            init_containers: asked_first,
            whole_is_given,
            whole: ContainerResources {
                requests: whole.requests.into(),
                limits: whole.limits.into(),
                held: held(status.resources, status.allocated_resources).map(Arc::new),
                sidecar: false,
            },
            overhead: spec.overhead.into(),
            resize_refused: resize_refused(&conditions),
        };
        Self {
            name: metadata.name.into_owned(),
            namespace: word(&metadata.namespace),
            uid: metadata.uid.into_owned(),
            labels: owned(metadata.labels).into(),
            annotations: owned(metadata.annotations).into(),
            generation: metadata.generation,
            creation_timestamp: metadata.creation_timestamp.0.into(),
            deletion_timestamp: metadata.deletion_timestamp.map(|time| time.0.into()),
            scheduler_name: word(&spec.scheduler_name),
            node_name: word(&spec.node_name),
            priority: spec.priority,
            tolerations: converted(spec.tolerations).into(),
            required: Arc::new(RequiredNodeAffinity {
                node_selector: owned(spec.node_selector),
                terms: node_affinity.required.map(|node| converted(node.terms)),
            }),
            preferred: converted(node_affinity.preferred).into(),
            containers: containers.into(),
            init_containers: init_containers.into(),
            requests: resources.requests().amounts(),
            requests_with_defaults: resources.requests_with_defaults(),
            overhead: resources.overhead.amounts(),
            scheduling_gates: converted(spec.scheduling_gates).into(),
            scheduling_group: scheduling_group(spec.scheduling_group),
            phase: word(&status.phase),
            qos_class: match &*status.qos_class {
                "" => qos_class(&resources),
                given => word(given),
            },
            scheduled_reason: scheduled_reason(&conditions),
            nominated_node_name: status.nominated_node_name.into(),
            start_time: status.start_time.map(|time| time.0.into()),
            missing: Missing::default(),
        }
    }
}

/// Returns the name of the pod's `PodGroup`; "" without one.
fn scheduling_group(group: Option<SchedulingGroup<'_>>) -> Word {
    word(
        &group
            .and_then(|group| group.pod_group_name)
            .unwrap_or_default(),
    )
}

/// Whether the pod's first condition about a pending resize says that the node cannot resize the
/// pod.
fn resize_refused(conditions: &[Condition<'_>]) -> bool {
    reason_of("PodResizePending", conditions) == Some("Infeasible")
}

/// Returns the reason of the condition `PodScheduled`; "" without one.
fn scheduled_reason(conditions: &[Condition<'_>]) -> Word {
    word(reason_of("PodScheduled", conditions).unwrap_or_default())
}

fn reason_of<'a>(kind: &str, conditions: &'a [Condition<'_>]) -> Option<&'a str> {
    let mut conditions = conditions.iter();
    let found = conditions.find(|condition| condition.kind == kind)?;
    Some(&found.reason)
}

impl From<Gate<'_>> for Box<str> {
    fn from(gate: Gate<'_>) -> Self {
        gate.name.into()
    }
}

fn owned(map: Map<'_, Cow<'_, str>>) -> Vec<(String, String)> {
    map.into_sorted()
        .into_iter()
        .map(|(key, value)| (key.into_owned(), value.into_owned()))
        .collect()
}

impl From<WireToleration<'_>> for Toleration {
    fn from(wire: WireToleration<'_>) -> Self {
        Self {
            key: wire.key.into_owned(),
            operator: wire.operator.into_owned(),
            value: wire.value.into_owned(),
            effect: wire.effect.into_owned(),
        }
    }
}

/// The most node affinity conditions of a pod in a request. Each condition is compared with each
/// node, as in kube-scheduler; usual pods have a few.
const MOST_CONDITIONS: usize = 1000;

/// Converts the pod of a request, and checks the size of its node affinity.
///
/// # Errors
/// The pod's node affinity has more than `MOST_CONDITIONS` conditions: one such pod would keep a
/// thread for seconds.
pub(crate) fn asked_about(wire: WirePod<'_>) -> Result<Pod> {
    let pod = Pod::from(wire);
    let required = pod.required.terms.iter().flatten();
    let preferred = pod.preferred.iter().map(|term| &term.preference);
    let conditions = required
        .chain(preferred)
        .map(|term| term.match_expressions.len() + term.match_fields.len());
    if conditions.sum::<usize>() > MOST_CONDITIONS {
        return Err(WireError::new(0, Problem::Unusable(TOO_MANY)));
    }
    Ok(pod)
}

const TOO_MANY: &str = "a pod whose node affinity has more than 1000 conditions";

#[cfg(test)]
pub(crate) fn parsed(bytes: &[u8]) -> Result<Pod> {
    use super::cursor::Cursor;
    use super::decode::Decode;

    let mut wire = WirePod::default();
    wire.decode(&mut Cursor::new(bytes)?)?;
    Ok(wire.into())
}
