use std::path::PathBuf;

use clap::Args;
use waypost_summary::profile::Profile;
use waypost_summary::{Answer, Frequency, LookupBatch, LookupBuffer, Summary};

use crate::exit::Exit;
use crate::lookups::{Answers, Lookups, Verdict, answer_batch};
use crate::pipeline::PIECE;
use crate::printer::Printer;

/// Ask a profile whether an archive may have URIs
#[derive(Args)]
#[command(after_help = "Examples:\n\
    \x20 waypost profile lookup profiles/small.HxP1.cdxj http://library.example.org/\n\
    \x20 waypost profile lookup profiles/small.HxP1.cdxj --batch lookups.txt \\\n\
    \x20   --format tsv\n\
    \n\
    tsv has no header: the lookup as given, present, absent or rejected, the matched key, the frequency.\n\
    Exit code 1: nothing is present.")]
pub(crate) struct Lookup {
    /// The profile
    profile: PathBuf,
    #[command(flatten)]
    lookups: Lookups,
}

impl Lookup {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let profile = Profile::open(&self.profile)?;
        // Many sorted lookups are answered by one pass over the profile.
        self.lookups.answer(&[], 16 * PIECE, out, || {
            let mut buffer = LookupBuffer::new(profile.about().dialect);
            let profile = &profile;
            move |lookups, answers| answer(profile, buffer.fill(lookups), answers)
        })
    }
}

/// What the profile says of each lookup.
fn answer(
    profile: &Profile,
    batch: LookupBatch<'_>,
    answers: &mut Answers<'_>,
) -> anyhow::Result<()> {
    let lookups: Vec<waypost_summary::Lookup<'_>> = batch.valid().collect();
    let mut given = profile.answer_all(&lookups)?.into_iter();
    answer_batch(batch, answers, || {
        Ok(match given.next() {
            Some(Answer::Present(found)) => Verdict {
                present: true,
                key: found.key.map(Into::into),
                frequency: found.frequency.captures.map(|captures| Frequency {
                    captures: Some(captures),
                    urirs: None,
                }),
                urirs: found.frequency.urirs,
                ..Verdict::default()
            },
            _ => Verdict::default(),
        })
    })
}
