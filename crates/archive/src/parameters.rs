//! The parameters of a query string.

/// The decoded parameters of a query string, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Parameters {
    pairs: Vec<(String, Vec<u8>)>,
    /// The names of those without a value.
    empty: Vec<String>,
}

impl Parameters {
    /// Parses `name=value&name=value`, percent-encoded, with `+` for spaces. Parameters without a
    /// value are ignored, as pywb does.
    pub(crate) fn parse(query: &str) -> Parameters {
        let mut parameters = Parameters::default();
        for pair in query.split('&') {
            let Some((name, value)) = pair.split_once('=') else {
                continue;
            };
            let name = String::from_utf8_lossy(&decode(name)).into_owned();
            match decode(value) {
                value if value.is_empty() => parameters.empty.push(name),
                value => parameters.pairs.push((name, value)),
            }
        }
        parameters
    }

    /// Whether a parameter stands there without a value: `name=`.
    pub(crate) fn is_empty(&self, name: &str) -> bool {
        self.empty.iter().any(|known| known == name)
    }

    /// The last value of a parameter.
    pub(crate) fn bytes(&self, name: &str) -> Option<&[u8]> {
        let mut pairs = self.pairs.iter().rev();
        pairs
            .find(|(known, _)| known == name)
            .map(|(_, value)| &value[..])
    }

    /// The last value of a parameter as text.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        self.bytes(name)
            .map(|value| String::from_utf8_lossy(value).into_owned())
    }

    /// All values of a parameter.
    pub(crate) fn all(&self, name: &str) -> impl Iterator<Item = String> {
        self.pairs
            .iter()
            .filter(move |(known, _)| known == name)
            .map(|(_, value)| String::from_utf8_lossy(value).into_owned())
    }

    /// Whether a parameter is set and does not mean no.
    pub(crate) fn is_set(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| {
            !["0", "false", "f", "off"].contains(&&value.to_ascii_lowercase()[..])
        })
    }
}

/// Decodes `%41` and `+`. Everything else stays as it is.
fn decode(text: &str) -> Vec<u8> {
    let bytes = text.as_bytes();
    let mut decoded = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        let digit = |at: usize| (bytes.get(at).copied()? as char).to_digit(16);
        match (byte, digit(at), digit(at + 1)) {
            (b'%', Some(high), Some(low)) => {
                decoded.push((high * 16 + low) as u8);
                at += 2;
            }
            (b'+', ..) => decoded.push(b' '),
            _ => decoded.push(byte),
        }
    }
    decoded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_the_last_one_counts() {
        let parameters = Parameters::parse(
            "url=http%3a%2F%2Fa.com/%3fx+y%zz&a=1&a=2&filter=x&filter=%21y&empty=&novalue&b=False",
        );
        assert_eq!(parameters.bytes("url"), Some(&b"http://a.com/?x y%zz"[..]));
        assert_eq!(parameters.text("a").as_deref(), Some("2"));
        assert_eq!(parameters.all("filter").collect::<Vec<_>>(), ["x", "!y"]);
        assert_eq!(parameters.bytes("empty"), None);
        assert_eq!(parameters.bytes("novalue"), None);
        assert!(parameters.is_set("a") && !parameters.is_set("b") && !parameters.is_set("c"));
    }
}
