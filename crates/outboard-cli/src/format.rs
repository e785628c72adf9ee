// SPDX-License-Identifier: GPL-2.0-only
//! Formats sizes, modes, times, names and tables as commands print them.

use outboard_error::format::escaped;

/// "4.0K" in the way of `du -h`: rounded up, with one decimal below ten.
pub fn brief_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["K", "M", "G", "T", "P", "E"];
    if bytes < 1024 {
        return bytes.to_string();
    }
    let exponent = (bytes.ilog2() / 10) as usize;
    let unit = 1u128 << (10 * exponent);
    let tenths = (u128::from(bytes) * 10).div_ceil(unit);
    let whole = u128::from(bytes).div_ceil(unit);
    match (tenths < 100, whole < 1024) {
        (true, _) => format!("{}.{}{}", tenths / 10, tenths % 10, UNITS[exponent - 1]),
        (_, true) => format!("{whole}{}", UNITS[exponent - 1]),
        _ => format!("1.0{}", UNITS[exponent]),
    }
}

/// "drwxr-xr-x".
pub fn mode(mode: u32) -> String {
    let kind = match mode & libc::S_IFMT {
        libc::S_IFDIR => 'd',
        libc::S_IFLNK => 'l',
        libc::S_IFBLK => 'b',
        libc::S_IFCHR => 'c',
        libc::S_IFIFO => 'p',
        libc::S_IFSOCK => 's',
        libc::S_IFREG => '-',
        _ => '?',
    };
    let mut text = String::from(kind);
    for (shift, special, set, unset) in [
        (6, libc::S_ISUID, 's', 'S'),
        (3, libc::S_ISGID, 's', 'S'),
        (0, libc::S_ISVTX, 't', 'T'),
    ] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (mode & special != 0, bits & 1 != 0) {
            (false, false) => '-',
            (false, true) => 'x',
            (true, true) => set,
            (true, false) => unset,
        });
    }
    text
}

/// The kind of a file in words, as `stat` prints it.
pub fn kind(mode: u32, size: u64) -> &'static str {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => "directory",
        libc::S_IFLNK => "symbolic link",
        libc::S_IFBLK => "block special file",
        libc::S_IFCHR => "character special file",
        libc::S_IFIFO => "fifo",
        libc::S_IFSOCK => "socket",
        libc::S_IFREG if size == 0 => "regular empty file",
        libc::S_IFREG => "regular file",
        _ => "unknown kind of file",
    }
}

/// A moment in UTC: year, month, day, hour, minute, second.
pub fn civil(seconds: i64) -> (i64, i64, i64, i64, i64, i64) {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // With years that begin in March, the leap day is the last one; 719468 days precede 1970.
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = (month_from_march + 2) % 12 + 1;
    let year = era * 400 + year_of_era + i64::from(month <= 2);
    (year, month, day, rest / 3600, rest / 60 % 60, rest % 60)
}

/// "2026-11-21 00:02", UTC.
pub fn minute(seconds: i64) -> String {
    let (year, month, day, hour, minute, _) = civil(seconds);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}")
}

/// "2026-11-21 00:02:49.123456789 +0000".
pub fn moment(seconds: i64, nanoseconds: i64) -> String {
    let (year, month, day, hour, minute, second) = civil(seconds);
    format!(
        "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{nanoseconds:09} +0000"
    )
}

/// A name as it is; for a terminal with escapes for bytes that could confuse it.
pub fn name(name: &[u8], terminal: bool) -> Vec<u8> {
    match terminal {
        true => escaped(name).into_bytes(),
        false => name.to_vec(),
    }
}

/// Formats rows as a table, with `gap` between columns; columns in `right` are right-aligned.
pub fn table(rows: &[Vec<String>], right: &[usize], gap: &str) -> Vec<String> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns)
        .map(|column| {
            rows.iter()
                .filter_map(|row| row.get(column))
                .map(|cell| cell.chars().count())
                .max()
                .unwrap_or(0)
        })
        .collect();
    rows.iter()
        .map(|row| {
            let cells: Vec<String> = row
                .iter()
                .enumerate()
                .map(|(column, cell)| {
                    let width = widths[column];
                    if right.contains(&column) {
                        format!("{cell:>width$}")
                    } else {
                        format!("{cell:<width$}")
                    }
                })
                .collect();
            cells.join(gap).trim_end().to_owned()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brief_sizes() {
        assert_eq!(brief_size(1023), "1023");
        assert_eq!(brief_size(1024), "1.0K");
        assert_eq!(brief_size(1025), "1.1K");
        assert_eq!(brief_size(10 << 10), "10K");
        assert_eq!(brief_size((10 << 10) + 1), "11K");
        assert_eq!(brief_size((1 << 20) - 1), "1.0M");
        assert_eq!(brief_size(u64::MAX), "16E");
    }

    #[test]
    fn modes() {
        assert_eq!(mode(0o100644), "-rw-r--r--");
        assert_eq!(mode(0o041777), "drwxrwxrwt");
        assert_eq!(mode(0o104755), "-rwsr-xr-x");
        assert_eq!(mode(0o102644), "-rw-r-Sr--");
        assert_eq!(mode(0o120777), "lrwxrwxrwx");
    }

    #[test]
    fn times() {
        assert_eq!(moment(0, 5), "1970-01-01 00:00:00.000000005 +0000");
        assert_eq!(minute(951_782_399), "2000-02-28 23:59");
        assert_eq!(minute(951_782_400), "2000-02-29 00:00");
        assert_eq!(minute(-1), "1969-12-31 23:59");
        assert_eq!(minute(1_795_219_369), "2026-11-21 00:02");
    }

    #[test]
    fn names() {
        assert_eq!(name(b"a\x1b\xffb", false), b"a\x1b\xffb");
        assert_eq!(
            name(b"a\x1b\xff\xc3\xa9", true),
            "a\\u{1b}\\xff\u{e9}".as_bytes()
        );
    }

    #[test]
    fn tables() {
        let rows = [vec!["a".into(), "1".into()], vec!["bb".into(), "10".into()]];
        assert_eq!(table(&rows, &[1], "  "), ["a    1", "bb  10"]);
    }
}
