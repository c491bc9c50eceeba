//! Names of months, weekdays and time zones.
//!
//! Names of months in other languages are accepted where they mean one month in all of these languages.
//! `listopad` is November in Czech and Polish and October in Croatian, so it is not among them; a test
//! proves that no name is there twice.

/// Names of the months, from January, for each language: the usual abbreviations and the full names, in
/// the nominative and in dates, in lower case and without dots.
#[rustfmt::skip]
const MONTHS: [(&str, [&str; 12]); 24] = [
    ("English", ["jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august", "sep sept september", "oct october", "nov november", "dec december"]),
    ("German", ["jan januar jänner jän", "feb februar feber", "mär mrz märz maerz mae", "apr april", "mai", "jun juni", "jul juli", "aug august", "sep sept september", "okt oktober", "nov november", "dez dezember"]),
    ("French", ["janv janvier", "févr fév février fevr fevrier", "mars", "avr avril", "mai", "juin", "juil juillet", "août aoû aout", "sept septembre", "oct octobre", "nov novembre", "déc décembre decembre"]),
    ("Spanish", ["ene enero", "feb febrero", "mar marzo", "abr abril", "may mayo", "jun junio", "jul julio", "ago agosto", "sep sept septiembre setiembre", "oct octubre", "nov noviembre", "dic diciembre"]),
    ("Italian", ["gen gennaio", "feb febbraio", "mar marzo", "apr aprile", "mag maggio", "giu giugno", "lug luglio", "ago agosto", "set settembre", "ott ottobre", "nov novembre", "dic dicembre"]),
    ("Portuguese", ["jan janeiro", "fev fevereiro", "mar março marco", "abr abril", "mai maio", "jun junho", "jul julho", "ago agosto", "set setembro", "out outubro", "nov novembro", "dez dezembro"]),
    ("Dutch", ["jan januari", "feb februari", "mrt maart", "apr april", "mei", "jun juni", "jul juli", "aug augustus", "sep september", "okt oktober", "nov november", "dec december"]),
    ("Swedish", ["jan januari", "feb februari", "mar mars", "apr april", "maj", "jun juni", "jul juli", "aug augusti", "sep september", "okt oktober", "nov november", "dec december"]),
    ("Danish", ["jan januar", "feb februar", "mar marts", "apr april", "maj", "jun juni", "jul juli", "aug august", "sep september", "okt oktober", "nov november", "dec december"]),
    ("Norwegian", ["jan januar", "feb februar", "mar mars", "apr april", "mai", "jun juni", "jul juli", "aug august", "sep september", "okt oktober", "nov november", "des desember"]),
    ("Finnish", ["tammi tammikuu tammikuuta", "helmi helmikuu helmikuuta", "maalis maaliskuu maaliskuuta", "huhti huhtikuu huhtikuuta", "touko toukokuu toukokuuta", "kesä kesäkuu kesäkuuta", "heinä heinäkuu heinäkuuta", "elo elokuu elokuuta", "syys syyskuu syyskuuta", "loka lokakuu lokakuuta", "marras marraskuu marraskuuta", "joulu joulukuu joulukuuta"]),
    ("Polish", ["sty styczeń stycznia styczen", "lut luty lutego", "mar marzec marca", "kwi kwiecień kwietnia kwiecien", "maj maja", "cze czerwiec czerwca", "lip lipiec lipca", "sie sierpień sierpnia sierpien", "wrz wrzesień września wrzesien", "paź październik października paz", "listopada", "gru grudzień grudnia grudzien"]),
    ("Czech", ["led leden ledna", "úno únor února", "bře březen března", "dub duben dubna", "kvě květen května", "čvn červen června", "čvc červenec července", "srpen srpna", "zář září", "říj říjen října", "listopadu", "prosinec prosince"]),
    ("Hungarian", ["jan január", "febr február", "márc március", "ápr április", "máj május", "jún június", "júl július", "aug augusztus", "szept szeptember", "okt október", "nov november", "dec december"]),
    ("Romanian", ["ian ianuarie", "feb februarie", "mar martie", "apr aprilie", "mai", "iun iunie", "iul iulie", "aug august", "sep sept septembrie", "oct octombrie", "noi noiembrie", "dec decembrie"]),
    ("Turkish", ["oca ocak", "şub şubat", "mar mart", "nis nisan", "may mayıs", "haz haziran", "tem temmuz", "ağu ağustos", "eyl eylül", "eki ekim", "kas kasım", "aralık"]),
    ("Russian", ["янв январь января", "фев февр февраль февраля", "мар март марта", "апр апрель апреля", "май мая", "июн июнь июня", "июл июль июля", "авг август августа", "сен сент сентябрь сентября", "окт октябрь октября", "ноя нояб ноябрь ноября", "дек декабрь декабря"]),
    ("Ukrainian", ["січ січень січня", "лют лютий лютого", "бер березень березня", "кві квітень квітня", "тра травень травня", "чер червень червня", "лип липень липня", "сер серпень серпня", "вер вересень вересня", "жов жовтень жовтня", "листопада", "гру грудень грудня"]),
    ("Greek", ["ιαν ιανουαρίου", "φεβ φεβρουαρίου", "μαρ μαρτίου", "απρ απριλίου", "μαΐ μαΐου μαϊ", "ιουν ιουνίου", "ιουλ ιουλίου", "αυγ αυγούστου", "σεπ σεπτ σεπτεμβρίου", "οκτ οκτωβρίου", "νοε νοεμβρίου", "δεκ δεκεμβρίου"]),
    ("Catalan", ["gener", "febr febrer", "març", "abr abril", "maig", "juny", "jul juliol", "agost", "set setembre", "oct octubre", "nov novembre", "des desembre"]),
    ("Indonesian", ["jan januari", "feb februari", "mar maret", "apr april", "mei", "jun juni", "jul juli", "agu agustus", "sep september", "okt oktober", "nov november", "des desember"]),
    ("Estonian", ["jaanuar", "veebr veebruar", "märts", "aprill", "mai", "juuni", "juuli", "aug august", "sept september", "okt oktoober", "nov november", "dets detsember"]),
    ("Slovenian", ["jan januar", "feb februar", "mar marec", "apr april", "maj", "jun junij", "jul julij", "avg avgust", "sep september", "okt oktober", "nov november", "dec december"]),
    ("Latvian", ["janv janvāris", "febr februāris", "marts", "apr aprīlis", "maijs", "jūn jūnijs", "jūl jūlijs", "aug augusts", "sept septembris", "okt oktobris", "nov novembris", "dec decembris"]),
];

/// Names of weekdays that are known, from Monday.
#[rustfmt::skip]
const WEEKDAYS: [(&str, [&str; 7]); 8] = [
    ("English", ["mon monday", "tue tues tuesday", "wed weds wednesday", "thu thur thurs thursday", "fri friday", "sat saturday", "sun sunday"]),
    ("German", ["mo montag", "di dienstag", "mi mittwoch", "do donnerstag", "fr freitag", "sa samstag sonnabend", "so sonntag"]),
    ("French", ["lun lundi", "mardi", "mer mercredi", "jeu jeudi", "ven vendredi", "sam samedi", "dim dimanche"]),
    ("Spanish", ["lunes", "martes", "mié miércoles mie", "jue jueves", "vie viernes", "sáb sábado sab", "dom domingo"]),
    ("Italian", ["lunedì", "martedì", "mercoledì", "gio giovedì", "venerdì", "sabato", "domenica"]),
    ("Polish", ["pon poniedziałek", "wto wtorek", "śro środa", "czw czwartek", "pią piątek", "sob sobota", "nie niedziela"]),
    ("Russian", ["пн пнд понедельник", "вт втр вторник", "ср срд среда", "чт чтв четверг", "пт птн пятница", "сб сбт суббота", "вс вск воскресенье"]),
    ("Dutch", ["ma maandag", "di dinsdag", "wo woensdag", "do donderdag", "vr vrijdag", "za zaterdag", "zo zondag"]),
];

/// Zones that have one meaning, or the one that RFC 822 gives them, in minutes east of UTC.
#[rustfmt::skip]
const ZONES: [(&str, i32); 37] = [
    ("gmt", 0), ("utc", 0), ("ut", 0), ("z", 0), ("wet", 0), ("uct", 0), ("zulu", 0),
    ("est", -300), ("edt", -240), ("cst", -360), ("cdt", -300), ("mst", -420), ("mdt", -360),
    ("pst", -480), ("pdt", -420), ("akst", -540), ("akdt", -480), ("hst", -600), ("brt", -180),
    ("brst", -120), ("west", 60), ("cet", 60), ("mez", 60), ("met", 60), ("cest", 120),
    ("mesz", 120), ("mest", 120), ("eet", 120), ("eest", 180), ("msk", 180), ("jst", 540),
    ("kst", 540), ("hkt", 480), ("sgt", 480), ("aest", 600), ("aedt", 660), ("nzst", 720),
];

/// Words between the parts of a date.
const FILLERS: [&str; 14] = [
    "at", "of", "on", "the", "de", "del", "le", "um", "den", "г", "года", "de.", "t", "à",
];

/// The month that a name means, and whether it is English.
pub(crate) fn month(name: &str) -> Option<(u8, bool)> {
    MONTHS
        .iter()
        .enumerate()
        .find_map(|(language, (_, months))| {
            let at = months
                .iter()
                .position(|names| names.split(' ').any(|known| known == name))?;
            Some((at as u8 + 1, language == 0))
        })
}

/// The weekday that an English name means, from 0 for Monday; `Some(None)` if it is one of another
/// language, which is not compared with the date.
pub(crate) fn weekday(name: &str) -> Option<Option<u8>> {
    WEEKDAYS
        .iter()
        .enumerate()
        .find_map(|(language, (_, days))| {
            let at = days
                .iter()
                .position(|names| names.split(' ').any(|known| known == name))?;
            Some((language == 0).then_some(at as u8))
        })
}

/// The offset of a zone, in minutes east of UTC.
pub(crate) fn zone(name: &str) -> Option<i32> {
    ZONES
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, minutes)| *minutes)
}

pub(crate) fn is_filler(name: &str) -> bool {
    FILLERS.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn every_name_of_a_month_means_one_month_in_all_languages() {
        let mut known: HashMap<&str, (usize, &str)> = HashMap::new();
        for (language, months) in &MONTHS {
            for (month, names) in months.iter().enumerate() {
                for name in names.split(' ') {
                    let (before, other) = *known.entry(name).or_insert((month, language));
                    assert_eq!(before, month, "{name} in {language} and {other}");
                    assert_eq!(name, name.to_lowercase());
                }
            }
        }
        for ambiguous in ["listopad", "lis", "srp", "ara"] {
            assert_eq!(month(ambiguous), None);
        }
    }

    #[test]
    fn no_name_is_a_month_and_a_weekday_or_a_zone() {
        for (_, days) in &WEEKDAYS {
            for name in days.iter().flat_map(|names| names.split(' ')) {
                assert_eq!(month(name), None, "{name}");
                assert_eq!(zone(name), None, "{name}");
            }
        }
        for (name, _) in ZONES {
            assert_eq!(month(name), None, "{name}");
        }
    }
}
