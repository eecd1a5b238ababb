//! Lists in an order that people choose: keyed by a column and, among rows that are equal there, by id. A page after a cursor costs what the
//! first one costs, and what changes meanwhile moves no other row.

use std::fmt::Debug;
use std::str::FromStr;

use chrono::{DateTime, SecondsFormat, Utc};
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::page::{PageArgs, PageRequest};

/// What a list can be sorted by.
pub trait SortColumn: Debug + Copy + Send + Sync + 'static {
    /// Its word in cursors.
    fn word(self) -> &'static str;
    /// What its values are.
    fn kind(self) -> SortKind;
}

/// Kinds of values that lists are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SortKind {
    /// In the order of its bytes.
    Text,
    /// Whole numbers.
    Number,
    /// Moments.
    Time,
}

/// The value that a row is sorted by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SortKey {
    /// A text.
    Text(String),
    /// A number.
    Number(i64),
    /// A moment.
    Time(DateTime<Utc>),
}

/// Where a row stands in a sorted list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// Its value in the column.
    pub key: SortKey,
    /// Its id.
    pub id: Uuid,
}

/// The order of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sort<C> {
    /// By what.
    pub column: C,
    /// The greatest first.
    pub descending: bool,
}

impl<C: SortColumn> Sort<C> {
    /// Checks the arguments of a page of a list in this order.
    ///
    /// # Errors
    /// As [`PageArgs::request`]; also for a cursor of another order.
    pub fn request(&self, page: &PageArgs) -> Result<PageRequest<Place>> {
        page.request_by(|field, text| {
            self.place(text).ok_or_else(|| {
                Error::invalid(
                    field,
                    "is not a cursor of this list in this order: pass an unmodified \"endCursor\"",
                )
            })
        })
    }

    /// The cursor of a row of the list.
    pub fn cursor(&self, place: &Place) -> String {
        let key = match &place.key {
            SortKey::Text(text) => text.clone(),
            SortKey::Number(number) => number.to_string(),
            SortKey::Time(at) => at.to_rfc3339_opts(SecondsFormat::Nanos, true),
        };
        format!("{}{}.{}", self.prefix(), place.id.simple(), hex::encode(key))
    }

    fn place(&self, cursor: &str) -> Option<Place> {
        let (id, key) = cursor.strip_prefix(&self.prefix())?.split_once('.')?;
        let key = String::from_utf8(hex::decode(key).ok()?).ok()?;
        let key = match self.column.kind() {
            SortKind::Text => SortKey::Text(key),
            SortKind::Number => SortKey::Number(key.parse().ok()?),
            SortKind::Time => SortKey::Time(DateTime::from_str(&key).ok()?),
        };
        Some(Place { key, id: Uuid::try_parse(id).ok()? })
    }

    fn prefix(&self) -> String {
        format!("s{}.{}.", if self.descending { "d" } else { "a" }, self.column.word())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Clone, Copy)]
    enum Column {
        Name,
        Rank,
        At,
    }

    impl SortColumn for Column {
        fn word(self) -> &'static str {
            match self {
                Self::Name => "name",
                Self::Rank => "rank",
                Self::At => "at",
            }
        }

        fn kind(self) -> SortKind {
            match self {
                Self::Name => SortKind::Text,
                Self::Rank => SortKind::Number,
                Self::At => SortKind::Time,
            }
        }
    }

    fn after(sort: Sort<Column>, cursor: &str) -> Result<Option<Place>> {
        Ok(sort.request(&PageArgs { after: Some(cursor.to_owned()), ..PageArgs::default() })?.after)
    }

    #[test]
    fn cursors_round_trip_in_their_own_order_only() {
        let at = "2026-01-02T03:04:05.000000006Z".parse().unwrap();
        for (column, key) in [
            (Column::Name, SortKey::Text("a.b ü".into())),
            (Column::Rank, SortKey::Number(-7)),
            (Column::At, SortKey::Time(at)),
        ] {
            let place = Place { key, id: Uuid::now_v7() };
            let sort = Sort { column, descending: true };
            let cursor = sort.cursor(&place);
            assert_eq!(after(sort, &cursor).unwrap(), Some(place));
            assert!(after(Sort { descending: false, ..sort }, &cursor).is_err());
        }
        let name = Sort { column: Column::Name, descending: false };
        let place = Place { key: SortKey::Text("a".into()), id: Uuid::now_v7() };
        assert!(after(Sort { column: Column::Rank, ..name }, &name.cursor(&place)).is_err());
        for bad in ["sa.name.", "sa.name.x.61", "sa.name..", "k00", &format!("sa.name.{}.6", Uuid::nil())] {
            assert!(after(name, bad).is_err(), "{bad}");
        }
        assert_eq!(after(name, "").unwrap(), None);
    }
}
