// SPDX-License-Identifier: GPL-2.0-only
//! Times as users write and read them. Without a zone they are UTC, like all times that the program
//! prints.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};
use libc::timespec;
use std::ops::RangeInclusive;

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
    if text.contains('[') {
        return Err(format!(
            "\"{text}\" names a time zone or a calendar: give the offset, as in +01:00"
        ));
    }
    let compact = without_zone_gap(text);
    if is_leap_second(&compact) {
        return Err(wrong());
    }
    let moment = match compact.parse::<Timestamp>() {
        Ok(moment) => Some(moment),
        Err(_) => in_utc(&compact),
    };
    let nanoseconds = moment.ok_or_else(wrong)?.as_nanosecond();
    from_nanoseconds(nanoseconds).ok_or_else(wrong)
}

/// The text behind the date.
fn time_of(text: &str) -> &str {
    text.split_once([' ', 'T', 't'])
        .map_or("", |(_, time)| time)
}

/// Whether the second is 60, of which the parser of the library would make 59.
fn is_leap_second(text: &str) -> bool {
    let is_sign = |character: char| "+-.,Zz".contains(character);
    let time = time_of(text).split(is_sign).next().unwrap_or_default();
    time.replace(':', "").get(4..6) == Some("60")
}

/// A date and time without an offset, which "UTC" may follow once. The parser of the library would
/// ignore an offset.
fn in_utc(text: &str) -> Option<Timestamp> {
    let plain = text.strip_suffix("UTC").unwrap_or(text).trim_end();
    let time = time_of(plain);
    if time.contains(['+', '-']) {
        return None;
    }
    let moment: DateTime = plain.parse().ok()?;
    TimeZone::UTC.to_timestamp(moment).ok()
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

/// Kinds of file systems (statfs), and the seconds since 1970 that they can store, if their drivers
/// report any requested time until the inode is read again. All other drivers choose the nearest
/// time that they can store.
const UNCHECKED: [(i64, RangeInclusive<i64>); 2] = [
    // ntfs3: 64 bits of 100 nanoseconds.
    (0x7366_746e, -922_337_203_685..=922_337_203_684),
    // UDF: a year of 16 bits, and no year 0.
    (0x1501_3346, -62_135_596_800..=2_005_949_145_599),
];

/// Kinds that store 32 bits of the seconds, whatever they are: HFS and HFS+.
const WRAPPING: [i64; 2] = [0x4244, 0x482b];

/// The seconds that a remount will show for a file that reports `found` now; `None`: other ones.
/// `kind`: the type of its file system, if that is known.
pub fn stored(found: i64, kind: impl FnOnce() -> Option<i64>) -> Option<i64> {
    // All of them can store these.
    if u32::try_from(found).is_ok() {
        return Some(found);
    }
    let Some(kind) = kind() else {
        return Some(found);
    };
    if WRAPPING.contains(&kind) {
        return Some(found.rem_euclid(1 << 32));
    }
    let mut lossy = UNCHECKED.iter().filter(|(other, _)| *other == kind);
    match lossy.next() {
        Some((_, range)) if !range.contains(&found) => None,
        _ => Some(found),
    }
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

/// A moment in UTC: its year, and its other parts in a year of the same calendar. File systems have
/// years that jiff lacks.
pub fn utc(seconds: i64) -> (i64, DateTime) {
    // The calendar repeats after 400 years.
    const CYCLE: i64 = 146_097 * 86_400;
    let since_1970 = SignedDuration::from_secs(seconds.rem_euclid(CYCLE));
    let time = DateTime::constant(1970, 1, 1, 0, 0, 0, 0).saturating_add(since_1970);
    let year = i64::from(time.year()) + 400 * seconds.div_euclid(CYCLE);
    (year, time)
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
    let (whole, part) = match text.split_once('.') {
        Some((_, "")) => return None,
        Some(parts) => parts,
        None => (text, ""),
    };
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
    fn drivers_report_times_that_they_cannot_store() {
        let hfs = || Some(WRAPPING[0]);
        assert_eq!(stored(-1, hfs), Some((1 << 32) - 1));
        assert_eq!(stored(1 << 32, hfs), Some(0));
        let [ntfs, udf] = UNCHECKED.map(|(kind, _)| kind);
        for (kind, good, bad) in [
            (ntfs, -11_644_473_601, -922_337_203_686),
            (ntfs, 900_000_000_000, 1_000_000_000_000),
            (udf, -1, -62_135_596_801),
            (udf, 1 << 40, 1 << 41),
        ] {
            assert_eq!(stored(good, || Some(kind)), Some(good), "{kind:x}");
            assert_eq!(stored(bad, || Some(kind)), None, "{kind:x}");
        }
        assert_eq!(stored(i64::MIN, || Some(0xef53)), Some(i64::MIN));
        assert_eq!(stored(-1, || None), Some(-1));
        assert_eq!(
            stored((1 << 32) - 1, || unreachable!()),
            Some((1 << 32) - 1)
        );
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
            "2026-07-01T12:00[Europe/Berlin]",
            "2026-07-01T12:00Z[Europe/Berlin]",
            "2026-07-01T12:00+02:00[America/New_York]",
            "2026-07-01[u-ca=hebrew]",
            "2026-07-01UTCUTC",
            "2026-07-01 12:00 UTC UTC",
            "2026-07-01T12:00ZUTC",
            "2026-07-01 12:00 +02:00 UTC",
            "2026-07-01 12:00+02:00UTC",
            "2026-07-01 12:00-05:00UTC",
            "2026-07-01 12:00 CEST",
            "2016-12-31 23:59:60",
            "2016-12-31T23:59:60+01:00",
            "2016-12-31T235960Z",
        ] {
            assert!(parse_moment(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn no_part_of_a_time_is_ignored() {
        let good = [
            "1970-01-02",
            "2001-09-09 01:46:40",
            "2001-09-09 01:46:40 UTC",
            "2001-09-09T01:46:40Z",
            "2001-09-09T03:46:40.5+02:00",
            "@1000000000",
            "@-1.5",
        ];
        let tails = [
            "x", "[UTC]", "UTC", " UTC", "Z", "+01:00", "-01:00", " +0100", "@", ".", ":", "\0",
        ];
        let time = |text: &str| parse_moment(text).map(|time| (time.tv_sec, time.tv_nsec));
        for text in good {
            assert!(time(text).is_ok(), "{text}");
            for tail in tails {
                let longer = format!("{text}{tail}");
                let says_utc = tail.contains("UTC") && !tail.contains('[');
                let has_zone = text.ends_with(['C', 'Z']) || text.contains('+');
                let is_zone_of_utc = says_utc && !has_zone && !text.starts_with('@');
                let same = time(&longer).is_ok() && time(&longer) == time(text);
                assert_eq!(same, is_zone_of_utc || is_plain_z(text, tail), "{longer}");
            }
        }
    }

    /// "Z" behind a time of the day is its zone.
    fn is_plain_z(text: &str, tail: &str) -> bool {
        tail == "Z" && text == "2001-09-09 01:46:40"
    }
}
