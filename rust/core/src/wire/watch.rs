//! Parses lists and watch events of the Kubernetes API, and applies them to stores.

use std::borrow::Cow;
use std::sync::Arc;

use super::cursor::{Cursor, Result};
use super::decode::{Decode, decode_field, field, object};
use super::details::Placed;
use super::error::{Problem, Step, WireError};
use super::node::WireNode;
use super::pod::WirePod;
use crate::node::{Node, NodeStore, Parts};
use crate::pod::{Pod, PodStore};

/// A store that list and watch fill: `NodeStore` or `PodStore`.
pub trait Watched {
    /// The type of the stored objects: a node or a pod.
    type Object;

    /// The error message for a list whose items are null.
    const NO_LIST: &'static str;
    /// The error message for an object without a name.
    const NO_NAME: &'static str;

    /// The optional parts of objects that the store keeps.
    fn parts(&self) -> Parts;

    /// Parses one object; None if it has no name.
    #[doc(hidden)]
    fn read(&self, place: Place<'_, '_>) -> Result<Option<Read<Self::Object>>>;

    /// Returns the name of an object.
    fn name(object: &Self::Object) -> &str;

    /// Stores an added or modified object. Returns true if any field changed that plugins read.
    #[doc(hidden)]
    fn take(&self, object: &Arc<Self::Object>) -> bool;

    /// Removes an object. Returns true if the object was stored.
    #[doc(hidden)]
    fn drop_one(&self, object: &Self::Object) -> bool;

    /// Replaces the content of the store by these objects. Returns true if any field changed that
    /// plugins read.
    #[doc(hidden)]
    fn take_all(&self, listed: &[Arc<Self::Object>]) -> bool;
}

/// The place of an object in a body that is parsed.
#[derive(Debug)]
pub struct Place<'c, 'a>(&'c mut Cursor<'a>);

/// A parsed object and its resourceVersion.
#[derive(Debug)]
pub struct Read<T> {
    object: Arc<T>,
    resource_version: String,
}

impl Watched for NodeStore {
    type Object = Node;

    const NO_LIST: &'static str = "a list of nodes was expected, found null";
    const NO_NAME: &'static str = "a node without metadata.name";

    fn parts(&self) -> Parts {
        self.table().parts()
    }

    fn read(&self, place: Place<'_, '_>) -> Result<Option<Read<Node>>> {
        let mut wire = Placed::<WireNode>::default();
        wire.decode(place.0)?;
        let meta = &wire.object.metadata;
        if meta.name.is_empty() {
            return Ok(None);
        }
        Ok(Some(Read {
            resource_version: meta.resource_version.to_string(),
            object: Arc::new(self.with_strings(|strings| wire.into_node(strings, place.0))),
        }))
    }

    fn name(node: &Node) -> &str {
        node.name()
    }

    fn take(&self, node: &Arc<Node>) -> bool {
        self.applied(node.clone())
    }

    fn drop_one(&self, node: &Node) -> bool {
        self.deleted(node.name())
    }

    fn take_all(&self, listed: &[Arc<Node>]) -> bool {
        self.replace(listed)
    }
}

impl Watched for PodStore {
    type Object = Pod;

    const NO_LIST: &'static str = "a list of pods was expected, found null";
    const NO_NAME: &'static str = "a pod without metadata.name";

    fn parts(&self) -> Parts {
        self.kept_parts()
    }

    fn read(&self, place: Place<'_, '_>) -> Result<Option<Read<Pod>>> {
        let mut wire = Placed::<WirePod>::default();
        wire.decode(place.0)?;
        let meta = &wire.object.metadata;
        if meta.name.is_empty() {
            return Ok(None);
        }
        Ok(Some(Read {
            resource_version: meta.resource_version.to_string(),
            object: self.shared(wire.into_pod(place.0)),
        }))
    }

    fn name(pod: &Pod) -> &str {
        &pod.name
    }

    fn take(&self, pod: &Arc<Pod>) -> bool {
        self.applied(pod)
    }

    fn drop_one(&self, pod: &Pod) -> bool {
        self.deleted(pod)
    }

    fn take_all(&self, listed: &[Arc<Pod>]) -> bool {
        self.replace(listed)
    }
}

/// A list that is parsed page by page, and replaces the content of a store when it is committed.
#[derive(Debug)]
pub struct Relist<S: Watched> {
    store: Arc<S>,
    listed: Vec<Arc<S::Object>>,
}

/// The metadata of one page of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListPage {
    /// `metadata.resourceVersion`
    pub resource_version: String,
    /// `metadata.continue`; empty on the last page.
    pub continue_token: String,
    /// How many objects the page has.
    pub items: usize,
}

impl<S: Watched> Relist<S> {
    /// Begins a list for `store`.
    pub fn begin(store: Arc<S>) -> Self {
        Self {
            store,
            listed: Vec::new(),
        }
    }

    /// Parses one page of a `NodeList` or a `PodList`, and adds its objects to the list.
    ///
    /// # Errors
    /// The bytes are no list of named objects of the store's kind; nothing of the page is kept.
    pub fn page(&mut self, bytes: &[u8]) -> Result<ListPage> {
        let mut cursor = Cursor::watched(bytes)?.with_parts(self.store.parts());
        let mut meta = ListMeta::default();
        let mut objects = Vec::new();
        let object = cursor.object(|cursor, key| match field(&key, &["metadata", "items"]) {
            Some("items") => cursor
                .list(|cursor, _| {
                    objects.push(named(&*self.store, cursor)?.object);
                    Ok(())
                })
                .map(drop)
                .map_err(|error| error.inside(Step::Field("items"))),
            Some(name) => decode_field(cursor, name, &mut meta),
            None => cursor.skip_value(),
        })?;
        cursor.finish()?;
        if !object {
            return Err(unusable(0, S::NO_LIST));
        }
        let page = ListPage {
            resource_version: meta.resource_version.into_owned(),
            continue_token: meta.continue_token.into_owned(),
            items: objects.len(),
        };
        self.listed.append(&mut objects);
        Ok(page)
    }

    /// Replaces the content of the store by the listed objects, in one step.
    ///
    /// True if any field changed that plugins read.
    pub fn commit(self) -> bool {
        self.store.take_all(&self.listed)
    }
}

/// Replaces the content of a store by one list; returns the list's resourceVersion.
///
/// # Errors
/// The bytes are no list of named objects of the store's kind, or only one page of a list: to store
/// one page would drop the objects of the other pages. The store is unchanged.
pub fn replace<S: Watched>(store: &Arc<S>, bytes: &[u8]) -> Result<String> {
    let mut relist = Relist::begin(store.clone());
    let page = relist.page(bytes)?;
    if !page.continue_token.is_empty() {
        return Err(unusable(
            0,
            "a page of a list that goes on, not the whole list",
        ));
    }
    relist.commit();
    Ok(page.resource_version)
}

/// A parsed watch event, and whether it changed a field that plugins read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchEvent<T> {
    /// ADDED, MODIFIED, DELETED, BOOKMARK or ERROR.
    pub kind: String,
    /// The object's name; empty for BOOKMARK and ERROR.
    pub name: String,
    /// `metadata.resourceVersion` of the event's object.
    pub resource_version: String,
    /// Whether any field changed that plugins read.
    pub changed: bool,
    /// The code of an ERROR's Status, else 0.
    pub code: i32,
    /// The message of an ERROR's Status.
    pub message: String,
    /// The object in the event; None for BOOKMARK and ERROR.
    pub object: Option<Arc<T>>,
}

impl<T> Default for WatchEvent<T> {
    fn default() -> Self {
        Self {
            kind: String::new(),
            name: String::new(),
            resource_version: String::new(),
            changed: false,
            code: 0,
            message: String::new(),
            object: None,
        }
    }
}

/// Parses one watch event, and applies it to the store.
///
/// # Errors
/// The bytes are no event of an object of the store's kind; the store is unchanged.
pub fn apply<S: Watched>(store: &S, bytes: &[u8]) -> Result<WatchEvent<S::Object>> {
    let mut cursor = Cursor::watched(bytes)?.with_parts(store.parts());
    let mut kind = Cow::Borrowed("");
    let mut object = (0, 0);
    let mut read = None;
    cursor.object(|cursor, key| match field(&key, &["type", "object"]) {
        Some("type") => decode_field(cursor, "type", &mut kind),
        Some("object") => {
            let start = cursor.pos();
            // The API writes the type first. An object that comes before the type is passed over
            // and read later.
            read = match &*kind {
                "ADDED" | "MODIFIED" | "DELETED" => Some(named(store, cursor)?),
                _ => cursor.skip_value().map(|()| None)?,
            };
            object = (start, cursor.pos());
            Ok(())
        }
        _ => cursor.skip_value(),
    })?;
    cursor.finish()?;
    let (start, end) = object;
    let mut inner = Cursor::watched(&bytes[..end])?.with_parts(store.parts());
    inner.pass_known(start)?;
    if start == end {
        return Err(unusable(end, "a watch event without an object"));
    }
    let event = match &*kind {
        "ADDED" | "MODIFIED" | "DELETED" => {
            let read = read.map_or_else(|| named(store, &mut inner), Ok)?;
            object_event(store, &kind, read)
        }
        "BOOKMARK" => bookmark(&mut inner)?,
        "ERROR" => failure(&mut inner)?,
        _ => return Err(unusable(0, "a watch event of an unknown type")),
    };
    Ok(WatchEvent {
        kind: kind.into_owned(),
        ..event
    })
}

fn object_event<S: Watched>(
    store: &S,
    kind: &str,
    Read {
        object,
        resource_version,
    }: Read<S::Object>,
) -> WatchEvent<S::Object> {
    let changed = if kind == "DELETED" {
        store.drop_one(&object)
    } else {
        store.take(&object)
    };
    WatchEvent {
        name: S::name(&object).to_owned(),
        resource_version,
        changed,
        object: Some(object),
        ..WatchEvent::default()
    }
}

fn named<S: Watched>(store: &S, cursor: &mut Cursor<'_>) -> Result<Read<S::Object>> {
    let start = cursor.pos();
    let read = store.read(Place(cursor))?;
    read.ok_or_else(|| unusable(start, S::NO_NAME))
}

fn bookmark<T>(cursor: &mut Cursor<'_>) -> Result<WatchEvent<T>> {
    let mut mark = Bookmark::default();
    mark.decode(cursor)?;
    Ok(WatchEvent {
        resource_version: mark.metadata.resource_version.into_owned(),
        ..WatchEvent::default()
    })
}

fn failure<T>(cursor: &mut Cursor<'_>) -> Result<WatchEvent<T>> {
    let mut status = Status::default();
    status.decode(cursor)?;
    Ok(WatchEvent {
        code: status.code,
        message: status.message.into_owned(),
        ..WatchEvent::default()
    })
}

fn unusable(offset: usize, why: &'static str) -> WireError {
    WireError::new(offset, Problem::Unusable(why))
}

object! {
    struct ListMeta<'a> {
        "resourceVersion" => resource_version: Cow<'a, str>,
        "continue" => continue_token: Cow<'a, str>,
    }
}

object! {
    struct Bookmark<'a> {
        "metadata" => metadata: ListMeta<'a>,
    }
}

object! {
    struct Status<'a> {
        "code" => code: i32,
        "message" => message: Cow<'a, str>,
    }
}
