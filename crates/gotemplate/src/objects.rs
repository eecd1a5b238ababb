//! Values that Go programs hand to templates as structs, and points in time.

use std::{
    cell::{Cell, OnceCell},
    fmt,
    sync::Arc,
};

use super::value::{Str, Value};

/// A field of a Go struct.
#[derive(Debug)]
pub struct Field {
    /// Its name in Go.
    pub name: &'static str,
    /// Its name in JSON.
    pub(crate) json: &'static str,
    /// Whether JSON leaves it out when it is empty.
    pub(crate) omit_empty: bool,
}

/// A Go struct type.
#[derive(Debug)]
pub struct StructType {
    /// As `%T` prints it.
    pub(crate) name: &'static str,
    /// Whether values are pointers to it.
    pub(crate) pointer: bool,
    /// Its fields, in Go's order.
    pub fields: &'static [Field],
}

/// A value of a struct type: one value for each field.
pub struct Struct {
    /// Its type.
    pub ty: &'static StructType,
    fields: OnceCell<Vec<Value>>,
    later: Cell<Option<Later>>,
    /// Whether its fields are made when they are asked for.
    deferred: bool,
}

/// Makes the fields of a struct.
type Later = Box<dyn FnOnce() -> Vec<Value>>;

const fn field(name: &'static str, json: &'static str) -> Field {
    Field { name, json, omit_empty: true }
}

const fn plain(name: &'static str) -> Field {
    Field { name, json: name, omit_empty: false }
}

/// `.Chart`
pub static CHART: StructType = StructType {
    name: "struct { chart.Metadata; IsRoot bool }",
    pointer: false,
    fields: &[
        field("Name", "name"),
        field("Home", "home"),
        field("Sources", "sources"),
        field("Version", "version"),
        field("Description", "description"),
        field("Keywords", "keywords"),
        field("Maintainers", "maintainers"),
        field("Icon", "icon"),
        field("APIVersion", "apiVersion"),
        field("Condition", "condition"),
        field("Tags", "tags"),
        field("AppVersion", "appVersion"),
        field("Deprecated", "deprecated"),
        field("Annotations", "annotations"),
        field("KubeVersion", "kubeVersion"),
        field("Dependencies", "dependencies"),
        field("Type", "type"),
        plain("IsRoot"),
    ],
};

/// An entry of `.Chart.Maintainers`.
pub static MAINTAINER: StructType = StructType {
    name: "*chart.Maintainer",
    pointer: true,
    fields: &[field("Name", "name"), field("Email", "email"), field("URL", "url")],
};

/// An entry of `.Chart.Dependencies`.
pub static DEPENDENCY: StructType = StructType {
    name: "*chart.Dependency",
    pointer: true,
    fields: &[
        Field { name: "Name", json: "name", omit_empty: false },
        field("Version", "version"),
        Field { name: "Repository", json: "repository", omit_empty: false },
        field("Condition", "condition"),
        field("Tags", "tags"),
        field("Enabled", "enabled"),
        field("ImportValues", "import-values"),
        field("Alias", "alias"),
    ],
};

/// `.Capabilities`
pub static CAPABILITIES: StructType = StructType {
    name: "*chartutil.Capabilities",
    pointer: true,
    fields: &[plain("KubeVersion"), plain("APIVersions"), plain("HelmVersion")],
};

/// `.Capabilities.KubeVersion`
pub static KUBE_VERSION: StructType = StructType {
    name: "chartutil.KubeVersion",
    pointer: false,
    fields: &[plain("Version"), plain("Major"), plain("Minor")],
};

/// `.Capabilities.HelmVersion`
pub static HELM_VERSION: StructType = StructType {
    name: "version.BuildInfo",
    pointer: false,
    fields: &[
        field("Version", "version"),
        field("GitCommit", "git_commit"),
        field("GitTreeState", "git_tree_state"),
        field("GoVersion", "go_version"),
    ],
};

/// What `genCA` and its like give.
pub static CERTIFICATE: StructType =
    StructType { name: "sprig.certificate", pointer: false, fields: &[plain("Cert"), plain("Key")] };

impl Struct {
    /// A struct with these fields, in the order of the type.
    pub fn new(ty: &'static StructType, fields: Vec<Value>) -> Self {
        Self { ty, fields: fields.into(), later: Cell::new(None), deferred: false }
    }

    /// A struct whose fields take long to make, and may never be looked at.
    pub(crate) fn deferred(ty: &'static StructType, make: impl FnOnce() -> Vec<Value> + 'static) -> Self {
        Self { ty, fields: OnceCell::new(), later: Cell::new(Some(Box::new(make))), deferred: true }
    }

    pub(crate) fn is_deferred(&self) -> bool {
        self.deferred
    }

    /// One value for each field of the type.
    pub fn fields(&self) -> &[Value] {
        self.fields.get_or_init(|| self.later.take().map(|make| make()).unwrap_or_default())
    }

    /// The field `name` of it.
    pub(crate) fn field(&self, name: &str) -> Option<Value> {
        let at = self.ty.fields.iter().position(|field| field.name == name)?;
        self.fields().get(at).cloned()
    }

    /// What `{{ . }}` prints, where that differs from `%v`: a pointer's `String` method counts too.
    pub(crate) fn printed(&self) -> Option<Str> {
        if std::ptr::eq(self.ty, &raw const KUBE_VERSION)
            && let Some(Value::Str(text)) = self.fields().first()
        {
            return Some(text.clone());
        }
        None
    }
}

impl fmt::Debug for Struct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(self.ty.name).field("fields", &self.fields.get()).finish_non_exhaustive()
    }
}

/// A point in time, shown in a zone.
#[derive(Debug, Clone, PartialEq)]
pub struct Time {
    /// Seconds since 1970 UTC.
    pub(crate) seconds: i64,
    pub(crate) nanos: u32,
    /// Of the zone, in seconds east of UTC.
    pub(crate) offset: i32,
    /// Abbreviation of the zone.
    pub(crate) zone: Arc<str>,
}

/// A date in the calendar and the time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// 1..=12
    pub(crate) month: u32,
    /// 1..=31
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    /// 0 is Sunday.
    pub(crate) weekday: u32,
    /// 1..=366
    pub(crate) year_day: u32,
}

impl Time {
    /// A time in UTC.
    pub(crate) fn utc(seconds: i64, nanos: u32) -> Self {
        Self { seconds, nanos, offset: 0, zone: "UTC".into() }
    }

    /// The zero time of Go: the first second of year 1.
    pub fn zero() -> Self {
        Self::utc(-62_135_596_800, 0)
    }

    /// Its date and time of day in its zone.
    pub(crate) fn civil(&self) -> Civil {
        let local = self.seconds + i64::from(self.offset);
        let days = local.div_euclid(86_400);
        let second = local.rem_euclid(86_400) as u32;
        let (year, month, day) = civil_from_days(days);
        Civil {
            year,
            month,
            day,
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            weekday: (days + 4).rem_euclid(7) as u32,
            year_day: (days - days_from_civil(year, 1, 1) + 1) as u32,
        }
    }

    /// Later by nanoseconds.
    pub(crate) fn add(&self, nanos: i64) -> Self {
        let total = i128::from(self.nanos) + i128::from(nanos);
        let seconds = self.seconds.saturating_add(total.div_euclid(1_000_000_000) as i64);
        Self { seconds, nanos: total.rem_euclid(1_000_000_000) as u32, ..self.clone() }
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&super::dates::format(self, "2006-01-02 15:04:05.999999999 -0700 MST"))
    }
}

/// Days since 1970 of a date in the Gregorian calendar.
pub(crate) fn days_from_civil(year: i64, month: u32, day: u32) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((i64::from(month) + 9) % 12) + 2) / 5 + i64::from(day) - 1;
    let day_of_era = of_era * 365 + of_era / 4 - of_era / 100 + of_year;
    era * 146_097 + day_of_era - 719_468
}

fn civil_from_days(days: i64) -> (i64, u32, u32) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * of_year + 2) / 153;
    let day = (of_year - (153 * shifted + 2) / 5 + 1) as u32;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 } as u32;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// `time.Duration.String`
pub(crate) fn duration_string(nanos: i64) -> String {
    if nanos == 0 {
        return "0s".to_owned();
    }
    let sign = if nanos < 0 { "-" } else { "" };
    let size = nanos.unsigned_abs();
    let fraction = |value: u64, unit: u64| {
        let whole = value / unit;
        let width = unit.ilog10() as usize;
        let rest = format!("{:0width$}", value % unit);
        let rest = rest.trim_end_matches('0');
        if rest.is_empty() { whole.to_string() } else { format!("{whole}.{rest}") }
    };
    if size < 1_000 {
        return format!("{sign}{size}ns");
    }
    if size < 1_000_000 {
        return format!("{sign}{}µs", fraction(size, 1_000));
    }
    if size < 1_000_000_000 {
        return format!("{sign}{}ms", fraction(size, 1_000_000));
    }
    let minutes = size / 60_000_000_000;
    let seconds = fraction(size % 60_000_000_000, 1_000_000_000);
    match minutes {
        0 => format!("{sign}{seconds}s"),
        1..60 => format!("{sign}{minutes}m{seconds}s"),
        _ => format!("{sign}{}h{}m{seconds}s", minutes / 60, minutes % 60),
    }
}
