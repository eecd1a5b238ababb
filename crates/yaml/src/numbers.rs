//! Numbers as Go writes and reads them.

/// Go's `strconv.ParseInt(text, base, 64)`; base 0 reads prefixes, `_` between digits included.
pub fn parse_int(text: &str, base: u32) -> Option<i64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let value = parse_uint(digits, base)?;
    if negative {
        (value <= 1 << 63).then(|| (value as i64).wrapping_neg())
    } else {
        i64::try_from(value).ok()
    }
}

/// Go's `strconv.ParseUint(text, base, 64)`.
pub fn parse_uint(text: &str, base: u32) -> Option<u64> {
    let (digits, radix) = if base != 0 {
        (text, base)
    } else if let Some(rest) = text.strip_prefix('0').filter(|rest| !rest.is_empty()) {
        match rest.as_bytes()[0] {
            b'x' | b'X' => (&rest[1..], 16),
            b'b' | b'B' => (&rest[1..], 2),
            b'o' | b'O' => (&rest[1..], 8),
            _ => (rest, 8),
        }
    } else {
        (text, 10)
    };
    if digits.is_empty() || digits.starts_with('+') || digits.starts_with('-') {
        return None;
    }
    if base == 0 && digits.contains('_') {
        let ok =
            !digits.ends_with('_') && !digits.contains("__") && (radix != 10 || !digits.starts_with('_'));
        return ok.then(|| u64::from_str_radix(&digits.replace('_', ""), radix).ok()).flatten();
    }
    u64::from_str_radix(digits, radix).ok()
}

/// Shortest decimal digits and the exponent of the first one: `1.5e3` is ("15", 3).
fn shortest(value: f64) -> (String, i32) {
    split(&format!("{value:e}"))
}

fn split(text: &str) -> (String, i32) {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    (mantissa.replace(['.', '-'], ""), exponent.parse().unwrap_or(0))
}

fn special(value: f64) -> Option<&'static str> {
    if value.is_nan() {
        Some("NaN")
    } else if value == f64::INFINITY {
        Some("+Inf")
    } else if value == f64::NEG_INFINITY {
        Some("-Inf")
    } else {
        None
    }
}

/// Go's `%e` with these digits: at least two digits of exponent.
fn exponent_form(negative: bool, digits: &str, exponent: i32) -> String {
    let sign = if negative { "-" } else { "" };
    let (first, rest) = digits.split_at(1);
    let dot = if rest.is_empty() { "" } else { "." };
    let mark = if exponent < 0 { '-' } else { '+' };
    format!("{sign}{first}{dot}{rest}e{mark}{:02}", exponent.abs())
}

fn plain_form(negative: bool, digits: &str, exponent: i32) -> String {
    let sign = if negative { "-" } else { "" };
    if exponent < 0 {
        let zeros = "0".repeat((-exponent - 1) as usize);
        return format!("{sign}0.{zeros}{digits}");
    }
    let whole = exponent as usize + 1;
    if digits.len() <= whole {
        return format!("{sign}{digits}{}", "0".repeat(whole - digits.len()));
    }
    format!("{sign}{}.{}", &digits[..whole], &digits[whole..])
}

/// Shortest output switches to an exponent at a million and below a ten thousandth.
fn format_g_limit(value: f64, digits: &str, exponent: i32) -> String {
    if (-4..6).contains(&exponent) {
        plain_form(value.is_sign_negative(), digits, exponent)
    } else {
        exponent_form(value.is_sign_negative(), digits, exponent)
    }
}

/// Go's `strconv.FormatFloat(value, 'g', -1, 64)`.
pub fn format_g(value: f64) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let (digits, exponent) = shortest(value);
    format_g_limit(value, &digits, exponent)
}

/// Go's `strconv.FormatFloat(value, 'g', -1, 32)`.
pub fn format_g32(value: f32) -> String {
    if let Some(text) = special(f64::from(value)) {
        return text.to_owned();
    }
    let (digits, exponent) = split(&format!("{value:e}"));
    format_g_limit(f64::from(value), &digits, exponent)
}

/// A float64 as Go's encoding/json writes it; the value is finite.
pub fn format_json(value: f64) -> String {
    let size = value.abs();
    if size > 0.0 && !(1e-6..1e21).contains(&size) {
        let (digits, exponent) = shortest(value);
        let text = exponent_form(value < 0.0, &digits, exponent);
        // e-09 becomes e-9
        if let Some((head, tail)) = text.split_once("e-0") {
            return format!("{head}e-{tail}");
        }
        return text;
    }
    if value.fract() == 0.0 && size < 1e15 {
        if value == 0.0 && value.is_sign_negative() {
            return "-0".to_owned();
        }
        return (value as i64).to_string();
    }
    let (digits, exponent) = shortest(value);
    plain_form(value < 0.0, &digits, exponent)
}

/// Go's `strconv.FormatFloat(value, 'f', precision, 64)`.
pub fn format_f(value: f64, precision: usize) -> String {
    special(value).map_or_else(|| format!("{value:.precision$}"), str::to_owned)
}

/// Go's `strconv.FormatFloat(value, 'e', precision, 64)`.
pub fn format_e(value: f64, precision: usize) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let text = format!("{value:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let mark = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{mark}{:02}", exponent.abs())
}

/// Go's `strconv.FormatFloat(value, 'g', precision, 64)`.
pub fn format_g_digits(value: f64, precision: usize) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let precision = precision.max(1);
    let (digits, exponent) = split(&format!("{value:.*e}", precision - 1));
    let kept = digits.trim_end_matches('0');
    let kept = if kept.is_empty() { "0" } else { kept };
    let mut limit = precision as i32;
    if limit > kept.len() as i32 && kept.len() as i32 > exponent {
        limit = (kept.len() as i32).max(exponent + 1);
    }
    if exponent < -4 || exponent >= limit {
        exponent_form(value.is_sign_negative(), kept, exponent)
    } else {
        plain_form(value.is_sign_negative(), kept, exponent)
    }
}

/// Go's `strconv.FormatFloat(value, 'f', -1, 64)`.
pub fn format_f_shortest(value: f64) -> String {
    if let Some(text) = special(value) {
        return text.to_owned();
    }
    let (digits, exponent) = shortest(value);
    plain_form(value.is_sign_negative(), &digits, exponent)
}

/// Go's `FormatFloat` with `e` and the shortest digits.
pub fn format_e_shortest(value: f64) -> String {
    let (digits, exponent) = shortest(value);
    exponent_form(value.is_sign_negative(), &digits, exponent)
}

/// `%x` of a finite number: `0x1.8p+01`.
pub fn format_hex(value: f64) -> String {
    let bits = value.to_bits();
    let (mut fraction, raw) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7FF) as i32);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    if value == 0.0 {
        return format!("{sign}0x0p+00");
    }
    let mut exponent = raw - 1023;
    if raw == 0 {
        // A number so small that it has no leading one gets one.
        let shift = fraction.leading_zeros() - 11;
        fraction = fraction << shift & ((1 << 52) - 1);
        exponent = -1022 - shift as i32;
    }
    let digits = format!("{fraction:013x}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let direction = if exponent < 0 { '-' } else { '+' };
    format!("{sign}0x1{point}{digits}p{direction}{:02}", exponent.unsigned_abs())
}

/// `%b` of a finite number: its whole mantissa and the power of two, `4503599627370496p-52`.
pub fn format_bits(value: f64) -> String {
    let bits = value.to_bits();
    let (fraction, raw) = (bits & ((1 << 52) - 1), (bits >> 52 & 0x7FF) as i32);
    let sign = if value.is_sign_negative() { "-" } else { "" };
    let (mantissa, exponent) = if raw == 0 { (fraction, -1074) } else { (fraction | 1 << 52, raw - 1075) };
    format!("{sign}{mantissa}p{exponent:+}")
}
