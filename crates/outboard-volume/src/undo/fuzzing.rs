// SPDX-License-Identifier: GPL-2.0-only
//! The parser of logs for the target in fuzz/.

use super::format::Reader;
use std::io::Cursor;

/// Reads a log to its end or to its first damage. Returns the place and the length of each record.
pub fn read_log(bytes: &[u8]) -> Vec<(u64, usize)> {
    let mut found = Vec::new();
    if let Ok(mut log) = Reader::new(Cursor::new(bytes)) {
        let _ = log.each_range(|place, length| found.push((place, length)));
    }
    found
}
