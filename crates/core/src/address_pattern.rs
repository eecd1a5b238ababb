//! Addresses that project limits allow: [`AddressPattern`].

use std::str::FromStr;

use crate::address::{Address, Parts, Scheme, local_path, normal_host, normal_path, segments};
use crate::name::NameError;
use crate::pattern::matches;

/// Addresses that are allowed: an address in which `*` stands for any run of characters within its host, port, user or
/// one segment of its path. A `*` at the very end stands for everything that lies below too. A host of `*` is every host
/// at every port, and `*` alone every address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressPattern {
    /// `*`.
    Any,
    /// Component by component.
    Of {
        /// `None` is any.
        scheme: Option<Scheme>,
        /// `None` for schemes without users.
        user: Option<String>,
        /// Lower case.
        host: String,
        /// A number or a pattern; `None` is the scheme's own.
        port: Option<String>,
        /// Segments of the path.
        path: Vec<String>,
        /// What lies below is allowed too.
        below: bool,
    },
}

impl AddressPattern {
    /// Whether it allows this address.
    pub fn matches(&self, address: &Address) -> bool {
        let Self::Of { scheme, user, host, port, path, below } = self else { return true };
        let same_user = match (user.as_deref(), address.user()) {
            (Some(pattern), Some(user)) => matches(pattern, user),
            (None, None) => true,
            // Only a pattern for every scheme lacks what the address has.
            (None, Some(_)) => scheme.is_none(),
            (Some(_), None) => false,
        };
        let same_port = match (port, address.own_port()) {
            (Some(pattern), _) => address.port().is_some_and(|port| matches(pattern, &port.to_string())),
            (None, None) => true,
            (None, Some(_)) => host == "*",
        };
        let segments = segments(address.path());
        let same_path = if *below { segments.len() >= path.len() } else { segments.len() == path.len() }
            && path.iter().zip(&segments).all(|(pattern, segment)| matches(pattern, segment));
        scheme.is_none_or(|scheme| scheme == address.scheme())
            && same_user
            && matches(host, address.host())
            && same_port
            && same_path
    }
}

impl FromStr for AddressPattern {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        if text == "*" {
            return Ok(Self::Any);
        }
        let (any_scheme, text) = match text.strip_prefix("*://") {
            Some(rest) => (true, format!("https://{rest}")),
            None => (false, text.to_owned()),
        };
        let Parts { scheme, user, host, port, path } = Parts::of(&text)?;
        let host = match scheme {
            Scheme::File => String::new(),
            // What holds a star is no name yet.
            _ if host.contains('*') => {
                let plain = |c: char| c.is_ascii_alphanumeric() || "-_.*".contains(c);
                if !host.chars().all(plain) || (host.ends_with('*') && host != "*") {
                    return Err(NameError::of(
                        "must have a host such as git.example.com, *.example.com or *: \"*\" at the end of a name \
                         would match hosts of other people",
                    ));
                }
                host.to_ascii_lowercase()
            }
            _ => normal_host(host)?,
        };
        let port = match port {
            None => None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit() || byte == b'*') => {
                let default = scheme.default_port().map(|port| port.to_string());
                Some(port.to_owned()).filter(|port| any_scheme || Some(port) != default.as_ref())
            }
            Some(_) => return Err(NameError::of("must have a port of digits or \"*\"")),
        };
        let path = if scheme == Scheme::File { local_path(&path)? } else { normal_path(&path)? };
        let below = text.ends_with('*');
        let path: Vec<String> = segments(&path).into_iter().map(str::to_owned).collect();
        Ok(Self::Of {
            scheme: (!any_scheme).then_some(scheme),
            user: user.map(str::to_owned),
            host,
            port,
            path,
            below,
        })
    }
}

/// Whether `address` is one that these patterns allow. No patterns allow every address, even one that cannot be
/// parsed; with patterns, a text that is not an address is not allowed.
pub fn address_allowed<S: AsRef<str>>(patterns: &[S], address: &str) -> bool {
    if patterns.is_empty() {
        return true;
    }
    let parsed = address.parse::<Address>();
    patterns.iter().any(|pattern| match pattern.as_ref().parse::<AddressPattern>() {
        Ok(AddressPattern::Any) => true,
        Ok(pattern) => parsed.as_ref().is_ok_and(|address| pattern.matches(address)),
        Err(_) => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_components() {
        for (pattern, address, expected) in [
            ("*", "git@h:x", true),
            ("*", "oci://h/x", true),
            ("https://git.example.com/shop/*", "https://git.example.com/shop/web", true),
            ("https://git.example.com/shop/*", "https://GIT.example.com:443/shop/a/b", true),
            ("https://git.example.com/shop/*", "https://git.example.com/shop", false),
            ("https://git.example.com/shop/*", "https://git.example.com/shopping/web", false),
            ("https://git.example.com/shop/*", "https://git.example.com/other/web", false),
            ("https://git.example.com/shop/*", "http://git.example.com/shop/web", false),
            ("https://git.example.com/shop/*", "https://git.example.com:8443/shop/web", false),
            ("https://git.example.com:443/shop/*", "https://git.example.com/shop/web", true),
            ("https://git.example.com:*/shop/*", "https://git.example.com:8443/shop/web", true),
            ("https://git.example.com/shop-*", "https://git.example.com/shop-a/web", true),
            ("https://git.example.com/*/web", "https://git.example.com/a/web", true),
            ("https://git.example.com/*/web", "https://git.example.com/a/b/web", false),
            ("https://*/shop/*", "https://a.b/shop/x", true),
            ("https://*.example.com/*", "https://git.example.com/x", true),
            ("https://*.example.com/*", "https://evil.test/x.example.com/y", false),
            ("https://*", "https://anywhere:444/x", true),
            ("https://*:8443", "https://anywhere:444/x", false),
            ("ssh://*", "me@anywhere:x", false),
            ("ssh://*@*", "me@anywhere:x", true),
            ("https://*", "https://anywhere/x/y", true),
            ("*://git.example.com/*", "https://git.example.com/x", true),
            ("*://git.example.com/*", "ssh://ada@git.example.com/x", true),
            ("*://git.example.com/*", "https://git.example.net/x", false),
            ("git@h:shop/*", "git@h:shop/web.git", true),
            ("git@h:shop/*", "ssh://git@h/~/shop/web.git", true),
            ("git@h:shop/*", "ssh://git@h/shop/web.git", false),
            ("git@h:shop/*", "root@h:shop/web.git", false),
            ("*@h:shop/*", "root@h:shop/web.git", true),
            ("ssh://git@h/shop/*", "ssh://h/shop/web", true),
            ("https://h/exact", "https://h/exact", true),
            ("https://h/exact", "https://h/exact/", true),
            ("https://h/exact", "https://h/exactly", false),
            ("https://h/exact", "https://h/exact/below", false),
            ("oci://r/team/*", "oci://r/team/web", true),
            ("/srv/git/*", "/srv/git/a", true),
            ("file:///srv/git/*", "/srv/git/a", true),
            ("/srv/git/*", "/srv/other/a", false),
        ] {
            let parsed: AddressPattern = pattern.parse().unwrap();
            assert_eq!(address.parse::<Address>().unwrap().matches(&parsed), expected, "{pattern} {address}");
        }
        for bad in [
            "",
            "*.git",
            "shop*",
            "https://git.example.com*",
            "https://h/../*",
            "https://h/%2e%2e/*",
            "https://h:x/*",
            "https://a@h/*",
        ] {
            assert!(bad.parse::<AddressPattern>().is_err(), "{bad}");
        }
    }

    #[test]
    fn what_is_no_address_is_allowed_by_no_pattern_but_any() {
        let patterns = ["https://h/shop/*"];
        assert!(address_allowed(&patterns, "https://h/shop/web"));
        for escape in [
            "https://h/shop/../other/y.git",
            "https://h/shop/%2e%2e/other/y.git",
            "https://h/shop/%2E./other",
            "https://h/shop/..%2fother",
            "https://h@evil.test/shop/x",
            "https://h\\@evil.test/shop/x",
            "https://evil.test/?https://h/shop/x",
            "",
        ] {
            assert!(!address_allowed(&patterns, escape), "{escape}");
            assert!(address_allowed(&["*"], escape) && address_allowed::<&str>(&[], escape), "{escape}");
        }
        // A pattern that is none allows nothing.
        assert!(!address_allowed(&["shop*"], "https://h/shop/web"));
    }
}
