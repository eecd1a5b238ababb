//! One-time codes of an authenticator app: TOTP as in [RFC 6238](https://www.rfc-editor.org/rfc/rfc6238), with what all apps know:
//! SHA-1, six digits, thirty seconds.

use chrono::{DateTime, Utc};
use ring::hmac;

/// Bytes of a secret, as RFC 4226 recommends for SHA-1.
pub const SECRET_BYTES: usize = 20;
/// Codes for those who have lost their app.
pub const RECOVERY_CODES: usize = 10;
/// Seconds of a step.
const STEP: i64 = 30;
/// Steps before and after the present one that count: clocks differ, and people type.
const SLACK: i64 = 1;
/// What is left of a number for six digits.
const DIGITS: u32 = 1_000_000;

/// The code of one step of thirty seconds since 1970, as an app shows it.
pub fn code_at(secret: &[u8], step: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let bytes = tag.as_ref();
    let at = usize::from(bytes.last().copied().unwrap_or_default() & 0xf);
    let number = bytes.iter().skip(at).take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    format!("{:06}", (number & 0x7fff_ffff) % DIGITS)
}

/// The step whose code this is, if it is one of about now and comes after `last`: each counts once.
pub fn accepted(secret: &[u8], code: &str, last: i64, now: DateTime<Utc>) -> Option<i64> {
    let present = now.timestamp().div_euclid(STEP);
    let code: String = code.chars().filter(|c| !c.is_whitespace()).collect();
    let mut steps = (present - SLACK..=present + SLACK).filter(|step| *step > last);
    steps.find(|step| {
        let expected = code_at(secret, *step);
        // Every digit is looked at, wherever the first wrong one is.
        let pairs = expected.bytes().zip(code.bytes());
        expected.len() == code.len() && pairs.fold(0, |all, (a, b)| all | (a ^ b)) == 0
    })
}

/// A secret as people type it into an app: base32 without padding (RFC 4648).
pub fn base32(secret: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let mut text = String::new();
    let (mut held, mut bits) = (0_u32, 0_u32);
    let mut letter = |number: u32| text.push(char::from(LETTERS[(number & 31) as usize]));
    for byte in secret {
        held = held << 8 | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            letter(held >> bits);
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        letter(held << (5 - bits));
    }
    text
}

/// The address that an app reads from a picture or a link.
pub fn app_address(secret: &[u8], email: &str) -> String {
    let label: String = url::form_urlencoded::byte_serialize(email.as_bytes()).collect();
    format!(
        "otpauth://totp/Plural:{label}?secret={}&issuer=Plural&algorithm=SHA1&digits=6&period=30",
        base32(secret)
    )
}

#[cfg(test)]
mod tests {
    use chrono::TimeZone as _;

    use super::*;

    const SECRET: &[u8] = b"12345678901234567890";

    fn at(seconds: i64) -> DateTime<Utc> {
        Utc.timestamp_opt(seconds, 0).unwrap()
    }

    #[test]
    fn codes_are_those_of_the_rfc() {
        // Appendix B of RFC 6238, its last six digits.
        for (seconds, expected) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code_at(SECRET, seconds / STEP), expected, "{seconds}");
        }
    }

    #[test]
    fn a_code_counts_once_and_about_now() {
        let now = at(1_111_111_111);
        let step = accepted(SECRET, "050 471", 0, now).unwrap();
        assert_eq!(step, 1_111_111_111 / STEP);
        assert_eq!(accepted(SECRET, "050471", step, now), None, "it was used");
        assert_eq!(accepted(SECRET, "050471", 0, at(1_111_111_111 + 31)), Some(step), "a slow person");
        assert_eq!(accepted(SECRET, "050471", 0, at(1_111_111_111 + 91)), None);
        assert_eq!(accepted(SECRET, "050471", 0, at(1_111_111_111 - 91)), None);
        for code in ["", "050470", "5047", "0504711", "abcdef", "０５０４７１"] {
            assert_eq!(accepted(SECRET, code, 0, now), None, "{code}");
        }
    }

    #[test]
    fn secrets_are_typed_in_base32() {
        // RFC 4648, without the padding.
        for (bytes, expected) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(base32(bytes.as_bytes()), expected);
        }
        let address = app_address(SECRET, "ada+x@example.com");
        assert!(
            address.starts_with("otpauth://totp/Plural:ada%2Bx%40example.com?secret=GEZDGNBV"),
            "{address}"
        );
    }
}
