//! Adding summaries to an archive in a configuration file, without touching anything else in it.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use waypost_io::{AtomicFile, Error, ErrorKind, IoContext, Result};

use super::Config;
use super::section::quoted;

impl Config {
    /// Adds summaries to an archive of a file, which is replaced as a whole. Those that the archive
    /// has already are left out. Returns how many were added.
    ///
    /// # Errors
    /// If the file is not a configuration, has no such archive, or can't be written.
    pub fn add_summaries(path: &Path, id: &str, summaries: &[PathBuf]) -> Result<usize> {
        let fail = |text: String| Error::new(ErrorKind::Invalid(text)).in_file(path.display());
        let config = Config::read(path)?;
        let Some(place) = config.registry.position(id) else {
            return Err(fail(format!("no archive `{id}`")));
        };
        let folder = absolute(path.parent().unwrap_or(Path::new("")));
        let known: Vec<PathBuf> = config.registry.archives[place]
            .summaries
            .iter()
            .map(|summary| absolute(summary))
            .collect();
        let mut added: Vec<PathBuf> = Vec::new();
        for summary in summaries {
            let summary = absolute(summary);
            if !known.contains(&summary) && !added.contains(&summary) {
                added.push(summary);
            }
        }
        if added.is_empty() {
            return Ok(0);
        }
        let names: Vec<String> = added
            .iter()
            .map(|path| quoted(&path.strip_prefix(&folder).unwrap_or(path).to_string_lossy()))
            .collect();
        let text = fs::read_to_string(path).doing("read", path)?;
        let text = with_summaries(&text, id, &names.join(", "))
            .ok_or_else(|| fail(format!("cannot add summaries to the archive `{id}`")))?;
        // It must mean what it meant, and have the summaries.
        let name = path.display().to_string();
        let changed = Config::parse(&text, path.parent().unwrap_or(Path::new("")), &name)?;
        let mut expected = config.clone();
        let own = &mut expected.registry.archives[place].summaries;
        own.clear();
        let mut changed = changed;
        let has_all = changed.registry.position(id) == Some(place) && {
            let now = std::mem::take(&mut changed.registry.archives[place].summaries);
            let now: Vec<PathBuf> = now.iter().map(|path| absolute(path)).collect();
            known.iter().chain(&added).all(|path| now.contains(path))
        };
        if !has_all || changed != expected {
            return Err(fail(format!(
                "cannot add summaries to the archive `{id}`: write them there yourself"
            )));
        }
        let mut file = AtomicFile::create(path)?;
        file.write_all(text.as_bytes()).doing("write", path)?;
        file.commit()?;
        Ok(added.len())
    }
}

fn absolute(path: &Path) -> PathBuf {
    let path = match path.as_os_str().is_empty() {
        true => Path::new("."),
        false => path,
    };
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The text of a file in which an archive has more summaries.
fn with_summaries(text: &str, id: &str, names: &str) -> Option<String> {
    let table = DeTable::parse(text).ok()?;
    let archives = match table.get_ref().get("archive").map(Spanned::get_ref) {
        Some(DeValue::Array(archives)) => &archives[..],
        _ => &[],
    };
    let mut tables = archives.iter().filter_map(|value| match value.get_ref() {
        DeValue::Table(table) => Some(table),
        _ => None,
    });
    let is_named = |table: &&DeTable<'_>| {
        let own = table.get("id").map(Spanned::get_ref);
        matches!(own, Some(DeValue::String(text)) if text == id)
    };
    let Some(table) = tables.find(is_named) else {
        // It is in MemGator's list of archives, to which a table adds.
        let end = match text.ends_with('\n') {
            true => "",
            false => "\n",
        };
        let id = quoted(id);
        return Some(format!(
            "{text}{end}\n[[archive]]\nid = {id}\nsummaries = [{names}]\n"
        ));
    };
    let (at, more) = match table.get("summaries") {
        Some(value) => match value.get_ref() {
            DeValue::Array(array) => match array.last() {
                Some(last) => (last.span().end, format!(", {names}")),
                None => (value.span().start + 1, names.to_owned()),
            },
            _ => return None,
        },
        None => {
            let id = table.get("id")?.span().end;
            let line = text[id..].find('\n').map_or(text.len(), |end| id + end);
            (line, format!("\nsummaries = [{names}]"))
        }
    };
    Some(format!("{}{more}{}", &text[..at], &text[at..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn summaries_are_added_and_everything_else_stays() {
        for (before, after) in [
            (
                "# mine\n[[archive]]\nid = \"a\" # first\ntimemap = \"http://a/\"\n\n[[archive]]\nid = \"b\"\ntimemap = \"http://b/\"\n",
                "# mine\n[[archive]]\nid = \"a\" # first\nsummaries = [\"x.ukvs\"]\ntimemap = \"http://a/\"\n\n[[archive]]\nid = \"b\"\ntimemap = \"http://b/\"\n",
            ),
            (
                "[[archive]]\ntimemap = \"http://a/\"\nsummaries = [\n  \"y\", # why\n]\nid = \"a\"",
                "[[archive]]\ntimemap = \"http://a/\"\nsummaries = [\n  \"y\", \"x.ukvs\", # why\n]\nid = \"a\"",
            ),
            (
                "[[archive]]\nid = \"a\"\ntimemap = \"http://a/\"\nsummaries = []\n",
                "[[archive]]\nid = \"a\"\ntimemap = \"http://a/\"\nsummaries = [\"x.ukvs\"]\n",
            ),
            (
                "[[archive]]\nid = \"a\"\ntimemap = \"http://a/\"\nsummaries = [\"x.ukvs\"]\n",
                "[[archive]]\nid = \"a\"\ntimemap = \"http://a/\"\nsummaries = [\"x.ukvs\"]\n",
            ),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("waypost.toml");
            fs::write(&path, before).unwrap();
            let summary = folder.path().join("x.ukvs");
            let added = Config::add_summaries(&path, "a", std::slice::from_ref(&summary)).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), after);
            assert_eq!(added, usize::from(before != after));
            let config = Config::read(&path).unwrap();
            let place = config.registry.position("a").unwrap();
            assert!(config.registry.archives[place].summaries.contains(&summary));
        }
    }

    #[test]
    fn archives_of_a_list_get_a_table_and_unknown_ones_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("waypost.toml");
        let list = r#"[{"id": "a", "timemap": "http://a/", "timegate": "http://a/"}]"#;
        fs::write(folder.path().join("list.json"), list).unwrap();
        fs::write(&path, "archives = \"list.json\"").unwrap();
        let other = folder.path().join("b \"quoted\".ukvs");
        assert_eq!(
            Config::add_summaries(&path, "a", std::slice::from_ref(&other)).unwrap(),
            1
        );
        let config = Config::read(&path).unwrap();
        assert_eq!(
            config.registry.archives[0].summaries[..],
            *std::slice::from_ref(&other)
        );
        let before = fs::read(&path).unwrap();
        assert!(Config::add_summaries(&path, "z", &[other]).is_err());
        assert_eq!(fs::read(&path).unwrap(), before);
    }
}
