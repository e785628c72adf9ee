// SPDX-License-Identifier: GPL-2.0-only
//! Numbers with units: times, shares, rates, sizes. Each function returns `None` for a text that is
//! no such value.

use std::time::Duration;

/// The longest time that a file may name.
const LONGEST: f64 = 3600.0;

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
pub fn time(text: &str) -> Option<Duration> {
    let (number, unit) = split(text)?;
    let seconds = match unit {
        "us" => number * 1e-6,
        "ms" => number * 1e-3,
        "s" => number,
        "min" => number * 60.0,
        _ => return None,
    };
    (seconds <= LONGEST).then(|| Duration::from_secs_f64(seconds))
}

/// A share of 0 to 1, as in `5%` or `0.05`.
pub fn share(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let share = match unit {
        "%" => number / 100.0,
        "" => number,
        _ => return None,
    };
    (0.0..=1.0).contains(&share).then_some(share)
}

/// Bits per second, as in `10 Mbit/s`.
pub fn rate(text: &str) -> Option<f64> {
    let (number, unit) = split(text)?;
    let factor = match unit.strip_suffix("/s").unwrap_or(unit) {
        "bit" => 1.0,
        "kbit" => 1e3,
        "Mbit" => 1e6,
        "Gbit" => 1e9,
        _ => return None,
    };
    let rate = number * factor;
    (8.0..=1e12).contains(&rate).then_some(rate)
}

/// Bytes, as in `10 MB` or `1500`.
pub fn size(text: &str) -> Option<u64> {
    let (number, unit) = split(text)?;
    let factor = match unit {
        "" | "B" => 1.0,
        "kB" => 1e3,
        "MB" => 1e6,
        "GB" => 1e9,
        "KiB" => 1024.0,
        "MiB" => 1048576.0,
        "GiB" => 1073741824.0,
        _ => return None,
    };
    let size = number * factor;
    (size <= 1e12).then_some(size as u64)
}

/// A number of `least` to `most`.
pub fn number(least: u64, most: u64) -> impl Fn(&str) -> Option<u64> {
    move |text| {
        let number = text.parse().ok()?;
        (least..=most).contains(&number).then_some(number)
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
        assert_eq!(time("50ms"), Some(Duration::from_millis(50)));
        assert_eq!(time("1.5 s"), Some(Duration::from_millis(1500)));
        assert_eq!(share("5%"), Some(0.05));
        assert_eq!(rate("10 Mbit/s"), Some(1e7));
        assert_eq!(size("10 MB"), Some(10_000_000));
        assert_eq!(number(1, 5)("5"), Some(5));
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
            assert_eq!(time(text), None, "{text}");
        }
        for text in ["101%", "-5%", "2", "x"] {
            assert_eq!(share(text), None, "{text}");
        }
        for text in ["10", "0 bit/s", "9999 Gbit/s"] {
            assert_eq!(rate(text), None, "{text}");
        }
        assert_eq!(size("9999 GB"), None);
        assert_eq!(number(1, 5)("6"), None);
    }
}
