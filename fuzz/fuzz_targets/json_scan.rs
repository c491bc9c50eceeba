//! The scanner reads the objects that `serde_json` reads, with the same members, and no others.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use waypost_index::json::{self, Next};

type Pairs = Vec<(String, Option<Vec<u8>>)>;

struct Members(Pairs);

impl<'de> Deserialize<'de> for Members {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Members, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Members;
            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Members, A::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    let text = match serde_json::from_str(value.get()) {
                        Ok(Value::String(text)) => Some(text.into_bytes()),
                        Ok(Value::Null | Value::Array(_) | Value::Object(_)) => None,
                        _ => Some(value.get().as_bytes().to_vec()),
                    };
                    pairs.push((name, text));
                }
                Ok(Members(pairs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

fuzz_target!(|bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else {
        let _ = json::members(bytes, true, |_, _| Next::More);
        return;
    };
    let mut ours: Pairs = Vec::new();
    let read = json::members(bytes, true, |name, raw| {
        let quoted = format!("\"{}\"", String::from_utf8_lossy(name));
        let name = serde_json::from_str(&quoted).unwrap_or_default();
        ours.push((name, json::text(raw).map(|text| text.into_owned())));
        Next::More
    });
    match serde_json::from_str::<Members>(text) {
        Ok(Members(theirs)) => {
            assert!(read.is_ok(), "{text:?}");
            assert_eq!(ours, theirs);
        }
        // A visitor may see members of an object that turns out to be broken later.
        Err(_) => assert!(read.is_err(), "{text:?}"),
    }
});
