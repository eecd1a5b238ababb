//! Which addresses are talked to: [`Reach`].

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use reqwest::{
    Url,
    dns::{Addrs, Name, Resolve, Resolving},
};

use crate::{
    access::shown,
    error::{Cause, Error, Result},
};

/// How far requests may go. Whoever may name a repository chooses where the console connects to, so places that are only
/// meant for the console's own machine are out of reach unless the operator says otherwise.
///
/// Link-local addresses, the clouds' metadata services, multicast and reserved addresses are refused in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Reach {
    /// The internet.
    Public,
    /// And private networks (10/8, 172.16/12, 192.168/16, 100.64/10, fc00::/7), where registries of one's own are.
    #[default]
    Private,
    /// And this machine.
    Local,
}

impl Reach {
    /// Whether this address is talked to; the error says what it is instead.
    ///
    /// # Errors
    /// The reason, as "is …".
    pub fn check(self, address: IpAddr) -> std::result::Result<(), &'static str> {
        match (class(address), self) {
            (Class::Public, _)
            | (Class::Private, Self::Private | Self::Local)
            | (Class::Loopback, Self::Local) => Ok(()),
            (Class::Never(why), _) => Err(why),
            (Class::Private, Self::Public) => Err("is an address of a private network"),
            (Class::Loopback, Self::Public | Self::Private) => Err("is this machine's own address"),
        }
    }

    /// Checks a literal address in a URL, which is connected to without being looked up.
    pub(crate) fn check_url(self, url: &Url) -> Result<()> {
        let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
        match host.parse::<IpAddr>() {
            Ok(address) => self.check(address).map_err(|why| {
                Error::new(
                    Cause::Refused,
                    format!("{} {why}, which this console does not connect to", shown(url)),
                )
            }),
            Err(_) => Ok(()),
        }
    }
}

enum Class {
    Public,
    Private,
    Loopback,
    Never(&'static str),
}

const LINK_LOCAL: &str = "is a link-local or metadata address";
const RESERVED: &str = "is an address that no server has";

fn class(address: IpAddr) -> Class {
    match address {
        IpAddr::V4(v4) => class_v4(v4),
        IpAddr::V6(v6) => match embedded(v6) {
            Some(v4) => class_v4(v4),
            None => class_v6(v6),
        },
    }
}

fn class_v4(v4: Ipv4Addr) -> Class {
    match v4.octets() {
        [169, 254, ..] | [100, 100, 100, 200] | [168, 63, 129, 16] | [192, 0, 0, _] => {
            Class::Never(LINK_LOCAL)
        }
        [0 | 224..=255, ..] => Class::Never(RESERVED),
        [127, ..] => Class::Loopback,
        [10, ..] | [192, 168, ..] | [172, 16..=31, ..] | [100, 64..=127, ..] => Class::Private,
        _ => Class::Public,
    }
}

fn class_v6(v6: Ipv6Addr) -> Class {
    match v6.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] | [0xff00..=0xffff, ..] | [0x2001, 0, ..] => Class::Never(RESERVED),
        [0xfe80..=0xfebf, ..] | [0xfd00, 0x0ec2, ..] | [0xfd20, 0x00ce, ..] => Class::Never(LINK_LOCAL),
        [0, 0, 0, 0, 0, 0, 0, 1] => Class::Loopback,
        [0xfc00..=0xfdff | 0xfec0..=0xfeff, ..] => Class::Private,
        _ => Class::Public,
    }
}

/// The IPv4 address that an IPv6 address leads to: mapped, compatible, NAT64 and 6to4.
fn embedded(v6: Ipv6Addr) -> Option<Ipv4Addr> {
    let join = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match v6.segments() {
        [0, 0, 0, 0, 0, 0xffff, high, low]
        | [0x64, 0xff9b, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => Some(join(high, low)),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => Some(join(high, low)),
        _ => None,
    }
}

/// Finds the addresses of a name.
#[async_trait]
pub trait Lookup: Send + Sync + 'static {
    /// The addresses of a host.
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>>;
}

/// The system's resolver.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemLookup;

#[async_trait]
impl Lookup for SystemLookup {
    async fn lookup(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((host, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// A name led only to addresses that are not talked to.
#[derive(Debug, thiserror::Error)]
#[error("{host} {why}, which this console does not connect to")]
pub(crate) struct OutOfReach {
    host: String,
    why: &'static str,
}

/// Looks names up and lets through what is in reach. Connections are made to what it returns, so nothing is looked up
/// a second time between the check and the use.
#[derive(Clone)]
pub(crate) struct Guard {
    pub(crate) reach: Reach,
    pub(crate) lookup: Arc<dyn Lookup>,
}

impl Resolve for Guard {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { reach, lookup } = self.clone();
        Box::pin(async move {
            let host = name.as_str().to_owned();
            let mut allowed = Vec::new();
            let mut refused = None;
            for address in lookup.lookup(&host).await? {
                match reach.check(address) {
                    Ok(()) => allowed.push(SocketAddr::new(address, 0)),
                    Err(why) => refused = Some(why),
                }
            }
            if let (true, Some(why)) = (allowed.is_empty(), refused) {
                return Err(OutOfReach { host, why }.into());
            }
            Ok(Box::new(allowed.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_out_of_reach() {
        for never in [
            "169.254.169.254",
            "169.254.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "100.100.100.200",
            "168.63.129.16",
            "192.0.0.192",
            "fe80::1",
            "fd00:ec2::254",
            "::",
            "ff02::1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "2002:a9fe:a9fe::1",
            "::169.254.169.254",
        ] {
            let address: IpAddr = never.parse().unwrap();
            for reach in [Reach::Public, Reach::Private, Reach::Local] {
                assert!(reach.check(address).is_err(), "{never} {reach:?}");
            }
        }
        for local in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            let address: IpAddr = local.parse().unwrap();
            assert!(Reach::Private.check(address).is_err(), "{local}");
            assert!(Reach::Local.check(address).is_ok(), "{local}");
        }
        for private in ["10.0.0.1", "172.16.0.1", "192.168.1.1", "fd12::1"] {
            let address: IpAddr = private.parse().unwrap();
            assert!(Reach::Public.check(address).is_err(), "{private}");
            assert!(Reach::Private.check(address).is_ok(), "{private}");
        }
        for public in ["1.1.1.1", "172.15.0.1", "172.32.0.1", "2606:4700::1111"] {
            assert!(Reach::Public.check(public.parse().unwrap()).is_ok(), "{public}");
        }
    }

    #[test]
    fn a_literal_address_is_checked_however_it_is_written() {
        for address in [
            "http://169.254.169.254/",
            "http://0xa9fea9fe/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://2852039166/",
        ] {
            let error = Reach::Local.check_url(&Url::parse(address).unwrap()).unwrap_err();
            assert_eq!(error.cause, Cause::Refused, "{address}");
        }
        for address in ["http://127.1/", "http://0x7f.0.0.1/", "http://[::1]/"] {
            assert!(Reach::Private.check_url(&Url::parse(address).unwrap()).is_err(), "{address}");
        }
    }
}
