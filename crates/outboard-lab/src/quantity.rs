// SPDX-License-Identifier: GPL-2.0-only
//! Numbers with units: times, shares, rates, sizes. The error of a text that is no such value names
//! the units and the range.

use outboard_error::size::parse_length;
use std::time::Duration;

/// The longest time that a file may name.
const LONGEST: f64 = 3600.0;
/// The largest size that a file may name.
const LARGEST: u64 = 1_000_000_000_000;

/// A value, or what to write instead.
pub type ParseResult<T> = std::result::Result<T, String>;

/// A number and the unit behind it.
fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let end = text
        .find(|character: char| !character.is_ascii_digit() && character != '.')
        .unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    Some((number, text[end..].trim()))
}

/// A time, as in `50ms`, `1.5 s`, `20 us`. At most an hour.
pub fn time(text: &str) -> ParseResult<Duration> {
    let seconds = split(text).and_then(|(number, unit)| match unit {
        "us" => Some(number * 1e-6),
        "ms" => Some(number * 1e-3),
        "s" => Some(number),
        "min" => Some(number * 60.0),
        _ => None,
    });
    let seconds = seconds.filter(|seconds| *seconds <= LONGEST);
    let hint = "write a time with us, ms, s or min, as 50ms; the longest is 60min";
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| hint.to_owned())
}

/// A share of 0 to 1, as in `5%` or `0.05`.
pub fn share(text: &str) -> ParseResult<f64> {
    let share = split(text).and_then(|(number, unit)| match unit {
        "%" => Some(number / 100.0),
        "" => Some(number),
        _ => None,
    });
    let share = share.filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| "write a share of 0% to 100%, as 5% or 0.05".to_owned())
}

/// Bits per second, as in `10 Mbit/s`.
pub fn rate(text: &str) -> ParseResult<f64> {
    let rate = split(text).and_then(|(number, unit)| {
        let factor = match unit.strip_suffix("/s").unwrap_or(unit) {
            "bit" => 1.0,
            "kbit" => 1e3,
            "Mbit" => 1e6,
            "Gbit" => 1e9,
            _ => return None,
        };
        Some(number * factor)
    });
    let rate = rate.filter(|rate| (8.0..=1e12).contains(rate));
    let hint = "write a rate with bit/s, kbit/s, Mbit/s or Gbit/s, of 8 bit/s to 1000 Gbit/s";
    rate.ok_or_else(|| hint.to_owned())
}

/// Bytes, as in `10 MB` or `1500`, in the notation of all sizes.
pub fn size(text: &str) -> ParseResult<u64> {
    match parse_length(text)? {
        size if size <= LARGEST => Ok(size),
        _ => Err("the largest size is 1000 GB".to_owned()),
    }
}

/// A number of `least` to `most`.
pub fn number(least: u64, most: u64) -> impl Fn(&str) -> ParseResult<u64> {
    move |text| {
        let number = text.parse().ok();
        let number = number.filter(|number| (least..=most).contains(number));
        number.ok_or_else(|| format!("write a whole number of {least} to {most}"))
    }
}

/// Bits per second, for people.
pub fn shown_rate(rate: f64) -> String {
    match rate {
        _ if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        _ if rate >= 1e6 => format!("{:.2} Mbit/s", rate / 1e6),
        _ => format!("{:.2} kbit/s", rate / 1e3),
    }
}

/// A time in seconds, for people.
pub fn shown_time(seconds: f64) -> String {
    match seconds {
        _ if seconds >= 1.0 => format!("{seconds:.2} s"),
        _ if seconds >= 1e-3 => format!("{:.2} ms", seconds * 1e3),
        _ => format!("{:.0} us", seconds * 1e6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn units() {
        assert_eq!(time("50ms"), Ok(Duration::from_millis(50)));
        assert_eq!(time("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(time("20us"), Ok(Duration::from_micros(20)));
        assert_eq!(time("2 min"), Ok(Duration::from_secs(120)));
        assert_eq!(share("5%"), Ok(0.05));
        assert_eq!(share("0.05"), Ok(0.05));
        for (text, wanted) in [
            ("80 bit/s", 80.0),
            ("80 kbit/s", 80e3),
            ("80 kbit", 80e3),
            ("0.5 Mbit/s", 500e3),
            ("80Gbit/s", 80e9),
        ] {
            assert_eq!(rate(text), Ok(wanted), "{text}");
        }
        for (text, wanted) in [
            ("10", 10),
            ("10 B", 10),
            ("10 kB", 10_000),
            ("10K", 10 << 10),
            ("10 MB", 10_000_000),
            ("10 GB", 10_000_000_000),
            ("10KiB", 10 << 10),
            ("10 MiB", 10 << 20),
        ] {
            assert_eq!(size(text), Ok(wanted), "{text}");
        }
        assert_eq!(number(1, 5)("5"), Ok(5));
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "5",
            "-1s",
            "1h",
            "1.2.3s",
            "inf s",
            "1e9s",
            "99999999999s",
            "NaN",
        ] {
            assert!(
                time(text).unwrap_err().contains("us, ms, s or min"),
                "{text}"
            );
        }
        for text in ["101%", "-5%", "2", "x"] {
            assert!(share(text).unwrap_err().contains("0% to 100%"), "{text}");
        }
        for text in ["10", "0 bit/s", "9999 Gbit/s"] {
            assert!(
                rate(text).unwrap_err().contains("8 bit/s to 1000 Gbit/s"),
                "{text}"
            );
        }
        assert!(size("9999 GB").unwrap_err().contains("1000 GB"));
        assert!(size("1.5 GiB").unwrap_err().contains("write 1536M"));
        assert!(size("10 MBit").unwrap_err().contains("KB, MB, GB, TB"));
        assert!(number(1, 5)("6").unwrap_err().ends_with("1 to 5"));
    }
}
