//! What a document is, and the macro that defines one.

use std::fmt;
use std::str::FromStr;

use crate::{Change, Fault, Result};

/// A settings document.
pub trait Document: Default {
    /// What changes of it; what is absent stays as it is.
    type Patch: Default + Clone + fmt::Debug + PartialEq;

    /// The document with a change.
    ///
    /// # Errors
    /// [`Fault`] for a text that cannot be parsed, whatever the document is. Whether the result as a whole makes sense
    /// is for the document's own `check`.
    fn patched(self, patch: Self::Patch) -> Result<Self>;

    /// A new document: the default with a change.
    ///
    /// # Errors
    /// As [`Document::patched`].
    fn made(patch: Self::Patch) -> Result<Self> {
        Self::default().patched(patch)
    }
}

/// How a document changes. It is decided where the document is locked, so that nobody else's change is lost.
#[derive(Debug, Clone, PartialEq)]
pub enum Edit<D: Document> {
    /// In part: what the patch does not name stays as it is by then.
    Patch(D::Patch),
    /// As a whole.
    Replace(D),
}

impl<D: Document> Edit<D> {
    /// What becomes of `old`.
    ///
    /// # Errors
    /// As [`Document::patched`].
    pub fn over(self, old: D) -> Result<D> {
        match self {
            Self::Patch(patch) => old.patched(patch),
            Self::Replace(new) => Ok(new),
        }
    }
}

/// A document that the API shows.
#[cfg(feature = "graphql")]
pub trait Shown {
    /// The GraphQL object. All of its fields may be null, as clients know them.
    type Object;
}

/// A field of a patch that may name nothing.
pub(crate) trait Field: Sized {
    fn is_absent(&self) -> bool;

    /// This one, or the other where it is absent.
    fn or(self, other: Self) -> Self;
}

impl<T> Field for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }

    fn or(self, other: Self) -> Self {
        Self::or(self, other)
    }
}

impl<T> Field for Change<T> {
    fn is_absent(&self) -> bool {
        self.keeps()
    }

    fn or(self, other: Self) -> Self {
        if self.keeps() { other } else { self }
    }
}

pub(crate) fn is_absent(field: &impl Field) -> bool {
    field.is_absent()
}

/// A parsed text, or a fault that names the field.
pub(crate) fn parsed<T>(field: &str, text: &str) -> Result<T>
where
    T: FromStr,
    T::Err: fmt::Display,
{
    text.parse().map_err(|error| Fault::at(field, error))
}

/// Checks a value that may be absent.
pub(crate) fn in_range<T>(field: &str, value: Option<T>, range: std::ops::RangeInclusive<u32>) -> Result<()>
where
    u32: From<T>,
{
    if value.is_some_and(|value| !range.contains(&u32::from(value))) {
        let (least, most) = range.into_inner();
        return Err(Fault::at(field, format!("must be from {least} to {most}; leave it out for none")));
    }
    Ok(())
}

/// Defines a document, its patch and, with the feature `graphql`, the object that shows it. A field without a default
/// has that of its type; a comment before `patch` is for the patch only. In the document's own JSON null is as good as absent.
///
/// Of an `option` or a `text`, `in 1..=100` is the range of numbers that `check_ranges` lets pass, and `usual 20` makes a
/// method with the field's name: its value, or this one when absent.
///
/// | kind | in the document | in the patch | GraphQL input | null in a patch |
/// |---|---|---|---|---|
/// | `value(T)` | `T` | `Option<T>` | `T` | keeps |
/// | `option(T)` | `Option<T>` | `Change<T>` | `T` | clears |
/// | `text(T)` | `Option<T>`, written as text | `Change<String>` | `String` | clears |
/// | `merge(D)` | `D` | `Option<D::Patch>` | its input | keeps |
/// | `list(D)` | `Vec<D>` | `Option<Vec<Option<D::Patch>>>` | list, replaced whole | keeps |
/// | `texts(T)` | `Vec<T>` | `Option<Vec<Option<T>>>` | list, replaced whole | keeps |
/// | `map(Json)` | `BTreeMap<String, String>` | `Option<Json>` | `Json`, replaced whole | keeps |
macro_rules! document {
    (
        $(#[doc = $about:literal])+
        $name:ident {
            $(#[doc = $more:literal])*
            patch $patch:ident = $input:literal,
            shown $shown:ident = $object:literal
        }
        $(
            $(#[doc = $doc:literal])+
            $field:ident: $kind:ident($type:ty) $(= $default:expr)? $(, in $range:expr)? $(, usual $usual:expr)?;
        )+
    ) => {
        $(#[doc = $about])+
        #[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name { $( $(#[doc = $doc])+ pub $field: $crate::document::document!(@doc $kind, $type), )+ }

        impl Default for $name {
            fn default() -> Self {
                Self { $( $field: $crate::document::document!(@default $($default)?), )+ }
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                #[derive(Default, serde::Deserialize)]
                #[serde(rename_all = "camelCase", default)]
                struct Given { $( $field: $crate::document::document!(@given $kind, $type), )+ }

                let Given { $($field),+ } = <Given as serde::Deserialize>::deserialize(deserializer)?;
                let default = Self::default();
                Ok(Self { $( $field: $crate::document::document!(@read $kind, $field, default.$field), )+ })
            }
        }

        impl $name {
            $( $(
                #[doc = concat!("`", stringify!($field), "`, or what is usual when it is absent.")]
                pub fn $field(&self) -> $type {
                    self.$field.unwrap_or($usual)
                }
            )? )+

            /// Checks the numbers.
            ///
            /// # Errors
            /// [`Fault`](crate::Fault) of the first field that is out of its range.
            pub fn check_ranges(&self) -> $crate::Result<()> {
                $( $( $crate::document::in_range(stringify!($field), self.$field, $range)?; )? )+
                Ok(())
            }
        }

        $(#[doc = $about])+
        $(#[doc = $more])*
        #[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default, deny_unknown_fields)]
        #[cfg_attr(feature = "graphql", derive(async_graphql::InputObject))]
        #[cfg_attr(feature = "graphql", graphql(name = $input))]
        pub struct $patch {
            $( $(#[doc = $doc])+
               #[serde(skip_serializing_if = "crate::document::is_absent")]
               pub $field: $crate::document::document!(@patch $kind, $type), )+
        }

        impl $patch {
            /// It changes nothing.
            pub fn is_empty(&self) -> bool {
                let Self { $($field),+ } = self;
                $( $crate::document::is_absent($field) )&&+
            }

            /// This one, and what `other` changes beside it.
            #[must_use]
            pub fn or(self, other: Self) -> Self {
                Self { $( $field: $crate::document::document!(@or $kind, self.$field, other.$field), )+ }
            }
        }

        impl $crate::Document for $name {
            type Patch = $patch;

            fn patched(self, patch: $patch) -> $crate::Result<Self> {
                let $patch { $($field),+ } = patch;
                Ok(Self { $( $field: $crate::document::document!(@over $kind, self.$field, $field), )+ })
            }
        }

        #[cfg(feature = "graphql")]
        $(#[doc = $about])+
        #[derive(Debug, async_graphql::SimpleObject)]
        #[graphql(name = $object)]
        pub struct $shown { $( $(#[doc = $doc])+ pub $field: $crate::document::document!(@shown $kind, $type), )+ }

        #[cfg(feature = "graphql")]
        impl From<$name> for $shown {
            fn from(document: $name) -> Self {
                let $name { $($field),+ } = document;
                Self { $( $field: $crate::document::document!(@show $kind, $field), )+ }
            }
        }

        #[cfg(feature = "graphql")]
        impl $crate::Shown for $name {
            type Object = $shown;
        }
    };

    (@default) => { Default::default() };
    (@default $default:expr) => { $default };

    (@doc value, $t:ty) => { $t };
    (@doc option, $t:ty) => { Option<$t> };
    (@doc text, $t:ty) => { Option<$t> };
    (@doc merge, $t:ty) => { $t };
    (@doc list, $t:ty) => { Vec<$t> };
    (@doc texts, $t:ty) => { Vec<$t> };
    (@doc map, $t:ty) => { std::collections::BTreeMap<String, String> };

    (@given list, $t:ty) => { Option<Vec<Option<$t>>> };
    (@given texts, $t:ty) => { Option<Vec<Option<$t>>> };
    (@given map, $t:ty) => { Option<std::collections::BTreeMap<String, String>> };
    (@given $kind:ident, $t:ty) => { Option<$t> };

    (@read option, $given:ident, $default:expr) => { $given.or($default) };
    (@read text, $given:ident, $default:expr) => { $given.or($default) };
    (@read list, $given:ident, $default:expr) => {
        $given.map_or($default, |all| all.into_iter().flatten().collect())
    };
    (@read texts, $given:ident, $default:expr) => {
        $given.map_or($default, |all| all.into_iter().flatten().collect())
    };
    (@read $kind:ident, $given:ident, $default:expr) => { $given.unwrap_or($default) };

    (@patch value, $t:ty) => { Option<$t> };
    (@patch option, $t:ty) => { $crate::Change<$t> };
    (@patch text, $t:ty) => { $crate::Change<String> };
    (@patch merge, $t:ty) => { Option<<$t as $crate::Document>::Patch> };
    (@patch list, $t:ty) => { Option<Vec<Option<<$t as $crate::Document>::Patch>>> };
    (@patch texts, $t:ty) => { Option<Vec<Option<$t>>> };
    (@patch map, $t:ty) => { Option<$t> };

    (@or merge, $this:expr, $other:expr) => {
        match ($this, $other) {
            (Some(this), Some(other)) => Some(this.or(other)),
            (this, other) => this.or(other),
        }
    };
    (@or $kind:ident, $this:expr, $other:expr) => { $crate::document::Field::or($this, $other) };

    (@over value, $old:expr, $new:ident) => { $new.unwrap_or($old) };
    (@over option, $old:expr, $new:ident) => { $new.over($old) };
    (@over text, $old:expr, $new:ident) => {
        $new.try_map(|text| $crate::document::parsed(stringify!($new), text))?.over($old)
    };
    (@over merge, $old:expr, $new:ident) => {
        match $new {
            Some(patch) => $crate::Document::patched($old, patch).map_err(|fault| fault.within(stringify!($new)))?,
            None => $old,
        }
    };
    (@over list, $old:expr, $new:ident) => {
        match $new {
            Some(all) => {
                let made = all.into_iter().flatten().map($crate::Document::made);
                made.collect::<$crate::Result<_>>().map_err(|fault| fault.within(stringify!($new)))?
            }
            None => $old,
        }
    };
    (@over texts, $old:expr, $new:ident) => {
        match $new {
            Some(all) => all.into_iter().flatten().collect(),
            None => $old,
        }
    };
    (@over map, $old:expr, $new:ident) => {
        match $new {
            Some(json) => json.texts(stringify!($new))?.unwrap_or($old),
            None => $old,
        }
    };

    (@shown value, $t:ty) => { Option<$t> };
    (@shown option, $t:ty) => { Option<$t> };
    (@shown text, $t:ty) => { Option<String> };
    (@shown merge, $t:ty) => { Option<<$t as $crate::Shown>::Object> };
    (@shown list, $t:ty) => { Option<Vec<Option<<$t as $crate::Shown>::Object>>> };
    (@shown texts, $t:ty) => { Option<Vec<Option<$t>>> };
    (@shown map, $t:ty) => { Option<$crate::Map> };

    (@show value, $f:ident) => { Some($f) };
    (@show option, $f:ident) => { $f };
    (@show text, $f:ident) => { $f.map(|value| value.to_string()) };
    (@show merge, $f:ident) => { Some($f.into()) };
    (@show list, $f:ident) => { Some($f.into_iter().map(|one| Some(one.into())).collect()) };
    (@show texts, $f:ident) => { Some($f.into_iter().map(Some).collect()) };
    (@show map, $f:ident) => { Some($f.into()) };
}

pub(crate) use document;
