use std::path::PathBuf;

use clap::Args;
use waypost_io::pieces::PIECE;
use waypost_summary::profile::Profile;

use crate::args::ThreadArgs;
use crate::exit::Exit;
use crate::lookups::Lookups;
use crate::printer::Printer;

/// Look up URIs in a profile
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost profile lookup profiles/small.HxP1.cdxj http://library.example.org/\n\
    \x20 waypost profile lookup profiles/small.HxP1.cdxj --batch lookups.txt \\\n\
    \x20   --format tsv\n\
    \n\
    tsv has no header: the lookup as given, present, absent, unknown or rejected, the matched key, the\n\
    frequency. A lookup is unknown if the profile was not made from all captures that it asks for.\n\
    Exit code 1: everything is absent or rejected.")]
pub(crate) struct Lookup {
    /// The profile
    profile: PathBuf,
    #[command(flatten)]
    lookups: Lookups,
    #[command(flatten)]
    threads: ThreadArgs,
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        self.threads.start()?;
        let profile = Profile::open(&self.profile)?;
        // Many sorted lookups are answered in one pass over the profile.
        self.lookups.answer_by(&profile, BATCH, out)
    }
}

/// How many bytes of lookups are answered in one pass over a profile.
pub(crate) const BATCH: usize = 16 * PIECE;
