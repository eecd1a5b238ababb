//! Paths that mean the same to everybody on the way.

/// Longest path and query.
const LONGEST: usize = 16 << 10;

/// Why a path is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// It does not begin with `/`.
    #[error("the path does not begin with /")]
    Relative,
    /// It is longer than any client's.
    #[error("the path is too long")]
    Long,
    /// An empty, `.` or `..` segment.
    #[error("the path holds an empty segment, . or ..")]
    Segment,
    /// A character that somebody on the way may read in another way.
    #[error(
        "the path holds a character that is not accepted in one: \\, ;, a control character, or one beyond ASCII"
    )]
    Character,
    /// An escape of such a character, of `/`, `.` or `%`, or one that is none.
    #[error("the path escapes a character that must not be escaped: / . % \\ ; or a control character")]
    Escape,
}

/// Accepts a path with its query only when no server could read it as another one: nothing here is
/// ever normalised, so what would be is refused.
///
/// # Errors
/// What is wrong with it.
pub fn check_target(target: &str) -> Result<(), TargetError> {
    if target.len() > LONGEST {
        return Err(TargetError::Long);
    }
    let (path, query) = target.split_once('?').map_or((target, ""), |(path, query)| (path, query));
    if query.bytes().any(|byte| !(b'!'..=b'~').contains(&byte) || byte == b'#') {
        return Err(TargetError::Character);
    }
    let Some(rest) = path.strip_prefix('/') else { return Err(TargetError::Relative) };
    if path.bytes().any(|byte| !(b'!'..=b'~').contains(&byte) || matches!(byte, b'\\' | b';' | b'#')) {
        return Err(TargetError::Character);
    }
    let mut escapes = path.split('%');
    escapes.next();
    for escape in escapes {
        let byte = escape.get(..2).and_then(|digits| {
            let plain = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
            plain.then(|| u8::from_str_radix(digits, 16).ok()).flatten()
        });
        match byte {
            None | Some(0..0x20 | 0x7f | b'/' | b'.' | b'%' | b'\\' | b';' | b'?' | b'#') => {
                return Err(TargetError::Escape);
            }
            Some(_) => {}
        }
    }
    // The root itself, and one slash at the end, are what clients send.
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if path != "/" && rest.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
        return Err(TargetError::Segment);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_clients_send_is_accepted() {
        for target in [
            "/",
            "/api",
            "/api/",
            "/version?timeout=32s",
            "/apis/apps/v1/namespaces/default/deployments/web?fieldManager=kubectl&dryRun=All",
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/system:node",
            "/api/v1/namespaces/a/services/https:web:443/proxy/index.html",
            "/apis/rbac.authorization.k8s.io/v1/roles/with%20space",
            "/api/v1/namespaces/a/pods/p/exec?command=sh&command=-c&command=ls%20%2F%2e%2e",
        ] {
            assert_eq!(check_target(target), Ok(()), "{target}");
        }
    }

    #[test]
    fn what_could_be_read_in_two_ways_is_refused() {
        use TargetError::{Character, Escape, Long, Relative, Segment};
        for (target, why) in [
            ("", Relative),
            ("api", Relative),
            ("//api", Segment),
            ("/api//v1", Segment),
            ("/api/v1//", Segment),
            ("//", Segment),
            ("/api/./v1", Segment),
            ("/api/../v1", Segment),
            ("/..", Segment),
            ("/api/%2e%2e/v1", Escape),
            ("/api/%2E/v1", Escape),
            ("/api/v1%2fpods", Escape),
            ("/api/v1%5cpods", Escape),
            ("/api/v1/%252e%252e", Escape),
            ("/api/v1/a%00", Escape),
            ("/api/v1/a%0d%0aX:%20y", Escape),
            ("/api/v1/a%3bb", Escape),
            ("/api/v1/%", Escape),
            ("/api/v1/%+1", Escape),
            ("/api/v1/%zz", Escape),
            ("/api;a=b/v1", Character),
            ("/api\\v1", Character),
            ("/api/v1/ä", Character),
            ("/api/v1/a b", Character),
            ("/api?x=\r\ny", Character),
        ] {
            assert_eq!(check_target(target), Err(why), "{target}");
        }
        assert_eq!(check_target(&format!("/{}", "a".repeat(LONGEST))), Err(Long));
    }
}
