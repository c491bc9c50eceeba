//! The world of the demo: sites, the five archives that hold parts of them, and what people look up.
//!
//! Everything follows from a seed. The national archive holds `.example`, the TLD of an invented
//! country; no host in it can exist, and no host of any kind is ever contacted.

use std::collections::BTreeSet;
use std::io::{self, Write};

use waypost_index::generate::Random;
use waypost_surt::surt;

use super::words::{
    ADJECTIVES, EVENTS, FACULTIES, GOODS, MINISTRIES, PAPERS, PLACES, SECTIONS, SUBJECTS,
};

/// What a site is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Government,
    University,
    News,
    Shop,
    Blog,
    Charity,
}

/// A site and its pages, the most popular first.
struct Site {
    kind: Kind,
    host: String,
    /// Whether it is in the invented country.
    national: bool,
    /// Since when it is on the Web.
    born: u64,
    pages: Vec<String>,
}

/// An archive of the demo.
pub(super) struct Archive {
    /// Its id.
    pub(super) id: &'static str,
    /// Its name.
    pub(super) name: &'static str,
    /// What is special about it.
    pub(super) character: &'static str,
    since: u64,
    /// How often it captures what it collects.
    visits: u64,
    /// The share of a site's pages that it collects.
    share: fn(&Site) -> f64,
}

/// The five archives.
pub(super) const ARCHIVES: [Archive; 5] = [
    Archive {
        id: "national",
        name: "National Library",
        character: "everything under .example since 2003",
        since: 2003,
        visits: 3,
        share: |site| if site.national { 0.85 } else { 0.0 },
    },
    Archive {
        id: "university",
        name: "University Archive",
        character: "universities and what they cite, since 2009",
        since: 2009,
        visits: 2,
        share: |site| match site.kind {
            Kind::University => 0.7,
            Kind::Government if site.host.len() % 3 == 0 => 0.2,
            _ => 0.0,
        },
    },
    Archive {
        id: "news",
        name: "News Archive",
        character: "newspapers of all countries, front pages daily, since 1999",
        since: 1999,
        visits: 6,
        share: |site| match site.kind {
            Kind::News => 0.6,
            _ => 0.0,
        },
    },
    Archive {
        id: "general",
        name: "General Web Archive",
        character: "a little of everything since 1996",
        since: 1996,
        visits: 2,
        share: |site| if site.host.len() % 4 == 0 { 0.0 } else { 0.3 },
    },
    Archive {
        id: "dark",
        name: "Legal Deposit",
        character: "may not show its URIs, so it publishes only a filter; since 2013",
        since: 2013,
        visits: 2,
        share: |site| match site.kind {
            Kind::Government | Kind::Charity => 0.5,
            Kind::News if site.national => 0.5,
            _ => 0.0,
        },
    },
];

/// The last year in which archives collect.
const UNTIL: u64 = 2025;

/// The sites, and a source of chance.
pub(super) struct World {
    sites: Vec<Site>,
    random: Random,
}

impl World {
    /// A world with about so many sites.
    pub(super) fn new(seed: u64, sites: u64) -> World {
        let mut random = Random::new(seed);
        let mut hosts = BTreeSet::new();
        let mut world = Vec::new();
        for _ in 0..sites {
            let (kind, host) = name_site(&mut random);
            if !hosts.insert(host.clone()) {
                continue;
            }
            // Most sites are small and some are large.
            let size = (12.0 / random.fraction().max(0.004).powf(0.9)) as u64;
            let born = 1995 + random.below(22);
            let mut pages = vec!["/".to_owned()];
            let mut known = BTreeSet::new();
            for _ in 0..size {
                let path = name_page(kind, born, &mut random);
                if known.insert(path.clone()) {
                    pages.push(path);
                }
            }
            world.push(Site {
                kind,
                national: host.ends_with(".example"),
                host,
                born,
                pages,
            });
        }
        World {
            sites: world,
            random,
        }
    }

    /// Writes the captures of an archive as CDXJ, site by site: not sorted by key.
    ///
    /// # Errors
    /// If writing fails.
    pub(super) fn write_index(
        &mut self,
        archive: &Archive,
        out: &mut impl Write,
    ) -> io::Result<u64> {
        let random = &mut self.random;
        let mut captures = 0;
        for site in &self.sites {
            let share = (archive.share)(site);
            for (rank, path) in site.pages.iter().enumerate() {
                // Popular pages are rarely missed.
                let chance = if rank == 0 { share.sqrt() } else { share };
                if share == 0.0 || random.fraction() >= chance {
                    continue;
                }
                let visits = match rank {
                    0 => archive.visits * 12,
                    1..=5 => archive.visits * 2,
                    _ => 1,
                };
                let from = archive.since.max(site.born);
                for _ in 0..1 + random.below(visits) {
                    write_capture(&site.host, path, from, random, out)?;
                    captures += 1;
                }
            }
        }
        Ok(captures)
    }

    /// What people look up: popular pages, pages that never were, and sites that nobody holds.
    pub(super) fn lookups(&mut self, count: usize) -> Vec<String> {
        let random = &mut self.random;
        (0..count)
            .map(|_| {
                let site = &self.sites[random.below(self.sites.len() as u64) as usize];
                let rank = (site.pages.len() as f64).powf(random.fraction()) as usize - 1;
                match random.below(10) {
                    0..=5 => format!("http://{}{}", site.host, site.pages[rank]),
                    6..=7 => {
                        let path = name_page(site.kind, site.born, random);
                        format!("http://{}{path}", site.host)
                    }
                    _ => {
                        let (kind, host) = name_site(random);
                        let path = name_page(kind, 2000, random);
                        format!("http://{}-{host}{path}", pick(&PLACES, random))
                    }
                }
            })
            .collect()
    }

    /// The front page of a site that several archives hold.
    pub(super) fn showpiece(&self) -> Option<String> {
        let shared = |site: &&Site| {
            let holders = ARCHIVES
                .iter()
                .filter(|archive| (archive.share)(site) > 0.0);
            site.national && site.kind == Kind::News && holders.count() == 4
        };
        let largest = self
            .sites
            .iter()
            .filter(shared)
            .max_by_key(|site| site.pages.len())?;
        Some(format!("http://{}/", largest.host))
    }
}

fn pick<'a>(words: &[&'a str], random: &mut Random) -> &'a str {
    words[random.below(words.len() as u64) as usize]
}

fn name_site(random: &mut Random) -> (Kind, String) {
    let (first, place) = (pick(&ADJECTIVES, random), pick(&PLACES, random));
    let abroad = ["com", "org", "net", "co.uk", "de", "fr"];
    let national = random.below(10) < 4;
    let end = |commercial: &'static str, random: &mut Random| match national {
        true => commercial,
        false => pick(&abroad, random),
    };
    match random.below(20) {
        0 => (
            Kind::Government,
            format!("www.{}.gov.example", pick(&MINISTRIES, random)),
        ),
        1..=2 => (Kind::Government, format!("www.{place}-{first}.gov.example")),
        3..=4 => match national {
            true => (Kind::University, format!("www.{first}-{place}.ac.example")),
            false => (
                Kind::University,
                format!("www.{first}-{place}-university.edu"),
            ),
        },
        5..=8 => {
            let paper = pick(&PAPERS, random);
            let end = end("co.example", random);
            (Kind::News, format!("www.{place}-{paper}-{first}.{end}"))
        }
        9..=13 => {
            let goods = pick(&GOODS, random);
            let end = end("co.example", random);
            (Kind::Shop, format!("www.{first}-{goods}-{place}.{end}"))
        }
        14..=17 => {
            let end = end("example", random);
            (Kind::Blog, format!("{first}.{place}-notes.{end}"))
        }
        _ => {
            let end = end("org.example", random);
            (
                Kind::Charity,
                format!("www.friends-of-{first}-{place}.{end}"),
            )
        }
    }
}

fn name_page(kind: Kind, born: u64, random: &mut Random) -> String {
    let year = born.max(1998) + random.below(UNTIL - born.max(1998));
    let (month, day) = (1 + random.below(12), 1 + random.below(28));
    let title = |random: &mut Random| {
        format!(
            "{}-{}-{}",
            pick(&PLACES, random),
            pick(&SUBJECTS, random),
            pick(&EVENTS, random)
        )
    };
    match kind {
        Kind::Government => {
            let section = pick(&SECTIONS, random);
            match random.below(3) {
                0 => format!("/{section}/{year}/{}.pdf", title(random)),
                1 => format!("/{section}/{}.html", title(random)),
                _ => format!("/{section}?year={year}&page={}", 1 + random.below(9)),
            }
        }
        Kind::University => {
            let faculty = pick(&FACULTIES, random);
            match random.below(3) {
                0 => format!("/{faculty}/people/{}", random.letters(7)),
                1 => format!("/{faculty}/papers/{year}/{}.pdf", title(random)),
                _ => format!("/~{}/{}.html", random.letters(6), pick(&SUBJECTS, random)),
            }
        }
        Kind::News => format!("/{year}/{month:02}/{day:02}/{}.html", title(random)),
        Kind::Shop => match random.below(2) {
            0 => format!("/catalogue/item?id={}", random.below(90_000)),
            _ => format!("/{}/{}", pick(&GOODS, random), title(random)),
        },
        Kind::Blog => format!("/{year}/{month:02}/{}", title(random)),
        Kind::Charity => format!("/{}/{}", pick(&SUBJECTS, random), title(random)),
    }
}

fn write_capture(
    host: &str,
    path: &str,
    from: u64,
    random: &mut Random,
    out: &mut impl Write,
) -> io::Result<()> {
    let url = format!("http://{host}{path}");
    let key = surt(&url).map_err(io::Error::other)?;
    let year = from + random.below(UNTIL + 1 - from);
    let (month, day) = (1 + random.below(12), 1 + random.below(28));
    let (hour, minute, second) = (random.below(24), random.below(60), random.below(60));
    let (mime, status) = match random.below(20) {
        0 => ("text/html", 301),
        1 => ("text/html", 404),
        _ if path.ends_with(".pdf") => ("application/pdf", 200),
        _ => ("text/html", 200),
    };
    let length = 800 + random.below(40_000);
    writeln!(
        out,
        "{key} {year}{month:02}{day:02}{hour:02}{minute:02}{second:02} \
         {{\"url\": \"{url}\", \"mime\": \"{mime}\", \"status\": \"{status}\", \"length\": \"{length}\"}}"
    )
}
