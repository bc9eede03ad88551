//! Decodes JSON into values that may have content already, as Go's encoding/json does.
//!
//! A key that comes twice decodes over what the first left: structs and maps merge, list elements
//! are decoded over the old ones, `null` leaves a struct or a string alone and empties a pointer, a
//! list or a map. Source: Go 1.26 encoding/json decode.go, tried against it (tests/data/corpus).

use std::borrow::Cow;

use super::cursor::{Cursor, Result};
use super::error::Step;

pub(crate) trait Decode<'a> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()>;
}

impl<'a> Decode<'a> for Cow<'a, str> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        cursor.peek();
        let start = cursor.pos();
        if let Some(text) = cursor.string()? {
            // The decoded text takes memory of its own.
            cursor.charge(cursor.pos() - start)?;
            *self = text;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for bool {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if let Some(value) = cursor.boolean()? {
            *self = value;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for i64 {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if let Some(value) = cursor.integer()? {
            *self = value;
        }
        Ok(())
    }
}

impl<'a> Decode<'a> for i32 {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if let Some(value) = cursor.integer()? {
            *self = value;
        }
        Ok(())
    }
}

/// Decodes as into a Go pointer: `null` makes it None.
impl<'a, T: Decode<'a> + Default> Decode<'a> for Option<T> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        if cursor.null()? {
            *self = None;
            return Ok(());
        }
        self.get_or_insert_with(T::default).decode(cursor)
    }
}

/// A list that behaves as a Go slice: when it is shortened, the elements behind its end stay, and
/// are visible again when it grows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slice<T> {
    elements: Vec<T>,
    len: usize,
}

impl<T> Default for Slice<T> {
    fn default() -> Self {
        Self {
            elements: Vec::new(),
            len: 0,
        }
    }
}

impl<T> Slice<T> {
    /// Returns the elements of the list.
    pub(crate) fn present(&mut self) -> &mut [T] {
        &mut self.elements[..self.len]
    }

    pub(crate) fn into_vec(mut self) -> Vec<T> {
        self.elements.truncate(self.len);
        self.elements
    }

    fn clear(&mut self) {
        self.elements.clear();
        self.len = 0;
    }
}

impl<T: Default> Slice<T> {
    /// Decodes a list over the present elements of a vector, each element by a call of `element`.
    pub(crate) fn decode_each<'a>(
        &mut self,
        cursor: &mut Cursor<'a>,
        mut element: impl FnMut(&mut T, &mut Cursor<'a>) -> Result<()>,
    ) -> Result<()> {
        let mut read = 0;
        let list = cursor.list(|cursor, index| {
            if index == self.elements.len() {
                make_room(&mut self.elements, cursor)?;
                self.elements.push(T::default());
            }
            read = index + 1;
            element(&mut self.elements[index], cursor)
        })?;
        if !list || read == 0 {
            self.clear();
        }
        self.len = read;
        Ok(())
    }
}

impl<'a, T: Decode<'a> + Default> Decode<'a> for Slice<T> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        self.decode_each(cursor, T::decode)
    }
}

/// Makes room for one more element; memory that the list allocates is charged to the budget.
#[inline]
fn make_room<T>(elements: &mut Vec<T>, cursor: &mut Cursor<'_>) -> Result<()> {
    if elements.len() == elements.capacity() {
        return grow(elements, cursor);
    }
    Ok(())
}

#[cold]
fn grow<T>(elements: &mut Vec<T>, cursor: &mut Cursor<'_>) -> Result<()> {
    let more = elements.len().max(4);
    cursor.charge_list(more * size_of::<T>())?;
    elements.reserve_exact(more);
    Ok(())
}

/// Converts the elements of a list to another type.
pub(crate) fn converted<T, U: From<T>>(slice: Slice<T>) -> Vec<U> {
    slice.into_vec().into_iter().map(U::from).collect()
}

/// A Go map, in the order in which its keys came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Map<'a, T> {
    entries: Vec<(Cow<'a, str>, T)>,
}

impl<T> Default for Map<'_, T> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
        }
    }
}

impl<'a, T> Map<'a, T> {
    /// Returns each key once, with the value that came last, sorted by key.
    pub(crate) fn into_sorted(mut self) -> Vec<(Cow<'a, str>, T)> {
        if !self.entries.is_sorted_by(|a, b| a.0 < b.0) {
            // The sort is stable, so the last of equal keys is the one to keep.
            self.entries.sort_by(|a, b| a.0.cmp(&b.0));
            self.entries.reverse();
            self.entries.dedup_by(|later, kept| later.0 == kept.0);
            self.entries.reverse();
        }
        self.entries
    }
}

impl<'a, T: Decode<'a> + Default> Decode<'a> for Map<'a, T> {
    fn decode(&mut self, cursor: &mut Cursor<'a>) -> Result<()> {
        let object = cursor.object(|cursor, key| {
            make_room(&mut self.entries, cursor)?;
            cursor.charge(key.len())?;
            let mut value = T::default();
            value.decode(cursor)?;
            self.entries.push((key, value));
            Ok(())
        })?;
        if !object {
            self.entries.clear();
        }
        Ok(())
    }
}

/// Returns the Go field that a JSON key names: exactly, or else by Unicode case folding; None if no
/// field fits.
pub(crate) fn field(key: &str, names: &[&'static str]) -> Option<&'static str> {
    names
        .iter()
        .copied()
        .find(|&name| name == key)
        .or_else(|| folded(key, names))
}

/// Returns the field whose name equals the key by Unicode case folding. Two letters beyond ASCII
/// fold to ASCII letters: the long s and the Kelvin sign.
fn folded(key: &str, names: &[&'static str]) -> Option<&'static str> {
    let mut names = names.iter().copied();
    if key.is_ascii() {
        return names.find(|name| key.eq_ignore_ascii_case(name));
    }
    let folded = || {
        key.chars().map(|letter| match letter {
            '\u{17f}' => 's',
            '\u{212a}' => 'k',
            other => other.to_ascii_lowercase(),
        })
    };
    names.find(|name| folded().eq(name.chars().map(|letter| letter.to_ascii_lowercase())))
}

/// Implements the decoding of a struct: values of known keys go into the struct's fields, other
/// values are skipped.
macro_rules! decode_struct {
    ($cursor:expr, { $($name:literal => $target:expr),+ $(,)? }) => {
        $cursor.object(|cursor, key| {
            match $crate::wire::decode::field(&key, &[$($name),+]) {
                $(Some($name) => $crate::wire::decode::decode_field(cursor, $name, &mut $target),)+
                _ => cursor.skip_value(),
            }
        })
    };
}
pub(crate) use decode_struct;

/// Declares a struct that is decoded from a JSON object: each field with its JSON key.
macro_rules! object {
    ($(#[$about:meta])* $seen:vis struct $type:ident<$bytes:lifetime> {
        $($key:literal => $by:vis $field:ident: $kind:ty),* $(,)?
    }) => {
        $(#[$about])*
        #[derive(Debug, Default)]
        $seen struct $type<$bytes> {
            $($by $field: $kind,)*
        }

        impl<$bytes> $crate::wire::decode::Decode<$bytes> for $type<$bytes> {
            fn decode(
                &mut self,
                cursor: &mut $crate::wire::cursor::Cursor<$bytes>,
            ) -> $crate::wire::cursor::Result<()> {
                $crate::wire::decode::decode_struct!(cursor, { $($key => self.$field),* }).map(drop)
            }
        }
    };
}
pub(crate) use object;

pub(crate) fn decode_field<'a>(
    cursor: &mut Cursor<'a>,
    name: &'static str,
    target: &mut impl Decode<'a>,
) -> Result<()> {
    target
        .decode(cursor)
        .map_err(|error| error.inside(Step::Field(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(bodies: &[&'static str]) -> Vec<String> {
        let mut slice = Slice::<Cow<str>>::default();
        for body in bodies {
            slice
                .decode(&mut Cursor::new(body.as_bytes()).expect("short"))
                .expect("valid");
        }
        slice.into_vec().into_iter().map(Cow::into_owned).collect()
    }

    #[test]
    fn a_list_that_comes_again_is_decoded_over_the_old_elements() {
        assert_eq!(strings(&[r#"["a","b","c"]"#, r#"["x",null]"#]), ["x", "b"]);
        // Go keeps what lies behind a slice's end and shows it when the slice grows again.
        assert_eq!(
            strings(&[r#"["a","b","c"]"#, r#"["x"]"#, "[null,null,null]"]),
            ["x", "b", "c"]
        );
        assert_eq!(strings(&[r#"["a"]"#, "[]", "[null]"]), [""]);
        assert_eq!(strings(&[r#"["a"]"#, "null", "[null]"]), [""]);
    }

    #[test]
    fn maps_unite_and_the_last_value_of_a_key_counts() {
        let mut map = Map::<Cow<str>>::default();
        for body in [r#"{"b":"1","a":"2"}"#, r#"{"b":"3","c":null}"#] {
            map.decode(&mut Cursor::new(body.as_bytes()).expect("short"))
                .expect("valid");
        }
        let entries = map.into_sorted();
        let entries: Vec<_> = entries.iter().map(|(k, v)| (&**k, &**v)).collect();
        assert_eq!(entries, [("a", "2"), ("b", "3"), ("c", "")]);
    }

    #[test]
    fn a_null_empties_a_map_and_what_comes_after_it_counts_alone() {
        let mut map = Map::<Cow<str>>::default();
        for (body, keys) in [
            (r#"{"a":"1"}"#, &["a"][..]),
            ("null", &[]),
            (r#"{"b":"2"}"#, &["b"]),
            ("{}", &["b"]),
        ] {
            map.decode(&mut Cursor::new(body.as_bytes()).expect("short"))
                .expect("valid");
            let entries = map.clone().into_sorted();
            let found: Vec<&str> = entries.iter().map(|(key, _)| &**key).collect();
            assert_eq!(found, keys, "{body}");
        }
    }

    #[test]
    fn keys_match_in_any_case_that_unicode_folds() {
        let names = ["Nodes", "NodeNames", "kind"];
        for (key, expected) in [
            ("Nodes", Some("Nodes")),
            ("nodenames", Some("NodeNames")),
            ("NODE\u{17f}", Some("Nodes")),
            ("\u{212a}ind", Some("kind")),
            ("node", None),
            ("nödes", None),
        ] {
            assert_eq!(field(key, &names), expected, "{key}");
        }
    }
}
