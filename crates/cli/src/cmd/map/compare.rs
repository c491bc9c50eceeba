use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use waypost_report::{Align, Table, count};
use waypost_summary::map::{Room, compare};

use crate::exit::Exit;
use crate::printer::Printer;

/// Show what one archive holds that another does not, by domain
///
/// For crawls that are shared out: what is in A and in no row of B.
#[derive(Args)]
#[command(
    after_help = "Example:\n  waypost map compare ours.ukvs theirs.ukvs --top 20\n\n\
    Exit code 1: B covers all that A holds."
)]
pub(crate) struct Compare {
    /// The map of which rows are looked up
    a: PathBuf,
    /// The map that they are looked up in
    b: PathBuf,
    /// How many domains to show, those with most captures first
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
}

impl Compare {
    pub(crate) fn run(self, out: &mut Printer) -> anyhow::Result<Exit> {
        let compared = compare::compare(&self.a, &self.b, &Room::default())?;
        let mut table = Table::new(&[
            ("domain", Align::Left),
            ("keys only in A", Align::Right),
            ("of keys", Align::Right),
            ("captures only in A", Align::Right),
        ]);
        for domain in compared.domains.iter().take(self.top) {
            table.row([
                String::from_utf8_lossy(&domain.name).into_owned(),
                count(domain.only),
                count(domain.keys),
                count(domain.captures),
            ]);
        }
        write!(out.data(), "{table}")?;
        writeln!(
            out.data(),
            "{} of {} keys of A, in {} domains, are nowhere in B",
            count(compared.only),
            count(compared.keys),
            count(compared.domains.len() as u64)
        )?;
        Ok(if compared.only > 0 {
            Exit::Yes
        } else {
            Exit::No
        })
    }
}
