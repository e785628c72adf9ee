// SPDX-License-Identifier: GPL-2.0-only
//! Sizes as users write them.

/// Splits "512M" at its unit, and finds the unit's bytes. Units are powers of 1024.
fn split_unit(text: &str) -> Option<(&str, u64)> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let shift = match text[digits.len()..].to_ascii_uppercase().as_str() {
        "" | "B" => 0,
        "K" | "KB" | "KIB" => 10,
        "M" | "MB" | "MIB" => 20,
        "G" | "GB" | "GIB" => 30,
        "T" | "TB" | "TIB" => 40,
        _ => return None,
    };
    Some((digits, 1 << shift))
}

/// "512M" in bytes.
pub fn parse_size(text: &str) -> Result<u64, String> {
    let number = split_unit(text).and_then(|(digits, unit)| {
        let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        whole.then(|| digits.parse::<u64>().ok()?.checked_mul(unit))
    });
    match number {
        Some(Some(bytes)) if bytes > 0 => Ok(bytes),
        Some(Some(_)) => Err("a size is at least 1 byte, as in 512M or 2G".to_owned()),
        Some(None) => Err(format!("\"{text}\" is too large: at most 16777215T")),
        None => Err(wrong_size(text)),
    }
}

/// Why a text is no size, and what to write for it.
fn wrong_size(text: &str) -> String {
    if let Some(bytes) = hexadecimal(text) {
        return format!("\"{text}\" is hexadecimal, but a size is a decimal number: write {bytes}");
    }
    match without_fraction(text) {
        Some(size) => {
            format!("\"{text}\" has a fraction, but a size is a whole number: write {size}")
        }
        None => format!("\"{text}\" is not a size such as 512M or 2G (units: K, M, G, T)"),
    }
}

fn hexadecimal(text: &str) -> Option<u64> {
    let digits = text
        .strip_prefix("0x")
        .or_else(|| text.strip_prefix("0X"))?;
    u64::from_str_radix(digits, 16)
        .ok()
        .filter(|_| !digits.starts_with('+'))
}

/// "1536M" for "1.5G", rounded up.
fn without_fraction(text: &str) -> Option<String> {
    let (number, unit) = split_unit(text)?;
    let (whole, part) = number.split_once(['.', ','])?;
    let (smaller, name) = match unit.ilog2() {
        40 => (1 << 30, "G"),
        30 => (1 << 20, "M"),
        20 => (1 << 10, "K"),
        _ => (1u128, ""),
    };
    let digits = [whole, part].concat();
    let good = !part.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let scale = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let value = digits.parse::<u64>().ok().filter(|_| good)?;
    let bytes = (u128::from(value) * u128::from(unit)).div_ceil(scale);
    Some(format!("{}{name}", bytes.div_ceil(smaller)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("512M"), Ok(512 << 20));
        assert_eq!(parse_size("2g"), Ok(2 << 30));
        assert_eq!(parse_size("4096"), Ok(4096));
        for bad in ["", "M", "0", "1X", "-1", "+1", "1.5G", "99999999999999G"] {
            assert!(parse_size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn wrong_sizes_say_what_to_write() {
        for (text, say) in [
            ("1.5G", "write 1536M"),
            ("0,3T", "write 308G"),
            ("1.25M", "write 1280K"),
            ("2.5K", "write 2560"),
            ("0x100", "write 256"),
            ("0XfF", "write 255"),
            ("1.5.5G", "is not a size"),
            (".G", "is not a size"),
            ("1.", "is not a size"),
            ("0x+1", "is not a size"),
            ("0xffffffffffffffffff", "is not a size"),
            (
                "1.99999999999999999999999999999999999999999G",
                "is not a size",
            ),
            ("5P", "units: K, M, G, T"),
            ("0", "at least 1 byte"),
            ("16777216T", "at most 16777215T"),
        ] {
            let error = parse_size(text).unwrap_err();
            assert!(error.contains(say), "{text}: {error}");
        }
        assert_eq!(parse_size("16777215T"), Ok(16_777_215 << 40));
    }
}
