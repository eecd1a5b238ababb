//! Where a service is asked: at its own hosts, or where the operator says.

use std::net::IpAddr;

use plural_reach::Reach;
use reqwest::Url;

use crate::{BadPlace, Options, bad, http::Http};

/// A service, and the client that asks it.
pub(crate) struct Endpoint {
    pub(crate) url: Url,
    pub(crate) http: Http,
}

impl Endpoint {
    /// The host of a cloud, or the one that the option `name` has: a private endpoint. `https`, and not the address of a metadata service.
    pub(crate) fn of(host: &str, name: &str, options: &Options) -> Result<Self, BadPlace> {
        let url = address(options.get(name).unwrap_or(&format!("https://{host}/")))?;
        if url.path() != "/" || url.query().is_some() {
            return Err(bad(&format!("{name} is a host without a path: https://HOST")));
        }
        let reach = if is_here(&url) { Reach::Local } else { Reach::Private };
        Self::at(url, reach, options)
    }

    /// This address.
    pub(crate) fn at(url: Url, reach: Reach, options: &Options) -> Result<Self, BadPlace> {
        // A name is checked when it is looked up, a literal address here.
        if let Some(address) = literal(&url)
            && let Err(why) = reach.check(address)
        {
            return Err(bad(&format!("{address} {why}, which this console does not connect to")));
        }
        let http = Http::new(options.authorities()?.as_deref(), reach, is_here(&url)).map_err(BadPlace)?;
        Ok(Self { url, http })
    }

    /// `path` there. It has no query.
    pub(crate) fn path(&self, path: &str) -> Url {
        let mut url = self.url.clone();
        url.set_path(path);
        url
    }
}

/// An address that may be asked with a credential: `https://…`, and `http://` on this machine.
pub(crate) fn address(text: &str) -> Result<Url, BadPlace> {
    let url = Url::parse(text).map_err(|_| bad("its address is none"))?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(bad(
            "a credential in an address would be logged; the page on encryption says where it goes",
        ));
    }
    match (url.host_str(), url.scheme()) {
        (None, _) => Err(bad("it has no host")),
        (_, "https") => Ok(url),
        (_, "http") if is_here(&url) => Ok(url),
        _ => Err(bad("only a service on this machine may be asked without TLS")),
    }
}

/// Whether it is on this machine.
pub(crate) fn is_here(url: &Url) -> bool {
    url.host_str() == Some("localhost") || literal(url).is_some_and(|address| address.is_loopback())
}

/// The address, if it is one and no name.
pub(crate) fn literal(url: &Url) -> Option<IpAddr> {
    url.host_str()?.trim_start_matches('[').trim_end_matches(']').parse().ok()
}
