//! A slow reading of JSON as Go's encoding/json decodes into values that may hold something.
//!
//! `serde_json` parses; the rules of Go's decoder are here, by a schema: structs and maps merge,
//! list elements decode over the old ones, `null` empties pointers, lists and maps only.

#![allow(dead_code, missing_docs)]

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// A JSON value that keeps the order and the repetition of keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Int(i64),
    Float,
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl<'de> Deserialize<'de> for Json {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Bool(value))
    }
    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Int(value))
    }
    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(i64::try_from(value).map_or(Json::Float, Json::Int))
    }
    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Float)
    }
    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(Json::Text(value.to_owned()))
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let mut elements = Vec::new();
        while let Some(element) = list.next_element()? {
            elements.push(element);
        }
        Ok(Json::List(elements))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = map.next_entry()? {
            entries.push(entry);
        }
        Ok(Json::Object(entries))
    }
}

/// A Go type.
#[derive(Debug, Clone)]
pub(crate) enum Type {
    Text,
    Bool,
    Int { bits: u32 },
    Pointer(Box<Type>),
    List(Box<Type>),
    Map(Box<Type>),
    Struct(Vec<(&'static str, Type)>),
}

/// A Go value of such a type.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Bool(bool),
    Int(i64),
    Pointer(Option<Box<Value>>),
    /// The elements, those behind the end too, and where the end is.
    List(Vec<Value>, usize),
    Map(BTreeMap<String, Value>),
    Struct(BTreeMap<&'static str, Value>),
}

#[derive(Debug, PartialEq)]
pub(crate) struct WrongType;

impl Type {
    pub(crate) fn zero(&self) -> Value {
        match self {
            Self::Text => Value::Text(String::new()),
            Self::Bool => Value::Bool(false),
            Self::Int { .. } => Value::Int(0),
            Self::Pointer(_) => Value::Pointer(None),
            Self::List(_) => Value::List(Vec::new(), 0),
            Self::Map(_) => Value::Map(BTreeMap::new()),
            Self::Struct(fields) => {
                Value::Struct(fields.iter().map(|(name, of)| (*name, of.zero())).collect())
            }
        }
    }

    /// Decodes over what `into` holds.
    pub(crate) fn decode(&self, json: &Json, into: &mut Value) -> Result<(), WrongType> {
        match (self, json, into) {
            (Self::Pointer(_) | Self::List(_) | Self::Map(_), Json::Null, into) => {
                *into = self.zero();
            }
            (_, Json::Null, _) => {}
            (Self::Text, Json::Text(text), into) => *into = Value::Text(text.clone()),
            (Self::Bool, Json::Bool(value), into) => *into = Value::Bool(*value),
            (Self::Int { bits }, Json::Int(value), into) => {
                if *bits == 32 && i32::try_from(*value).is_err() {
                    return Err(WrongType);
                }
                *into = Value::Int(*value);
            }
            (Self::Pointer(of), json, Value::Pointer(held)) => {
                of.decode(json, held.get_or_insert_with(|| Box::new(of.zero())))?;
            }
            (Self::List(of), Json::List(elements), into) => decode_list(of, elements, into)?,
            (Self::Map(of), Json::Object(entries), Value::Map(held)) => {
                for (key, json) in entries {
                    let mut value = of.zero();
                    of.decode(json, &mut value)?;
                    held.insert(key.clone(), value);
                }
            }
            (Self::Struct(fields), Json::Object(entries), Value::Struct(held)) => {
                for (key, json) in entries {
                    if let Some((name, of)) = field(fields, key) {
                        of.decode(json, held.get_mut(name).ok_or(WrongType)?)?;
                    }
                }
            }
            _ => return Err(WrongType),
        }
        Ok(())
    }
}

fn decode_list(of: &Type, elements: &[Json], into: &mut Value) -> Result<(), WrongType> {
    let Value::List(held, len) = into else {
        return Err(WrongType);
    };
    for (at, json) in elements.iter().enumerate() {
        if at == held.len() {
            held.push(of.zero());
        }
        of.decode(json, &mut held[at])?;
    }
    *len = elements.len();
    if elements.is_empty() {
        held.clear();
    }
    Ok(())
}

fn field<'t>(fields: &'t [(&'static str, Type)], key: &str) -> Option<(&'static str, &'t Type)> {
    let folded = |text: &str| {
        text.replace('\u{17f}', "s")
            .replace('\u{212a}', "k")
            .to_lowercase()
    };
    let exactly = fields.iter().find(|(name, _)| *name == key);
    let (name, of) =
        exactly.or_else(|| fields.iter().find(|(name, _)| folded(name) == folded(key)))?;
    Some((name, of))
}

impl Value {
    pub(crate) fn at(&self, name: &str) -> &Value {
        let Value::Struct(fields) = self else {
            panic!("no struct: {self:?}");
        };
        &fields[name]
    }
    pub(crate) fn text(&self) -> &str {
        let Value::Text(text) = self else {
            panic!("no text: {self:?}");
        };
        text
    }
    pub(crate) fn bool(&self) -> bool {
        *self == Value::Bool(true)
    }
    pub(crate) fn int(&self) -> i64 {
        let Value::Int(value) = self else {
            panic!("no integer: {self:?}");
        };
        *value
    }
    pub(crate) fn pointer(&self) -> Option<&Value> {
        let Value::Pointer(held) = self else {
            panic!("no pointer: {self:?}");
        };
        held.as_deref()
    }
    pub(crate) fn list(&self) -> &[Value] {
        let Value::List(held, len) = self else {
            panic!("no list: {self:?}");
        };
        &held[..*len]
    }
    pub(crate) fn map(&self) -> &BTreeMap<String, Value> {
        let Value::Map(held) = self else {
            panic!("no map: {self:?}");
        };
        held
    }
    /// A map of texts as sorted pairs.
    pub(crate) fn pairs(&self) -> Vec<(String, String)> {
        let pairs = self.map().iter();
        pairs
            .map(|(key, value)| (key.clone(), value.text().to_owned()))
            .collect()
    }
}
