//! The formats that schemas of drafts 4 to 7 assert.

use plural_gotemplate::funcs::go_regex;

/// Whether a text has a format; unknown formats are not checked.
pub(super) fn check(name: &str, text: &str) -> Result<(), String> {
    let ok = |fine: bool, problem: &str| if fine { Ok(()) } else { Err(problem.to_owned()) };
    match name {
        "regex" => go_regex(text).map(|_| ()),
        "ipv4" => ok(text.parse::<std::net::Ipv4Addr>().is_ok(), "expected four decimals"),
        "ipv6" => ok(text.parse::<std::net::Ipv6Addr>().is_ok(), "not an ipv6 address"),
        "hostname" => ok(is_hostname(text), "not a hostname"),
        "email" => ok(is_email(text), "missing @"),
        "uri" => ok(is_uri(text), "relative url"),
        "date" => ok(is_date(text), "must be 10 characters long"),
        "date-time" => ok(is_date_time(text), "not a date-time"),
        "uuid" => ok(is_uuid(text), "must be 36 characters long"),
        _ => Ok(()),
    }
}

fn is_hostname(text: &str) -> bool {
    let text = text.strip_suffix('.').unwrap_or(text);
    !text.is_empty()
        && text.len() <= 253
        && text.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && !label.starts_with('-')
                && !label.ends_with('-')
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
        })
}

fn is_email(text: &str) -> bool {
    text.len() <= 254
        && text.rsplit_once('@').is_some_and(|(local, domain)| {
            (1..=64).contains(&local.len()) && is_hostname(domain.trim_matches(['[', ']']))
        })
}

fn is_uri(text: &str) -> bool {
    let Some((scheme, _)) = text.split_once(':') else { return false };
    scheme.starts_with(|c: char| c.is_ascii_alphabetic())
        && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'))
        && !text.bytes().any(|b| b <= b' ' || b == 0x7F)
}

fn is_date(text: &str) -> bool {
    chrono::NaiveDate::parse_from_str(text, "%Y-%m-%d").is_ok() && text.len() == 10
}

fn is_date_time(text: &str) -> bool {
    chrono::DateTime::parse_from_rfc3339(text).is_ok()
}

fn is_uuid(text: &str) -> bool {
    text.len() == 36
        && text.bytes().enumerate().all(|(at, b)| match at {
            8 | 13 | 18 | 23 => b == b'-',
            _ => b.is_ascii_hexdigit(),
        })
}
