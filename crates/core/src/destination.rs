//! Who receives a credential: [`Destination`].

use std::fmt;

use crate::address::{Address, Scheme};

/// Everything that decides who receives the credential of a git or chart repository: where the connection goes, through
/// whom, and by what the other side is recognised. A credential belongs to one destination. When any part of it changes,
/// the stored credential is dropped unless it is given again with the change.
///
/// The path is not part of it: whoever answers for a host sees what is sent to any of its paths.
#[derive(Clone, PartialEq, Eq)]
pub struct Destination {
    place: Place,
    proxy: Option<String>,
    ca: Option<String>,
    known_hosts: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
enum Place {
    At {
        scheme: Scheme,
        user: Option<String>,
        host: String,
        port: Option<u16>,
    },
    /// Stored by an earlier release and not understood by this one: only the same text is the same place.
    Unknown(String),
}

/// How a destination is reached and recognised, besides its address.
#[derive(Clone, Copy, Default)]
pub struct Route<'a> {
    /// The proxy, with its user information.
    pub proxy: Option<&'a str>,
    /// Certificate authorities, PEM.
    pub ca: Option<&'a str>,
    /// SSH host keys.
    pub known_hosts: Option<&'a str>,
}

impl Destination {
    /// The destination of a repository at an address; `text` stands for an address that could not be parsed.
    pub fn of(address: Option<&Address>, text: &str, route: Route<'_>) -> Self {
        let Route { proxy, ca, known_hosts } = route;
        let place = match address {
            Some(address) => Place::At {
                scheme: address.scheme(),
                user: address.user().map(str::to_owned),
                host: address.host().to_owned(),
                port: address.port(),
            },
            None => Place::Unknown(text.to_owned()),
        };
        // A final line break does not make another certificate; an empty text is none.
        let given = |text: Option<&str>| {
            text.map(str::trim).filter(|text| !text.is_empty()).map(|text| text.replace("\r\n", "\n"))
        };
        Self { place, proxy: given(proxy), ca: given(ca), known_hosts: given(known_hosts) }
    }

    /// The words for what differs between two destinations; empty when they are the same.
    pub fn changes(&self, other: &Self) -> Vec<&'static str> {
        let Self { place, proxy, ca, known_hosts } = self;
        let mut changes = Vec::new();
        match (place, &other.place) {
            (
                Place::At { scheme, user, host, port },
                Place::At { scheme: other_scheme, user: other_user, host: other_host, port: other_port },
            ) => {
                for (same, word) in [
                    (scheme == other_scheme, "scheme"),
                    (host == other_host, "host"),
                    // A scheme brings its port.
                    (port == other_port || scheme != other_scheme, "port"),
                    (user == other_user || scheme != other_scheme, "user"),
                ] {
                    if !same {
                        changes.push(word);
                    }
                }
            }
            (Place::Unknown(one), Place::Unknown(other)) if one == other => {}
            (Place::At { .. } | Place::Unknown(_), _) => changes.push("address"),
        }
        for (same, word) in [
            (*proxy == other.proxy, "proxy"),
            (*ca == other.ca, "CA certificate"),
            (*known_hosts == other.known_hosts, "known hosts"),
        ] {
            if !same {
                changes.push(word);
            }
        }
        changes
    }
}

impl fmt::Debug for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A proxy's address may hold a password.
        f.debug_struct("Destination").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(text: &str, route: Route<'_>) -> Destination {
        Destination::of(text.parse().ok().as_ref(), text, route)
    }

    #[test]
    fn every_part_counts() {
        let route = Route::default();
        let home = destination("https://git.example.com/team/app", route);
        for same in [
            "https://git.example.com/other/app",
            "https://GIT.example.com:443/team/app",
            "https://git.example.com/team/app/",
        ] {
            assert_eq!(home, destination(same, route), "{same}");
            assert!(home.changes(&destination(same, route)).is_empty());
        }
        for (other, changed) in [
            ("http://git.example.com/team/app", "scheme"),
            ("https://git.example.net/team/app", "host"),
            ("https://git.example.com.evil.test/team/app", "host"),
            ("https://git.example.com:8443/team/app", "port"),
            ("https://git.example.com/team/../app", "address"),
        ] {
            let other_place = destination(other, route);
            assert_ne!(home, other_place, "{other}");
            assert_eq!(home.changes(&other_place), [changed], "{other}");
        }
        let v6 = destination("ssh://git@[2001:db8::1]/x", route);
        assert_eq!(v6.changes(&destination("ssh://git@[2001:db8::2]/x", route)), ["host"]);
        assert_eq!(v6.changes(&destination("ssh://root@[2001:db8::1]/x", route)), ["user"]);
        assert_eq!(v6, destination("git@[2001:db8:0::1]:x", route));
        for (other, changed) in [
            (Route { proxy: Some("http://proxy:3128"), ..route }, "proxy"),
            (Route { ca: Some("-----BEGIN CERTIFICATE-----"), ..route }, "CA certificate"),
            (Route { known_hosts: Some("h ssh-ed25519 A"), ..route }, "known hosts"),
        ] {
            let other = destination("https://git.example.com/team/app", other);
            assert_eq!(home.changes(&other), [changed]);
        }
    }

    #[test]
    fn what_does_not_matter_changes_nothing() {
        let text = "https://git.example.com/x";
        let one = destination(text, Route { ca: Some("A\nB\n"), proxy: Some(""), known_hosts: None });
        assert_eq!(one, destination(text, Route { ca: Some("A\r\nB"), ..Route::default() }));
        assert!(!format!("{one:?}").contains("example"));
        let odd = "https://h/../x";
        assert!(destination(odd, Route::default()).changes(&destination(odd, Route::default())).is_empty());
    }
}
