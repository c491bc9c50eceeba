//! Compares routing with asking everyone.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::{StreamExt as _, stream};
use waypost_report::{Align, Table, count};
use waypost_router::{
    Aggregate, AggregateOptions, Client, Config, Decider, Lookup, Registry, Reply, Router,
    RoutingConfig, Wanted,
};

use crate::printer::Printer;

/// How many lookups are answered at a time.
const AT_A_TIME: usize = 16;

/// What a way of answering lookups costs, and what it finds.
#[derive(Default)]
struct Figures {
    requests: u64,
    useful: u64,
    mementos: u64,
    took: Duration,
}

/// Answers all lookups by asking everyone and by routing, and prints what differs.
pub(super) async fn compare(
    config: &Path,
    lookups: &[String],
    out: &mut Printer,
) -> anyhow::Result<()> {
    let routed = Config::read(config)?.registry;
    let mut broadcast = routed.clone();
    for archive in &mut broadcast.archives {
        archive.summaries.clear();
    }
    out.note(format_args!(
        "\n{} lookups, once by asking all archives and once by consulting their summaries first:",
        count(lookups.len() as u64)
    ));
    let (all, broadcast) = answer(broadcast, lookups).await?;
    let (some, routed) = answer(routed, lookups).await?;
    let same = all
        .iter()
        .zip(&some)
        .filter(|(all, some)| all.mementos == some.mementos);
    let same = same.count();

    let columns = [
        ("", Align::Left),
        ("requests", Align::Right),
        ("misses", Align::Right),
        ("mementos", Align::Right),
        ("seconds", Align::Right),
    ];
    let mut table = Table::new(&columns);
    for (name, figures) in [("broadcast", &broadcast), ("routed", &routed)] {
        table.row([
            name.to_owned(),
            count(figures.requests),
            count(figures.requests - figures.useful),
            count(figures.mementos),
            format!("{:.2}", figures.took.as_secs_f64()),
        ]);
    }
    let share = |part: u64, whole: u64| match whole {
        0 => 1.0,
        _ => part as f64 / whole as f64,
    };
    let saved = broadcast.requests - routed.requests;
    let recall = share(routed.mementos, broadcast.mementos);
    use std::io::Write as _;
    writeln!(out.data(), "{table}")?;
    writeln!(
        out.data(),
        "requests saved: {:.1}%, recall: {recall:.4}; {} of {} answers are the same",
        100.0 * share(saved, broadcast.requests),
        count(same as u64),
        count(lookups.len() as u64)
    )?;
    out.flush()?;
    anyhow::ensure!(
        same == lookups.len(),
        "routing changed {} answers",
        lookups.len() - same
    );
    Ok(())
}

async fn answer(
    registry: Registry,
    lookups: &[String],
) -> anyhow::Result<(Vec<Arc<Aggregate>>, Figures)> {
    let client = Client::new("waypost demo".to_owned()).map_err(anyhow::Error::msg)?;
    let decider = Decider::without_memory(RoutingConfig::default(), |_| {});
    decider.refresh(&registry, false);
    let router = Router::new(registry, client).with_decider(Arc::new(decider));
    let start = Instant::now();
    let answers: Vec<Arc<Aggregate>> = stream::iter(lookups)
        .map(|uri| {
            let (router, lookup) = (router.clone(), Lookup::new(uri, Wanted::All));
            async move {
                let options = AggregateOptions::default();
                Arc::new(router.aggregate(&lookup, &options).await)
            }
        })
        .buffered(AT_A_TIME)
        .collect()
        .await;
    let mut figures = Figures {
        took: start.elapsed(),
        ..Figures::default()
    };
    for answer in &answers {
        let useful =
            |outcome: &&waypost_router::Outcome| matches!(outcome.reply, Reply::Mementos(_));
        figures.requests += answer.outcomes.len() as u64;
        figures.useful += answer.outcomes.iter().filter(useful).count() as u64;
        figures.mementos += answer.mementos.len() as u64;
        if let Some(missing) = answer.missing().next() {
            let archive = &router.registry().archives[missing].id;
            anyhow::bail!("the archive {archive} did not answer");
        }
    }
    Ok((answers, figures))
}
