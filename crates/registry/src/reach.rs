//! Which literal addresses are talked to: [`Reach`].

use plural_reach::Reach;
use reqwest::Url;

use crate::{
    access::shown,
    error::{Cause, Error, Result},
};

/// Checks a literal address in a URL, which is connected to without being looked up.
pub(crate) fn check_url(reach: Reach, url: &Url) -> Result<()> {
    let host = url.host_str().unwrap_or_default().trim_start_matches('[').trim_end_matches(']');
    match host.parse() {
        Ok(address) => reach.check(address).map_err(|why| {
            Error::new(
                Cause::Refused,
                format!("{} {why}, which this console does not connect to", shown(url)),
            )
        }),
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_address_is_checked_however_it_is_written() {
        for address in [
            "http://169.254.169.254/",
            "http://0xa9fea9fe/",
            "http://[::ffff:a9fe:a9fe]/",
            "http://2852039166/",
        ] {
            let error = check_url(Reach::Local, &Url::parse(address).unwrap()).unwrap_err();
            assert_eq!(error.cause, Cause::Refused, "{address}");
        }
        for address in ["http://127.1/", "http://0x7f.0.0.1/", "http://[::1]/"] {
            assert!(check_url(Reach::Private, &Url::parse(address).unwrap()).is_err(), "{address}");
        }
    }
}
