//! The git hosts that were asked last, one for each connection.

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use plural_scm::{Connection, Credentials, GitHost};
use secrecy::ExposeSecret;
use sha2::{Digest as _, Sha256};

/// Hosts that are kept: each holds up to 4 MiB of what it was told.
const COUNT: usize = 16;
/// How long one is kept: certificates that this machine trusts, and proxies, change.
const LONGEST: Duration = Duration::from_mins(10);

struct Known {
    /// Of the settings and secrets that it was made with.
    digest: [u8; 32],
    host: Arc<dyn GitHost>,
    since: Instant,
    /// When it was asked for last.
    used: Instant,
}

/// Hosts by their connection.
#[derive(Default)]
pub(crate) struct KnownHosts {
    hosts: Mutex<HashMap<String, Known>>,
}

impl KnownHosts {
    /// The host of a connection, which is the one that was made before where nothing of the connection is another.
    ///
    /// # Errors
    /// Those of `connect`.
    pub(crate) fn get(
        &self,
        connection: &Connection,
        connect: impl FnOnce() -> plural_scm::Result<Arc<dyn GitHost>>,
    ) -> plural_scm::Result<Arc<dyn GitHost>> {
        let (digest, now) = (digest(connection), Instant::now());
        let mut hosts = self.hosts.lock();
        hosts.retain(|_, known| now.duration_since(known.since) < LONGEST);
        if let Some(known) = hosts.get_mut(&connection.id)
            && known.digest == digest
        {
            known.used = now;
            return Ok(Arc::clone(&known.host));
        }
        hosts.remove(&connection.id);
        let host = connect()?;
        while hosts.len() >= COUNT {
            let oldest = hosts.iter().min_by_key(|(_, known)| known.used).map(|(id, _)| id.clone());
            let Some(oldest) = oldest else { break };
            hosts.remove(&oldest);
        }
        let known = Known { digest, host: Arc::clone(&host), since: now, used: now };
        hosts.insert(connection.id.clone(), known);
        Ok(host)
    }
}

/// What tells two states of a connection apart. No secret can be had from it that could not be guessed.
fn digest(connection: &Connection) -> [u8; 32] {
    let Connection { id, kind, api_url, credentials, signing_key, user, ca_pem, proxy } = connection;
    let mut sum = Sha256::new();
    let mut add = |part: Option<&str>| {
        // Parts are told apart by their lengths.
        sum.update(part.map_or(u64::MAX, |part| part.len() as u64).to_be_bytes());
        sum.update(part.unwrap_or_default());
    };
    add(Some(id));
    add(Some(kind.name()));
    add(api_url.as_deref());
    match credentials {
        Credentials::Token(token) => {
            add(Some("token"));
            add(Some(token.expose_secret()));
        }
        Credentials::Basic { username, password } => {
            add(Some("basic"));
            add(Some(username));
            add(Some(password.expose_secret()));
        }
        Credentials::App { app_id, installation_id, private_key } => {
            add(Some("app"));
            add(Some(&app_id.to_string()));
            add(Some(&installation_id.to_string()));
            add(Some(private_key.expose_secret()));
        }
    }
    add(signing_key.as_ref().map(ExposeSecret::expose_secret));
    add(user.as_deref());
    add(ca_pem.as_deref());
    add(proxy.as_deref());
    sum.finalize().into()
}

#[cfg(test)]
mod tests {
    use plural_reach::Reach;
    use plural_scm::{HostKind, Options, Proxies};

    use super::*;

    fn connection(id: &str, token: &str) -> Connection {
        Connection {
            id: id.to_owned(),
            kind: HostKind::Gitea,
            api_url: Some("https://git.example.com/api/v1".to_owned()),
            credentials: Credentials::Token(token.to_owned().into()),
            signing_key: None,
            user: None,
            ca_pem: None,
            proxy: None,
        }
    }

    #[test]
    fn a_connection_keeps_its_host_until_anything_of_it_is_another() {
        let options = Options { reach: Reach::Local, proxies: Proxies::None, ..Options::default() };
        let hosts = KnownHosts::default();
        let host = |connection: &Connection| {
            hosts.get(connection, || plural_scm::connect(connection, &options)).unwrap()
        };
        let first = connection("one", "a-token");
        let made = host(&first);
        assert!(Arc::ptr_eq(&made, &host(&first)));
        let others = [
            connection("one", "another-token"),
            Connection { api_url: Some("https://other.example.com/api/v1".to_owned()), ..first.clone() },
            Connection { proxy: Some("http://proxy.example.com:3128".to_owned()), ..first.clone() },
            Connection { user: Some("somebody".to_owned()), ..first.clone() },
            Connection {
                credentials: Credentials::Basic { username: "a-token".into(), password: "".into() },
                ..first.clone()
            },
            connection("two", "a-token"),
        ];
        for other in &others {
            let made = host(&first);
            assert!(!Arc::ptr_eq(&made, &host(other)), "{other:?}");
        }
        // A secret that is no more is not kept either.
        assert_eq!(hosts.hosts.lock().len(), 2);
    }

    #[test]
    fn the_one_that_was_not_asked_for_the_longest_time_goes() {
        let options = Options { reach: Reach::Local, proxies: Proxies::None, ..Options::default() };
        let hosts = KnownHosts::default();
        for number in 0..COUNT + 5 {
            let connection = connection(&number.to_string(), "a-token");
            hosts.get(&connection, || plural_scm::connect(&connection, &options)).unwrap();
        }
        let kept = hosts.hosts.lock();
        assert!(kept.len() == COUNT && kept.contains_key(&(COUNT + 4).to_string()));
    }

    #[test]
    fn what_cannot_be_meant_is_not_kept() {
        let hosts = KnownHosts::default();
        let bad = connection("one", "a\nb");
        let made = hosts.get(&bad, || plural_scm::connect(&bad, &Options::default()));
        assert!(made.is_err() && hosts.hosts.lock().is_empty());
    }
}
