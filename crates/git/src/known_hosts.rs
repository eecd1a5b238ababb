//! SSH host keys: those that the large forges publish, and how a host is called in `known_hosts`.

/// Host keys of github.com, gitlab.com, bitbucket.org and Azure DevOps, as these publish them. Another key of theirs is
/// refused even where unknown hosts are accepted.
pub(crate) const FORGES: &str = include_str!("known_hosts.txt");

/// What ssh calls a host in `known_hosts`. Where ssh is told an address to connect to, it must be told this too.
pub(crate) fn name(host: &str, port: Option<u16>, pinned: Option<&str>) -> String {
    let host = host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let Some(port) = port.filter(|port| *port != 22) else { return host };
    let full = format!("[{host}]:{port}");
    // ssh by itself also accepts a key that is listed without the port.
    match pinned {
        Some(text) if !lists(text, &full) && lists(text, &host) => host,
        Some(_) | None => full,
    }
}

/// Whether a line names the host in clear.
fn lists(known_hosts: &str, host: &str) -> bool {
    known_hosts.lines().any(|line| {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        let names = if first.starts_with('@') { words.next().unwrap_or_default() } else { first };
        names.split(',').any(|name| name.eq_ignore_ascii_case(host))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_known_hosts() {
        assert_eq!(name("Git.Example.com", None, None), "git.example.com");
        assert_eq!(name("h", Some(22), None), "h");
        assert_eq!(name("[::1]", None, None), "::1");
        assert_eq!(name("[::1]", Some(2222), None), "[::1]:2222");
        assert_eq!(name("h", Some(2222), Some("[h]:2222 ssh-ed25519 A\nh ssh-ed25519 B")), "[h]:2222");
        assert_eq!(name("h", Some(2222), Some("other,h ssh-ed25519 A")), "h");
        assert_eq!(name("h", Some(2222), Some("@cert-authority h ssh-ed25519 A")), "h");
        assert_eq!(name("h", Some(2222), Some("|1|salt|hash ssh-ed25519 A")), "[h]:2222");
    }

    #[test]
    fn the_forges_are_known() {
        for host in ["github.com", "gitlab.com", "bitbucket.org", "ssh.dev.azure.com"] {
            assert!(lists(FORGES, host), "{host}");
        }
        for line in FORGES.lines().filter(|line| !line.starts_with('#')) {
            assert_eq!(line.split(' ').count(), 3, "{line}");
        }
    }
}
