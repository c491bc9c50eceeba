//! Any query string is a query, or an error that says why; a resume key is read as it was written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use waypost_archive::{Api, Query};

fuzz_target!(|text: &str| {
    for api in [Api::Pywb, Api::Wayback] {
        match Query::parse(api, text) {
            Err(error) => assert!(!error.0.is_empty()),
            Ok(query) => {
                assert!(!query.url.is_empty() || text.contains("url="));
                if let Some(resume) = query.resume {
                    let again = format!("url=a&resumeKey={}", resume.encode());
                    let again = Query::parse(api, &again).map(|query| query.resume);
                    assert_eq!(again, Ok(Some(resume)));
                }
            }
        }
    }
});
