//! Which resource names are addresses of repositories.

use super::error::{Error, ErrorKind};

const SCHEMES: [&str; 4] = ["ssh://", "https://", "http://", "file://"];

/// `http` or `https`.
pub(crate) fn is_url(path: &str) -> bool {
    ["http://", "https://"].iter().any(|s| strip_prefix_fold(path, s).is_some())
}

/// Does the program clone a repository for this name?
pub(crate) fn is_repository(path: &str) -> bool {
    if path.starts_with('/') {
        return false;
    }
    let rest = path.split_once('?').map_or(path, |(p, _)| p);
    let rest = strip_prefix_fold(rest, "git::").unwrap_or(rest);
    let (scheme, rest) =
        SCHEMES.iter().find_map(|s| Some((*s, strip_prefix_fold(rest, s)?))).unwrap_or(("", rest));
    let (user, rest) = user_name(rest);
    let lower = rest.to_ascii_lowercase();
    let github = lower.starts_with("github.com/") || lower.starts_with("github.com:");
    let scp = scheme.is_empty() && (user || github);
    if scheme.is_empty() && !scp {
        return false;
    }
    if scheme == "file://" {
        return !rest.is_empty();
    }
    let slash = rest.find('/');
    let colon = rest.find(':').filter(|c| scp && *c > 0);
    let cut = match (slash, colon) {
        (Some(s), Some(c)) => Some(s.min(c)),
        (None, c) if scp => c,
        (s, _) => s,
    };
    let (host, path) = cut.map_or((rest, ""), |i| rest.split_at(i + 1));
    !host.is_empty() && names_a_repository(path)
}

fn names_a_repository(path: &str) -> bool {
    let (repository, root) = if let Some(i) = path.find("_git/") {
        let below = path.get(i + 5..).unwrap_or_default();
        (path, below.split_once('/').map_or("", |(_, r)| r))
    } else if let Some(i) = path.find("//") {
        (path.get(..i).unwrap_or_default(), path.get(i + 2..).unwrap_or_default())
    } else if let Some(i) = path.find(".git") {
        (path, path.get(i + 4..).unwrap_or_default())
    } else {
        let mut parts = path.splitn(3, '/');
        match (parts.next(), parts.next(), parts.next()) {
            (Some(a), Some(b), rest) if !(a.is_empty() && b.is_empty()) => (path, rest.unwrap_or_default()),
            _ => return false,
        }
    };
    let first = super::loader::clean(root.trim_start_matches('/'));
    !(repository.is_empty() || first == ".." || first.starts_with("../"))
}

fn user_name(text: &str) -> (bool, &str) {
    match text.split_once('@') {
        Some((user, rest))
            if user.starts_with(|c: char| c.is_ascii_alphabetic())
                && user.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') =>
        {
            (true, rest)
        }
        _ => (false, text),
    }
}

fn strip_prefix_fold<'a>(text: &'a str, prefix: &str) -> Option<&'a str> {
    let head = text.get(..prefix.len())?;
    head.eq_ignore_ascii_case(prefix).then(|| text.get(prefix.len()..)).flatten()
}

/// The refusal of something remote.
pub(crate) fn refused(address: &str) -> Error {
    Error::of(
        ErrorKind::Remote,
        format!(
            "'{address}' is remote and a build fetches nothing: add its repository to the console so that it is \
             supplied with the tree, or copy what it names into the tree and refer to that"
        ),
    )
}
