//! The little of DER and PEM that keys and certificates need.

use base64::{Engine as _, engine::general_purpose::STANDARD};

pub(super) const INTEGER: u8 = 0x02;
pub(super) const BIT_STRING: u8 = 0x03;
pub(super) const OCTET_STRING: u8 = 0x04;
pub(super) const OID: u8 = 0x06;
pub(super) const SEQUENCE: u8 = 0x30;
pub(super) const SET: u8 = 0x31;

/// One value: tag, length, content.
pub(super) fn value(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    if content.len() < 0x80 {
        out.push(content.len() as u8);
    } else {
        let bytes = content.len().to_be_bytes();
        let skip = bytes.iter().take_while(|b| **b == 0).count();
        out.push(0x80 | (bytes.len() - skip) as u8);
        out.extend_from_slice(&bytes[skip..]);
    }
    out.extend_from_slice(content);
    out
}

/// Values one after the other inside another.
pub(super) fn nest(tag: u8, parts: &[Vec<u8>]) -> Vec<u8> {
    value(tag, &parts.concat())
}

/// A number from its bytes, most significant first.
pub(super) fn unsigned(bytes: &[u8]) -> Vec<u8> {
    let skip = bytes.iter().take_while(|b| **b == 0).count().min(bytes.len().saturating_sub(1));
    let mut content = Vec::new();
    if bytes.get(skip).is_none_or(|b| b & 0x80 != 0) {
        content.push(0);
    }
    content.extend_from_slice(&bytes[skip..]);
    value(INTEGER, &content)
}

/// Bits, all bytes of them used.
pub(super) fn bits(bytes: &[u8]) -> Vec<u8> {
    value(BIT_STRING, &[&[0], bytes].concat())
}

/// A value that was read: its tag, its content, the whole of it, what follows.
type Read<'b> = (u8, &'b [u8], &'b [u8], &'b [u8]);

/// Reads the value at the start of `bytes`.
pub(super) fn read(bytes: &[u8]) -> Option<Read<'_>> {
    let (&tag, rest) = bytes.split_first()?;
    let (&first, mut rest) = rest.split_first()?;
    let mut len = usize::from(first);
    if first & 0x80 != 0 {
        let count = usize::from(first & 0x7F);
        if count == 0 || count > 4 || rest.len() < count {
            return None;
        }
        len = rest[..count].iter().fold(0, |len, b| len << 8 | usize::from(*b));
        rest = &rest[count..];
    }
    if rest.len() < len {
        return None;
    }
    let head = bytes.len() - rest.len();
    Some((tag, &rest[..len], &bytes[..head + len], &rest[len..]))
}

/// The content of a value that must have this tag, and what follows.
pub(super) fn expect(bytes: &[u8], wanted: u8) -> Option<(&[u8], &[u8])> {
    let (tag, content, _, rest) = read(bytes)?;
    (tag == wanted).then_some((content, rest))
}

/// A PEM block.
pub(super) fn pem(label: &str, der: &[u8]) -> String {
    let body = STANDARD.encode(der);
    let mut out = format!("-----BEGIN {label}-----\n");
    for line in body.as_bytes().chunks(64) {
        out.extend(line.iter().map(|b| *b as char));
        out.push('\n');
    }
    out.push_str("-----END ");
    out.push_str(label);
    out.push_str("-----\n");
    out
}

/// The first PEM block of a text: its label and content.
pub(super) fn from_pem(text: &str) -> Option<(String, Vec<u8>)> {
    let (_, rest) = text.split_once("-----BEGIN ")?;
    let (label, rest) = rest.split_once("-----")?;
    let (body, _) = rest.split_once(&format!("-----END {label}-----"))?;
    let packed: String = body.chars().filter(|c| !c.is_whitespace()).collect();
    Some((label.to_owned(), STANDARD.decode(packed).ok()?))
}
