//! Paths and URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::{Func, Ty, text};
use crate::{
    exec::Fault,
    strconv,
    value::{Map, Value},
};

type Result = std::result::Result<Value, Fault>;

pub(super) static FUNCS: &[Func] = &[
    Func::pure("base", &[Ty::Str], |args| Ok(base(&text(args, 0)).into())),
    Func::pure("dir", &[Ty::Str], |args| Ok(dir(&text(args, 0)).into())),
    Func::pure("clean", &[Ty::Str], |args| Ok(clean(&text(args, 0)).into())),
    Func::pure("ext", &[Ty::Str], |args| Ok(ext(&text(args, 0)).into())),
    Func::pure("isAbs", &[Ty::Str], |args| Ok(text(args, 0).starts_with('/').into())),
    Func::pure("osBase", &[Ty::Str], |args| Ok(base(&text(args, 0)).into())),
    Func::pure("osDir", &[Ty::Str], |args| Ok(dir(&text(args, 0)).into())),
    Func::pure("osClean", &[Ty::Str], |args| Ok(clean(&text(args, 0)).into())),
    Func::pure("osExt", &[Ty::Str], |args| Ok(ext(&text(args, 0)).into())),
    Func::pure("osIsAbs", &[Ty::Str], |args| Ok(text(args, 0).starts_with('/').into())),
    Func::pure("urlParse", &[Ty::Str], url_parse),
    Func::pure("urlJoin", &[Ty::Map], url_join),
];

/// Go's `path.Base`.
pub(crate) fn base(path: &str) -> String {
    if path.is_empty() {
        return ".".to_owned();
    }
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return "/".to_owned();
    }
    trimmed.rsplit('/').next().unwrap_or_default().to_owned()
}

/// Go's `path.Clean`.
pub fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(".."),
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

fn dir(path: &str) -> String {
    clean(path.rfind('/').map_or("", |at| &path[..=at]))
}

fn ext(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    name.rfind('.').map_or("", |at| &name[at..]).to_owned()
}

struct Url {
    scheme: String,
    opaque: String,
    userinfo: String,
    host: String,
    path: String,
    query: String,
    fragment: String,
}

fn parse(raw: &str) -> std::result::Result<Url, String> {
    let bad = |message: String| format!("parse {}: {message}", strconv::quote(raw));
    if raw.bytes().any(|b| b < 0x20 || b == 0x7F) {
        return Err(bad("net/url: invalid control character in URL".to_owned()));
    }
    let (rest, fragment) = raw.split_once('#').unwrap_or((raw, ""));
    let fragment = unescape(fragment).map_err(bad)?;
    let (scheme, rest) = scheme_of(rest).map_err(bad)?;
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let mut url = Url {
        scheme: scheme.to_ascii_lowercase(),
        opaque: String::new(),
        userinfo: String::new(),
        host: String::new(),
        path: String::new(),
        query: query.to_owned(),
        fragment,
    };
    if !rest.starts_with('/') {
        if !scheme.is_empty() {
            rest.clone_into(&mut url.opaque);
            return Ok(url);
        }
        if rest.split('/').next().is_some_and(|segment| segment.contains(':')) {
            return Err(bad("first path segment in URL cannot contain colon".to_owned()));
        }
    }
    let mut path = rest;
    if let Some(after) = rest.strip_prefix("//")
        && (!scheme.is_empty() || !rest.starts_with("///"))
    {
        let end = after.find('/').unwrap_or(after.len());
        let authority = &after[..end];
        path = &after[end..];
        let host = match authority.rsplit_once('@') {
            Some((user, host)) => {
                url.userinfo = userinfo(user).map_err(bad)?;
                host
            }
            None => authority,
        };
        if let Some((_, port)) = host.rsplit_once(':')
            && !host.ends_with(']')
            && !port.bytes().all(|b| b.is_ascii_digit())
        {
            let port = strconv::quote(&format!(":{port}"));
            return Err(bad(format!("invalid port {port} after host")));
        }
        url.host = unescape(host).map_err(bad)?;
    }
    url.path = unescape(path).map_err(bad)?;
    Ok(url)
}

fn scheme_of(raw: &str) -> std::result::Result<(&str, &str), String> {
    for (at, b) in raw.bytes().enumerate() {
        match b {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".to_owned()),
            b':' => return Ok((&raw[..at], &raw[at + 1..])),
            _ => break,
        }
    }
    Ok(("", raw))
}

fn userinfo(raw: &str) -> std::result::Result<String, String> {
    match raw.split_once(':') {
        Some((user, password)) => {
            Ok(format!("{}:{}", escape(&unescape(user)?, USER), escape(&unescape(password)?, USER)))
        }
        None => Ok(escape(&unescape(raw)?, USER)),
    }
}

/// By hand, because Go refuses a malformed escape and its error names it.
fn unescape(text: &str) -> std::result::Result<String, String> {
    if !text.contains('%') {
        return Ok(text.to_owned());
    }
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        if bytes[at] == b'%' {
            let digits = text.get(at + 1..at + 3).and_then(|digits| u8::from_str_radix(digits, 16).ok());
            let Some(byte) = digits else {
                let end = (at + 3).min(bytes.len());
                let shown = String::from_utf8_lossy(&bytes[at..end]).into_owned();
                return Err(format!("invalid URL escape {}", strconv::quote(&shown)));
            };
            out.push(byte);
            at += 3;
        } else {
            out.push(bytes[at]);
            at += 1;
        }
    }
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// What stays as it is in each part of a URL.
const USER: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b';')
    .remove(b'=');
const PATH: &AsciiSet = &USER.remove(b'/').remove(b':').remove(b'@');
const FRAGMENT: &AsciiSet = &PATH.remove(b'?').remove(b'!').remove(b'(').remove(b')').remove(b'*');

fn escape(text: &str, plain: &'static AsciiSet) -> String {
    utf8_percent_encode(text, plain).to_string()
}

fn hostname(host: &str) -> &str {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        return inner.0;
    }
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    }
}

fn url_parse(args: &mut [Value]) -> Result {
    let url = match parse(&text(args, 0)) {
        Ok(url) => url,
        Err(error) => return Err(format!("unable to parse url: {error}").into()),
    };
    let Url { scheme, opaque, userinfo, host, path, query, fragment } = url;
    let name = hostname(&host).to_owned();
    Ok(Value::Map(Map::of(vec![
        ("fragment".into(), fragment.into()),
        ("host".into(), host.into()),
        ("hostname".into(), name.into()),
        ("opaque".into(), opaque.into()),
        ("path".into(), path.into()),
        ("query".into(), query.into()),
        ("scheme".into(), scheme.into()),
        ("userinfo".into(), userinfo.into()),
    ])))
}

fn url_join(args: &mut [Value]) -> Result {
    let Value::Map(map) = &args[0] else { return Ok("".into()) };
    let part = |key: &str| match map.get(key) {
        None => Ok(String::new()),
        Some(Value::Str(text)) => Ok(text.to_string()),
        Some(other) => Err(Fault::Text(format!(
            "unable to parse {key} key, must be of type string, but {} found",
            other.kind()
        ))),
    };
    let scheme = part("scheme")?;
    let host = part("host")?;
    let path = part("path")?;
    let query = part("query")?;
    let opaque = part("opaque")?;
    let fragment = part("fragment")?;
    let user = part("userinfo")?;
    let mut out = String::new();
    if !scheme.is_empty() {
        out.push_str(&scheme);
        out.push(':');
    }
    if opaque.is_empty() {
        if !scheme.is_empty() || !host.is_empty() || !user.is_empty() {
            if !host.is_empty() || !path.is_empty() || !user.is_empty() {
                out.push_str("//");
            }
            if !user.is_empty() {
                out.push_str(&userinfo(&user).map_err(Fault::Text)?);
                out.push('@');
            }
            out.push_str(&host);
        }
        let path = escape(&path, PATH);
        if !path.is_empty() && !path.starts_with('/') && !host.is_empty() {
            out.push('/');
        }
        if out.is_empty() && path.split('/').next().is_some_and(|segment| segment.contains(':')) {
            out.push_str("./");
        }
        out.push_str(&path);
    } else {
        out.push_str(&opaque);
    }
    if !query.is_empty() {
        out.push('?');
        out.push_str(&query);
    }
    if !fragment.is_empty() {
        out.push('#');
        out.push_str(&escape(&fragment, FRAGMENT));
    }
    Ok(out.into())
}
