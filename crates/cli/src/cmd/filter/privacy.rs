use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use waypost_report::count;
use waypost_summary::filter::Filter;
use waypost_summary::filter::privacy::{DICTIONARY, Exposure, PRIORS};

use super::options::percent;
use crate::exit::Exit;
use crate::printer::Printer;

/// Explain in numbers what a filter discloses
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost filter privacy small.filter")]
pub(crate) struct Privacy {
    /// The filter
    filter: PathBuf,
}

impl Privacy {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let filter = Filter::open(&self.filter)?;
        write!(out.data(), "{}", text(&filter))?;
        Ok(Exit::Yes)
    }
}

fn text(filter: &Filter) -> String {
    let head = filter.head();
    let exposure = Exposure::of(head);
    let about = if head.estimated { "about " } else { "" };
    let mut text = format!(
        "{}\n\nAnyone with this file learns that {about}{} held ({}).\n",
        filter.name(),
        match head.count {
            1 => "1 key is".to_owned(),
            keys => format!("{} keys are", count(keys)),
        },
        head.policy
    );
    if exposure.keyed {
        text += "It is keyed: nothing can be looked up without the secret key, so the file alone \
                 confirms no guess.\nAnyone with the file and the key learns all of the following.\n";
    } else {
        text += "It is not keyed: anyone can look up any URI that they can guess.\n";
    }
    if exposure.exact {
        text += "\nIt holds the hashes themselves: what it calls present is certainly held. Keep it private.\n";
    } else {
        text += &format!(
            "\nHow likely a URI is held if the filter calls it present (false positive rate {}):\n",
            percent(exposure.rate)
        );
        for (prior, posterior) in PRIORS.iter().zip(exposure.posteriors) {
            text += &format!(
                "  probability {:>5} before the lookup: {:>6} after\n",
                percent(*prior),
                format!("{:.1}%", posterior * 100.0)
            );
        }
    }
    let dictionary = count(DICTIONARY as u64);
    match exposure.dictionary_seconds {
        Some(seconds) => {
            text += &format!(
                "\nA dictionary of {dictionary} URIs, as large as a public crawl of the Web, can be looked up in about {:.0} \
                 minutes on one core.\n",
                seconds / 60.0
            );
        }
        None => {
            text += &format!(
                "\nA dictionary of {dictionary} URIs cannot be looked up without the key; guessing the key takes \
                 2^127 attempts on average.\n"
            );
        }
    }
    if !exposure.exact {
        text += &format!(
            "Of a dictionary of URIs that are not held, {} would be called present.\n",
            count(exposure.dictionary_false as u64)
        );
    }
    if !exposure.keyed {
        text += "Therefore treat every URI that can be guessed as public. URIs that nobody can guess (tokens, unlisted \
                 paths) are not disclosed.\n";
    }
    text
}
