//! Request bodies in Kubernetes' protobuf form, which typed clients (kubectl among them) send.
//!
//! A body is the magic `k8s\0`, then an envelope of apiVersion, kind and the object. Objects are decoded by the field
//! numbers of `data/protobuf.json` into the same JSON value that a JSON body gives. Answers are always JSON: clients
//! that send protobuf accept that too.

use std::collections::HashMap;
use std::sync::LazyLock;

use base64::Engine as _;
use serde_json::{Map, Value, json};

use crate::catalog::catalog;

type Fields = HashMap<String, Vec<String>>;

static TYPES: LazyLock<HashMap<String, Fields>> =
    LazyLock::new(|| serde_json::from_str(include_str!("../data/protobuf.json")).unwrap_or_default());

/// Its content type.
pub(crate) const MEDIA_TYPE: &str = "application/vnd.kubernetes.protobuf";
const MAGIC: &[u8] = b"k8s\0";
/// Objects nest; a body that nests deeper than any object is refused.
const DEPTH: usize = 64;

/// Why a body cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ProtobufError {
    /// The first bytes are wrong.
    #[error("provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]")]
    Magic,
    /// It ends too early, or a length makes no sense.
    #[error("unexpected EOF")]
    Truncated,
    /// A kind without field numbers.
    #[error("{0} cannot be sent as protobuf to this server; send JSON")]
    Unknown(String),
    /// Nested too deep.
    #[error("the message nests too deeply")]
    Depth,
}

/// Reads an enveloped object.
///
/// # Errors
/// If it is malformed or of a kind that is not known.
pub(crate) fn decode(body: &[u8]) -> Result<Value, ProtobufError> {
    let body = body.strip_prefix(MAGIC).ok_or(ProtobufError::Magic)?;
    let (mut api_version, mut kind, mut raw) = (String::new(), String::new(), &body[..0]);
    for field in Wire(body) {
        let (number, v) = field?;
        match (number, v) {
            (1, Item::Bytes(meta)) => {
                for f in Wire(meta) {
                    match f? {
                        (1, Item::Bytes(b)) => api_version = text(b),
                        (2, Item::Bytes(b)) => kind = text(b),
                        _ => {}
                    }
                }
            }
            (2, Item::Bytes(b)) => raw = b,
            _ => {}
        }
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", &api_version));
    let name = if kind == "DeleteOptions" {
        "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"
    } else {
        let key = (group.to_owned(), version.to_owned(), kind.clone());
        catalog()
            .kinds
            .get(&key)
            .map(String::as_str)
            .ok_or_else(|| ProtobufError::Unknown(format!("{api_version} {kind}")))?
    };
    let mut out = message(name, raw, 0)?;
    if let Some(o) = out.as_object_mut() {
        o.insert("apiVersion".into(), api_version.into());
        o.insert("kind".into(), kind.into());
    }
    Ok(out)
}

enum Item<'a> {
    Varint(u64),
    Fixed64([u8; 8]),
    Bytes(&'a [u8]),
    Other,
}

/// Fields of one message in wire order.
struct Wire<'a>(&'a [u8]);

impl<'a> Wire<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut out = 0u64;
        for shift in (0..64).step_by(7) {
            let (b, rest) = self.0.split_first()?;
            self.0 = rest;
            out |= u64::from(b & 0x7f) << shift;
            if b & 0x80 == 0 {
                return Some(out);
            }
        }
        None
    }

    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (a, b) = self.0.split_at_checked(n)?;
        self.0 = b;
        Some(a)
    }

    fn field(&mut self) -> Option<(u64, Item<'a>)> {
        let key = self.varint()?;
        let item = match key & 7 {
            0 => Item::Varint(self.varint()?),
            1 => Item::Fixed64(self.take(8)?.try_into().ok()?),
            2 => {
                let n = usize::try_from(self.varint()?).ok()?;
                Item::Bytes(self.take(n)?)
            }
            5 => {
                self.take(4)?;
                Item::Other
            }
            _ => return None,
        };
        Some((key >> 3, item))
    }
}

impl<'a> Iterator for Wire<'a> {
    type Item = Result<(u64, Item<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let f = self.field();
        if f.is_none() {
            self.0 = &[];
        }
        Some(f.ok_or(ProtobufError::Truncated))
    }
}

fn text(b: &[u8]) -> String {
    String::from_utf8_lossy(b).into_owned()
}

fn message(name: &str, raw: &[u8], depth: usize) -> Result<Value, ProtobufError> {
    if depth > DEPTH {
        return Err(ProtobufError::Depth);
    }
    if let Some(v) = special(name, raw)? {
        return Ok(v);
    }
    let Some(fields) = TYPES.get(name) else { return Err(ProtobufError::Unknown(name.to_owned())) };
    let mut out = Map::new();
    for f in Wire(raw) {
        let (number, item) = f?;
        let Some(row) = fields.get(&number.to_string()) else { continue };
        let (Some(key), Some(ty)) = (row.first(), row.get(1)) else { continue };
        match row.get(2).map(String::as_str) {
            Some("map") => {
                let Item::Bytes(b) = item else { continue };
                let (mut k, mut v) = (String::new(), zero(ty));
                for f in Wire(b) {
                    match f? {
                        (1, Item::Bytes(b)) => k = text(b),
                        (2, item) => v = value(ty, &item, depth)?,
                        _ => {}
                    }
                }
                if let Some(m) = out.entry(key.clone()).or_insert_with(|| json!({})).as_object_mut() {
                    m.insert(k, v);
                }
            }
            Some("list") => {
                let v = value(ty, &item, depth)?;
                if let Some(l) = out.entry(key.clone()).or_insert_with(|| json!([])).as_array_mut() {
                    l.push(v);
                }
            }
            Some(_) => {
                // Written inline: its fields belong to this object.
                if let Value::Object(m) = value(ty, &item, depth)? {
                    out.extend(m);
                }
            }
            None => {
                let v = value(ty, &item, depth)?;
                if !absent(ty, &v) {
                    out.insert(key.clone(), v);
                }
            }
        }
    }
    Ok(Value::Object(out))
}

fn zero(ty: &str) -> Value {
    if matches!(ty, "string" | "bytes") { "".into() } else { Value::Null }
}

/// Go writes empty text for text that is not set.
fn absent(ty: &str, v: &Value) -> bool {
    v.is_null() || (ty == "string" && v.as_str() == Some(""))
}

fn value(ty: &str, item: &Item<'_>, depth: usize) -> Result<Value, ProtobufError> {
    Ok(match (ty, item) {
        ("string", Item::Bytes(b)) => text(b).into(),
        ("bytes", Item::Bytes(b)) => base64::engine::general_purpose::STANDARD.encode(b).into(),
        ("bool", Item::Varint(n)) => (*n != 0).into(),
        ("double", Item::Fixed64(b)) => f64::from_le_bytes(*b).into(),
        ("int32" | "int64", Item::Varint(n)) => (*n as i64).into(),
        (_, Item::Varint(n)) => (*n).into(),
        (ty, Item::Bytes(b)) if ty.contains('.') => message(ty, b, depth + 1)?,
        _ => Value::Null,
    })
}

/// Types whose JSON is not that of their fields.
fn special(name: &str, raw: &[u8]) -> Result<Option<Value>, ProtobufError> {
    let fields = || -> Result<HashMap<u64, Item<'_>>, ProtobufError> { Wire(raw).collect() };
    let number = |m: &HashMap<u64, Item<'_>>, n: u64| match m.get(&n) {
        Some(Item::Varint(v)) => *v as i64,
        _ => 0,
    };
    Ok(Some(match name.rsplit('.').next().unwrap_or_default() {
        kind @ ("Time" | "MicroTime") => {
            let m = fields()?;
            let at =
                chrono::DateTime::from_timestamp(number(&m, 1), number(&m, 2) as u32).unwrap_or_default();
            if m.is_empty() {
                Value::Null
            } else if kind == "Time" {
                at.format("%Y-%m-%dT%H:%M:%SZ").to_string().into()
            } else {
                at.format("%Y-%m-%dT%H:%M:%S%.6fZ").to_string().into()
            }
        }
        "Quantity" => match fields()?.get(&1) {
            Some(Item::Bytes(b)) => text(b).into(),
            _ => "0".into(),
        },
        "IntOrString" => {
            let m = fields()?;
            match m.get(&3) {
                Some(Item::Bytes(b)) if number(&m, 1) == 1 => text(b).into(),
                _ => number(&m, 2).into(),
            }
        }
        "Duration" => format!("{}s", number(&fields()?, 1) / 1_000_000_000).into(),
        "FieldsV1" | "RawExtension" => match fields()?.get(&1) {
            Some(Item::Bytes(b)) => serde_json::from_slice(b).unwrap_or(Value::Null),
            _ => Value::Null,
        },
        _ => return Ok(None),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A namespace as a Go client sends it.
    fn namespace() -> Vec<u8> {
        let meta = [b"\x0a\x03foo".as_slice(), b"\x5a\x06\x0a\x01a\x12\x01b"].concat();
        let object = [&[0x0a, meta.len() as u8][..], &meta].concat();
        let kind = b"\x0a\x02v1\x12\x09Namespace";
        [MAGIC, &[0x0a, kind.len() as u8], kind, &[0x12, object.len() as u8], &object].concat()
    }

    #[test]
    fn an_envelope_becomes_an_object() {
        let v = decode(&namespace()).unwrap();
        let want = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "foo", "labels": {"a": "b"}}});
        assert_eq!(v, want);
    }

    #[test]
    fn a_cut_body_is_an_error_and_never_a_panic() {
        let whole = namespace();
        assert_eq!(decode(b"{}"), Err(ProtobufError::Magic));
        for n in MAGIC.len()..whole.len() {
            let _ = decode(&whole[..n]);
        }
        assert!(decode(&whole[..whole.len() - 1]).is_err());
    }
}
