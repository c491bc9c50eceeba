//! One lookup in many archives, from the command line.

use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::runtime::Runtime;
use waypost_memento::{Datetime, Format};
use waypost_router::answer::Addresses;
use waypost_router::{
    Aggregator, BreakerStyle, CacheConfig, CacheDirective, Config, Kept, Log, Lookup, Selection,
    Session, Wanted, original_uri,
};

use crate::archives::ArchiveOptions;
use crate::cmd::seconds;
use crate::hint::Hint;
use crate::listening::Threads;
use crate::printer::Printer;
use crate::{service, time};

/// One lookup, as `timemap` and `memento` take it.
#[derive(Args)]
pub(crate) struct LookupOptions {
    #[command(flatten)]
    archives: ArchiveOptions,
    /// Ask only these archives, by their ids; `!a,!b` for all but these
    #[arg(long, value_name = "IDS", value_parser = selection)]
    only: Option<Selection>,
    /// Seconds after which what has arrived is printed [default: 30]
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    deadline: Option<Duration>,
    /// The URL of an aggregator, for the links to TimeMaps and TimeGates
    #[arg(long, value_name = "URL", default_value = "http://localhost:1208")]
    proxy: String,
}

fn selection(text: &str) -> Result<Selection, String> {
    let mixed = || format!("`{text}` names archives and excludes others: write a,b or !a,!b");
    Selection::parse(text).ok_or_else(mixed)
}

impl LookupOptions {
    /// Asks archives for a URI, and warns about those that fail.
    pub(crate) fn look_up(
        &self,
        uri: &str,
        wanted: Wanted,
        out: &Printer,
    ) -> anyhow::Result<(String, Aggregation)> {
        let uri = original_uri(uri)
            .ok_or_else(|| anyhow::anyhow!("invalid URI `{uri}`"))
            .hint("write it as in http://example.com/page")?;
        let mut config = self.archives.read()?;
        if let Some(deadline) = self.deadline {
            config.client.deadline = deadline;
        }
        let lookup = Lookup {
            archives: self.only.clone().unwrap_or_default(),
            ..Lookup::new(&uri[..], wanted)
        };
        let known = &config.registry;
        let unknown = |id: &&String| known.position(id).is_none();
        if let Some(id) = lookup.archives.ids().iter().find(unknown) {
            let ids: Vec<&str> = known.archives.iter().map(|a| &a.id[..]).collect();
            return Err(anyhow::anyhow!("unknown archive `{id}`"))
                .hint(format!("the archives are: {}", ids.join(", ")));
        }
        let found = Aggregation::run(&config, BreakerStyle::default(), Log::none(), &lookup, out)?;
        found.warn(out);
        Ok((uri, found))
    }

    /// Where an aggregator would answer.
    pub(crate) fn addresses(&self) -> Addresses {
        Addresses::new(&self.proxy)
    }
}

/// The name of a format.
pub(crate) fn format(text: &str) -> Result<Format, String> {
    let format = Format::ALL.into_iter().find(|format| format.name() == text);
    format.ok_or_else(|| format!("unknown format `{text}`: write link, json or cdxj"))
}

/// A datetime, as people type it.
pub(crate) fn datetime(text: &str) -> Result<Datetime, String> {
    let digits = time::digits(text)?;
    let found = Datetime::parse_timestamp(&digits);
    found.map_err(|_| format!("invalid time `{text}`: {}", time::FORMS))
}

/// What archives answered to a lookup.
pub(crate) struct Aggregation {
    pub(crate) aggregator: Aggregator,
    pub(crate) kept: Kept,
    session: Arc<Session>,
    /// Archives that have not answered are not waited for.
    _runtime: Runtime,
}

impl Aggregation {
    /// Asks the archives of a configuration. Answers are not kept: a server may use the file for them.
    pub(crate) fn run(
        config: &Config,
        style: BreakerStyle,
        log: Log,
        lookup: &Lookup,
        out: &Printer,
    ) -> anyhow::Result<Aggregation> {
        let runtime = Threads::default().start()?;
        let config = Config {
            cache: CacheConfig {
                enabled: false,
                ..CacheConfig::default()
            },
            ..config.clone()
        };
        let aggregator = service::aggregator(&config, style, log, out.messages())?;
        let kind = match lookup.wanted {
            Wanted::All => "timemap",
            Wanted::Closest(_) => "timegate",
        };
        let number = aggregator.operations().next_number();
        let session = aggregator.start(number, &lookup.uri, kind);
        let deadline = config.client.deadline;
        let usual = CacheDirective::Usual;
        let kept = runtime.block_on(aggregator.look_up(&session, lookup, usual, deadline));
        Ok(Aggregation {
            kept: kept.ok_or_else(|| anyhow::anyhow!("no archive was asked"))?,
            aggregator,
            session,
            _runtime: runtime,
        })
    }

    /// Ends the session: what was found is printed.
    pub(crate) fn finish(&self) {
        let found = !self.kept.aggregate.mementos.is_empty();
        self.session.finish(if found { 200 } else { 404 });
    }

    /// Warns about archives of which mementos may be missing.
    pub(crate) fn warn(&self, out: &Printer) {
        let archives = &self.session.router().registry().archives;
        let outcomes = self.kept.aggregate.outcomes.iter();
        for outcome in outcomes.filter(|outcome| outcome.reply.is_incomplete()) {
            if let Some(archive) = archives.get(outcome.archive) {
                out.warn(format_args!("{}: {}", archive.id, outcome.reply));
            }
        }
    }
}
