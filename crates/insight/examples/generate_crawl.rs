//! Generates a crawl: `generate_crawl FOLDER [--captures N] [--segments N] [--skew LIST] [--seed N]
//! [--name NAME] [--archive]`. Writes `FOLDER/index.cdxj`; with `--archive`, also WARC and WAT files,
//! and the index without Last-Modified.

use std::error::Error;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::PathBuf;

use waypost_insight::generate::Crawl;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().ok_or("which folder?")?);
    let mut crawl = Crawl::default();
    let mut archive = false;
    while let Some(name) = arguments.next() {
        if name == "--archive" {
            archive = true;
            continue;
        }
        let value = arguments.next().ok_or("a value is missing")?;
        match name.as_str() {
            "--captures" => crawl.captures = value.parse()?,
            "--segments" => crawl.segments = value.parse()?,
            "--seed" => crawl.seed = value.parse()?,
            "--name" => crawl.name = value,
            "--skew" => {
                crawl.skewed = value.split(',').map(str::parse).collect::<Result<_, _>>()?
            }
            other => return Err(format!("unknown option {other}").into()),
        }
    }
    fs::create_dir_all(&folder)?;
    let mut index = BufWriter::new(File::create(folder.join("index.cdxj"))?);
    if archive {
        for capture in crawl.write_archive(&folder)? {
            writeln!(index, "{}", capture.line)?;
        }
    } else {
        crawl.write_index(true, &mut index)?;
    }
    index.flush()?;
    Ok(())
}
