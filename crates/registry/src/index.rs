//! What a chart repository has: [`Index`].

use std::{collections::BTreeMap, fmt};

use plural_versions::{Constraint, Version};
use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{
    access::printable,
    error::{Cause, Error, Result},
};

/// Versions in an index at most: some public ones have ten thousands.
const MAX_VERSIONS: usize = 300_000;
/// Events of YAML for each of them at most, roughly.
const EVENTS: usize = 40_000_000;

/// An `index.yaml`, of which only what is needed to choose a chart is kept.
///
/// # Guarantees
/// Null or nonsense in place of any field leaves out that entry, never the others, and nothing panics.
#[derive(Debug, Default)]
pub struct Index {
    charts: BTreeMap<String, Vec<Entry>>,
}

/// One version of a chart.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) version: Version,
    /// Lower-case hex SHA-256 of the archive.
    pub(crate) digest: Option<String>,
    /// Where the archive is, relative to the repository or absolute.
    pub(crate) url: Option<String>,
}

impl Index {
    /// Reads an index: YAML, or JSON, which many repositories serve under the same name because it reads faster.
    ///
    /// # Errors
    /// When it is neither, names a chart twice, or holds more than is read.
    pub fn parse(content: &[u8]) -> Result<Self> {
        let text = std::str::from_utf8(content).map_err(|_| Error::malformed("the index is not UTF-8"))?;
        let document: Document = if text.trim_start().starts_with('{') {
            serde_json::from_str(text).map_err(|error| broken(&error))?
        } else {
            serde_saphyr::from_str_with_options(text, options()).map_err(|error| broken(&error))?
        };
        let charts = document.entries.0;
        if charts.is_empty() && !document.has_entries && !document.has_version {
            return Err(Error::malformed(
                "the index has neither an apiVersion nor entries: it is not a chart repository",
            ));
        }
        Ok(Self { charts })
    }

    /// Bytes that it takes in memory, about.
    pub(crate) fn weight(&self) -> usize {
        let entry = |entry: &Entry| {
            let texts = [&entry.digest, &entry.url].into_iter().flatten().map(String::len).sum::<usize>();
            // The version is kept as it was written, and in its parts.
            size_of::<Entry>() + texts + 3 * entry.version.original.len()
        };
        self.charts.iter().map(|(name, all)| name.len() + 64 + all.iter().map(entry).sum::<usize>()).sum()
    }

    /// How many charts there are.
    pub fn len(&self) -> usize {
        self.charts.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.charts.is_empty()
    }

    /// The version of a chart that is meant by a version or range; the highest of all when it is empty.
    ///
    /// # Errors
    /// When there is none, `wanted` is neither, or the index lists that version twice with different content.
    pub fn version(&self, chart: &str, wanted: &str) -> Result<&str> {
        self.find(chart, wanted).map(|entry| entry.version.original.as_str())
    }

    /// The version of a chart that is asked for: exactly this one, or the highest in a range.
    pub(crate) fn find(&self, chart: &str, wanted: &str) -> Result<&Entry> {
        let entries = self.charts.get(chart).filter(|entries| !entries.is_empty()).ok_or_else(|| {
            Error::new(Cause::NotFound, format!("the repository has no chart {:?}", printable(chart)))
        })?;
        let exact = entries.iter().find(|entry| entry.version.original == wanted);
        let found = if let Some(found) = exact {
            found
        } else {
            let range = Constraint::parse(if wanted.is_empty() { "*" } else { wanted }).map_err(|error| {
                Error::invalid(format!(
                    "{:?} is not a version or range of versions: {error}",
                    printable(wanted)
                ))
            })?;
            plural_versions::highest(&range, entries.iter().map(|entry| (&entry.version, entry)))
                .map(|(_, entry)| entry)
                .ok_or_else(|| none_in_range(chart, wanted, entries))?
        };
        let mut same = entries.iter().filter(|entry| entry.version.original == found.version.original);
        if same.any(|entry| entry.digest != found.digest || entry.url != found.url && found.digest.is_none())
        {
            return Err(Error::untrusted(format!(
                "the index lists {} {} more than once with different content: the repository must remove one",
                printable(chart),
                found.version.original
            )));
        }
        Ok(found)
    }
}

fn none_in_range(chart: &str, wanted: &str, entries: &[Entry]) -> Error {
    let newest =
        entries.iter().map(|entry| &entry.version).reduce(|a, b| if b.compare(a).is_gt() { b } else { a });
    let newest = newest.map(|version| format!("; its newest is {}", version.original)).unwrap_or_default();
    Error::new(
        Cause::NotFound,
        format!("the repository has no version of {} in {:?}{newest}", printable(chart), printable(wanted)),
    )
}

fn broken(error: &dyn fmt::Display) -> Error {
    let text = error.to_string();
    Error::malformed(format!(
        "the index cannot be read: {}",
        printable(text.lines().next().unwrap_or_default())
    ))
}

pub(crate) fn options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_events: EVENTS,
            max_nodes: EVENTS,
            max_depth: 64,
            max_documents: 1,
            max_aliases: 1000,
            max_anchors: 1000,
            max_total_scalar_bytes: 256 << 20,
        },
        with_snippet: false,
        // Two entries of one name in the lists that count are found below; elsewhere they are nobody's concern.
        duplicate_keys: serde_saphyr::DuplicateKeyPolicy::LastWins,
    }
}

#[derive(Default)]
struct Document {
    has_version: bool,
    has_entries: bool,
    entries: Entries,
}

#[derive(Default)]
struct Entries(BTreeMap<String, Vec<Entry>>);

impl<'de> Deserialize<'de> for Document {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Document;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an index of charts")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<Document, M::Error> {
                let mut document = Document::default();
                while let Some(key) = map.next_key::<String>()? {
                    match key.as_str() {
                        "apiVersion" => {
                            document.has_version = true;
                            map.next_value::<IgnoredAny>()?;
                        }
                        "entries" => {
                            if document.has_entries {
                                return Err(serde::de::Error::custom("it has \"entries\" twice"));
                            }
                            document.has_entries = true;
                            document.entries = map.next_value()?;
                        }
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(document)
            }
        }
        deserializer.deserialize_map(Of)
    }
}

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Of;
        impl<'de> Visitor<'de> for Of {
            type Value = Entries;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("charts by name")
            }

            fn visit_unit<E>(self) -> std::result::Result<Entries, E> {
                Ok(Entries::default())
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> std::result::Result<Entries, M::Error> {
                let mut charts = BTreeMap::new();
                let mut total = 0;
                while let Some(name) = map.next_key::<String>()? {
                    let Lenient(entries) = map.next_value::<Lenient<Versions>>()?;
                    let entries = entries.map(|Versions(entries)| entries).unwrap_or_default();
                    total += entries.len();
                    if total > MAX_VERSIONS {
                        return Err(serde::de::Error::custom(format!(
                            "it has more than {MAX_VERSIONS} versions"
                        )));
                    }
                    if charts.insert(name.clone(), entries).is_some() {
                        return Err(serde::de::Error::custom(format!("it has the chart {name:?} twice")));
                    }
                }
                Ok(Entries(charts))
            }
        }
        deserializer.deserialize_any(Of)
    }
}

struct Versions(Vec<Entry>);

/// A value that counts as absent when it is of another kind than it should be.
struct Lenient<T>(Option<T>);

/// What can be read leniently: it sees one value, whatever it is.
trait Shape: Sized {
    fn text(_: &str) -> Option<Self> {
        None
    }

    fn sequence<'de, S: SeqAccess<'de>>(mut items: S) -> std::result::Result<Option<Self>, S::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn map<'de, M: MapAccess<'de>>(mut map: M) -> std::result::Result<Option<Self>, M::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(None)
    }
}

impl<'de, T: Shape> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Of<T>(std::marker::PhantomData<T>);
        impl<'de, T: Shape> Visitor<'de> for Of<T> {
            type Value = Lenient<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("anything")
            }

            fn visit_bool<E>(self, _: bool) -> std::result::Result<Self::Value, E> {
                Ok(Lenient(None))
            }

            fn visit_i64<E>(self, value: i64) -> std::result::Result<Self::Value, E> {
                Ok(Lenient(T::text(&value.to_string())))
            }

            fn visit_u64<E>(self, value: u64) -> std::result::Result<Self::Value, E> {
                Ok(Lenient(T::text(&value.to_string())))
            }

            fn visit_f64<E>(self, value: f64) -> std::result::Result<Self::Value, E> {
                Ok(Lenient(T::text(&value.to_string())))
            }

            fn visit_str<E>(self, value: &str) -> std::result::Result<Self::Value, E> {
                Ok(Lenient(T::text(value)))
            }

            fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
                Ok(Lenient(None))
            }

            fn visit_none<E>(self) -> std::result::Result<Self::Value, E> {
                Ok(Lenient(None))
            }

            fn visit_bytes<E>(self, _: &[u8]) -> std::result::Result<Self::Value, E> {
                Ok(Lenient(None))
            }

            fn visit_seq<S: SeqAccess<'de>>(self, items: S) -> std::result::Result<Self::Value, S::Error> {
                T::sequence(items).map(Lenient)
            }

            fn visit_map<M: MapAccess<'de>>(self, map: M) -> std::result::Result<Self::Value, M::Error> {
                T::map(map).map(Lenient)
            }
        }
        deserializer.deserialize_any(Of(std::marker::PhantomData))
    }
}

impl Shape for String {
    fn text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

/// The first text of a list.
struct First(String);

impl Shape for First {
    fn sequence<'de, S: SeqAccess<'de>>(mut items: S) -> std::result::Result<Option<Self>, S::Error> {
        let mut first = None;
        while let Some(Lenient(item)) = items.next_element::<Lenient<String>>()? {
            first = first.or(item);
        }
        Ok(first.filter(|text: &String| !text.is_empty()).map(First))
    }
}

impl Shape for Versions {
    fn sequence<'de, S: SeqAccess<'de>>(mut items: S) -> std::result::Result<Option<Self>, S::Error> {
        let mut entries = Vec::new();
        while let Some(Lenient(entry)) = items.next_element::<Lenient<Entry>>()? {
            entries.extend(entry);
            if entries.len() > MAX_VERSIONS {
                return Err(serde::de::Error::custom(format!("it has more than {MAX_VERSIONS} versions")));
            }
        }
        Ok(Some(Self(entries)))
    }
}

impl Shape for Entry {
    fn map<'de, M: MapAccess<'de>>(mut map: M) -> std::result::Result<Option<Self>, M::Error> {
        let (mut version, mut digest, mut url) = (None, None, None);
        while let Some(Lenient(key)) = map.next_key::<Lenient<String>>()? {
            match key.as_deref() {
                Some("version") => version = map.next_value::<Lenient<String>>()?.0,
                Some("digest") => digest = map.next_value::<Lenient<String>>()?.0,
                Some("urls") => url = map.next_value::<Lenient<First>>()?.0,
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        // Helm leaves out what has no version it can read, too.
        let Some(version) = version.and_then(|text| Version::parse(&text).ok()) else { return Ok(None) };
        let digest = digest
            .filter(|text| !text.is_empty())
            .map(|text| text.strip_prefix("sha256:").unwrap_or(&text).to_ascii_lowercase());
        Ok(Some(Self { version, digest, url: url.map(|First(url)| url) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
apiVersion: v1
entries:
  web:
  - {name: web, version: 1.2.0, urls: [web-1.2.0.tgz], digest: AA}
  - {name: web, version: 1.10.0, urls: [web-1.10.0.tgz], digest: 'sha256:bb'}
  - {name: web, version: 2.0.0-rc.1, urls: [x]}
  empty: []
";

    #[test]
    fn finds_the_version_that_is_meant() {
        let index = Index::parse(TWO.as_bytes()).unwrap();
        let find = |wanted: &str| index.find("web", wanted).map(|entry| entry.version.original.clone());
        assert_eq!(find("1.x").unwrap(), "1.10.0");
        assert_eq!(find("").unwrap(), "1.10.0");
        assert_eq!(find("1.2.0").unwrap(), "1.2.0");
        assert_eq!(find(">=1.0.0-0").unwrap(), "2.0.0-rc.1");
        assert_eq!(index.find("web", "1.2.0").unwrap().digest.as_deref(), Some("aa"));
        assert_eq!(index.find("web", "1.10.0").unwrap().digest.as_deref(), Some("bb"));
        assert_eq!(find("^3").unwrap_err().cause, Cause::NotFound);
        assert_eq!(find("nonsense").unwrap_err().cause, Cause::Invalid);
        assert_eq!(index.find("empty", "").unwrap_err().cause, Cause::NotFound);
        assert_eq!(index.find("other", "").unwrap_err().cause, Cause::NotFound);
    }

    #[test]
    fn json_is_an_index_too() {
        let index =
            Index::parse(br#"{"apiVersion":"v1","entries":{"web":[{"version":"1.0.0","urls":["a"]}]}}"#);
        assert_eq!(index.unwrap().find("web", "1.0.0").unwrap().url.as_deref(), Some("a"));
    }

    #[test]
    fn null_and_nonsense_leave_out_what_they_are_in() {
        let text = "
apiVersion: null
entries:
  a: null
  b: [null, 7, [], {version: null}, {version: [1]}, {version: 1.0.0, urls: null, digest: null}]
  c: text
  d: [{version: 2.0.0, urls: [null, {}, x.tgz], annotations: {a: b}, 7: 8, null: 1}]
";
        let index = Index::parse(text.as_bytes()).unwrap();
        assert_eq!(index.find("b", "").unwrap().url, None);
        assert_eq!(index.find("d", "").unwrap().url.as_deref(), Some("x.tgz"));
        for (text, what) in [
            ("", "a document"),
            ("null", "null"),
            ("[]", "a list"),
            ("entries: 7", "a number"),
            ("<html></html>", "a page"),
            ("a: b", "another file"),
            ("{", "half of one"),
            ("\0", "binary"),
        ] {
            assert_eq!(Index::parse(text.as_bytes()).unwrap_err().cause, Cause::Malformed, "{what}");
        }
        assert!(Index::parse(b"entries: null").unwrap().is_empty());
        assert!(Index::parse(&[0xff, 0xfe]).is_err());
    }

    #[test]
    fn what_is_there_twice_is_refused() {
        let twice =
            "entries:\n  a: [{version: 1.0.0, digest: aa}, {version: 1.0.0, digest: bb}, {version: 0.9.0}]\n";
        let index = Index::parse(twice.as_bytes()).unwrap();
        assert_eq!(index.find("a", "1.x").unwrap_err().cause, Cause::Untrusted);
        assert_eq!(index.find("a", "1.0.0").unwrap_err().cause, Cause::Untrusted);
        assert!(index.find("a", "0.9.0").is_ok());
        let same = "entries:\n  a: [{version: 1.0.0, digest: aa}, {version: 1.0.0, digest: aa}]\n";
        assert!(Index::parse(same.as_bytes()).unwrap().find("a", "").is_ok());
        let names = "entries:\n  a: [{version: 1.0.0}]\n  a: [{version: 1.0.1}]\n";
        assert!(Index::parse(names.as_bytes()).unwrap_err().message.contains("twice"));
        let json = br#"{"entries":{"a":[{"version":"1.0.0"}],"a":[{"version":"2.0.0"}]}}"#;
        assert!(Index::parse(json).unwrap_err().message.contains("twice"));
    }

    #[test]
    #[allow(clippy::format_push_string, reason = "a test")]
    fn bombs_end_early() {
        let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
        for n in 'b'..'l' {
            let before = char::from(n as u8 - 1);
            bomb += &format!(
                "{n}: &{n} [*{before},*{before},*{before},*{before},*{before},*{before},*{before},*{before}]\n"
            );
        }
        bomb += "entries: *k\n";
        let _ = Index::parse(bomb.as_bytes());
        let deep = format!("entries: {}", "[".repeat(100_000));
        assert_eq!(Index::parse(deep.as_bytes()).unwrap_err().cause, Cause::Malformed);
        let deep = format!("{{\"entries\": {}", "[".repeat(100_000));
        assert_eq!(Index::parse(deep.as_bytes()).unwrap_err().cause, Cause::Malformed);
    }

    proptest::proptest! {
        #[test]
        fn nothing_panics(text in "[a-z0-9:{}\\[\\], \n\"'&*!|>-]{0,200}") {
            let _ = Index::parse(text.as_bytes());
            let _ = Index::parse(format!("entries:\n  a: {text}").as_bytes());
        }
    }
}
