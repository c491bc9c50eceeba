//! The metadata of a filter: Dublin Core.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::{Error, Result};

/// The fifteen elements of Dublin Core.
pub const ELEMENTS: [&str; 15] = [
    "contributor",
    "coverage",
    "creator",
    "date",
    "description",
    "format",
    "identifier",
    "language",
    "publisher",
    "relation",
    "rights",
    "source",
    "subject",
    "title",
    "type",
];

/// Elements with one or more values each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata(BTreeMap<String, Vec<String>>);

impl Metadata {
    /// Adds a value, unless it is already there.
    ///
    /// # Errors
    /// If there is no such element, or the value is empty.
    pub fn add(&mut self, element: &str, value: &str) -> Result<()> {
        let element = element.strip_prefix("dc:").unwrap_or(element);
        if !ELEMENTS.contains(&element) {
            return Err(Error::invalid(format!(
                "`{element}` is no element of Dublin Core; these are: {}",
                ELEMENTS.join(", ")
            )));
        }
        if value.is_empty() {
            return Err(Error::invalid(format!("`{element}` is empty")));
        }
        let values = self.0.entry(element.to_owned()).or_default();
        if !values.iter().any(|known| known == value) {
            values.push(value.to_owned());
        }
        Ok(())
    }

    /// The values of an element.
    pub fn get(&self, element: &str) -> &[String] {
        self.0.get(element).map_or(&[], Vec::as_slice)
    }

    /// All elements with their values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().flat_map(|(element, values)| {
            values
                .iter()
                .map(|value| (element.as_str(), value.as_str()))
        })
    }

    /// Adds all values of another.
    pub fn extend(&mut self, other: &Metadata) {
        for (element, values) in &other.0 {
            let own = self.0.entry(element.clone()).or_default();
            for value in values {
                if !own.contains(value) {
                    own.push(value.clone());
                }
            }
        }
    }

    /// JSON with a string or a list of strings for each element. Empty if there are no elements.
    pub(crate) fn encode(&self) -> Vec<u8> {
        if self.0.is_empty() {
            return Vec::new();
        }
        let object: serde_json::Map<String, Value> = self
            .0
            .iter()
            .map(|(element, values)| {
                let value = match &values[..] {
                    [one] => Value::from(one.as_str()),
                    more => Value::from(more.to_vec()),
                };
                (element.clone(), value)
            })
            .collect();
        Value::Object(object).to_string().into_bytes()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Metadata> {
        let mut metadata = Metadata::default();
        if bytes.is_empty() {
            return Ok(metadata);
        }
        let damaged = || Error::format("the metadata is not Dublin Core in JSON");
        let object: serde_json::Map<String, Value> =
            serde_json::from_slice(bytes).map_err(|_| damaged())?;
        for (element, value) in object {
            let values = match value {
                Value::Array(values) => values,
                value => vec![value],
            };
            for value in values {
                let value = value.as_str().ok_or_else(damaged)?;
                metadata.add(&element, value).map_err(|_| damaged())?;
            }
        }
        Ok(metadata)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let mut metadata = Metadata::default();
        assert!(metadata.encode().is_empty());
        for (element, value) in [
            ("title", "A \"filter\""),
            ("dc:date", "2021"),
            ("format", "a"),
            ("format", "b"),
        ] {
            metadata.add(element, value).unwrap();
        }
        assert_eq!(Metadata::decode(&metadata.encode()).unwrap(), metadata);
        assert_eq!(metadata.get("format"), ["a", "b"]);
        assert!(metadata.add("colour", "red").is_err());
        for wrong in [&b"{"[..], b"[]", b"{\"title\": 1}", b"{\"x\": \"y\"}"] {
            assert!(Metadata::decode(wrong).is_err());
        }
    }
}
