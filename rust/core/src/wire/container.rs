//! Parses the requests of a pod's containers, and the resources that the node has given them.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use ahash::RandomState;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, Map, Slice, object};
use super::details::Detail;
use super::pod_details::WirePort;
use super::quantity::WireQuantity;
use crate::pod::{Container, ContainerResources, Held};

object! {
    pub(crate) struct WireContainer<'a> {
        "name" => name: Cow<'a, str>,
        "resources" => resources: Resources<'a>,
        "restartPolicy" => restart_policy: RestartPolicy,
        "image" => pub(crate) image: Detail<Cow<'a, str>>,
        "ports" => pub(crate) ports: Detail<Slice<WirePort<'a>>>,
    }
}

/// The `restartPolicy` of a container. Small, because a body may have very many containers.
#[derive(Debug, Default)]
struct RestartPolicy {
    is_always: bool,
}

impl<'a> Decode<'a> for RestartPolicy {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        self.is_always = cursor.string()?.as_deref() == Some("Always");
        Ok(())
    }
}

object! {
    pub(crate) struct Resources<'a> {
        "requests" => pub(crate) requests: Map<'a, WireQuantity>,
        "limits" => pub(crate) limits: Map<'a, WireQuantity>,
    }
}

object! {
    pub(crate) struct WireContainerStatus<'a> {
        "name" => name: Cow<'a, str>,
        "resources" => resources: Option<Resources<'a>>,
        "allocatedResources" => allocated_resources: Map<'a, WireQuantity>,
    }
}

/// The container statuses of a pod by name; of equal names the last counts.
pub(crate) struct Statuses<'a>(HashMap<Cow<'a, str>, (Arc<Held>, u32), RandomState>);

impl WireContainer<'_> {
    /// Whether an init container with these fields keeps running.
    pub(crate) fn is_sidecar(&self) -> bool {
        self.restart_policy.is_always
    }
}

/// The most containers of one name for which a status counts. kube-apiserver lets no two containers
/// have one name; the time to read a body in which they do must not be the product of its
/// containers and the size of a status.
const MOST_OF_ONE_NAME: u32 = 16;

impl<'a> Statuses<'a> {
    pub(crate) fn of(
        containers: Slice<WireContainerStatus<'a>>,
        init_containers: Slice<WireContainerStatus<'a>>,
    ) -> Self {
        let mut all = HashMap::default();
        let containers = containers.into_vec().into_iter();
        for status in containers.chain(init_containers.into_vec()) {
            match held(status.resources, status.allocated_resources) {
                Some(held) => all.insert(status.name, (Arc::new(held), MOST_OF_ONE_NAME)),
                None => all.remove(&status.name),
            };
        }
        Self(all)
    }

    fn held_by(&mut self, name: &str) -> Option<Arc<Held>> {
        let (held, left) = self.0.get_mut(name)?;
        *left = left.checked_sub(1)?;
        Some(held.clone())
    }

    /// Joins the containers of a pod's spec with the containers' statuses.
    pub(crate) fn joined_with(
        &mut self,
        containers: Vec<WireContainer<'a>>,
    ) -> (Vec<ContainerResources>, Vec<Container>) {
        let containers = containers.into_iter();
        containers.map(|container| self.joined(container)).unzip()
    }

    fn joined(&mut self, wire: WireContainer<'a>) -> (ContainerResources, Container) {
        let sidecar = wire.is_sidecar();
        let resources = ContainerResources {
            requests: wire.resources.requests.into(),
            limits: wire.resources.limits.into(),
            held: self.held_by(&wire.name),
            sidecar,
        };
        let container = Container {
            name: wire.name.into(),
            requests: resources.requests.amounts(),
            limits: resources.limits.amounts(),
            sidecar: resources.sidecar,
        };
        (resources, container)
    }
}

/// Returns the resources that a container's status reports; None if it has no `resources`, whatever
/// was allocated.
pub(crate) fn held(
    resources: Option<Resources<'_>>,
    allocated: Map<'_, WireQuantity>,
) -> Option<Held> {
    Some(Held {
        actuated: resources?.requests.into(),
        allocated: allocated.into(),
    })
}
