//! Paths inside a repository: `/` between parts, no leading or trailing slash, empty for the root.

use crate::error::{Error, Result};

/// Cleans a path that a person wrote. A leading slash means the repository's root; `.` and empty parts vanish.
///
/// # Errors
/// When `..` leaves the repository, or the path has a backslash or a control character.
pub(crate) fn clean(what: &'static str, text: &str) -> Result<String> {
    if text.len() > 4096 {
        return Err(Error::bad(what, text, "it is longer than 4096 bytes"));
    }
    if text.contains(|c: char| c.is_control() || c == '\\') {
        return Err(Error::bad(
            what,
            text,
            "it holds a backslash or control character; use '/' between folders",
        ));
    }
    join("", text.trim_start_matches('/'))
        .ok_or_else(|| Error::bad(what, text, "it leads out of the repository; use a path inside it"))
}

/// `relative` as seen from the folder `base`, cleaned by its text alone. Nothing when it leaves the repository or is
/// absolute.
pub(crate) fn join(base: &str, relative: &str) -> Option<String> {
    if relative.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = base.split('/').filter(|p| !p.is_empty()).collect();
    for part in relative.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop()?;
            }
            part => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// The folder that holds a path; the root for a top-level path.
pub(crate) fn parent(path: &str) -> &str {
    path.rfind('/').map_or("", |at| &path[..at])
}

/// The last part of a path.
pub(crate) fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Whether `path` is `folder` or lies in it.
pub(crate) fn is_within(path: &str, folder: &str) -> bool {
    folder.is_empty()
        || path.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The longest folder that holds both folders.
pub(crate) fn common<'a>(a: &'a str, b: &str) -> &'a str {
    let mut end = 0;
    for (left, right) in a.split('/').zip(b.split('/')) {
        if left != right || left.is_empty() {
            break;
        }
        end += left.len() + usize::from(end > 0);
    }
    &a[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cleans_and_joins() {
        assert_eq!(clean("folder", "/a//b/./c/").unwrap(), "a/b/c");
        assert_eq!(clean("folder", "a/../b").unwrap(), "b");
        assert_eq!(clean("folder", ".").unwrap(), "");
        for bad in ["..", "a/../../b", "a\\b", "a\nb", "a\0b"] {
            assert!(matches!(clean("folder", bad), Err(Error::BadInput { .. })), "{bad:?}");
        }
        assert_eq!(join("a/b", "../c").as_deref(), Some("a/c"));
        assert_eq!(join("a", "../../c"), None);
        assert_eq!(join("a", "/c"), None);
    }

    #[test]
    fn finds_common_folders() {
        for (a, b, expect) in [
            ("a/b", "a/c", "a"),
            ("a", "a/c", "a"),
            ("ab", "a", ""),
            ("", "a", ""),
            ("a/b/c", "a/b/c", "a/b/c"),
        ] {
            assert_eq!(common(a, b), expect, "{a} {b}");
        }
        assert!(is_within("a/b", "a") && is_within("a", "a") && is_within("x", "") && !is_within("ab", "a"));
    }
}
