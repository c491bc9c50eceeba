//! A Memento aggregator (RFC 7089): asks many archives at once and merges what they hold.
//!
//! ```text
//! registry ─► decide ─► ask ─► merge ─► answer
//! ```
//!
//! ```
//! use waypost_router::{ArchiveLimits, Registry};
//!
//! let list = br#"[
//!     {"id": "a", "timemap": "http://a.example/timemap/link/", "probability": 0.3},
//!     {"id": "b", "timemap": "http://b.example/timemap/link", "probability": 0.9},
//!     {"id": "c", "timemap": "http://c.example/timemap/link/", "ignore": true}
//! ]"#;
//! let registry = Registry::from_json(list, &ArchiveLimits::default())?;
//! let ids: Vec<&str> = registry.archives.iter().map(|archive| archive.id.as_str()).collect();
//! assert_eq!(ids, ["b", "a"]);
//! assert_eq!(registry.archives[0].timemap.as_deref(), Some("http://b.example/timemap/link/"));
//! # Ok::<(), waypost_io::Error>(())
//! ```

mod aggregate;
mod aggregator;
pub mod answer;
pub mod ask;
mod cache;
mod config;
mod decide;
pub mod harvest;
mod log;
mod lookup;
mod manners;
mod merge;
mod metrics;
mod monitor;
mod original;
mod page;
mod registry;
mod router;
pub mod serve;
mod tally;

pub use aggregate::{Aggregate, Found, Outcome, Reply};
pub use aggregator::{Aggregator, AnsweredRequest, Operations, Session};
pub use ask::Client;
pub use cache::{Cache, CacheDirective, Kept, Origin};
pub use config::{
    CacheConfig, ClientConfig, Config, LogConfig, LogFormat, RoutingConfig, ServerConfig,
};
pub use decide::{
    ArchiveTally, AuditedRecall, Choice, Completeness, Decider, Decision, LogReport, Pattern,
    Period, Reason, Rules, Simulation, SummaryState, Truth, Watch, batch_line, explanation,
    learn_log, published_map, simulate,
};
pub use log::{Log, go_duration};
pub use lookup::{Lookup, Selection, Wanted, asks_for_page};
pub use manners::{BreakerStyle, Change, Manners, Permit, Refusal, Standing};
pub use merge::merge;
pub use metrics::Metrics;
pub use monitor::{Events, Monitor};
pub use original::original_uri;
pub use registry::{Archive, ArchiveLimits, ForPages, Registry};
pub use router::{AggregateOptions, Event, Observer, Router};
