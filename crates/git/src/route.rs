//! How one run of git gets to its remote: [`Route`]. Every address on the way is looked up here and held to the reach.

use std::{net::IpAddr, path::Path, process::Stdio, time::Duration};

use plural_reach::{Guard, NoAddress, Reach};
use secrecy::SecretString;
use tokio::process::Command;

use crate::{
    error::{Error, Result},
    known_hosts,
    mirrors::Options,
    relay::{Relay, choose},
    remote::{HostKeys, Proxy, Remote, RemoteUrl},
};

/// The first git that can be told a name's address (`http.curloptResolve`).
const RESOLVES: (u32, u32) = (2, 37);

/// How one run gets to its remote. The relay lives as long as this.
#[derive(Default)]
pub(crate) struct Route {
    /// git's `http.proxy`.
    pub(crate) proxy: Option<SecretString>,
    /// git's `http.curloptResolve`: the address of a proxy that must be called by its name.
    pub(crate) resolve: Option<String>,
    /// Where ssh connects to.
    pub(crate) ssh: Option<SshTarget>,
    relay: Option<Relay>,
    /// An address on the way is not of the internet.
    inside: bool,
}

/// Where ssh connects to in place of looking a name up.
pub(crate) struct SshTarget {
    pub(crate) address: IpAddr,
    /// What `known_hosts` calls the host.
    pub(crate) name: String,
}

/// What went wrong on the way, as the route saw it.
pub(crate) enum Trouble {
    /// The remote was out of reach.
    Refused(Error),
    /// It was not reached; anybody may be told why.
    Failed(&'static str),
    /// Nothing that the route knows of.
    None,
}

impl Route {
    pub(crate) async fn to(remote: &Remote, options: &Options) -> Result<Self> {
        match &remote.url {
            RemoteUrl::Local(_) => Ok(Self::default()),
            RemoteUrl::Ssh { host, port, .. } => Self::ssh(remote, options, host, *port).await,
            RemoteUrl::Http { authority, .. } => match &remote.proxy {
                None => Self::relayed(remote, options).await,
                Some(proxy) => {
                    // The proxy looks names up; an address it would be told is checked here.
                    let host = split_port(authority).0;
                    if let Ok(address) = bare(host).parse::<IpAddr>() {
                        options.guard.reach.check(address).map_err(|why| out_of_reach(remote, host, why))?;
                    }
                    Self::proxied(remote, options, proxy).await
                }
            },
        }
    }

    async fn relayed(remote: &Remote, options: &Options) -> Result<Self> {
        let relay =
            Relay::start(options.guard.clone(), options.stall).await.map_err(|error| Error::Unreachable {
                url: remote.url.to_string(),
                detail: format!("this machine gives no port for the way out: {error}"),
            })?;
        Ok(Self { proxy: Some(relay.url()), relay: Some(relay), ..Self::default() })
    }

    async fn ssh(remote: &Remote, options: &Options, host: &str, port: Option<u16>) -> Result<Self> {
        let address = address(remote, &options.guard, host, port.unwrap_or(22), options.stall).await?;
        let pinned = match &remote.host_keys {
            HostKeys::Pinned(text) => Some(text.as_str()),
            HostKeys::AcceptNew => None,
        };
        let name = known_hosts::name(host, port, pinned);
        Ok(Self {
            ssh: Some(SshTarget { address, name }),
            inside: !Reach::is_public(address),
            ..Self::default()
        })
    }

    /// Through the repository's own proxy, at the address that was checked.
    async fn proxied(remote: &Remote, options: &Options, proxy: &SecretString) -> Result<Self> {
        let proxy = Proxy::parse(proxy)?;
        let address = address(remote, &options.guard, &proxy.host, proxy.port, options.stall).await?;
        let inside = !Reach::is_public(address);
        let written = match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        if proxy.scheme == "https" && proxy.address().is_none() {
            // Its certificate is for its name.
            if !can_resolve(&options.git).await {
                return Err(Error::bad(
                    "proxy",
                    "(hidden)",
                    "an https proxy with a name needs git 2.37 or newer here; name its address, or use an http proxy",
                ));
            }
            let resolve = Some(format!("{}:{}:{written}", proxy.host, proxy.port));
            return Ok(Self { proxy: Some(proxy.at(&proxy.host)), resolve, inside, ..Self::default() });
        }
        Ok(Self { proxy: Some(proxy.at(&written)), inside, ..Self::default() })
    }

    /// What went wrong, where git could not say it.
    pub(crate) fn trouble(&self, remote: &Remote) -> Trouble {
        let Some(relay) = &self.relay else { return Trouble::None };
        let seen = relay.seen();
        match (seen.refused, seen.failed) {
            (Some(refused), _) => Trouble::Refused(out_of_reach(remote, &refused.host, refused.why)),
            (None, Some(failed)) => Trouble::Failed(failed),
            (None, None) => Trouble::None,
        }
    }

    /// An address on the way is not of the internet: what answers there is not told to whoever named it.
    pub(crate) fn is_inside(&self) -> bool {
        self.inside || self.relay.as_ref().is_some_and(|relay| relay.seen().inside)
    }
}

async fn address(
    remote: &Remote,
    guard: &Guard,
    host: &str,
    port: u16,
    patience: Duration,
) -> Result<IpAddr> {
    let url = || remote.url.to_string();
    match tokio::time::timeout(patience, choose(guard, host, port, patience)).await {
        Ok(Ok(address)) => Ok(address),
        Ok(Err(NoAddress::OutOfReach(refused))) => Err(out_of_reach(remote, &refused.host, refused.why)),
        Ok(Err(NoAddress::Lookup(_))) => {
            Err(Error::Unreachable { url: url(), detail: format!("the name of {host} cannot be looked up") })
        }
        Err(_) => Err(Error::Unreachable { url: url(), detail: format!("{host} does not answer") }),
    }
}

fn out_of_reach(remote: &Remote, host: &str, why: &'static str) -> Error {
    Error::OutOfReach { url: remote.url.to_string(), host: host.to_owned(), why }
}

fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

/// Host, with its brackets, and port.
fn split_port(authority: &str) -> (&str, Option<&str>) {
    match authority.rsplit_once(':') {
        Some((host, port)) if !port.contains(']') => (host, Some(port).filter(|port| !port.is_empty())),
        _ => (authority, None),
    }
}

async fn can_resolve(git: &Path) -> bool {
    let said = Command::new(git).arg("version").env_clear().stdin(Stdio::null()).kill_on_drop(true).output();
    let Ok(Ok(said)) = tokio::time::timeout(Duration::from_secs(10), said).await else { return false };
    version(&String::from_utf8_lossy(&said.stdout)).is_some_and(|version| version >= RESOLVES)
}

/// `git version 2.39.5` is 2.39.
fn version(said: &str) -> Option<(u32, u32)> {
    let mut numbers = said.split_whitespace().nth(2)?.split('.');
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_parts() {
        assert_eq!(split_port("h:1"), ("h", Some("1")));
        assert_eq!(split_port("h"), ("h", None));
        assert_eq!(split_port("[::1]:1"), ("[::1]", Some("1")));
        assert_eq!(split_port("[::1]"), ("[::1]", None));
        assert_eq!(version("git version 2.39.5 (Apple Git-154)\n"), Some((2, 39)));
        assert_eq!(version("git version 2.30.windows.1"), Some((2, 30)));
        assert!((2, 36) < RESOLVES && (3, 0) > RESOLVES && version("x").is_none());
    }
}
