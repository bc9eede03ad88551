//! Reading requests: the same as a slow reading by Go's rules, whatever keys, cases, nulls,
//! repetitions, escapes and white space a body has.

#![allow(clippy::unwrap_used, missing_docs)]

mod common;
#[path = "common/go.rs"]
mod go;

use common::{all_escaped, json, label, names, read};
use go::{Json, Type, Value};
use kubextend_core::labels::{NodeSelectorRequirement, Quantity};
use kubextend_core::node::{Body, RequestStore};
use kubextend_core::pod::{Container, Pod};
use kubextend_core::wire::{
    self, BindingArgs, ExtenderArgs, MAX_DEPTH, Problem, read_binding_args, read_preemption_args,
};
use proptest::prelude::*;

fn pointer(to: Type) -> Type {
    Type::Pointer(Box::new(to))
}

fn list(of: Type) -> Type {
    Type::List(Box::new(of))
}

fn map(of: Type) -> Type {
    Type::Map(Box::new(of))
}

fn texts(names: &[&'static str]) -> Vec<(&'static str, Type)> {
    names.iter().map(|name| (*name, Type::Text)).collect()
}

fn requirements() -> Type {
    let mut fields = texts(&["key", "operator"]);
    fields.push(("values", list(Type::Text)));
    list(Type::Struct(fields))
}

fn term() -> Type {
    Type::Struct(vec![
        ("matchExpressions", requirements()),
        ("matchFields", requirements()),
    ])
}

fn pod_type() -> Type {
    let mut meta = texts(&["name", "namespace", "uid"]);
    meta.push(("labels", map(Type::Text)));
    meta.push(("annotations", map(Type::Text)));
    meta.push(("generation", Type::Int { bits: 64 }));
    let preferred = Type::Struct(vec![
        ("weight", Type::Int { bits: 32 }),
        ("preference", term()),
    ]);
    let required = Type::Struct(vec![("nodeSelectorTerms", list(term()))]);
    let node_affinity = Type::Struct(vec![
        (
            "requiredDuringSchedulingIgnoredDuringExecution",
            pointer(required),
        ),
        (
            "preferredDuringSchedulingIgnoredDuringExecution",
            list(preferred),
        ),
    ]);
    let affinity = Type::Struct(vec![("nodeAffinity", pointer(node_affinity))]);
    let toleration = Type::Struct(texts(&["key", "operator", "value", "effect"]));
    let mut spec = texts(&["schedulerName", "nodeName"]);
    spec.push(("priority", pointer(Type::Int { bits: 32 })));
    spec.push(("nodeSelector", map(Type::Text)));
    spec.push(("tolerations", list(toleration)));
    spec.push(("affinity", pointer(affinity)));
    let mut container = texts(&["name"]);
    container.push(("restartPolicy", pointer(Type::Text)));
    spec.push(("containers", list(Type::Struct(container.clone()))));
    spec.push(("initContainers", list(Type::Struct(container))));
    spec.push(("schedulingGates", list(Type::Struct(texts(&["name"])))));
    let group = Type::Struct(vec![("podGroupName", pointer(Type::Text))]);
    spec.push(("schedulingGroup", pointer(group)));
    let mut status = texts(&["phase", "qosClass", "nominatedNodeName"]);
    let condition = Type::Struct(texts(&["type", "reason"]));
    status.push(("conditions", list(condition)));
    Type::Struct(vec![
        ("metadata", Type::Struct(meta)),
        ("spec", Type::Struct(spec)),
        ("status", Type::Struct(status)),
    ])
}

/// Allocatable is a map of its own texts here; quantities have a table of their own.
fn node_type() -> Type {
    let taint = Type::Struct(texts(&["key", "value", "effect"]));
    let mut meta = texts(&["name", "uid", "resourceVersion"]);
    meta.push(("labels", map(Type::Text)));
    let spec = vec![("unschedulable", Type::Bool), ("taints", list(taint))];
    Type::Struct(vec![
        ("metadata", Type::Struct(meta)),
        ("spec", Type::Struct(spec)),
    ])
}

fn args_type() -> Type {
    Type::Struct(vec![
        ("Pod", pointer(pod_type())),
        ("NodeNames", list(Type::Text)),
    ])
}

fn preemption_type() -> Type {
    let victims = |pod: Type| {
        map(pointer(Type::Struct(vec![
            ("Pods", list(pointer(pod))),
            ("NumPDBViolations", Type::Int { bits: 64 }),
        ])))
    };
    let whole = Type::Struct(vec![
        ("metadata", Type::Struct(texts(&["uid"]))),
        ("spec", Type::Struct(texts(&["nodeName"]))),
    ]);
    Type::Struct(vec![
        ("Pod", pointer(pod_type())),
        ("NodeNameToVictims", victims(whole)),
        (
            "NodeNameToMetaVictims",
            victims(Type::Struct(texts(&["UID"]))),
        ),
    ])
}

fn binding_type() -> Type {
    Type::Struct(texts(&["PodName", "PodNamespace", "PodUID", "Node"]))
}

/// Texts that need escapes, and those that do not.
fn text() -> impl Strategy<Value = String> {
    proptest::sample::select(vec![
        "",
        "a",
        "b",
        "n1",
        "high-comm",
        "Always",
        "PodScheduled",
        "é",
        "😀",
        "\"",
        "\\",
        "\u{1}\n",
        "\u{2028}<>&",
        "ſK",
        "a much longer text than one word of eight bytes",
    ])
    .prop_map(str::to_owned)
}

fn int() -> impl Strategy<Value = Json> {
    prop_oneof![
        6 => (-3..9i64).prop_map(Json::Int),
        1 => Just(Json::Int(i64::from(i32::MAX) + 1)),
        1 => Just(Json::Int(i64::from(i32::MIN))),
        1 => Just(Json::Int(i64::MAX)),
    ]
}

/// Any value that has nothing to do with what is expected.
fn stray() -> BoxedStrategy<Json> {
    prop_oneof![
        Just(Json::Bool(true)),
        int(),
        Just(Json::Float),
        text().prop_map(Json::Text),
        Just(Json::List(vec![Json::Null, Json::Int(1)])),
        Just(Json::Object(vec![("k".to_owned(), Json::List(Vec::new()))])),
    ]
    .boxed()
}

/// A key as it is written: mostly exact, else in another case.
fn spelled(name: &'static str) -> impl Strategy<Value = String> {
    prop_oneof![
        8 => Just(name.to_owned()),
        1 => Just(name.to_lowercase()),
        1 => Just(name.to_uppercase()),
        1 => Just(name.replace('s', "\u{17f}").replace('k', "\u{212a}")),
    ]
}

/// JSON that mostly fits a type: keys repeat, nulls and strangers stand anywhere.
fn fitting(of: &Type) -> BoxedStrategy<Json> {
    let fits: BoxedStrategy<Json> = match of {
        Type::Text => text().prop_map(Json::Text).boxed(),
        Type::Bool => any::<bool>().prop_map(Json::Bool).boxed(),
        Type::Int { .. } => int().boxed(),
        Type::Pointer(of) => return fitting(of),
        Type::List(of) => proptest::collection::vec(fitting(of), 0..4)
            .prop_map(Json::List)
            .boxed(),
        Type::Map(of) => proptest::collection::vec((text(), fitting(of)), 0..4)
            .prop_map(Json::Object)
            .boxed(),
        Type::Struct(fields) => {
            let known: Vec<BoxedStrategy<(String, Json)>> = fields
                .iter()
                .map(|(name, of)| (spelled(name), fitting(of)).boxed())
                .chain([(text(), stray()).boxed()])
                .collect();
            let entry = proptest::strategy::Union::new(known);
            proptest::collection::vec(entry, 0..2 * fields.len() + 1)
                .prop_map(Json::Object)
                .boxed()
        }
    };
    prop_oneof![150 => fits, 8 => Just(Json::Null), 1 => stray()].boxed()
}

/// Writes JSON with the white space and the escapes that `noise` picks.
fn write(json: &Json, noise: &mut impl FnMut() -> u8, out: &mut String) {
    let space =
        |noise: &mut dyn FnMut() -> u8| ["", "", "", " ", "\n\t", "\r "][noise() as usize % 6];
    out.push_str(space(noise));
    match json {
        Json::Null => out.push_str("null"),
        Json::Bool(value) => out.push_str(&value.to_string()),
        Json::Int(value) => out.push_str(&value.to_string()),
        Json::Float => out.push_str("1.5e0"),
        Json::Text(text) => write_text(text, noise, out),
        Json::List(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                write(element, noise, out);
            }
            out.push_str(space(noise));
            out.push(']');
        }
        Json::Object(entries) => {
            out.push('{');
            for (at, (key, value)) in entries.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                out.push_str(space(noise));
                write_text(key, noise, out);
                out.push_str(space(noise));
                out.push(':');
                write(value, noise, out);
            }
            out.push_str(space(noise));
            out.push('}');
        }
    }
    out.push_str(space(noise));
}

fn write_text(text: &str, noise: &mut impl FnMut() -> u8, out: &mut String) {
    if noise().is_multiple_of(4) {
        out.push_str(&all_escaped(text));
    } else {
        out.push_str(&serde_json::to_string(text).unwrap());
    }
}

fn written(json: &Json, noise: &[u8]) -> String {
    let mut rest = noise.iter().cycle();
    let mut text = String::new();
    write(json, &mut || *rest.next().unwrap_or(&1), &mut text);
    text
}

/// What Go makes of a body, by way of `serde_json`.
fn slowly(of: &Type, body: &str) -> Option<Value> {
    let parsed: Json = serde_json::from_str(body).unwrap();
    let mut value = of.zero();
    of.decode(&parsed, &mut value).ok()?;
    Some(value)
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    proptest::collection::vec(any::<u8>(), 1..64)
}

fn same_requirements(ours: &[NodeSelectorRequirement], theirs: &Value) {
    let ours: Vec<_> = ours
        .iter()
        .map(|r| (&r.key, &r.operator, &r.values))
        .collect();
    let theirs: Vec<_> = theirs
        .list()
        .iter()
        .map(|r| {
            let values = r.at("values").list().iter().map(|v| v.text().to_owned());
            (
                r.at("key").text(),
                r.at("operator").text(),
                values.collect::<Vec<_>>(),
            )
        })
        .collect();
    assert_eq!(ours.len(), theirs.len());
    for (ours, theirs) in ours.iter().zip(&theirs) {
        assert_eq!(
            (ours.0.as_str(), ours.1.as_str(), ours.2),
            (theirs.0, theirs.1, &theirs.2)
        );
    }
}

fn same_pod(ours: Option<&Pod>, theirs: &Value) {
    let (Some(ours), Some(theirs)) = (ours, theirs.pointer()) else {
        assert_eq!(ours.is_some(), theirs.pointer().is_some());
        return;
    };
    let (meta, spec) = (theirs.at("metadata"), theirs.at("spec"));
    assert_eq!(ours.name, meta.at("name").text());
    assert_eq!(ours.namespace, meta.at("namespace").text());
    assert_eq!(ours.uid, meta.at("uid").text());
    assert_eq!(*ours.labels, *meta.at("labels").pairs());
    assert_eq!(*ours.annotations, *meta.at("annotations").pairs());
    assert_eq!(ours.scheduler_name, spec.at("schedulerName").text());
    assert_eq!(ours.node_name, spec.at("nodeName").text());
    assert_eq!(
        ours.priority.map(i64::from),
        spec.at("priority").pointer().map(Value::int)
    );
    assert_eq!(ours.required.node_selector, spec.at("nodeSelector").pairs());
    let tolerations = spec.at("tolerations").list();
    assert_eq!(ours.tolerations.len(), tolerations.len());
    for (ours, theirs) in ours.tolerations.iter().zip(tolerations) {
        assert_eq!(ours.key, theirs.at("key").text());
        assert_eq!(ours.operator, theirs.at("operator").text());
        assert_eq!(ours.value, theirs.at("value").text());
        assert_eq!(ours.effect, theirs.at("effect").text());
    }
    same_affinity(ours, spec.at("affinity"));
    same_containers(&ours.containers, spec.at("containers"));
    same_containers(&ours.init_containers, spec.at("initContainers"));
    let gates = spec.at("schedulingGates").list().iter();
    let gates: Vec<_> = gates.map(|gate| gate.at("name").text()).collect();
    let our_gates: Vec<&str> = ours.scheduling_gates.iter().map(|gate| &**gate).collect();
    assert_eq!(our_gates, gates);
    let group = spec.at("schedulingGroup").pointer();
    let group = group.and_then(|group| group.at("podGroupName").pointer());
    assert_eq!(&*ours.scheduling_group, group.map_or("", Value::text));
    let status = theirs.at("status");
    assert_eq!(ours.phase, status.at("phase").text());
    // None of these pods asks for anything.
    let qos_class = match status.at("qosClass").text() {
        "" => "BestEffort",
        given => given,
    };
    assert_eq!(ours.qos_class, qos_class);
    let mut conditions = status.at("conditions").list().iter();
    let scheduled = conditions.find(|condition| condition.at("type").text() == "PodScheduled");
    let reason = scheduled.map_or("", |condition| condition.at("reason").text());
    assert_eq!(ours.scheduled_reason, reason);
    assert_eq!(ours.generation, meta.at("generation").int());
    let nominated = status.at("nominatedNodeName").text();
    assert_eq!(&*ours.nominated_node_name, nominated);
}

fn same_containers(ours: &[Container], theirs: &Value) {
    assert_eq!(ours.len(), theirs.list().len());
    for (ours, theirs) in ours.iter().zip(theirs.list()) {
        assert_eq!(&*ours.name, theirs.at("name").text());
        let policy = theirs.at("restartPolicy").pointer();
        assert_eq!(ours.sidecar, policy.is_some_and(|p| p.text() == "Always"));
    }
}

fn same_affinity(ours: &Pod, affinity: &Value) {
    let node = affinity
        .pointer()
        .and_then(|affinity| affinity.at("nodeAffinity").pointer());
    let required = node.and_then(|node| {
        node.at("requiredDuringSchedulingIgnoredDuringExecution")
            .pointer()
    });
    assert_eq!(ours.required.terms.is_some(), required.is_some());
    let terms = required.map_or(&[][..], |required| required.at("nodeSelectorTerms").list());
    let our_terms = ours.required.terms.as_deref().unwrap_or_default();
    assert_eq!(our_terms.len(), terms.len());
    for (ours, theirs) in our_terms.iter().zip(terms) {
        same_requirements(&ours.match_expressions, theirs.at("matchExpressions"));
        same_requirements(&ours.match_fields, theirs.at("matchFields"));
    }
    let preferred = node.map_or(&[][..], |node| {
        node.at("preferredDuringSchedulingIgnoredDuringExecution")
            .list()
    });
    assert_eq!(ours.preferred.len(), preferred.len());
    for (ours, theirs) in ours.preferred.iter().zip(preferred) {
        assert_eq!(i64::from(ours.weight), theirs.at("weight").int());
        let (ours, theirs) = (&ours.preference, theirs.at("preference"));
        same_requirements(&ours.match_expressions, theirs.at("matchExpressions"));
        same_requirements(&ours.match_fields, theirs.at("matchFields"));
    }
}

fn same_victims(ours: &wire::PreemptionArgs, theirs: &Value) {
    let uid = |pod: &Value, whole: bool| {
        let meta = if whole {
            pod.at("metadata").at("uid")
        } else {
            pod.at("UID")
        };
        meta.text().to_owned()
    };
    let form = |name: &str, whole: bool| -> Vec<(String, Vec<String>, i64)> {
        let candidates = theirs.at(name).map().iter();
        candidates
            .filter_map(|(name, victims)| {
                let victims = victims.pointer()?;
                let pods = victims.at("Pods").list().iter().filter_map(Value::pointer);
                let here = |pod: &&Value| {
                    !whole || ["", name].contains(&pod.at("spec").at("nodeName").text())
                };
                let uids = pods.filter(here).map(|pod| uid(pod, whole)).collect();
                Some((name.clone(), uids, victims.at("NumPDBViolations").int()))
            })
            .collect()
    };
    let mut expected = form("NodeNameToMetaVictims", false);
    if expected.is_empty() {
        expected = form("NodeNameToVictims", true);
    }
    let found: Vec<_> = names(ours.nodes())
        .into_iter()
        .zip(ours.victims())
        .map(|(name, of)| (name, of.uids.clone(), of.pdb_violations))
        .collect();
    assert_eq!(found, expected);
    let everything = kubextend_core::node::Mask::filled(found.len(), true);
    let answer = json(&ours.result(&everything));
    let expected: serde_json::Map<String, serde_json::Value> = expected
        .iter()
        .map(|(name, uids, pdb)| {
            let pods: Vec<_> = uids
                .iter()
                .map(|uid| serde_json::json!({ "UID": uid }))
                .collect();
            (
                name.clone(),
                serde_json::json!({"Pods": pods, "NumPDBViolations": pdb}),
            )
        })
        .collect();
    assert_eq!(
        answer,
        serde_json::json!({ "NodeNameToMetaVictims": expected })
    );
}

proptest! {
    #![proptest_config(common::cases(500))]

    #[test]
    fn filter_arguments_are_what_a_slow_reading_says(
        parsed in fitting(&args_type()), noise in body()
    ) {
        let text = written(&parsed, &noise);
        let ours = read(text.as_bytes(), None);
        let Some(theirs) = slowly(&args_type(), &text) else {
            prop_assert!(ours.is_err(), "{}", text);
            return Ok(());
        };
        let ours = ours.unwrap();
        same_pod(ours.pod().map(|pod| &**pod), theirs.at("Pod"));
        let asked = theirs.at("NodeNames").list().iter().map(|name| name.text().to_owned());
        prop_assert_eq!(ours.nodes().map_or(Vec::new(), |nodes| names(nodes)), asked.collect::<Vec<_>>());
    }

    #[test]
    fn nodes_are_what_a_slow_reading_says(
        items in proptest::collection::vec(fitting(&node_type()), 0..5), noise in body()
    ) {
        let wrapped = Json::Object(vec![(
            "Nodes".to_owned(),
            Json::Object(vec![("items".to_owned(), Json::List(items))]),
        )]);
        let text = written(&wrapped, &noise);
        let whole = Type::Struct(vec![(
            "Nodes",
            pointer(Type::Struct(vec![("items", list(node_type()))])),
        )]);
        let store = RequestStore::new(1 << 20);
        for with in [None, Some(&store), Some(&store)] {
            let ours = read(text.as_bytes(), with);
            let Some(theirs) = slowly(&whole, &text) else {
                prop_assert!(ours.is_err(), "{}", text);
                continue;
            };
            same_nodes(&ours.unwrap(), theirs.at("Nodes").pointer().unwrap().at("items").list());
        }
    }

    #[test]
    fn preemption_arguments_are_what_a_slow_reading_says(
        parsed in fitting(&preemption_type()), noise in body()
    ) {
        let text = written(&parsed, &noise);
        let ours = read_preemption_args(text.as_bytes(), None);
        let Some(theirs) = slowly(&preemption_type(), &text) else {
            prop_assert!(ours.is_err(), "{}", text);
            return Ok(());
        };
        let ours = ours.unwrap();
        same_pod(ours.pod().map(|pod| &**pod), theirs.at("Pod"));
        same_victims(&ours, &theirs);
    }

    #[test]
    fn binding_arguments_are_what_a_slow_reading_says(
        parsed in fitting(&binding_type()), noise in body()
    ) {
        let text = written(&parsed, &noise);
        let ours = read_binding_args(text.as_bytes());
        let Some(theirs) = slowly(&binding_type(), &text) else {
            prop_assert!(ours.is_err(), "{}", text);
            return Ok(());
        };
        let field = |name| theirs.at(name).text().to_owned();
        prop_assert_eq!(ours.unwrap(), BindingArgs {
            pod_name: field("PodName"),
            pod_namespace: field("PodNamespace"),
            pod_uid: field("PodUID"),
            node: field("Node"),
        });
    }
}

fn same_nodes(ours: &ExtenderArgs, theirs: &[Value]) {
    let nodes = ours.nodes().unwrap();
    assert_eq!(nodes.len(), theirs.len());
    for (at, theirs) in theirs.iter().enumerate() {
        let ours = nodes.node(at).unwrap();
        let (meta, spec) = (theirs.at("metadata"), theirs.at("spec"));
        assert_eq!(ours.name(), meta.at("name").text());
        assert_eq!(ours.uid(), meta.at("uid").text());
        for (key, value) in meta.at("labels").pairs() {
            assert_eq!(ours.label(&key).map(|value| &**value), Some(&*value));
        }
        for absent in ["zzz", "a", "b", "n1", ""] {
            let expected = meta.at("labels").map().get(absent).map(Value::text);
            assert_eq!(ours.label(absent).map(|value| &**value), expected);
        }
        assert_eq!(ours.unschedulable(), spec.at("unschedulable").bool());
        let taints: Vec<_> = ours
            .taints()
            .iter()
            .map(|t| (&*t.key, &*t.value, &*t.effect))
            .collect();
        let expected = spec.at("taints").list().iter();
        let expected: Vec<_> = expected
            .map(|t| {
                (
                    t.at("key").text(),
                    t.at("value").text(),
                    t.at("effect").text(),
                )
            })
            .collect();
        assert_eq!(taints, expected);
    }
}

#[test]
fn quantities_are_read_from_text_or_number_and_nothing_else() {
    let node = |cpu: &str| {
        format!(r#"{{"Nodes":{{"items":[{{"status":{{"allocatable":{{"cpu":{cpu}}}}}}}]}}}}"#)
    };
    for (cpu, milli) in [
        (r#""2""#, Some(2000)),
        (r#"" 250m ""#, Some(250)),
        ("4", Some(4000)),
        ("0.5", Some(500)),
        ("1e3", Some(1_000_000)),
        ("null", Some(0)),
        (r#""""#, None),
        (r#""null""#, None),
        (r#""\u0032""#, None),
        ("{}", None),
        ("[1]", None),
        ("true", None),
        (r#""1 Gi""#, None),
    ] {
        let read = read(node(cpu).as_bytes(), None);
        let found = read.map(|args| {
            let nodes = args.nodes().unwrap().clone();
            nodes
                .node(0)
                .unwrap()
                .allocatable("cpu")
                .map(Quantity::milli_value)
        });
        match milli {
            Some(milli) => assert_eq!(found.unwrap(), Some(milli), "{cpu}"),
            None => assert!(
                matches!(
                    found.as_ref().unwrap_err().problem(),
                    Problem::NotAQuantity(_)
                ),
                "{cpu}: {found:?}"
            ),
        }
    }
}

#[test]
fn nodes_decide_before_names_and_null_is_neither() {
    for (body, full, names_mode) in [
        (r#"{"Nodes":null,"NodeNames":null}"#, None, false),
        ("{}", None, false),
        ("null", None, false),
        (r#"{"Nodes":{},"NodeNames":["a"]}"#, Some(0), false),
        (
            r#"{"NodeNames":["a"],"Nodes":{"items":null}}"#,
            Some(0),
            false,
        ),
        (
            r#"{"Nodes":{"items":[{}]},"Nodes":null,"NodeNames":["a","b"]}"#,
            Some(2),
            true,
        ),
        (
            r#"{"Nodes":{"items":[{}]},"Nodes":null,"NodeNames":["a"],"NodeNames":null}"#,
            None,
            false,
        ),
        (r#"{"NodeNames":[]}"#, Some(0), true),
        (
            r#"{"Nodes":{"items":[]},"Nodes":{"items":[{},{}]}}"#,
            Some(2),
            false,
        ),
        (r#"{"Nodes":{"items":[{},{}],"items":[]}}"#, Some(0), false),
        (r#"{"Nodes":{"items":[{},{}]},"Nodes":{}}"#, Some(2), false),
        (
            r#"{"Nodes":{"items":[{}]},"Nodes":null,"Nodes":{"items":[{},{}]}}"#,
            Some(2),
            false,
        ),
    ] {
        let args = read(body.as_bytes(), None).unwrap();
        assert_eq!(args.nodes().map(|nodes| nodes.len()), full, "{body}");
        assert_eq!(args.names_mode(), names_mode, "{body}");
    }
}

#[test]
fn nodes_given_twice_are_refused_wherever_the_second_stands() {
    for body in [
        r#"{"Nodes":{"items":[{}],"items":[{}]}}"#,
        r#"{"Nodes":{"items":[{}]},"nodes":{"ITEMS":[null]}}"#,
    ] {
        let error = read(body.as_bytes(), None).unwrap_err();
        assert_eq!(error.problem(), &Problem::GivenTwice, "{body}");
    }
}

#[test]
fn errors_name_the_field_by_its_go_name_and_the_byte() {
    for (body, expected) in [
        ("", "byte 0: the body ends too early"),
        ("[", "byte 0: expected an object, found a list"),
        (
            "{}x",
            "byte 2: unexpected data behind the end of the JSON value",
        ),
        ("\u{feff}{}", "byte 0: expected an object, found byte 0xef"),
        (
            r#"{"pod":7}"#,
            "byte 7: Pod: expected an object, found a number",
        ),
        (
            r#"{"nodes":{"items":[{},{"metadata":{"labels":["a"]}}]}}"#,
            "byte 44: Nodes.items[1].metadata.labels: expected an object, found a list",
        ),
        (
            r#"{"NodeNames":["a",true]}"#,
            "byte 18: NodeNames[1]: expected a string, found a boolean",
        ),
        (
            r#"{"Pod":{"spec":{"priority":1.0}}}"#,
            "byte 27: Pod.spec.priority: expected an integer of 32 bits",
        ),
        (
            r#"{"Pod":{"metadata":{"name":"a"#,
            "byte 29: Pod.metadata.name: the body ends too early",
        ),
        (
            r#"{"Nodes":{"items":[{"status":{"allocatable":{"cpu":"x"}}}]}}"#,
            "byte 51: Nodes.items[0].status.allocatable: not a quantity: quantities must match the \
             regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
        ),
    ] {
        assert_eq!(
            read(body.as_bytes(), None).unwrap_err().to_string(),
            expected,
            "{body}"
        );
    }
}

#[test]
fn depth_is_limited_the_same_in_read_and_in_skipped_places() {
    let max = MAX_DEPTH as usize;
    // (before, how deep that is already, after)
    for (before, outside, after) in [
        ("", 0, ""),
        (r#"{"Other":"#, 1, "}"),
        (r#"{"Pod":{"spec":{"volumes":"#, 3, "}}}"),
        (
            r#"{"Nodes":{"items":[{"metadata":{"managedFields":"#,
            5,
            "}}]}}",
        ),
        (
            r#"{"Nodes":{"items":[{"status":{"allocatable":{"cpu":"#,
            6,
            "}}}]}}",
        ),
    ] {
        for (open, close) in [(r#"{"":"#, "}"), ("[", "]")] {
            for deep in [max - outside, max - outside + 1, 100_000] {
                if before.is_empty() && open == "[" {
                    continue; // No request is a list.
                }
                let inner = if open == "[" { "" } else { "1" };
                let (open, close) = (open.repeat(deep), close.repeat(deep));
                let body = [before, &open, inner, &close, after].concat();
                let result = read(body.as_bytes(), None);
                let too_deep = result
                    .as_ref()
                    .is_err_and(|error| *error.problem() == Problem::TooDeep(MAX_DEPTH));
                assert_eq!(too_deep, outside + deep > max, "{before} {deep}");
            }
        }
    }
}

#[test]
fn values_beside_each_other_make_nothing_deeper() {
    for value in ["[]", "[ ]", "[{}]", "[{},{}]", "null"] {
        let field = |name: &str| vec![format!(r#""{name}":{value}"#); 2 * MAX_DEPTH as usize];
        for fields in [field("tolerations"), field("volumes")] {
            let body = format!(r#"{{"Pod":{{"spec":{{{}}}}}}}"#, fields.join(","));
            assert!(read(body.as_bytes(), None).is_ok(), "{}", fields[0]);
        }
    }
    for value in ["{}", "{ }", r#"{"a":""}"#] {
        let field = |name: &str| vec![format!(r#""{name}":{value}"#); 2 * MAX_DEPTH as usize];
        for fields in [field("labels"), field("managedFields")] {
            let body = format!(r#"{{"Pod":{{"metadata":{{{}}}}}}}"#, fields.join(","));
            assert!(read(body.as_bytes(), None).is_ok(), "{}", fields[0]);
        }
    }
}

#[test]
fn the_same_body_with_white_space_everywhere_reads_the_same() {
    let body = r#"{"Pod":{"metadata":{"name":"p"},"spec":{"priority":-7,"tolerations":[{"key":"k"}]}},"Nodes":{"items":[{"metadata":{"name":"a","labels":{"x":"1","y":"2"}},"spec":{"unschedulable":true}}]},"NodeNames":null}"#;
    let mut spaced = String::from("\n\t ");
    for character in body.chars() {
        match character {
            '{' | '}' | '[' | ']' | ':' | ',' => {
                spaced.push_str(" \t\r\n");
                spaced.push(character);
                spaced.push_str("\n ");
            }
            other => spaced.push(other),
        }
    }
    let (plain, spaced) = (
        read(body.as_bytes(), None).unwrap(),
        read(spaced.as_bytes(), None).unwrap(),
    );
    assert_eq!(plain.pod(), spaced.pod());
    let (plain, spaced) = (plain.nodes().unwrap(), spaced.nodes().unwrap());
    assert_eq!(plain.node(0), spaced.node(0));
    assert_eq!(label(spaced, "y"), [Some("2".into())]);
}

#[test]
fn a_request_is_read_from_whoever_owns_its_bytes() {
    static STILL: &[u8] = br#"{"NodeNames":["a"]}"#;
    for body in [
        Body::new(STILL),
        Body::new(STILL.to_vec()),
        Body::new(String::from_utf8_lossy(STILL).into_owned()),
    ] {
        let args = wire::read_args(body, None, None).unwrap();
        assert_eq!(names(args.nodes().unwrap()), ["a"]);
    }
}
