//! Resource amounts in canonical form: `1000m` is `1`, `1024Mi` is `1Gi`, `0.5` is `500m`.

/// The canonical text of an amount; `None` if it is not one.
pub(crate) fn canonical(text: &str) -> Option<String> {
    let text = text.trim();
    let (negative, rest) = match text.strip_prefix('-') {
        Some(r) => (true, r),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let split = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
    let (number, suffix) = rest.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if (whole.is_empty() && fraction.is_empty()) || fraction.contains('.') {
        return None;
    }
    let digits = format!("{whole}{fraction}");
    let mantissa: i128 = digits.parse().ok()?;
    let scale = -(fraction.len() as i32);
    let sign = if negative && mantissa != 0 { "-" } else { "" };
    if let Some(power) = binary_power(suffix) {
        // value = mantissa * 10^scale * 2^power
        let value = mantissa.checked_mul(1i128 << power)?;
        let unit = 10i128.checked_pow(fraction.len() as u32)?;
        if value % unit != 0 || value / unit == 0 {
            // Not a whole number of units: written in decimal.
            return Some(format!("{sign}{}", decimal(value, scale)));
        }
        let mut value = value / unit;
        let mut power = 0;
        while power < 60 && value % 1024 == 0 {
            value /= 1024;
            power += 10;
        }
        let suffix = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"][power / 10];
        return Some(format!("{sign}{value}{suffix}"));
    }
    let (exponent, scientific) = match suffix {
        "n" => (-9, false),
        "u" => (-6, false),
        "m" => (-3, false),
        "" => (0, false),
        "k" => (3, false),
        "M" => (6, false),
        "G" => (9, false),
        "T" => (12, false),
        "P" => (15, false),
        "E" => (18, false),
        s => (s.strip_prefix(['e', 'E'])?.parse::<i32>().ok()?, true),
    };
    if scientific {
        let (value, exp) = reduce(mantissa, scale + exponent);
        let suffix = if exp == 0 { String::new() } else { format!("e{exp}") };
        return Some(format!("{sign}{value}{suffix}"));
    }
    Some(format!("{sign}{}", decimal(mantissa, scale + exponent)))
}

fn binary_power(suffix: &str) -> Option<u32> {
    Some(match suffix {
        "Ki" => 10,
        "Mi" => 20,
        "Gi" => 30,
        "Ti" => 40,
        "Pi" => 50,
        "Ei" => 60,
        _ => return None,
    })
}

/// Brings `mantissa * 10^exponent` to an exponent that is a multiple of three, as large as exactness allows.
fn reduce(mut mantissa: i128, mut exponent: i32) -> (i128, i32) {
    if mantissa == 0 {
        return (0, 0);
    }
    while mantissa % 10 == 0 {
        mantissa /= 10;
        exponent += 1;
    }
    while exponent.rem_euclid(3) != 0 {
        mantissa *= 10;
        exponent -= 1;
    }
    while exponent > 18 {
        mantissa *= 1000;
        exponent -= 3;
    }
    // Nothing smaller than a nano exists; the rest is rounded up.
    while exponent < -9 {
        mantissa = (mantissa + 999) / 1000;
        exponent += 3;
    }
    (mantissa, exponent)
}

fn decimal(mantissa: i128, exponent: i32) -> String {
    let (value, exp) = reduce(mantissa, exponent);
    let suffix = match exp {
        -9 => "n",
        -6 => "u",
        -3 => "m",
        3 => "k",
        6 => "M",
        9 => "G",
        12 => "T",
        15 => "P",
        18 => "E",
        _ => "",
    };
    format!("{value}{suffix}")
}

#[cfg(test)]
mod tests {
    use super::canonical;

    #[test]
    fn amounts_take_their_canonical_form() {
        for (given, wanted) in [
            ("1000m", "1"),
            ("0.5", "500m"),
            ("1024Mi", "1Gi"),
            ("100Mi", "100Mi"),
            ("1.5Gi", "1536Mi"),
            ("0", "0"),
            ("1e3", "1e3"),
            ("1000", "1k"),
            ("1500", "1500"),
            ("-2000m", "-2"),
            ("128974848", "128974848"),
            ("0.1Ki", "102400m"),
        ] {
            assert_eq!(canonical(given).as_deref(), Some(wanted), "{given}");
        }
        for bad in ["", "abc", "1.2.3", "1Kb", "Mi"] {
            assert_eq!(canonical(bad), None, "{bad}");
        }
    }
}
