//! The page about the service, in the form of MemGator's.

use std::fmt::Write as _;

use crate::Registry;
use crate::answer::Addresses;

/// What the page says about the configuration: groups of names and values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct About(pub Vec<Vec<(String, String)>>);

impl About {
    /// The page.
    pub fn page(&self, addresses: &Addresses, registry: &Registry) -> String {
        self.page_of(addresses, registry, |_| None)
    }

    /// The page, with a remark about some archives.
    pub(crate) fn page_of(
        &self,
        addresses: &Addresses,
        registry: &Registry,
        remark: impl Fn(usize) -> Option<String>,
    ) -> String {
        let base = addresses.base();
        let mut page = format!(
            "# Waypost ({})\n\nA Memento aggregator\n\n\n\
             ## API Endpoints\n\n\
             TimeMap:  {base}/timemap/{{FORMAT}}/{{URI-R}}\n\
             TimeGate: {base}/timegate/{{URI-R}} [Accept-Datetime]\n\
             Memento:  {base}/memento[/{{FORMAT}}|proxy]/{{DATETIME}}/{{URI-R}}\n\
             About:    {base}/about\n\n\
             \x20 {{FORMAT}}          => link|json|cdxj\n\
             \x20 {{DATETIME}}        => YYYY[MM[DD[hh[mm[ss]]]]]\n\
             \x20 [Accept-Datetime] => Header in RFC1123 format\n\n\n\
             ## Upstream Archives\n\n",
            env!("CARGO_PKG_VERSION")
        );
        for (place, archive) in registry.archives.iter().enumerate() {
            let id = &archive.id;
            let name = archive.name.as_ref().filter(|name| !name.is_empty());
            let remark = remark(place).map_or_else(String::new, |text| format!(" - ({text})"));
            let name = name.unwrap_or(id);
            let _ = writeln!(page, "{}. [{name}](https://{id}/){remark}", place + 1);
        }
        page.push_str("\n\n## Configs\n");
        for group in &self.0 {
            page.push('\n');
            for (name, value) in group {
                let _ = writeln!(page, "{:<24}{value}", format!("{name}:"));
            }
        }
        page
    }
}
