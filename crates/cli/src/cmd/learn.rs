use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::{Args, ValueHint};
use waypost_io::Source;
use waypost_router::{Decider, RoutingConfig, learn_log};

use crate::archives;
use crate::exit::Exit;
use crate::hint::Hint;
use crate::plural;
use crate::printer::Printer;

/// Learn from logs which archives have what
///
/// Reads logs of MemGator and of `waypost serve`. What is learned goes into the file that `learned` in
/// the [routing] table of the configuration names, or --output. It orders archives; it excludes them
/// only if the configuration accepts a recall below 1.
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost learn memgator.log --output learned.redb\n\
    \n\
    Answers that cannot be attributed to one lookup, because lines of several lookups are mixed, are\n\
    left out. Exit code 1: nothing was learned.")]
pub(crate) struct Learn {
    /// Logs, plain or compressed; `-` is standard input
    #[arg(required = true, value_name = "LOG", value_hint = ValueHint::FilePath)]
    logs: Vec<PathBuf>,
    /// Configuration file
    #[arg(short, long, value_name = "FILE", required_unless_present = "output", value_hint = ValueHint::FilePath)]
    config: Option<PathBuf>,
    /// The file for what is learned, which may exist
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
}

impl Learn {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let mut routing = match &self.config {
            Some(config) => archives::read(Some(config), None)?.routing,
            None => RoutingConfig::default(),
        };
        if let Some(output) = &self.output {
            routing.learned = Some(output.clone());
        }
        routing
            .learned
            .as_ref()
            .context("the configuration names no file for what is learned")
            .hint(
                "write `learned = \"learned.redb\"` below [routing], or name a file with --output",
            )?;
        let messages = out.messages();
        let decider = Decider::open(&routing, move |warning: &str| messages.note(warning))?;
        let decider = Arc::new(decider);
        let mut answers = 0;
        for log in &self.logs {
            let report = learn_log(&decider, &Source::new(log))?;
            answers += report.hits + report.misses;
            out.note(format_args!(
                "{}: {} in {}: {} and {} misses; {} could not be attributed",
                log.display(),
                plural::of(report.lookups, "lookup"),
                plural::of(report.lines, "line"),
                plural::of(report.hits, "hit"),
                report.misses,
                plural::of(report.ambiguous, "answer"),
            ));
        }
        decider.flush()?;
        Ok(if answers > 0 { Exit::Yes } else { Exit::No })
    }
}
