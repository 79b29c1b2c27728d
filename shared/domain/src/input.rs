//! Strict reading of JSON, or of a query, that a client sent. Every error names its field;
//! all of them are collected, so a merchant mends a sale in one go.

use std::fmt;
use std::ops::RangeInclusive;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

/// Unknown fields that are named in one answer; the rest is counted.
const UNKNOWN_NAMED_MAX: usize = 20;

/// Characters of an unknown name that are repeated to who sent it.
const NAME_MAX: usize = 64;

/// Something wrong with one field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FieldError {
    /// The field, with dots into nested objects: `price.amount`.
    pub field: String,
    /// What it must be.
    pub reason: String,
}

impl FieldError {
    /// An error of `field`.
    pub fn new(field: impl Into<String>, reason: impl fmt::Display) -> Self {
        Self {
            field: field.into(),
            reason: reason.to_string(),
        }
    }
}

/// Why a body or a query could not be read at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable(pub String);

/// Reads one JSON object. An empty body is an empty object.
///
/// # Errors
/// Not JSON, not an object, a member given twice, or something behind it.
pub fn object(body: &[u8]) -> Result<Map<String, Value>, Unreadable> {
    if body.iter().all(u8::is_ascii_whitespace) {
        return Ok(Map::new());
    }
    let mut reader = serde_json::Deserializer::from_slice(body);
    let value = Strict
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value))
        .map_err(|error| Unreadable(error.to_string()))?;
    match value {
        Value::Object(members) => Ok(members),
        _ => Err(Unreadable("the body must be a JSON object".to_owned())),
    }
}

/// Reads a query as an object of texts.
///
/// # Errors
/// A parameter given twice: as with a member, two readers could see two requests.
pub fn query<'a>(
    parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<Map<String, Value>, Unreadable> {
    let mut members = Map::new();
    for (name, text) in parameters {
        if members.insert(name.to_owned(), text.into()).is_some() {
            let name = shortened(name);
            return Err(Unreadable(format!("parameter {name:?} is given twice")));
        }
    }
    Ok(members)
}

/// A JSON value in which no object has a member twice: `serde_json` would
/// silently keep the last, and two readers could then see two requests.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<Value, D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(Strict)? {
            array.push(item);
        }
        Ok(array.into())
    }
    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(name) = members.next_key::<String>()? {
            let value = members.next_value_seed(Strict)?;
            if object.insert(name.clone(), value).is_some() {
                return Err(serde::de::Error::custom(format_args!(
                    "member {:?} is given twice",
                    shortened(&name)
                )));
            }
        }
        Ok(object.into())
    }
}

/// Takes an object apart field by field and collects what is wrong.
#[derive(Debug)]
pub struct Fields {
    path: String,
    members: Map<String, Value>,
    errors: Vec<FieldError>,
}

impl Fields {
    /// Of a whole body.
    pub fn of(members: Map<String, Value>) -> Self {
        Self {
            path: String::new(),
            members,
            errors: Vec::new(),
        }
    }

    /// The field's full name.
    fn name(&self, field: &str) -> String {
        format!("{}{field}", self.path)
    }

    /// Notes an error of `field`.
    pub fn wrong(&mut self, field: &str, reason: impl fmt::Display) {
        let name = self.name(field);
        self.errors.push(FieldError::new(name, reason));
    }

    /// Whether the field was sent.
    pub fn has(&self, field: &str) -> bool {
        self.members.contains_key(field)
    }

    /// Takes a field out as it is, `null` included.
    pub fn take(&mut self, field: &str) -> Option<Value> {
        self.members.remove(field)
    }

    /// An optional integer within a range, written without point and exponent.
    pub fn integer(&mut self, field: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let sent = self.take(field)?.as_u64();
        self.within(field, sent, range)
    }

    /// The same, of a text in decimal digits, which is what a query has.
    pub fn digits(&mut self, field: &str, range: RangeInclusive<u64>) -> Option<u64> {
        let sent = self.take(field)?;
        let sent = sent
            .as_str()
            .filter(|text| text.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|text| text.parse().ok());
        self.within(field, sent, range)
    }

    fn within(
        &mut self,
        field: &str,
        sent: Option<u64>,
        range: RangeInclusive<u64>,
    ) -> Option<u64> {
        match sent {
            Some(value) if range.contains(&value) => Some(value),
            _ => {
                let (least, most) = range.into_inner();
                if least == most {
                    self.wrong(field, format_args!("must be {least}"));
                } else {
                    self.wrong(
                        field,
                        format_args!("must be an integer from {least} to {most}"),
                    );
                }
                None
            }
        }
    }

    /// An optional text, read by its type's own rule.
    pub fn text<T: std::str::FromStr<Err: fmt::Display>>(&mut self, field: &str) -> Option<T> {
        match self.take(field)? {
            Value::String(text) => match text.parse() {
                Ok(value) => Some(value),
                Err(reason) => {
                    self.wrong(field, reason);
                    None
                }
            },
            _ => {
                self.wrong(field, "must be a string");
                None
            }
        }
    }

    /// An optional object, read by `read`.
    pub fn nested<T>(&mut self, field: &str, read: impl FnOnce(&mut Fields) -> T) -> Option<T> {
        match self.take(field)? {
            Value::Object(members) => {
                let path = format!("{}{field}.", self.path);
                let mut inner = Fields {
                    path,
                    members,
                    errors: Vec::new(),
                };
                let value = read(&mut inner);
                self.errors.append(&mut inner.close());
                Some(value)
            }
            _ => {
                self.wrong(field, "must be an object");
                None
            }
        }
    }

    /// Notes that a required field is missing, unless it was found wrong.
    pub fn require<T>(&mut self, field: &str, value: Option<T>) -> Option<T> {
        if value.is_none() {
            let name = self.name(field);
            let inside = format!("{name}.");
            if !self
                .errors
                .iter()
                .any(|e| e.field == name || e.field.starts_with(&inside))
            {
                self.wrong(field, "is required");
            }
        }
        value
    }

    /// An answer stays small, however many fields were sent that are none.
    fn close(mut self) -> Vec<FieldError> {
        let unknown = std::mem::take(&mut self.members);
        let further = unknown.len().saturating_sub(UNKNOWN_NAMED_MAX);
        for (n, field) in unknown.keys().take(UNKNOWN_NAMED_MAX).enumerate() {
            let field = shortened(field);
            if n + 1 == UNKNOWN_NAMED_MAX && further > 0 {
                let reason = format_args!("is not a field of this request, nor are {further} more");
                self.wrong(&field, reason);
            } else {
                self.wrong(&field, "is not a field of this request");
            }
        }
        self.errors
    }

    /// All that was wrong; what was not taken is unknown and an error too.
    ///
    /// # Errors
    /// The errors, if there is one.
    pub fn finish(self) -> Result<(), Vec<FieldError>> {
        let errors = self.close();
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }
}

/// A name that the client made up, as far as it is repeated.
fn shortened(name: &str) -> String {
    match name.char_indices().nth(NAME_MAX) {
        None => name.to_owned(),
        Some((end, _)) => format!("{}…", &name[..end]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_one_plain_object_is_refused() {
        for body in [
            "[]",
            "1",
            "{\"a\":1,\"a\":2}",
            "{\"a\":{\"b\":1,\"b\":1}}",
            "{} x",
            "{",
            "NaN",
            "{\"a\":1e400}",
        ] {
            assert!(object(body.as_bytes()).is_err(), "{body}");
        }
        assert_eq!(object(b" ").unwrap(), Map::new());
    }

    #[test]
    fn every_error_names_its_field() {
        let body = br#"{"a":1.0,"b":"x","c":{"d":-1,"odd":0},"e":null}"#;
        let mut fields = Fields::of(object(body).unwrap());
        fields.integer("a", 1..=9);
        fields.integer("b", 1..=9);
        fields.nested("c", |c| c.integer("d", 0..=9));
        let missing: Option<u64> = fields.integer("f", 0..=9);
        fields.require("f", missing);
        let names: Vec<_> = fields
            .finish()
            .unwrap_err()
            .into_iter()
            .map(|e| e.field)
            .collect();
        assert_eq!(names, ["a", "b", "c.d", "c.odd", "f", "e"]);
    }

    #[test]
    fn a_query_is_read_as_strictly() {
        let sent = [
            ("a", "9"),
            ("b", "10"),
            ("c", "+1"),
            ("d", ""),
            ("after", "s1"),
            ("e", "1"),
        ];
        let mut fields = Fields::of(query(sent).unwrap());
        assert_eq!(fields.digits("a", 1..=9), Some(9));
        for name in ["b", "c", "d"] {
            assert_eq!(fields.digits(name, 1..=9), None, "{name}");
        }
        assert_eq!(fields.digits("f", 1..=9), None);
        assert_eq!(fields.text::<String>("after").unwrap(), "s1");
        let names: Vec<_> = fields
            .finish()
            .unwrap_err()
            .into_iter()
            .map(|e| e.field)
            .collect();
        assert_eq!(names, ["b", "c", "d", "e"]);
        assert_eq!(
            query([("a", "1"), ("a", "1")]).unwrap_err().0,
            "parameter \"a\" is given twice"
        );
    }

    #[test]
    fn an_answer_is_small_whatever_was_sent() {
        let name = |n: usize| format!("{n:05}{}", "é".repeat(1_000));
        let members = (0..5_000).map(|n| (name(n), Value::Null)).collect();
        let mut fields = Fields::of(members);
        fields.nested("inner", |_| ());
        let errors = fields.finish().unwrap_err();
        assert_eq!(errors.len(), UNKNOWN_NAMED_MAX);
        assert!(
            errors
                .iter()
                .all(|e| e.field.chars().count() == NAME_MAX + 1)
        );
        assert_eq!(
            errors.last().unwrap().reason,
            "is not a field of this request, nor are 4980 more"
        );
        let twice = format!("{{\"{0}\":1,\"{0}\":1}}", name(0));
        assert!(object(twice.as_bytes()).unwrap_err().0.len() < 250);
    }
}
