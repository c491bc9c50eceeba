//! The statistics as tables, for terminals, files and the report.

use waypost_report::{Align, Cell, Table, short};

use super::model::*;
use crate::numeric::histogram::ratio;

use Align::{Left, Right};

/// A table with its title and the name that `--format csv` and the page use.
pub struct Titled {
    /// The title.
    pub title: &'static str,
    /// The section of the report that it belongs to.
    pub section: Section,
    /// The table.
    pub table: Table,
}

/// The sections of the report, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// Totals and lines that are not captures.
    Totals,
    /// Likely defects.
    Defects,
    /// Captures per URI-R.
    Distribution,
    /// Top-level domains, registered domains, hosts.
    Places,
    /// Years and growth.
    Time,
    /// Media types, statuses, languages.
    Content,
    /// Depths and the tree of keys.
    Tree,
    /// Classes.
    Classes,
    /// Lookups.
    Lookups,
}

impl Section {
    /// All sections.
    pub const ALL: [Section; 9] = [
        Section::Totals,
        Section::Defects,
        Section::Distribution,
        Section::Places,
        Section::Time,
        Section::Content,
        Section::Tree,
        Section::Classes,
        Section::Lookups,
    ];

    /// The heading.
    pub fn heading(self) -> &'static str {
        match self {
            Section::Totals => "Totals",
            Section::Defects => "Worth a look",
            Section::Distribution => "Captures per URI",
            Section::Places => "Where from",
            Section::Time => "By year",
            Section::Content => "What kind",
            Section::Tree => "The tree of URIs",
            Section::Classes => "Classes",
            Section::Lookups => "What people look for",
        }
    }
}

/// All tables of the statistics that have rows, with up to `top` rows in lists.
pub fn tables(found: &Statistics, top: usize) -> Vec<Titled> {
    let totals = &found.totals;
    let mut all = vec![
        titled("Totals", Section::Totals, totals_table(found)),
        titled(
            "Lines that are not captures",
            Section::Totals,
            kinds(&found.bad_lines),
        ),
        titled(
            "Rows that are not of the Web",
            Section::Totals,
            kinds(&found.non_web),
        ),
        titled("Likely defects", Section::Defects, defects(&found.defects)),
        titled(
            "Captures per URI-R",
            Section::Distribution,
            distribution(found),
        ),
        titled(
            "Most captured URI-Rs",
            Section::Distribution,
            places("URI-R", &found.top_urirs, totals, top, false),
        ),
        titled(
            "Most captured subtrees",
            Section::Distribution,
            places("subtree", &found.top_subtrees, totals, top, true),
        ),
        titled("Top-level domains", Section::Places, tlds(found, top)),
        titled(
            "Registered domains",
            Section::Places,
            places("domain", &found.domains, totals, top, true),
        ),
        titled(
            "Hosts",
            Section::Places,
            places("host", &found.hosts, totals, top, true),
        ),
        titled("Years", Section::Time, years(&found.years)),
        titled("Growth", Section::Time, growth(&found.growth)),
        titled(
            "Media types",
            Section::Content,
            media(&found.media_types, top),
        ),
        titled(
            "Detected media types",
            Section::Content,
            media(&found.detected_types, top),
        ),
        titled("Statuses", Section::Content, statuses(found)),
        titled("Languages", Section::Content, languages(found, top)),
        titled(
            "Path segments and query parameters",
            Section::Content,
            path_query(found),
        ),
        titled(
            "Depths of hosts and paths",
            Section::Tree,
            depths(&found.depths),
        ),
        titled("The tree by depth", Section::Tree, tree(found)),
        titled("Fitted power laws", Section::Tree, laws(&found.laws)),
        titled("Classes", Section::Classes, classes(found)),
    ];
    if let Some(lookups) = &found.lookups {
        all.push(titled("Lookups", Section::Lookups, lookups_table(lookups)));
        all.push(titled(
            "Archived against accessed",
            Section::Lookups,
            grid(lookups),
        ));
        all.push(titled(
            "Looked up and not held",
            Section::Lookups,
            seeds(lookups, top),
        ));
    }
    all.push(titled(
        "MemGator's requests by archive",
        Section::Lookups,
        memgator(&found.memgator),
    ));
    all.retain(|titled| !titled.table.is_empty());
    all
}

fn titled(title: &'static str, section: Section, table: Table) -> Titled {
    Titled {
        title,
        section,
        table,
    }
}

/// `20040131…` as `2004-01-31`.
pub(super) fn date(digits: Option<&str>) -> String {
    match digits {
        Some(digits) if digits.len() == 14 => {
            format!("{}-{}-{}", &digits[..4], &digits[4..6], &digits[6..8])
        }
        _ => "-".to_owned(),
    }
}

fn totals_table(found: &Statistics) -> Table {
    let totals = &found.totals;
    let mut table = Table::new(&[("attribute", Left), ("value", Right)]);
    let mut row = |name: &str, cell: Cell| table.row([Cell::from(name), cell]);
    row("files", Cell::count(totals.files));
    if let Some(stored) = totals.stored_bytes {
        row("size as stored", Cell::bytes(stored));
    }
    row("size, decompressed", Cell::bytes(totals.bytes));
    row("lines", Cell::count(totals.lines));
    row("captures", Cell::count(totals.captures));
    row("of which revisits", Cell::count(totals.revisits));
    row("size of their records", Cell::bytes(totals.record_bytes));
    row("URI-Rs", Cell::count(totals.urirs));
    row("HxPx keys", Cell::count(totals.hxpx_keys));
    row("hosts", Cell::count(totals.hosts));
    row("registered domains", Cell::count(totals.domains));
    row("top-level domains", Cell::count(totals.tlds));
    row("IP addresses", Cell::count(totals.addresses));
    row("first capture", Cell::from(date(totals.first.as_deref())));
    row("last capture", Cell::from(date(totals.last.as_deref())));
    if totals.undated > 0 {
        row("captures without a date", Cell::count(totals.undated));
    }
    if totals.without_host > 0 {
        row("URI-Rs without a host", Cell::count(totals.without_host));
    }
    if let Some(approximation) = &found.approximation {
        row(
            "standard error of distinct counts",
            Cell::percent(approximation.distinct_error),
        );
        row(
            "URI-Rs in the sample",
            Cell::count(approximation.sampled_urirs),
        );
    }
    table
}

fn kinds(kinds: &[Kind]) -> Table {
    let mut table = Table::new(&[("kind", Left), ("meaning", Left), ("lines", Right)]);
    for kind in kinds {
        table.row([
            Cell::from(&kind.kind),
            Cell::from(&kind.meaning),
            Cell::count(kind.count),
        ]);
    }
    table
}

fn defects(defects: &[Defect]) -> Table {
    let mut table = Table::new(&[
        ("kind", Left),
        ("what", Left),
        ("evidence", Left),
        ("what to do", Left),
    ]);
    for defect in defects {
        table.row([
            &defect.kind,
            &defect.title,
            &defect.evidence,
            &defect.advice,
        ]);
    }
    table
}

fn distribution(found: &Statistics) -> Table {
    let of = &found.distribution;
    let mut table = Table::new(&[("attribute", Left), ("value", Right)]);
    let mut row = |name: &str, cell: Cell| table.row([Cell::from(name), cell]);
    row("URI-Rs", Cell::count(found.totals.urirs));
    row("captures", Cell::count(found.totals.captures));
    row("most captures of a URI-R", Cell::count(of.max));
    row("fewest", Cell::count(of.min));
    row("median", Cell::number(of.median, 1));
    row("mean, γ", Cell::number(of.mean, 2));
    row("standard deviation", Cell::number(of.deviation, 2));
    row("Gini coefficient", Cell::number(of.gini, 4));
    if let Some(pareto) = of.pareto {
        row("Pareto break point", Cell::from(pareto_text(pareto)));
    }
    table
}

/// `70/30`.
pub(super) fn pareto_text(pareto: f64) -> String {
    format!("{:.0}/{:.0}", (1.0 - pareto) * 100.0, pareto * 100.0)
}

fn places(name: &str, places: &[Place], totals: &Totals, top: usize, urirs: bool) -> Table {
    let mut columns = vec![(name, Left), ("captures", Right), ("captures %", Right)];
    if urirs {
        columns.extend([("URI-Rs", Right), ("URI-Rs %", Right)]);
    }
    let mut table = Table::new(&columns);
    for place in places.iter().take(top) {
        let mut row = vec![
            Cell::from(&place.key),
            Cell::count(place.captures),
            share(place.captures, totals.captures),
        ];
        if urirs {
            row.extend([Cell::count(place.urirs), share(place.urirs, totals.urirs)]);
        }
        table.row(row);
    }
    table
}

fn share(part: u64, whole: u64) -> Cell {
    Cell::percent(ratio(part as f64, whole as f64))
}

fn tlds(found: &Statistics, top: usize) -> Table {
    let totals = &found.totals;
    let mut places: Vec<Place> = found.tlds.iter().take(top).cloned().collect();
    for place in &mut places {
        place.key.insert(0, '.');
    }
    if totals.addresses > 0 {
        places.push(Place {
            key: "IP addresses".into(),
            urirs: totals.address_urirs,
            captures: totals.address_captures,
        });
    }
    let sum = |of: fn(&Place) -> u64| places.iter().map(of).sum::<u64>();
    let rest = Place {
        key: "others".into(),
        urirs: totals.urirs.saturating_sub(sum(|place| place.urirs)),
        captures: totals.captures.saturating_sub(sum(|place| place.captures)),
    };
    if rest.urirs > 0 {
        places.push(rest);
    }
    self::places("TLD", &places, totals, places.len(), true)
}

fn years(years: &[Year]) -> Table {
    let mut columns = vec![
        ("year", Left),
        ("URI-R", Right),
        ("URI-R so far", Right),
        ("captures", Right),
        ("captures so far", Right),
        ("seen before", Right),
        ("γ", Right),
        ("γ so far", Right),
    ];
    columns.extend(StatusClasses::NAMES.map(|name| (name, Right)));
    columns.push(("record bytes", Right));
    let mut table = Table::new(&columns);
    for year in years {
        let mut row = vec![
            Cell::from(year.year.to_string()),
            Cell::count(year.urirs),
            Cell::count(year.urirs_so_far),
            Cell::count(year.captures),
            Cell::count(year.captures_so_far),
            Cell::percent(year.seen_before),
            Cell::number(year.gamma, 2),
            Cell::number(year.gamma_so_far, 2),
        ];
        row.extend(
            year.statuses
                .counts()
                .map(|count| share(count, year.captures)),
        );
        row.push(Cell::bytes(year.record_bytes));
        table.row(row);
    }
    table
}

fn growth(growth: &Growth) -> Table {
    let mut table = Table::new(&[("measure", Left), ("value", Right)]);
    table.row([
        Cell::from("α, bytes per line"),
        Cell::number(growth.bytes_per_line, 1),
    ]);
    if let Some(heaps) = &growth.heaps {
        table.row([Cell::from("Heaps' K"), Cell::number(heaps.factor, 4)]);
        table.row([Cell::from("Heaps' β"), Cell::number(heaps.exponent, 4)]);
    }
    table
}

fn media(types: &[MediaType], top: usize) -> Table {
    let mut columns = vec![("media type", Left)];
    columns.extend(StatusClasses::NAMES.map(|name| (name, Right)));
    columns.push(("captures", Right));
    let mut table = Table::new(&columns);
    for media in types.iter().take(top) {
        let mut row = vec![Cell::from(&media.name)];
        row.extend(media.statuses.counts().map(Cell::count));
        row.push(Cell::count(media.statuses.total()));
        table.row(row);
    }
    table
}

fn statuses(found: &Statistics) -> Table {
    let mut table = Table::new(&[("status", Left), ("captures", Right), ("captures %", Right)]);
    for status in &found.statuses {
        table.row([
            Cell::from(&status.name),
            Cell::count(status.captures),
            share(status.captures, found.totals.captures),
        ]);
    }
    table
}

fn languages(found: &Statistics, top: usize) -> Table {
    let mut table = Table::new(&[("language", Left), ("as first", Right), ("as any", Right)]);
    for language in found.languages.iter().take(top) {
        let cells = [Cell::count(language.first), Cell::count(language.any)];
        table.row([Cell::from(&language.code)].into_iter().chain(cells));
    }
    table
}

/// The counts by path segments (rows) and query parameters (columns), both up to ten and more.
pub(super) fn path_query_grid(found: &Statistics) -> (usize, Vec<Vec<u64>>) {
    let most = |of: fn(&PathQuery) -> u64| {
        found.path_query.iter().map(of).max().unwrap_or(0).min(10) as usize
    };
    let (rows, columns) = (most(|cell| cell.path), most(|cell| cell.query));
    let mut grid = vec![vec![0; columns + 1]; rows + 1];
    for cell in &found.path_query {
        grid[cell.path.min(10) as usize][cell.query.min(10) as usize] += cell.captures;
    }
    (columns, grid)
}

fn path_query(found: &Statistics) -> Table {
    let (queries, grid) = path_query_grid(found);
    let names: Vec<String> = (0..=queries).map(|query| numbered('Q', query)).collect();
    let mut columns = vec![("path", Left)];
    columns.extend(names.iter().map(|name| (&name[..], Right)));
    let mut table = Table::new(&columns);
    for (path, row) in grid.iter().enumerate() {
        let cells = row.iter().map(|captures| Cell::count(*captures));
        table.row([Cell::from(numbered('P', path))].into_iter().chain(cells));
    }
    table
}

/// `P3`, `P10+`.
pub(super) fn numbered(letter: char, number: usize) -> String {
    match number {
        10.. => format!("{letter}10+"),
        _ => format!("{letter}{number}"),
    }
}

fn depths(depths: &[Depth]) -> Table {
    let mut table = Table::new(&[
        ("depth", Left),
        ("hosts", Right),
        ("keys by host depth", Right),
        ("keys by path depth", Right),
    ]);
    for depth in depths {
        table.row([
            Cell::from(depth.depth.to_string()),
            Cell::count(depth.hosts),
            Cell::count(depth.host_keys),
            Cell::count(depth.path_keys),
        ]);
    }
    table
}

fn tree(found: &Statistics) -> Table {
    let mut table = Table::new(&[
        ("depth", Left),
        ("count", Right),
        ("sum", Right),
        ("max", Right),
        ("mean", Right),
        ("median", Right),
        ("deviation", Right),
        ("RedQ", Right),
        ("parents", Right),
        ("children", Right),
        ("mean children", Right),
    ]);
    for layer in found.host_tree.iter().chain(&found.path_tree) {
        table.row([
            Cell::from(&layer.depth),
            Cell::count(layer.count),
            Cell::count(layer.sum),
            Cell::count(layer.max),
            Cell::number(layer.mean, 2),
            Cell::number(layer.median, 1),
            Cell::number(layer.deviation, 2),
            Cell::number(layer.redq, 5),
            Cell::count(layer.parents),
            Cell::count(layer.children),
            Cell::number(layer.mean_children, 2),
        ]);
    }
    table
}

fn laws(laws: &Laws) -> Table {
    let mut table = Table::new(&[("of", Left), ("a", Right), ("k", Right)]);
    for (name, law) in [("hosts", laws.host), ("paths", laws.path)] {
        if let Some(law) = law {
            table.row([
                Cell::from(name),
                Cell::number(law.a, 4),
                Cell::number(law.k, 4),
            ]);
        }
    }
    table
}

fn classes(found: &Statistics) -> Table {
    let mut table = Table::new(&[
        ("class", Left),
        ("hosts", Right),
        ("URI-Rs", Right),
        ("URI-Rs %", Right),
        ("captures", Right),
        ("captures %", Right),
        ("γ", Right),
    ]);
    for class in &found.classes {
        table.row([
            Cell::from(&class.name),
            Cell::count(class.hosts),
            Cell::count(class.urirs),
            share(class.urirs, found.totals.urirs),
            Cell::count(class.captures),
            share(class.captures, found.totals.captures),
            Cell::number(ratio(class.captures as f64, class.urirs as f64), 2),
        ]);
    }
    table
}

fn lookups_table(lookups: &Lookups) -> Table {
    let mut table = Table::new(&[("attribute", Left), ("value", Right)]);
    let mut row = |name: &str, cell: Cell| table.row([Cell::from(name), cell]);
    row("lookups", Cell::count(lookups.requests));
    row("URI-Rs looked up", Cell::count(lookups.urirs));
    row("of which held", Cell::count(lookups.held));
    row("share held", share(lookups.held, lookups.urirs));
    row(
        "lookups for what is held",
        Cell::count(lookups.held_requests),
    );
    row(
        "share of lookups",
        share(lookups.held_requests, lookups.requests),
    );
    row("rejected lookups", Cell::count(lookups.rejected));
    table
}

/// The name of a magnitude: `0`, `1–9`, `10–99`.
pub(super) fn magnitude(number: usize) -> String {
    match number {
        0 => "0".to_owned(),
        1 => "1–9".to_owned(),
        8.. => "10M or more".to_owned(),
        _ => {
            let low = 10u64.pow(number as u32 - 1);
            format!("{}–{}", short(low as f64), short((low * 10 - 1) as f64))
        }
    }
}

fn grid(lookups: &Lookups) -> Table {
    let width = lookups.grid.first().map_or(0, Vec::len);
    let names: Vec<String> = (0..width)
        .map(|at| format!("{} lookups", magnitude(at)))
        .collect();
    let mut columns = vec![("captures", Left)];
    columns.extend(names.iter().map(|name| (&name[..], Right)));
    let mut table = Table::new(&columns);
    for (row, cells) in lookups.grid.iter().enumerate() {
        let cells = cells
            .iter()
            .map(|cell| cell.map_or(Cell::from("n/a"), Cell::count));
        table.row([Cell::from(magnitude(row))].into_iter().chain(cells));
    }
    table
}

fn seeds(lookups: &Lookups, top: usize) -> Table {
    let mut table = Table::new(&[
        ("URI", Left),
        ("key", Left),
        ("lookups", Right),
        ("host is held", Left),
    ]);
    for seed in lookups.seeds.iter().take(top) {
        table.row([
            Cell::from(&seed.uri),
            Cell::from(&seed.key),
            Cell::count(seed.requests),
            Cell::from(if seed.host_is_held { "yes" } else { "no" }),
        ]);
    }
    table
}

fn memgator(archives: &[Upstream]) -> Table {
    let mut table = Table::new(&[
        ("archive", Left),
        ("requests", Right),
        ("hit", Right),
        ("miss", Right),
        ("error", Right),
        ("sleeps", Right),
    ]);
    let sum = |of: fn(&Upstream) -> u64| archives.iter().map(of).sum();
    let all = Upstream {
        archive: "all".into(),
        requests: sum(|archive| archive.requests),
        hits: sum(|archive| archive.hits),
        misses: sum(|archive| archive.misses),
        errors: sum(|archive| archive.errors),
        sleeps: sum(|archive| archive.sleeps),
    };
    for archive in archives.iter().chain((archives.len() > 1).then_some(&all)) {
        table.row([
            Cell::from(&archive.archive),
            Cell::count(archive.requests),
            share(archive.hits, archive.requests),
            share(archive.misses, archive.requests),
            share(archive.errors, archive.requests),
            Cell::count(archive.sleeps),
        ]);
    }
    table
}
