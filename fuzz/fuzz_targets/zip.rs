//! Any bytes are a zip archive or an error, and what its entries contain can be read or is damaged.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use waypost_index::kind;
use waypost_index::wacz::Wacz;
use waypost_io::zip::{self, End};
use waypost_io::{Source, Zip};

fuzz_target!(|bytes: &[u8]| {
    // The pure functions alone, also on what does not start like an archive.
    let _ = (zip::is_zip(bytes), zip::first_name(bytes));
    if let Ok(end) = End::find(bytes, 0) {
        let end = end.zip64.map_or(Ok(end), |at| {
            let record = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
            End::parse64(record.unwrap_or_default(), at)
        });
        if let Ok(end) = end
            && let Ok((start, before)) = end.directory()
        {
            let directory = bytes.get(start as usize..(start + end.size) as usize);
            let _ = zip::entries(directory.unwrap_or_default(), before);
        }
    }
    let _ = zip::entries(bytes, u64::MAX);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.wacz");
    std::fs::write(&path, bytes).unwrap();
    let source = Source::new(path);
    let _ = kind::detect(&source);
    if let Ok(zip) = Zip::open(&source) {
        for entry in zip.entries() {
            let _ = zip.check(entry);
            if let Ok(source) = zip.source(entry)
                && let Ok(stream) = source.open()
            {
                let _ = stream.take(1 << 20).read_to_end(&mut Vec::new());
            }
        }
    }
    if let Ok(wacz) = Wacz::open(&source) {
        let _ = (wacz.indexes(), wacz.warcs(), wacz.dialect());
    }
});
