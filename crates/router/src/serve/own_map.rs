//! The map of our own holdings at `/.well-known/mementomap`, and links to those of other archives.

use std::sync::Arc;

use http::header::{self, HeaderMap, HeaderValue};
use http::{Response, StatusCode};
use tokio::task::spawn_blocking;
use url::Url;
use waypost_archive::mementomap::{MapPart, ServedMap, WELL_KNOWN};

use super::body::AnswerBody;
use super::reply::{Answer, error, not_found};
use crate::Registry;
use crate::config::ServerConfig;

/// A map that is served.
pub(super) struct OwnMap {
    map: Result<Arc<ServedMap>, String>,
    /// The URL of the host, which ends with a slash.
    origin: String,
    /// The link to the map, for all other answers.
    pub(super) link: HeaderValue,
}

impl OwnMap {
    /// The map that the configuration names.
    pub(super) fn of(config: &ServerConfig, base: &str) -> Option<OwnMap> {
        let path = config.mementomap.as_deref()?;
        let page = usize::try_from(config.mementomap_page).unwrap_or(usize::MAX);
        let origin = Url::parse(base).ok()?.origin().ascii_serialization() + "/";
        let link = format!("<{origin}{WELL_KNOWN}>; rel=\"mementomap\"");
        Some(OwnMap {
            map: ServedMap::open(path, page)
                .map(Arc::new)
                .map_err(|error| error.to_string()),
            link: HeaderValue::try_from(link).ok()?,
            origin,
        })
    }

    /// Why the map can't be served.
    pub(super) fn problem(&self) -> Option<&str> {
        self.map.as_ref().err().map(String::as_str)
    }

    pub(super) async fn answer(
        &self,
        part: MapPart,
        request: &HeaderMap,
        registry: &Registry,
    ) -> Answer {
        let Ok(map) = &self.map else {
            return not_found();
        };
        let (map, request, origin) = (Arc::clone(map), request.clone(), self.origin.clone());
        let answered = spawn_blocking(move || map.answer(part, &request, &origin)).await;
        let Ok(Ok(answered)) = answered else {
            return error(StatusCode::INTERNAL_SERVER_ERROR, "the map cannot be read");
        };
        let (parts, body) = answered.into_parts();
        let mut answer = Response::from_parts(parts, AnswerBody::whole(body));
        for link in maps_of_others(registry) {
            answer.headers_mut().append(header::LINK, link);
        }
        answer
    }
}

/// Links to the maps that other archives publish: they are about the archive that `anchor` names.
fn maps_of_others(registry: &Registry) -> impl Iterator<Item = HeaderValue> {
    registry.archives.iter().flat_map(|archive| {
        let addresses = [&archive.timemap, &archive.timegate, &archive.cdx];
        let address = addresses.into_iter().flatten().next();
        let origin = address.and_then(|address| Url::parse(address).ok());
        let anchor = origin.map(|url| url.origin().ascii_serialization() + "/");
        let maps = archive.sources.iter().filter(|url| is_map(url));
        let links: Vec<HeaderValue> = maps
            .filter_map(|url| {
                let anchor = anchor.as_deref()?;
                let link = format!("<{url}>; rel=\"mementomap\"; anchor=\"{anchor}\"");
                HeaderValue::try_from(link).ok()
            })
            .collect();
        links
    })
}

fn is_map(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let plain = path.strip_suffix(".gz").unwrap_or(path);
    plain.ends_with(".ukvs") || plain.ends_with(WELL_KNOWN)
}
