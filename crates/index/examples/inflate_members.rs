//! Inflates every member of gzip files with libdeflate and nothing else: the ceiling that `bench/warc`
//! compares with. `inflate_members FILE…` prints the bytes inflated.
#![allow(clippy::print_stdout, reason = "it is a program")]

use waypost_io::{Mapped, members};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut inflater = libdeflater::Decompressor::new();
    let mut buffer = Vec::new();
    let mut total = 0;
    for path in std::env::args_os().skip(1) {
        let file = Mapped::open(path.as_ref())?;
        let (mut start, mut from) = (0, 18);
        while start < file.len() {
            let end = members::next_start(&file, from).unwrap_or(file.len());
            let member = &file[start..end];
            let length = u32::from_le_bytes(member[member.len() - 4..].try_into()?) as usize;
            // What looks like the start of the next member may be in the middle of this one.
            let is_possible = length <= member.len().saturating_mul(1032);
            buffer.resize(buffer.len().max(if is_possible { length } else { 0 }), 0);
            let inflated = match is_possible {
                true => inflater.gzip_decompress(member, &mut buffer[..length]).ok(),
                false => None,
            };
            match inflated {
                Some(inflated) => {
                    total += inflated;
                    (start, from) = (end, end + 18);
                }
                None if end == file.len() => return Err("a damaged member".into()),
                None => from = end + 1,
            }
        }
    }
    println!("{total}");
    Ok(())
}
