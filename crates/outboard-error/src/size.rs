// SPDX-License-Identifier: GPL-2.0-only
//! Sizes as users write them, in the notation of coreutils: `4096`, `512M`, `10 MB`, `1GiB`.
//!
//! | unit | bytes |
//! |---|---|
//! | none, `B` | 1 |
//! | `K`, `M`, `G`, `T`, also `KiB`... | powers of 1024 |
//! | `KB`, `MB`, `GB`, `TB` | powers of 1000 |
//!
//! The letters K, M, G, T may be small. A blank may stand before the unit.

/// The letters of units, from the smallest.
const LETTERS: &str = "KMGT";

/// So many bytes: a power of 1024 or 1000.
#[derive(Clone, Copy)]
struct Unit {
    base: u64,
    exponent: u32,
}

impl Unit {
    fn find(text: &str) -> Option<Self> {
        if matches!(text, "" | "B") {
            return Some(Self {
                base: 1024,
                exponent: 0,
            });
        }
        let mut characters = text.chars();
        let letter = characters.next()?.to_ascii_uppercase();
        let exponent = LETTERS.find(letter)? as u32 + 1;
        let base = match characters.as_str() {
            "" | "iB" => 1024,
            "B" => 1000,
            _ => return None,
        };
        Some(Self { base, exponent })
    }

    fn bytes(self) -> u64 {
        self.base.pow(self.exponent)
    }

    /// The next smaller unit, and its name.
    fn smaller(self) -> (u64, String) {
        let exponent = self.exponent.saturating_sub(1);
        let letter = |exponent: u32| LETTERS.chars().nth(exponent as usize - 1);
        let name = match (exponent, self.base) {
            (0, _) => String::new(),
            (exponent, 1000) => letter(exponent).into_iter().chain(['B']).collect(),
            (exponent, _) => letter(exponent).into_iter().collect(),
        };
        (self.base.pow(exponent), name)
    }
}

/// Splits "512M" at its unit.
fn split_unit(text: &str) -> Option<(&str, Unit)> {
    let digits = text.trim_end_matches(|c: char| !c.is_ascii_digit());
    let unit = Unit::find(text[digits.len()..].trim_start_matches(' '))?;
    Some((digits, unit))
}

/// A size of at least one byte, such as "512M", in bytes. The error says what to write.
pub fn parse_size(text: &str) -> Result<u64, String> {
    match parse_length(text)? {
        0 => Err("a size is at least 1 byte, as in 512M or 2G".to_owned()),
        size => Ok(size),
    }
}

/// As [`parse_size`]; 0 is a length, too.
pub fn parse_length(text: &str) -> Result<u64, String> {
    let number = split_unit(text).and_then(|(digits, unit)| {
        let whole = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        whole.then(|| digits.parse::<u64>().ok()?.checked_mul(unit.bytes()))
    });
    match number {
        Some(Some(bytes)) => Ok(bytes),
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
        None => format!(
            "\"{text}\" is not a size such as 512M or 2G (units: K, M, G, T are powers of 1024, \
             KB, MB, GB, TB powers of 1000)"
        ),
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
    let digits = [whole, part].concat();
    let good = !part.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let scale = 10u128.checked_pow(u32::try_from(part.len()).ok()?)?;
    let value = digits.parse::<u64>().ok().filter(|_| good)?;
    let bytes = (u128::from(value) * u128::from(unit.bytes())).div_ceil(scale);
    let (smaller, name) = unit.smaller();
    Some(format!("{}{name}", bytes.div_ceil(u128::from(smaller))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units_of_coreutils() {
        for (text, bytes) in [
            ("4096", 4096),
            ("10B", 10),
            ("512M", 512 << 20),
            ("2g", 2 << 30),
            ("3T", 3 << 40),
            ("1KiB", 1024),
            ("10 MiB", 10 << 20),
            ("10KB", 10_000),
            ("10kB", 10_000),
            ("10 MB", 10_000_000),
            ("2GB", 2_000_000_000),
            ("1TB", 1_000_000_000_000),
            ("16777215T", 16_777_215 << 40),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text}");
        }
        assert_eq!(parse_length("0"), Ok(0));
    }

    /// Nothing is read in part.
    #[test]
    fn other_texts_are_refused() {
        for bad in [
            "",
            "M",
            "0",
            "12x",
            "1X",
            "-1",
            "+1",
            "1.5G",
            "10mb",
            "10Kib",
            "10Mbit",
            "1 2",
            "1M ",
            " 1",
            "1\tM",
            "1\u{a0}M",
            "99999999999999G",
            "infinity",
            "1e3",
        ] {
            assert!(parse_size(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn wrong_sizes_say_what_to_write() {
        for (text, say) in [
            ("1.5G", "write 1536M"),
            ("1.5 GiB", "write 1536M"),
            ("1.5GB", "write 1500MB"),
            ("1.5KB", "write 1500"),
            ("0,3T", "write 308G"),
            ("1.25M", "write 1280K"),
            ("2.5K", "write 2560"),
            ("2.5", "write 3"),
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
    }
}
