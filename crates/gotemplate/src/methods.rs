//! Methods that templates may call on what Helm hands them.
#![expect(clippy::unnecessary_wraps, reason = "all functions of templates have one signature")]

use std::sync::Arc;

use super::{
    dates,
    exec::Fault,
    funcs::{Func, Ty},
    glob::Glob,
    json, objects,
    objects::StructType,
    value::{List, ListType, Map, MapType, Str, Value},
    yaml,
};

type Result = std::result::Result<Value, Fault>;

static VALUES: &[Func] = &[
    Func::pure("AsMap", &[], |args| match &args[0] {
        Value::Map(map) => Ok(Value::Map(map.viewed(MapType::Any))),
        _ => Ok(Value::Nil),
    }),
    Func::pure("YAML", &[], |args| Ok(yaml::to_string(&args[0]).map_err(Fault::Text)?.into())),
    Func::pure("Table", &[Ty::Str], |args| {
        let mut table = args[0].clone();
        for part in args[1].as_str().unwrap_or_default().split('.') {
            let inner = match &table {
                Value::Map(map) => map.map(part),
                _ => None,
            };
            let Some(inner) = inner else {
                return Err(format!("{} is not a table", super::strconv::quote(part)).into());
            };
            table = Value::Map(inner);
        }
        Ok(table)
    }),
    Func::pure("PathValue", &[Ty::Str], |args| {
        let path = args[1].as_str().unwrap_or_default();
        let (tables, key) = path.rsplit_once('.').map_or((None, path), |(tables, key)| (Some(tables), key));
        let mut table = args[0].clone();
        for part in tables.into_iter().flat_map(|tables| tables.split('.')) {
            table = match &table {
                Value::Map(map) => map.get(part).unwrap_or_default(),
                _ => Value::Nil,
            };
        }
        if let Value::Map(map) = &table
            && let Some(value) = map.get(key).filter(|value| !matches!(value, Value::Map(_)))
        {
            return Ok(value);
        }
        Err(format!("{} is not a value", super::strconv::quote(key)).into())
    }),
];

static FILES: &[Func] = &[
    Func::pure("Get", &[Ty::Str], |args| Ok(Value::string_of(file(args).to_vec()))),
    Func::pure("GetBytes", &[Ty::Str], |args| Ok(Value::Bytes(file(args)))),
    Func::pure("Glob", &[Ty::Str], glob),
    Func::pure("Lines", &[Ty::Str], |args| {
        let content = file(args);
        let text = String::from_utf8_lossy(&content);
        if text.is_empty() {
            return match &args[0] {
                Value::Map(map) if map.contains(args[1].as_str().unwrap_or_default()) => {
                    Err("runtime error: index out of range [-1]".into())
                }
                _ => Ok(Value::List(List::strings::<&str>([]))),
            };
        }
        let text = text.strip_suffix('\n').unwrap_or(&text);
        Ok(Value::List(List::strings(text.split('\n'))))
    }),
    Func::pure("AsConfig", &[], |args| by_name(args, |bytes| String::from_utf8_lossy(bytes).into_owned())),
    Func::pure("AsSecrets", &[], |args| by_name(args, json::base64)),
];

static VERSIONS: &[Func] = &[Func::pure("Has", &[Ty::Str], |args| {
    let wanted = args[1].as_str().unwrap_or_default();
    match &args[0] {
        Value::List(list) => Ok(list.items().iter().any(|item| item.as_str() == Some(wanted)).into()),
        _ => Ok(Value::Bool(false)),
    }
})];

fn kube_version(args: &mut [Value]) -> Result {
    match &args[0] {
        Value::Struct(object) => Ok(object.fields().first().cloned().unwrap_or_default()),
        _ => Ok(Value::Nil),
    }
}

static KUBE_VERSION: &[Func] =
    &[Func::pure("String", &[], kube_version), Func::pure("GitVersion", &[], kube_version)];

macro_rules! version {
    ($version:ident => $value:expr) => {
        |args| match &args[0] {
            Value::Version($version) => Ok($value),
            _ => Ok(Value::Nil),
        }
    };
}

fn compared(args: &[Value]) -> Option<std::cmp::Ordering> {
    match (&args[0], &args[1]) {
        (Value::Version(a), Value::Version(b)) => Some(a.compare(b)),
        _ => None,
    }
}

static SEMVER: &[Func] = &[
    Func::pure("Major", &[], version!(v => Value::Uint64(v.major))),
    Func::pure("Minor", &[], version!(v => Value::Uint64(v.minor))),
    Func::pure("Patch", &[], version!(v => Value::Uint64(v.patch))),
    Func::pure("Prerelease", &[], version!(v => Value::str(&v.pre))),
    Func::pure("Metadata", &[], version!(v => Value::str(&v.metadata))),
    Func::pure("Original", &[], version!(v => Value::str(&v.original))),
    Func::pure("String", &[], version!(v => v.to_string().into())),
    Func::pure("Compare", &[Ty::Version], |args| {
        Ok(Value::Int(compared(args).map_or(0, |order| order as i64)))
    }),
    Func::pure("Equal", &[Ty::Version], |args| {
        Ok(compared(args).is_some_and(std::cmp::Ordering::is_eq).into())
    }),
    Func::pure("LessThan", &[Ty::Version], |args| {
        Ok(compared(args).is_some_and(std::cmp::Ordering::is_lt).into())
    }),
    Func::pure("GreaterThan", &[Ty::Version], |args| {
        Ok(compared(args).is_some_and(std::cmp::Ordering::is_gt).into())
    }),
    Func::pure("IncMajor", &[], version!(v => next(v.major + 1, 0, 0, &v.original))),
    Func::pure("IncMinor", &[], version!(v => next(v.major, v.minor + 1, 0, &v.original))),
    Func::pure("IncPatch", &[], |args| match &args[0] {
        Value::Version(v) => {
            // The release of a pre-release has the same number.
            let patch = if v.pre.is_empty() { v.patch + 1 } else { v.patch };
            Ok(next(v.major, v.minor, patch, &v.original))
        }
        _ => Ok(Value::Nil),
    }),
];

fn next(major: u64, minor: u64, patch: u64, original: &str) -> Value {
    let prefix = if original.starts_with('v') { "v" } else { "" };
    Value::Version(std::rc::Rc::new(super::semver::Version {
        major,
        minor,
        patch,
        pre: String::new(),
        metadata: String::new(),
        original: format!("{prefix}{major}.{minor}.{patch}"),
    }))
}

macro_rules! time {
    ($time:ident => $value:expr) => {
        |args| match &args[0] {
            Value::Time($time) => Ok($value),
            _ => Ok(Value::Nil),
        }
    };
}

static TIME: &[Func] = &[
    Func::pure("Format", &[Ty::Str], |args| match &args[0] {
        Value::Time(time) => Ok(dates::format(time, args[1].as_str().unwrap_or_default()).into()),
        _ => Ok(Value::Nil),
    }),
    Func::pure("String", &[], time!(t => t.to_string().into())),
    Func::pure("Unix", &[], time!(t => Value::Int64(t.seconds))),
    Func::pure("UnixNano", &[], time!(t => Value::Int64(t.seconds * 1_000_000_000 + i64::from(t.nanos)))),
    Func::pure("UnixMilli", &[], time!(t => Value::Int64(t.seconds * 1000 + i64::from(t.nanos) / 1_000_000))),
    Func::pure("Year", &[], time!(t => Value::Int(t.civil().year))),
    Func::pure("Month", &[], time!(t => dates::format(t, "January").into())),
    Func::pure("Day", &[], time!(t => Value::Int(i64::from(t.civil().day)))),
    Func::pure("YearDay", &[], time!(t => Value::Int(i64::from(t.civil().year_day)))),
    Func::pure("Hour", &[], time!(t => Value::Int(i64::from(t.civil().hour)))),
    Func::pure("Minute", &[], time!(t => Value::Int(i64::from(t.civil().minute)))),
    Func::pure("Second", &[], time!(t => Value::Int(i64::from(t.civil().second)))),
    Func::pure("Nanosecond", &[], time!(t => Value::Int(i64::from(t.nanos)))),
    Func::pure("Weekday", &[], time!(t => dates::format(t, "Monday").into())),
    Func::pure("UTC", &[], time!(t => Value::time(dates::in_zone(t, "UTC")))),
    Func::pure("Local", &[], time!(t => Value::time(dates::in_zone(t, "UTC")))),
    Func::pure("Sub", &[Ty::Time], |args| match (&args[0], &args[1]) {
        (Value::Time(a), Value::Time(b)) => {
            let seconds = a.seconds.saturating_sub(b.seconds).saturating_mul(1_000_000_000);
            Ok(Value::Duration(seconds.saturating_add(i64::from(a.nanos) - i64::from(b.nanos))))
        }
        _ => Ok(Value::Nil),
    }),
    Func::pure("IsZero", &[], time!(t => Value::Bool(**t == objects::Time::zero()))),
    Func::pure("AddDate", &[Ty::Int, Ty::Int, Ty::Int], |args| {
        let (Value::Time(time), Value::Int(years), Value::Int(months), Value::Int(days)) =
            (&args[0], &args[1], &args[2], &args[3])
        else {
            return Ok(Value::Nil);
        };
        let civil = time.civil();
        let month =
            civil.year.saturating_add(*years).saturating_mul(12) + i64::from(civil.month) - 1 + months;
        let to =
            objects::days_from_civil(month.div_euclid(12), month.rem_euclid(12) as u32 + 1, civil.day) + days;
        let from = objects::days_from_civil(civil.year, civil.month, civil.day);
        Ok(Value::time(objects::Time { seconds: time.seconds + (to - from) * 86_400, ..(**time).clone() }))
    }),
];

fn find(functions: &'static [Func], name: &str) -> Option<&'static Func> {
    functions.iter().find(|function| function.name == name)
}

/// A method of a map.
pub(super) fn of_map(ty: MapType, name: &str) -> Option<&'static Func> {
    match ty {
        MapType::Values => find(VALUES, name),
        MapType::Files => find(FILES, name),
        MapType::Any | MapType::Str => None,
    }
}

/// A method of a struct.
pub(super) fn of_struct(ty: &'static StructType, name: &str) -> Option<&'static Func> {
    if std::ptr::eq(ty, &raw const objects::KUBE_VERSION) { find(KUBE_VERSION, name) } else { None }
}

/// A method of any other value.
pub(super) fn of_value(value: &Value, name: &str) -> Option<&'static Func> {
    match value {
        Value::List(list) if list.ty() == ListType::Versions => find(VERSIONS, name),
        Value::Version(_) => find(SEMVER, name),
        Value::Time(_) => find(TIME, name),
        _ => None,
    }
}

fn file(args: &[Value]) -> Arc<[u8]> {
    let found = match &args[0] {
        Value::Map(map) => map.get(args[1].as_str().unwrap_or_default()),
        _ => None,
    };
    match found {
        Some(Value::Bytes(bytes)) => bytes,
        _ => Arc::new([]),
    }
}

fn glob(args: &mut [Value]) -> Result {
    let Value::Map(map) = &args[0] else { return Ok(Value::Nil) };
    let pattern = Glob::new(args[1].as_str().unwrap_or_default());
    let found: Vec<(Str, Value)> =
        map.entries().iter().filter(|entry| pattern.matches(&entry.0)).cloned().collect();
    Ok(Value::Map(Map::typed(MapType::Files, found)))
}

fn by_name(args: &[Value], show: impl Fn(&[u8]) -> String) -> Result {
    let Value::Map(map) = &args[0] else { return Ok("".into()) };
    let mut entries: Vec<(Str, Value)> = Vec::new();
    for (path, value) in map.entries().iter() {
        if let Value::Bytes(bytes) = value {
            let name = path.rsplit('/').next().unwrap_or_default();
            entries.push((name.into(), show(bytes).into()));
        }
    }
    let text = yaml::to_string(&yaml::map_of(entries)).map_err(Fault::Text)?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).into())
}
