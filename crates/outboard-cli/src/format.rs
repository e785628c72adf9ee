// SPDX-License-Identifier: GPL-2.0-only
//! Formats sizes, modes, times, names and tables as commands print them.

pub use outboard_transfer::mode::mode_letters as mode;
use outboard_transfer::moment::utc;
pub use outboard_transfer::operand::shown_name as name;

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

/// The text for sectors of a disk that are not those of most, else nothing.
pub fn unusual_sectors(size: u64) -> String {
    match size {
        512 => String::new(),
        size => format!(", sectors of {size} bytes"),
    }
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

/// "2026-11-21 00:02", UTC.
pub fn minute(seconds: i64) -> String {
    let (year, time) = utc(seconds);
    format!("{year:04}-{}", time.strftime("%m-%d %H:%M"))
}

/// "2026-11-21 00:02:49.123456789 +0000".
pub fn moment(seconds: i64, nanoseconds: i64) -> String {
    let (year, time) = utc(seconds);
    let time = time.strftime("%m-%d %H:%M:%S");
    format!("{year:04}-{time}.{nanoseconds:09} +0000")
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
    fn times() {
        assert_eq!(moment(0, 5), "1970-01-01 00:00:00.000000005 +0000");
        assert_eq!(minute(951_782_399), "2000-02-28 23:59");
        assert_eq!(minute(951_782_400), "2000-02-29 00:00");
        assert_eq!(minute(-1), "1969-12-31 23:59");
        assert_eq!(minute(1_795_219_369), "2026-11-21 00:02");
        assert_eq!(minute(-62_198_755_200), "-001-01-01 00:00");
        assert_eq!(minute(-62_135_596_801), "0000-12-31 23:59");
        assert_eq!(minute(253_402_300_800), "10000-01-01 00:00");
        assert_eq!(minute(i64::MAX), "292277026596-12-04 15:30");
        assert_eq!(minute(i64::MIN), "-292277022657-01-27 08:29");
    }

    #[test]
    fn tables() {
        let rows = [vec!["a".into(), "1".into()], vec!["bb".into(), "10".into()]];
        assert_eq!(table(&rows, &[1], "  "), ["a    1", "bb  10"]);
    }
}
