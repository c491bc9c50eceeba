//! A canonicaliser that is warm allocates nothing.
#![allow(
    unsafe_code,
    reason = "an allocator that counts cannot be written without"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use waypost_surt::{Canonicalizer, Dialect, Policy, Surt};

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn a_warm_canonicaliser_allocates_nothing_and_neither_does_cutting() {
    let uris = [
        "https://www.example.com:8443/a/b/../c?b=2&a=1&PHPSESSID=0123456789abcdef0123456789abcdef#x",
        "http://b\u{fc}cher.example/stra\u{df}e/%C3%A9%E9?q=\u{e9}",
        "http://ex..ample.com/\t(S(0123456789abcdefghijklmn))/p.aspx",
        "http://0127.1/%2525",
        "mailto:someone@example.com",
        "http://example.com:99999999/",
    ];
    for dialect in Dialect::ALL {
        let mut canonicalizer = Canonicalizer::new(dialect);
        let mut surt = Vec::with_capacity(4096);
        let mut key = Vec::with_capacity(4096);
        let mut pass = || {
            for uri in uris {
                // UTS 46 comes from another crate, which allocates, and old queries are read as forms.
                let is_legacy = dialect == Dialect::WebrecorderLegacy;
                if is_legacy || dialect == Dialect::Webrecorder && !uri.is_ascii() {
                    continue;
                }
                surt.clear();
                let _ = canonicalizer.canonicalize(uri.as_bytes(), &mut surt);
                for policy in Policy::ALL {
                    key.clear();
                    policy.cut(&Surt::new(&surt), &mut key);
                }
                assert!(Surt::new(&surt).candidates().count() > 0);
            }
        };
        pass();
        let before = ALLOCATIONS.with(Cell::get);
        pass();
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0, "{dialect}");
    }
}
