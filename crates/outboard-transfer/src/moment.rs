// SPDX-License-Identifier: GPL-2.0-only
//! Times on the command line. Without a zone they are UTC, like all times that the program prints.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::Timestamp;
use libc::timespec;

/// Parses "2026-11-21", "2026-11-21 10:20:30.5", the same with a zone as in "+01:00", and
/// "@SECONDS".
pub fn parse_moment(text: &str) -> Result<timespec, String> {
    let wrong = || {
        format!(
            "\"{text}\" is not a time such as 2026-11-21, \"2026-11-21 10:20:30\" or @1700000000"
        )
    };
    let text = text.trim();
    if let Some(seconds) = text.strip_prefix('@') {
        return parse_seconds(seconds).ok_or_else(wrong);
    }
    let compact = without_zone_gap(text);
    let plain = compact.trim_end_matches("UTC").trim_end();
    let local = || -> Option<Timestamp> {
        let moment: DateTime = plain.parse().ok()?;
        TimeZone::UTC.to_timestamp(moment).ok()
    };
    let moment = match compact.parse::<Timestamp>() {
        Ok(moment) => Some(moment),
        Err(_) => local(),
    };
    let nanoseconds = moment.ok_or_else(wrong)?.as_nanosecond();
    from_nanoseconds(nanoseconds).ok_or_else(wrong)
}

/// Whether a file system has kept a modification time. `found`: the stored seconds. FAT stores even
/// seconds only.
pub fn is_kept(wanted: &timespec, found: i64) -> bool {
    is_near(wanted, found, 2)
}

/// The same for an access time, of which FAT stores only the day.
pub fn is_access_kept(wanted: &timespec, found: i64) -> bool {
    is_near(wanted, found, 24 * 3600)
}

fn is_near(wanted: &timespec, found: i64, rounding: u64) -> bool {
    match wanted.tv_nsec {
        libc::UTIME_NOW | libc::UTIME_OMIT => true,
        _ => wanted.tv_sec.abs_diff(found) < rounding,
    }
}

/// The kinds of file systems (statfs) that keep the seconds since 1970 modulo 2^32, and report the
/// requested time until the inode is read again: Linux's HFS and HFS+.
const WRAPPING: [i64; 2] = [0x4244, 0x482b];

/// The seconds that a remount will show for a file that reports `found` now. `kind`: the type of
/// its file system, if that is known.
pub fn stored(found: i64, kind: impl FnOnce() -> Option<i64>) -> i64 {
    if u32::try_from(found).is_ok() || !kind().is_some_and(|kind| WRAPPING.contains(&kind)) {
        return found;
    }
    found.rem_euclid(1 << 32)
}

/// The seconds of SOURCE_DATE_EPOCH, the time in reproducible images.
pub fn source_date() -> Result<Option<i64>, String> {
    let Some(text) = std::env::var_os("SOURCE_DATE_EPOCH") else {
        return Ok(None);
    };
    let number = text.to_str().and_then(|text| text.parse::<u32>().ok());
    match number {
        Some(seconds) => Ok(Some(i64::from(seconds))),
        None => Err("SOURCE_DATE_EPOCH is not a number of seconds since 1970".to_owned()),
    }
}

/// "2026-11-21 10:20 +0100" without the gap before the zone, as `stat` writes it.
fn without_zone_gap(text: &str) -> String {
    match text.rsplit_once(' ') {
        Some((time, zone)) if time.contains(':') && zone.starts_with(['+', '-']) => {
            format!("{}{zone}", time.trim_end())
        }
        _ => text.to_owned(),
    }
}

/// Seconds since 1970, also with a fraction and also negative.
fn parse_seconds(text: &str) -> Option<timespec> {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let digits = part.bytes().all(|byte| byte.is_ascii_digit());
    let seconds: i64 = whole.parse().ok()?;
    if !digits {
        return None;
    }
    let padded = format!("{part:0<9}");
    let nanoseconds: i128 = padded.get(..9)?.parse().ok()?;
    let sign = if whole.starts_with('-') { -1 } else { 1 };
    from_nanoseconds(i128::from(seconds) * 1_000_000_000 + sign * nanoseconds)
}

fn from_nanoseconds(nanoseconds: i128) -> Option<timespec> {
    Some(timespec {
        tv_sec: i64::try_from(nanoseconds.div_euclid(1_000_000_000)).ok()?,
        tv_nsec: nanoseconds.rem_euclid(1_000_000_000) as i64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments() {
        for (text, seconds, nanoseconds) in [
            ("1970-01-02", 86_400, 0),
            ("2001-09-09 01:46", 999_999_960, 0),
            ("2001-09-09 01:46:40", 1_000_000_000, 0),
            ("2001-09-09 01:46:40 UTC", 1_000_000_000, 0),
            ("2001-09-09T01:46:40Z", 1_000_000_000, 0),
            ("2001-09-09 03:46:40.5 +0200", 1_000_000_000, 500_000_000),
            ("2001-09-09T03:46:40+02:00", 1_000_000_000, 0),
            ("@1000000000.25", 1_000_000_000, 250_000_000),
            ("@-1.5", -2, 500_000_000),
            ("1969-12-31 23:59:59.75", -1, 750_000_000),
        ] {
            let moment = parse_moment(text).unwrap();
            assert_eq!(
                (moment.tv_sec, moment.tv_nsec),
                (seconds, nanoseconds),
                "{text}"
            );
        }
    }

    #[test]
    fn rounded_times_are_kept() {
        let wanted = parse_moment("@1000000001").unwrap();
        assert!(is_kept(&wanted, 1_000_000_000));
        assert!(!is_kept(&wanted, 315_532_800));
        assert!(is_access_kept(&wanted, 999_993_600));
        assert!(!is_access_kept(&wanted, i64::MIN));
        // FAT's last second, for the one after it.
        assert!(!is_kept(
            &parse_moment("2108-01-01").unwrap(),
            4_354_819_198
        ));
    }

    #[test]
    fn hfs_wraps_times() {
        let hfs = || Some(WRAPPING[0]);
        assert_eq!(stored(-1, hfs), (1 << 32) - 1);
        assert_eq!(stored(1 << 32, hfs), 0);
        assert_eq!(stored(-1, || Some(0xef53)), -1);
        assert_eq!(stored(-1, || None), -1);
        assert_eq!(stored((1 << 32) - 1, || unreachable!()), (1 << 32) - 1);
    }

    #[test]
    fn nonsense() {
        for bad in [
            "",
            "yesterday",
            "2026-13-01",
            "@",
            "@1.x",
            "@99999999999999999999",
            "2026-02-30",
        ] {
            assert!(parse_moment(bad).is_err(), "{bad}");
        }
    }
}
