//! What a client would like a memento to be. Summaries that count captures by language or media type
//! say how many of them are like that.

use crate::about::By;

/// What a client would like a memento to be. It is no condition: a memento in another language is
/// better than none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preference {
    /// A language: `de`, `de-AT`, `deu`.
    pub language: Option<String>,
    /// A media type: `image/png`, `image/*`.
    pub media_type: Option<String>,
}

impl Preference {
    /// Whether nothing is preferred.
    pub fn is_empty(&self) -> bool {
        self.language.is_none() && self.media_type.is_none()
    }

    /// Whether a second key of this kind is what is wanted. `None` if nothing of this kind is.
    pub(crate) fn likes(&self, by: By, second: &[u8]) -> Option<bool> {
        match by {
            By::Language => {
                let wanted = code_of(self.language.as_deref()?);
                Some(code_of(&String::from_utf8_lossy(second)) == wanted)
            }
            By::Mime => {
                let wanted = self.media_type.as_deref()?.trim().to_ascii_lowercase();
                let second = String::from_utf8_lossy(second).to_ascii_lowercase();
                Some(match wanted.strip_suffix('*') {
                    Some(start) => second.starts_with(start),
                    None => second == wanted,
                })
            }
            By::Year | By::Month | By::Class => None,
        }
    }
}

/// The share of captures that are what is wanted, counted row by row.
#[derive(Debug, Default)]
pub(crate) struct Share {
    liked: f64,
    all: f64,
}

impl Share {
    pub(crate) fn add(&mut self, captures: Option<u64>, liked: bool) {
        let captures = captures.unwrap_or(1) as f64;
        self.all += captures;
        self.liked += if liked { captures } else { 0.0 };
    }

    /// The share, or `None` without captures.
    pub(crate) fn get(&self) -> Option<f64> {
        (self.all > 0.0).then(|| self.liked / self.all)
    }
}

/// The code of a language in ISO 639-3, which indexes use, if it is a common one; else as it is.
fn code_of(tag: &str) -> String {
    let tag = tag.trim().to_ascii_lowercase();
    let primary = tag.split(['-', '_']).next().unwrap_or_default();
    let mut known = CODES
        .split_whitespace()
        .filter_map(|pair| pair.split_once(':'));
    let long = known.find(|(short, _)| *short == primary);
    long.map_or(primary, |(_, long)| long).to_owned()
}

/// ISO 639-1 and 639-3.
const CODES: &str = "\
    af:afr am:amh ar:ara az:aze be:bel bg:bul bn:ben bs:bos ca:cat cs:ces cy:cym da:dan de:deu \
    el:ell en:eng eo:epo es:spa et:est eu:eus fa:fas fi:fin fo:fao fr:fra fy:fry ga:gle gd:gla \
    gl:glg gu:guj he:heb hi:hin hr:hrv hu:hun hy:hye id:ind is:isl it:ita ja:jpn ka:kat kk:kaz \
    km:khm kn:kan ko:kor ku:kur ky:kir la:lat lb:ltz lo:lao lt:lit lv:lav mk:mkd ml:mal mn:mon \
    mr:mar ms:msa mt:mlt my:mya nb:nob ne:nep nl:nld nn:nno no:nor oc:oci pa:pan pl:pol ps:pus \
    pt:por rm:roh ro:ron ru:rus sd:snd si:sin sk:slk sl:slv so:som sq:sqi sr:srp sv:swe sw:swa \
    ta:tam te:tel tg:tgk th:tha tk:tuk tl:tgl tr:tur tt:tat ug:uig uk:ukr ur:urd uz:uzb vi:vie \
    xh:xho yi:yid zh:zho zu:zul";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn languages_and_media_types_are_compared_as_they_are_meant() {
        let likes = |language: &str, second: &str| {
            let preference = Preference {
                language: Some(language.to_owned()),
                ..Preference::default()
            };
            preference.likes(By::Language, second.as_bytes())
        };
        assert_eq!(likes("de-AT", "deu"), Some(true));
        assert_eq!(likes("DE", "de"), Some(true));
        assert_eq!(likes("deu", "eng"), Some(false));
        assert_eq!(likes("tlh", "tlh"), Some(true));
        let media = Preference {
            media_type: Some("image/*".to_owned()),
            ..Preference::default()
        };
        assert_eq!(media.likes(By::Mime, b"image/png"), Some(true));
        assert_eq!(media.likes(By::Mime, b"text/html"), Some(false));
        assert_eq!(media.likes(By::Language, b"deu"), None);
        assert_eq!(media.likes(By::Year, b"2004"), None);
    }
}
