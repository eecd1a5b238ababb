//! From where a request came, also when a proxy passed it on.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use axum::{
    extract::ConnectInfo,
    http::{Extensions, HeaderMap},
};
use ipnet::IpNet;

/// A range of addresses: `10.0.0.0/8`, `2001:db8::/32`, or one address. Bits behind the prefix are ignored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network(IpNet);

/// Text that names no network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkError;

impl fmt::Display for NetworkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("must be an address or a network such as 10.0.0.0/8")
    }
}

impl std::error::Error for NetworkError {}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        // The address is parsed by std: ipnet's own parser takes 010.0.0.0 for 10.0.0.0, which others read as octal.
        let network = match text.trim().split_once('/') {
            None => IpNet::from(text.trim().parse::<IpAddr>().map_err(|_| NetworkError)?),
            Some((address, prefix)) => {
                let address = address.parse::<IpAddr>().map_err(|_| NetworkError)?;
                let prefix = prefix.parse().map_err(|_| NetworkError)?;
                IpNet::new(address, prefix).map_err(|_| NetworkError)?
            }
        };
        Ok(Self(network))
    }
}

impl Network {
    /// Whether an address is in it. An IPv4-mapped IPv6 address counts as the IPv4 address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.contains(&address.to_canonical())
    }
}

/// The address of whoever asked. `X-Forwarded-For` is believed only from proxies that the operator named, from the
/// right end on: what stands further left than an address that is no such proxy may be anybody's invention.
pub fn client_address(extensions: &Extensions, headers: &HeaderMap, trusted: &[Network]) -> Option<IpAddr> {
    let ConnectInfo(peer) = extensions.get::<ConnectInfo<SocketAddr>>()?;
    let mut client = peer.ip().to_canonical();
    let is_trusted = |address: IpAddr| trusted.iter().any(|network| network.contains(address));
    let forwarded = headers.get_all("x-forwarded-for").iter().rev();
    for entry in forwarded.flat_map(|line| line.to_str().unwrap_or_default().rsplit(',')) {
        if !is_trusted(client) {
            break;
        }
        let Ok(before) = entry.trim().parse::<IpAddr>() else { break };
        client = before.to_canonical();
    }
    Some(client)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn client(peer: &str, forwarded: &[&'static str], trusted: &[&str]) -> String {
        let mut extensions = Extensions::new();
        extensions.insert(ConnectInfo(SocketAddr::new(peer.parse().unwrap(), 1)));
        let mut headers = HeaderMap::new();
        for line in forwarded {
            headers.append("x-forwarded-for", HeaderValue::from_static(line));
        }
        let trusted: Vec<Network> = trusted.iter().map(|network| network.parse().unwrap()).collect();
        client_address(&extensions, &headers, &trusted).unwrap().to_string()
    }

    #[test]
    fn networks() {
        let network: Network = "10.1.0.0/16".parse().unwrap();
        assert!(network.contains("10.1.2.3".parse().unwrap()));
        assert!(network.contains("::ffff:10.1.2.3".parse().unwrap()));
        assert!(!network.contains("10.2.0.1".parse().unwrap()));
        assert!(!network.contains("2001:db8::1".parse().unwrap()));
        // Bits behind the prefix are no error, and mean nothing.
        let with_host: Network = "10.1.2.3/16".parse().unwrap();
        assert!(with_host.contains("10.1.255.0".parse().unwrap()));
        assert!(!with_host.contains("10.2.2.3".parse().unwrap()));
        let all: Network = "0.0.0.0/0".parse().unwrap();
        assert!(all.contains("192.0.2.1".parse().unwrap()));
        let one: Network = "2001:db8::1".parse().unwrap();
        assert!(
            one.contains("2001:db8::1".parse().unwrap()) && !one.contains("2001:db8::2".parse().unwrap())
        );
        for wrong in ["", "10.0.0.0/33", "::/129", "example.com", "10.0.0.0/", "10.0.0.0/-1", "010.0.0.0/8"] {
            assert_eq!(wrong.parse::<Network>(), Err(NetworkError), "{wrong}");
        }
    }

    #[test]
    fn only_named_proxies_are_believed() {
        assert_eq!(client("192.0.2.1", &["203.0.113.9"], &[]), "192.0.2.1");
        assert_eq!(client("10.0.0.1", &["203.0.113.9"], &["10.0.0.0/8"]), "203.0.113.9");
        // What a client itself wrote stands further left.
        assert_eq!(client("10.0.0.1", &["198.51.100.1, 203.0.113.9"], &["10.0.0.0/8"]), "203.0.113.9");
        assert_eq!(
            client("10.0.0.1", &["198.51.100.1", "203.0.113.9, 10.0.0.2"], &["10.0.0.0/8"]),
            "203.0.113.9"
        );
        assert_eq!(client("10.0.0.1", &["nonsense"], &["10.0.0.0/8"]), "10.0.0.1");
        assert_eq!(client("10.0.0.1", &[], &["10.0.0.0/8"]), "10.0.0.1");
    }
}
