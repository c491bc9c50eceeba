//! The [`Summary`](crate::Summary) interface of classic Bloom filters.

use waypost_surt::is_surt;

use super::file::{Array, ClassicFilter};
use super::spelling::spellings;
use crate::about::About;
use crate::error::Result;
use crate::filter::format::Metadata;
use crate::filter::summary::about_of;
use crate::frequency::{Frequency, Number, Sureness};
use crate::lookup::Lookup;
use crate::summary::{Answer, Kind, Match, Size, Summary};

pub(super) fn about(arrays: &[Array], metadata: &Metadata) -> About {
    let urls: Option<u64> = arrays.iter().map(|array| array.urls).sum();
    About {
        urirs: urls.map(|value| Number {
            value,
            // Distinct URLs, of which several may have one SURT.
            sureness: Sureness::About,
        }),
        ..about_of(metadata)
    }
}

impl ClassicFilter {
    /// Whether a page may be held under one of the frequent spellings of its URL.
    ///
    /// # Errors
    /// If the filter is damaged or was truncated.
    pub fn may_hold(&self, url: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut all = Vec::new();
        spellings(url, &mut all);
        for spelling in all {
            if self.contains(&spelling)? {
                return Ok(Some(spelling));
            }
        }
        self.bytes.check()?;
        Ok(None)
    }
}

impl Summary for ClassicFilter {
    fn kind(&self) -> Kind {
        Kind::Filter
    }

    fn about(&self) -> &About {
        &self.about
    }

    fn size(&self) -> Size {
        Size {
            keys: self.urls().unwrap_or(0),
            bytes: self.length(),
            gzip_bytes: self.length(),
        }
    }

    fn set_private(&self) {
        self.bytes.set_private();
    }

    /// A SURT stands for many URLs, so that nothing can be said about it.
    fn lookup(&self, lookup: &Lookup<'_>) -> Result<Answer> {
        if is_surt(lookup.uri().trim_ascii()) {
            return Ok(Answer::Unknown);
        }
        let answer = match self.may_hold(lookup.uri())? {
            Some(key) => Answer::Present(Match {
                key: Some(key),
                frequency: Frequency::default(),
            }),
            None => Answer::Absent,
        };
        Ok(self.about.scopes.limit(lookup, answer))
    }
}
