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
        let mut start = 0;
        while start < file.len() {
            let end = members::next_start(&file, start + 18).unwrap_or(file.len());
            let member = &file[start..end];
            let length = u32::from_le_bytes(member[member.len() - 4..].try_into()?) as usize;
            buffer.resize(buffer.len().max(length), 0);
            total += inflater.gzip_decompress(member, &mut buffer[..length])?;
            start = end;
        }
    }
    println!("{total}");
    Ok(())
}
