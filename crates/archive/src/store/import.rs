//! Reading the layout that Orestes has in Redis.
//!
//! | key | value |
//! |---|---|
//! | `NAME` | a hash: `m` bits, `k` hash functions, `hashmethod` |
//! | `NAME:bits` | the bits, the first in the highest bit of the first byte |

use std::collections::HashMap;
use std::path::Path;

use waypost_io::{Error, ErrorKind, Result};
use waypost_summary::filter::Metadata;
use waypost_summary::filter::orestes::{Method, Shape, Split, Writer};

use super::Store;

/// The size of a range.
const CHUNK: u64 = 4 << 20;

/// What to import.
#[derive(Clone, Debug)]
pub struct RedisImport {
    /// The name of the filter. With several, `{}` stands for the digits of each.
    pub name: String,
    /// How URLs are distributed.
    pub split: Split,
    /// Metadata given by the user.
    pub metadata: Metadata,
}

/// Imports filters to a file that lookups read. Returns their false positive rate.
///
/// # Errors
/// If a filter is missing or invalid, or the server or the file fails.
pub fn import(store: &Store, options: &RedisImport, out: &Path) -> Result<f64> {
    let io = waypost_summary::Error::into_io;
    let mut writer: Option<(Writer, Method)> = None;
    for number in 0..options.split.filters() {
        let name = match options.split {
            Split::One => options.name.clone(),
            split => options.name.replace("{}", &split.name(number)),
        };
        let wrong = |what: String| {
            let problem = format!("filter `{name}`: {what}");
            Error::new(ErrorKind::Invalid(problem)).in_file(store.name())
        };
        let about: HashMap<String, String> = store.query(redis::cmd("HGETALL").arg(&name))?;
        if about.is_empty() {
            return Err(wrong("there is no such filter of Orestes".to_owned()));
        }
        let field = |field: &str| -> Result<u64> {
            let text = about.get(field).map_or("", String::as_str);
            let number = text.parse();
            number.map_err(|_| wrong(format!("invalid field {field}: `{text}`")))
        };
        let shape = Shape {
            bits: field("m")?,
            hashes: u32::try_from(field("k")?).map_err(|error| wrong(error.to_string()))?,
        };
        let method = match about.get("hashmethod") {
            Some(name) => name
                .parse::<Method>()
                .map_err(|error| wrong(error.to_string()))?,
            None => Method::default(),
        };
        let writer = match &mut writer {
            Some((writer, first)) if *first == method => writer,
            Some(_) => return Err(wrong("another hash method than the first".to_owned())),
            none => {
                let created = Writer::create(out, method, options.split).map_err(io)?;
                &mut none.insert((created, method)).0
            }
        };
        writer.begin(shape, None).map_err(io)?;
        let key = format!("{name}:bits");
        let mut at = 0;
        while at < shape.bytes() {
            let last = (at + CHUNK).min(shape.bytes()) - 1;
            let command = redis::cmd("GETRANGE").arg(&key).arg(at).arg(last).clone();
            let mut bytes: Vec<u8> = store.query(&command)?;
            if bytes.is_empty() {
                // The rest of the bits was never set.
                break;
            }
            bytes
                .iter_mut()
                .for_each(|byte| *byte = byte.reverse_bits());
            writer.write(&bytes).map_err(io)?;
            at += bytes.len() as u64;
        }
    }
    match writer {
        Some((writer, _)) => writer.finish(&options.metadata).map_err(io),
        None => Err(Error::new(ErrorKind::Invalid("no filters".to_owned()))),
    }
}
