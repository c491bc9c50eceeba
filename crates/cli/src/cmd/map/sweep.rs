use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use waypost_io::Source;
use waypost_io::temporary::OutputFolder;
use waypost_report::{Align, Table, bytes, count};
use waypost_summary::Summary;
use waypost_summary::map::{self, Map, Papers, Rule, SourceMap, Style};

use crate::args::{Format, ResourceArgs};
use crate::exit::Exit;
use crate::printer::Printer;

/// Compact a map with many weights of the papers' rule
#[derive(Args)]
#[command(after_help = "Example:\n\
    \x20 waypost map sweep full.ukvs --wh 4,1,0 --wp 4,1,0 -o maps")]
pub(crate) struct Sweep {
    /// The map, with exact keys
    map: PathBuf,
    /// Host weights
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "4,2,1,0.5,0.25,0"
    )]
    wh: Vec<f64>,
    /// Path weights
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "4,2,1,0.5,0.25,0"
    )]
    wp: Vec<f64>,
    /// The folder to write to; created if missing
    #[arg(short, long, value_name = "FOLDER")]
    output: PathBuf,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Table)]
    format: Format,
    #[command(flatten)]
    resources: ResourceArgs,
}

impl Sweep {
    pub(crate) fn run(mut self, out: &mut Printer) -> anyhow::Result<Exit> {
        let _folder = OutputFolder::create(&self.output)?;
        if self
            .wh
            .iter()
            .chain(&self.wp)
            .any(|weight| weight.is_nan() || *weight < 0.0)
        {
            return Err(anyhow::anyhow!("weights must not be negative"));
        }
        // In descending order, because each map is made from the previous one.
        self.wh.sort_by(|a, b| b.total_cmp(a));
        self.wp.sort_by(|a, b| b.total_cmp(a));
        let resources = self.resources.resources(Some(&self.output))?;
        let mut table = Table::new(&[
            ("Wh", Align::Right),
            ("Wp", Align::Right),
            ("keys", Align::Right),
            ("bytes", Align::Right),
            ("gzipped", Align::Right),
            ("roll-ups", Align::Right),
            ("seconds", Align::Right),
        ]);
        let progress = out.progress();
        let mut maps = Vec::new();
        let mut row_start = self.map.clone();
        for &wh in &self.wh {
            let mut from = row_start.clone();
            for (at, &wp) in self.wp.iter().enumerate() {
                let path = self.output.join(format!("wh{wh}-wp{wp}.ukvs"));
                let start = Instant::now();
                let given = SourceMap::open(&Source::new(&from), &resources)?;
                let mut given = given.reporting_to(&progress);
                let papers = Papers {
                    host_weight: wh,
                    path_weight: wp,
                    ..Papers::default()
                };
                let report = map::compact(
                    &mut given,
                    &Rule::Papers(papers),
                    Style::Published,
                    &path,
                    false,
                )?;
                let seconds = start.elapsed().as_secs_f64();
                let gzipped = Map::open(&path, &resources)?.size().gzip_bytes;
                maps.push(serde_json::json!({
                    "map": path.to_string_lossy(),
                    "host_weight": weight(wh),
                    "path_weight": weight(wp),
                    "keys": report.written.rows,
                    "bytes": report.bytes,
                    "gzip_bytes": gzipped,
                    "rolled_up": report.rolled,
                    "seconds": seconds,
                }));
                table.row([
                    wh.to_string(),
                    wp.to_string(),
                    count(report.written.rows),
                    bytes(report.bytes),
                    bytes(gzipped),
                    count(report.rolled.unwrap_or(0)),
                    format!("{seconds:.2}"),
                ]);
                if at == 0 {
                    row_start.clone_from(&path);
                }
                from = path;
            }
        }
        drop(progress);
        match self.format {
            Format::Table => write!(out.data(), "{table}")?,
            Format::Json => writeln!(out.data(), "{:#}", serde_json::Value::from(maps))?,
        }
        Ok(Exit::Yes)
    }
}

/// A weight in JSON, which has no infinite numbers.
fn weight(weight: f64) -> serde_json::Value {
    match weight.is_finite() {
        true => weight.into(),
        false => "inf".into(),
    }
}
