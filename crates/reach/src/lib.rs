//! Which addresses the console connects to on behalf of others: [`Reach`], and names that are looked up once and checked:
//! [`Guard`]. With the feature `http` a guard is the resolver of an HTTP client.

#[cfg(feature = "http")]
mod http;

use std::{
    fmt, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::Arc,
};

use async_trait::async_trait;

/// How far requests may go. Whoever may name a repository chooses where the console connects to, so places that are only
/// meant for the console's own machine are out of reach unless the operator says otherwise.
///
/// Link-local addresses, the clouds' metadata services, multicast and reserved addresses are refused in every case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
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

    /// Whether this is an address of the internet, about which anybody may learn what he likes.
    pub fn is_public(address: IpAddr) -> bool {
        matches!(class(address), Class::Public)
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

/// A host that is not connected to.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{host} {why}, which this console does not connect to")]
pub struct OutOfReach {
    /// The host as it was named.
    pub host: String,
    /// What its address is, as "is …".
    pub why: &'static str,
}

/// Why a host has no address to connect to.
#[derive(Debug, thiserror::Error)]
pub enum NoAddress {
    /// It has addresses, and none of them is in reach.
    #[error(transparent)]
    OutOfReach(#[from] OutOfReach),
    /// The name could not be looked up.
    #[error("cannot look up the host")]
    Lookup(#[source] io::Error),
}

/// Looks names up and lets through what is in reach. Who connects to what it returns, without looking the name up again,
/// cannot be led elsewhere by a name that changes its mind.
#[derive(Clone)]
pub struct Guard {
    /// How far.
    pub reach: Reach,
    /// Finds the addresses.
    pub lookup: Arc<dyn Lookup>,
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").field("reach", &self.reach).finish_non_exhaustive()
    }
}

impl Guard {
    /// This reach, with the system's resolver.
    pub fn new(reach: Reach) -> Self {
        Self { reach, lookup: Arc::new(SystemLookup) }
    }

    /// The addresses of a host that are in reach, never none. An IPv6 address may be in brackets.
    ///
    /// # Errors
    /// [`NoAddress::OutOfReach`] when the host has addresses, and all of them are out of reach.
    pub async fn addresses(&self, host: &str) -> Result<Vec<IpAddr>, NoAddress> {
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let found = match bare.parse::<IpAddr>() {
            Ok(address) => vec![address],
            Err(_) => self.lookup.lookup(bare).await.map_err(NoAddress::Lookup)?,
        };
        let mut allowed = Vec::new();
        let mut refused = None;
        for address in found {
            match self.reach.check(address) {
                Ok(()) => allowed.push(address),
                Err(why) => refused = Some(why),
            }
        }
        match (allowed.is_empty(), refused) {
            (false, _) => Ok(allowed),
            (true, Some(why)) => Err(OutOfReach { host: host.to_owned(), why }.into()),
            (true, None) => {
                Err(NoAddress::Lookup(io::Error::new(io::ErrorKind::NotFound, "the name has no address")))
            }
        }
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

    struct Names(Vec<IpAddr>);

    #[async_trait]
    impl Lookup for Names {
        async fn lookup(&self, _host: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.clone())
        }
    }

    #[tokio::test]
    async fn only_what_is_in_reach_is_let_through() {
        let guard = |addresses: &[&str]| Guard {
            reach: Reach::Private,
            lookup: Arc::new(Names(addresses.iter().map(|text| text.parse().unwrap()).collect())),
        };
        let mixed = guard(&["127.0.0.1", "10.0.0.1", "169.254.169.254"]);
        assert_eq!(mixed.addresses("h").await.unwrap(), ["10.0.0.1".parse::<IpAddr>().unwrap()]);
        for bad in ["127.0.0.1", "::1", "::ffff:127.0.0.1", "169.254.169.254"] {
            let error = guard(&[bad]).addresses("name.example").await.unwrap_err();
            assert!(matches!(&error, NoAddress::OutOfReach(out) if out.host == "name.example"), "{error}");
            // A literal address is checked without being looked up.
            let error = guard(&["1.1.1.1"]).addresses(bad).await.unwrap_err();
            assert!(matches!(error, NoAddress::OutOfReach(_)), "{bad}");
        }
        assert!(matches!(guard(&["1.1.1.1"]).addresses("[::1]").await, Err(NoAddress::OutOfReach(_))));
        assert!(matches!(guard(&[]).addresses("h").await, Err(NoAddress::Lookup(_))));
    }
}
