//! Memory-mapped files, prefetching, and writing ahead. The only module with `unsafe` code.
//!
//! # Files that are truncated while they are mapped
//!
//! Renaming another file to the path of a mapped file does no harm: the map keeps the old file. But
//! if the file itself is truncated, reading a page after its new end raises SIGBUS, which ends the
//! process. A server that maps hundreds of other people's files cannot accept that. Copying each file
//! into memory would need memory for all of them; checking the length before each access would cost a
//! system call and still leave a gap.
//!
//! So this module handles SIGBUS. If the address belongs to one of its maps, it replaces the rest of
//! that map by pages of zeros, marks the map as torn, and lets the reader continue. Zeros are valid
//! bytes, and everything read from files is checked against their bounds anyway. Callers must call
//! [`Mapped::check`] before they return answers from a map, once per batch: it also compares the
//! length, because a truncation within the last remaining page raises no signal. Faults at other
//! addresses are passed to the previous handler.
#![allow(
    unsafe_code,
    reason = "memory maps, prefetching and a system call have no safe form"
)]

use std::fs::File;
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use memmap2::{Mmap, MmapMut, MmapOptions, UncheckedAdvice};

use crate::error::{Error, ErrorKind, IoContext, Result};
use crate::opened::FileSection;
use crate::source::Source;

/// Bytes of a mapped file, or in memory.
#[derive(Debug)]
pub struct Mapped {
    /// Where the bytes are: a lookup should not have to find out in which way they are held.
    start: *const u8,
    length: usize,
    bytes: Bytes,
}

// SAFETY: the bytes are never written to while they are shared, and what holds them may be sent and
// shared itself.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

#[derive(Debug)]
enum Bytes {
    Owned(Vec<u8>),
    Shared(Arc<[u8]>),
    /// Anonymous memory, on large pages if the system has them.
    Loaded(Mmap),
    File(Watched),
}

/// Frees the blocks within a part of a file. They read as zeros from then on. Failing is harmless.
#[cfg(target_os = "linux")]
fn free_space(file: &File, part: Range<usize>) {
    use rustix::fs::{FallocateFlags, fallocate};
    /// The size in most file systems. Parts of blocks are not freed but overwritten with zeros.
    const BLOCK: usize = 1 << 12;
    let (start, end) = (part.start.next_multiple_of(BLOCK), part.end / BLOCK * BLOCK);
    if start < end {
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let _ = fallocate(file, how, start as u64, (end - start) as u64);
    }
}

#[cfg(not(target_os = "linux"))]
fn free_space(_: &File, _: Range<usize>) {}

/// Memory of which all bytes are zero, on large pages if the system has them: they take less time to
/// get, to find and to give back.
pub(crate) fn zeroed(length: usize) -> io::Result<MmapMut> {
    let bytes = MmapMut::map_anon(length)?;
    // Best effort: falls back to small pages.
    #[cfg(target_os = "linux")]
    let _ = bytes.advise(memmap2::Advice::HugePage);
    Ok(bytes)
}

/// A map of a file for which SIGBUS is handled.
#[derive(Debug)]
struct Watched {
    map: Mmap,
    region: &'static Region,
    file: Arc<File>,
    /// Where the mapped part of the file ends.
    end: u64,
    name: PathBuf,
    /// Whether nobody else can change the file.
    private: AtomicBool,
}

impl Watched {
    #[cold]
    fn truncated(&self) -> Error {
        let message = "the file was truncated while it was in use".to_owned();
        Error::new(ErrorKind::Format(message)).in_file(self.name.display())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        // Before the map is removed and its addresses are reused.
        self.region.start.store(0, Ordering::Release);
    }
}

impl Mapped {
    fn new(bytes: Bytes) -> Mapped {
        let held: &[u8] = match &bytes {
            Bytes::Owned(bytes) => bytes,
            Bytes::Shared(bytes) => bytes,
            Bytes::Loaded(bytes) => bytes,
            Bytes::File(watched) => &watched.map,
        };
        Mapped {
            start: held.as_ptr(),
            length: held.len(),
            bytes,
        }
    }

    /// Maps a file. A pipe is written to a temporary file first.
    ///
    /// # Errors
    /// If it cannot be opened or mapped.
    pub fn open(path: &Path) -> Result<Mapped> {
        Mapped::of(&Source::new(path))
    }

    /// Maps the file that a source has opened. A pipe is written to a temporary file first.
    ///
    /// # Errors
    /// If it cannot be opened or mapped.
    pub fn of(source: &Source) -> Result<Mapped> {
        let path = source.path();
        let section = regular(source)?;
        if section.length == 0 {
            // An empty file cannot be mapped.
            return Ok(Mapped::from(Vec::new()));
        }
        let mut options = MmapOptions::new();
        if !section.is_whole() {
            let length = fits(section.length, path)?;
            options.offset(section.start).len(length);
        }
        // SAFETY: the map is only read, and as bytes, for which every value is valid. If another
        // process writes to the file meanwhile, lookups may miss, but every access is checked against
        // the length of the map. For files that are truncated meanwhile, see above.
        let map = unsafe { options.map(&*section.file) }.doing("map", path)?;
        match watch(&map) {
            Some(region) => Ok(Mapped::new(Bytes::File(Watched {
                end: section.start + map.len() as u64,
                map,
                region,
                file: section.file,
                name: path.to_owned(),
                private: AtomicBool::new(false),
            }))),
            // More maps than can be watched: anonymous memory is safe, too.
            None => Mapped::load_of(source),
        }
    }

    /// Reads a whole file into memory, on large pages if the system has them. Random access to a large
    /// file is then faster, because it needs fewer page table walks.
    ///
    /// # Errors
    /// If it cannot be read, or is larger than the memory.
    pub fn load(path: &Path) -> Result<Mapped> {
        Mapped::load_of(&Source::new(path))
    }

    /// Reads the file that a source has opened into memory.
    ///
    /// # Errors
    /// Like [`load`](Mapped::load).
    pub fn load_of(source: &Source) -> Result<Mapped> {
        let path = source.path();
        let section = regular(source)?;
        if section.length == 0 {
            return Ok(Mapped::from(Vec::new()));
        }
        let length = fits(section.length, path)?;
        let mut bytes = zeroed(length).doing("read", path)?;
        section
            .file
            .read_exact_at(&mut bytes, section.start)
            .doing("read", path)?;
        let bytes = bytes.make_read_only().doing("read", path)?;
        Ok(Mapped::new(Bytes::Loaded(bytes)))
    }

    /// Checks that everything read so far was really in the file.
    ///
    /// # Errors
    /// If the file was truncated while it was in use.
    pub fn check(&self) -> Result<()> {
        let Bytes::File(watched) = &self.bytes else {
            return Ok(());
        };
        if watched.private.load(Ordering::Relaxed) {
            return self.check_quickly();
        }
        // After the new end, the last remaining page reads as zeros without any signal.
        let length = watched.file.metadata().doing("read", &watched.name)?.len();
        if length >= watched.end {
            return self.check_quickly();
        }
        Err(watched.truncated())
    }

    /// A faster check, one atomic load, that only detects reads of missing pages. For single lookups of
    /// a batch, for which [`check`](Mapped::check) is called at the end.
    ///
    /// # Errors
    /// If the file was truncated while it was in use.
    #[inline]
    pub fn check_quickly(&self) -> Result<()> {
        match &self.bytes {
            Bytes::File(watched) if watched.region.torn.load(Ordering::Acquire) => {
                Err(watched.truncated())
            }
            _ => Ok(()),
        }
    }

    /// Says that nobody else can change the file, because it is a copy that was removed after it was
    /// mapped: [`check`](Mapped::check) then needs no system call.
    pub fn set_private(&self) {
        if let Bytes::File(watched) = &self.bytes {
            watched.private.store(true, Ordering::Relaxed);
        }
    }

    /// Releases the memory of a part that is not needed soon. If it is needed, it is read from the file
    /// again.
    pub fn release(&self, part: Range<usize>) {
        if let Bytes::File(Watched { map: mapped, .. }) = &self.bytes {
            // SAFETY: the map is of a file and never written to, so the bytes stay what they are.
            // Failing is harmless.
            let _ = unsafe {
                mapped.unchecked_advise_range(UncheckedAdvice::DontNeed, part.start, part.len())
            };
        }
    }

    /// Releases the memory of a part that nobody reads again, and its space on disk, where the system
    /// can do that. `file` is the mapped file, open for writing.
    pub fn discard(&self, part: Range<usize>, file: &File) {
        self.release(part.clone());
        free_space(file, part);
    }
}

/// The addresses of a map, for the handler of SIGBUS. `start` is 0 while it is free, and
/// [`CLAIMED`] while it is being filled.
#[derive(Debug)]
struct Region {
    start: AtomicUsize,
    end: AtomicUsize,
    torn: AtomicBool,
}

const CLAIMED: usize = usize::MAX;

/// Searched by the handler, which must not block: no lock, no allocation.
static REGIONS: [Region; 4096] = [const {
    Region {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        torn: AtomicBool::new(false),
    }
}; 4096];

static PAGE: AtomicUsize = AtomicUsize::new(0);

/// The previous handler.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

/// Registers a map with the handler. `None` if there is no handler or no free region.
fn watch(map: &Mmap) -> Option<&'static Region> {
    static INSTALLED: OnceLock<bool> = OnceLock::new();
    if !INSTALLED.get_or_init(install) {
        return None;
    }
    let region = REGIONS.iter().find(|region| {
        let claim =
            (region.start).compare_exchange(0, CLAIMED, Ordering::AcqRel, Ordering::Relaxed);
        claim.is_ok()
    })?;
    let start = map.as_ptr() as usize;
    let page = PAGE.load(Ordering::Relaxed);
    region.end.store(
        (start + map.len()).next_multiple_of(page),
        Ordering::Relaxed,
    );
    region.torn.store(false, Ordering::Relaxed);
    region.start.store(start, Ordering::Release);
    Some(region)
}

fn install() -> bool {
    // SAFETY: sysconf reads a constant. The handler is a function with the signature that SA_SIGINFO
    // asks for, it is async-signal-safe, and the previous one is kept to be called.
    unsafe {
        let page = libc::sysconf(libc::_SC_PAGESIZE);
        if page <= 0 {
            return false;
        }
        PAGE.store(page as usize, Ordering::Relaxed);
        let mut before: libc::sigaction = std::mem::zeroed();
        if libc::sigaction(libc::SIGBUS, std::ptr::null(), &raw mut before) != 0 {
            return false;
        }
        let _ = BEFORE.set(before);
        let mut ours: libc::sigaction = std::mem::zeroed();
        let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = on_fault;
        ours.sa_sigaction = handler as libc::sighandler_t;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        libc::sigemptyset(&raw mut ours.sa_mask);
        libc::sigaction(libc::SIGBUS, &raw const ours, std::ptr::null_mut()) == 0
    }
}

/// Handles SIGBUS: only atomic loads and stores and one system call.
extern "C" fn on_fault(
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    // SAFETY: the system calls a handler with SA_SIGINFO with a valid description of the fault.
    let address = unsafe { (*info).si_addr() } as usize;
    for region in &REGIONS {
        let start = region.start.load(Ordering::Acquire);
        let end = region.end.load(Ordering::Relaxed);
        if start == 0 || start == CLAIMED || !(start..end).contains(&address) {
            continue;
        }
        let page = address - address % PAGE.load(Ordering::Relaxed);
        // Marked first, so that a reader that sees zeros also sees the mark.
        region.torn.store(true, Ordering::Release);
        // SAFETY: the pages belong to a map of ours, which is only read and outlives this call: the
        // thread that is stopped here reads it. What is put in their place are readable bytes.
        let mapped = unsafe {
            libc::mmap(
                page as *mut libc::c_void,
                end - page,
                libc::PROT_READ,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        if mapped != libc::MAP_FAILED {
            return;
        }
    }
    // Not ours. The fault is raised again when this returns and then reaches the previous handler; one
    // that takes the details is called with them.
    // SAFETY: the action was given by the system, and a handler is called as its flags say.
    unsafe {
        match BEFORE.get() {
            Some(before)
                if before.sa_flags & libc::SA_SIGINFO != 0
                    && before.sa_sigaction != libc::SIG_DFL
                    && before.sa_sigaction != libc::SIG_IGN =>
            {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) =
                    std::mem::transmute(before.sa_sigaction as *const ());
                handler(signal, info, context);
            }
            Some(before) => {
                libc::sigaction(libc::SIGBUS, before, std::ptr::null_mut());
            }
            None => {
                libc::signal(libc::SIGBUS, libc::SIG_DFL);
            }
        }
    }
}

/// A length that this machine can address.
fn fits(length: u64, path: &Path) -> Result<usize> {
    usize::try_from(length).map_err(|_| {
        let message = "larger than the memory of this machine".to_owned();
        Error::new(ErrorKind::Invalid(message)).in_file(path.display())
    })
}

/// A file, or a section of one, that can be mapped.
fn regular(source: &Source) -> Result<FileSection> {
    source.keep(&std::env::temp_dir())?;
    match source.file()? {
        Some(regular) => Ok(regular),
        // Not reached: what was kept is regular.
        None => Err(io::Error::from(io::ErrorKind::Unsupported)).doing("map", source.path()),
    }
}

impl From<Vec<u8>> for Mapped {
    fn from(bytes: Vec<u8>) -> Mapped {
        Mapped::new(Bytes::Owned(bytes))
    }
}

impl From<Arc<[u8]>> for Mapped {
    fn from(bytes: Arc<[u8]>) -> Mapped {
        Mapped::new(Bytes::Shared(bytes))
    }
}

impl Deref for Mapped {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: these are the bytes that `self.bytes` holds. They are on the heap or mapped, so they
        // did not move with it, and they stay as long as it does.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl AsRef<[u8]> for Mapped {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

/// Prefetches the byte at `index`. Does nothing if the processor cannot, or if there is no such byte.
#[inline]
pub fn prefetch(bytes: &[u8], index: usize) {
    #[cfg(target_arch = "x86_64")]
    if let Some(byte) = bytes.get(index) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: the pointer is that of a reference, and a prefetch reads nothing that could be
        // seen: SSE is part of every x86-64 processor.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(byte).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (bytes, index);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    #[cfg(target_os = "linux")]
    fn what_is_discarded_frees_its_disk_space_and_leaves_the_rest_alone() {
        use std::os::unix::fs::MetadataExt;
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        io::Write::write_all(&mut file, &bytes).unwrap();
        let map = Mapped::open(file.path()).unwrap();
        let before = file.as_file().metadata().unwrap().blocks() * 512;
        for part in [10..20, 5_000..500_000, 900_000..1_000_000] {
            map.discard(part, file.as_file());
        }
        assert_eq!(map[..4096], bytes[..4096]);
        assert_eq!(map[500_000..900_000], bytes[500_000..900_000]);
        assert!(map.check().is_ok());
        let about = file.as_file().metadata().unwrap();
        assert_eq!(about.len(), 1_000_000);
        assert!(
            about.blocks() * 512 <= before - 580_000,
            "{} of {before}",
            about.blocks() * 512
        );
    }

    #[test]
    fn truncating_a_mapped_file_gives_an_error_and_no_signal() {
        let folder = tempfile::tempdir().unwrap();
        let (path, other) = (folder.path().join("a"), folder.path().join("b"));
        let bytes: Vec<u8> = (0..1_000_000u32).map(|n| (n % 251) as u8).collect();
        fs::write(&path, &bytes).unwrap();
        fs::write(&other, &bytes).unwrap();
        let (map, whole) = (Mapped::open(&path).unwrap(), Mapped::open(&other).unwrap());
        assert!(map[..] == bytes && map.check().is_ok());
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(100_000)
            .unwrap();
        // Several threads reach the end at the same time.
        std::thread::scope(|threads| {
            for _ in 0..4 {
                threads.spawn(|| {
                    let same = map.iter().zip(&bytes).filter(|(a, b)| a == b).count();
                    assert!((100_000..120_000).contains(&same), "{same}");
                });
            }
        });
        assert!(map.check_quickly().is_err());
        let error = map.check().unwrap_err();
        assert!(error.to_string().contains("truncated"), "{error}");
        assert!(whole[..] == bytes && whole.check().is_ok());
        drop(map);
        // No page is missing, but some bytes are.
        let map = Mapped::open(&path).unwrap();
        File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(99_999)
            .unwrap();
        assert_eq!(map[99_999], 0);
        assert!(map.check().is_err());
        drop(map);
        // Replacing a file does no harm: the map keeps the old one.
        let map = Mapped::open(&other).unwrap();
        fs::write(&path, b"new").unwrap();
        fs::rename(&path, &other).unwrap();
        assert!(map[..] == bytes && map.check().is_ok());
    }
}
