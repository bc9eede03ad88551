//! `BindingArgs`: parses bind requests (`ExtenderBindingArgs`).

use std::borrow::Cow;

use super::cursor::{Cursor, Result, refuse_longer};
use super::decode::{Decode, object};

/// A parsed bind request: the pod, and the node to bind it to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BindingArgs {
    /// `PodName`
    pub pod_name: String,
    /// `PodNamespace`
    pub pod_namespace: String,
    /// `PodUID`
    pub pod_uid: String,
    /// `Node`
    pub node: String,
}

object! {
    struct WireBinding<'a> {
        "PodName" => pod_name: Cow<'a, str>,
        "PodNamespace" => pod_namespace: Cow<'a, str>,
        "PodUID" => pod_uid: Cow<'a, str>,
        "Node" => node: Cow<'a, str>,
    }
}

/// The most bytes of a bind request, whose four names of at most 253 bytes need far fewer.
const MOST_BYTES: usize = 64 << 10;

/// Parses a bind request.
///
/// # Errors
/// The body is not one JSON value of the right shape, or longer than 64 KiB.
///
/// ```
/// let body = br#"{"PodName":"p","PodNamespace":"ml","PodUID":"u-1","Node":"n1"}"#;
/// assert_eq!(kubextend_core::wire::read_binding_args(body)?.node, "n1");
/// # Ok::<(), kubextend_core::wire::WireError>(())
/// ```
pub fn read_binding_args(body: &[u8]) -> Result<BindingArgs> {
    refuse_longer(body, MOST_BYTES)?;
    let mut cursor = Cursor::new(body)?;
    let mut wire = WireBinding::default();
    wire.decode(&mut cursor)?;
    cursor.finish()?;
    Ok(BindingArgs {
        pod_name: wire.pod_name.into_owned(),
        pod_namespace: wire.pod_namespace.into_owned(),
        pod_uid: wire.pod_uid.into_owned(),
        node: wire.node.into_owned(),
    })
}
