// SPDX-License-Identifier: GPL-2.0-only
//! Metadata of files.

use crate::argument::Versioned;
use crate::result::{CallFailure, Result};
use outboard::{FileType, Metadata};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `struct ob_volume_time`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Time {
    seconds: i64,
    nanoseconds: i64,
}

const SECOND: i128 = 1_000_000_000;

impl Time {
    fn of(nanoseconds: i128) -> Self {
        Self {
            seconds: nanoseconds.div_euclid(SECOND) as i64,
            nanoseconds: nanoseconds.rem_euclid(SECOND) as i64,
        }
    }

    pub fn to_system(self) -> Result<SystemTime> {
        let whole = Duration::from_secs(self.seconds.unsigned_abs());
        let second = if self.seconds < 0 {
            UNIX_EPOCH.checked_sub(whole)
        } else {
            UNIX_EPOCH.checked_add(whole)
        };
        let part = u64::try_from(self.nanoseconds).ok();
        let part = part
            .filter(|&part| i128::from(part) < SECOND)
            .map(Duration::from_nanos);
        match (second, part) {
            (Some(second), Some(part)) => second.checked_add(part),
            _ => None,
        }
        .ok_or_else(|| {
            let Self {
                seconds,
                nanoseconds,
            } = self;
            let text = format!("{seconds} seconds and {nanoseconds} nanoseconds are no time");
            CallFailure::usage(text)
        })
    }
}

/// `struct ob_volume_stat`.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Stat {
    size: usize,
    kind: u32,
    mode: u32,
    length: u64,
    stored: u64,
    inode: u64,
    links: u64,
    device: u64,
    user: u32,
    group: u32,
    accessed: Time,
    modified: Time,
    changed: Time,
}

// SAFETY: all of it holds.
unsafe impl Versioned for Stat {
    const LEAST: usize = size_of::<Self>();
    const NAME: &'static str = "ob_volume_stat";
}

/// `enum ob_volume_file_type`.
pub fn number_of(kind: FileType) -> u32 {
    match kind {
        FileType::Regular => 1,
        FileType::Directory => 2,
        FileType::Symlink => 3,
        FileType::BlockDevice => 4,
        FileType::CharacterDevice => 5,
        FileType::Fifo => 6,
        FileType::Socket => 7,
        FileType::Unknown => 0,
    }
}

impl From<Metadata> for Stat {
    fn from(metadata: Metadata) -> Self {
        let kind = metadata.file_type();
        let device = match kind {
            FileType::BlockDevice | FileType::CharacterDevice => metadata.rdev(),
            _ => 0,
        };
        Self {
            size: 0,
            kind: number_of(kind),
            mode: metadata.permissions(),
            length: metadata.len(),
            stored: metadata.blocks().saturating_mul(512),
            inode: metadata.inode(),
            links: metadata.links(),
            device,
            user: metadata.user(),
            group: metadata.group(),
            accessed: Time::of(metadata.accessed_ns()),
            modified: Time::of(metadata.modified_ns()),
            changed: Time::of(metadata.changed_ns()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_1970() {
        let time = Time::of(-1_500_000_000);
        assert_eq!(
            time,
            Time {
                seconds: -2,
                nanoseconds: 500_000_000
            }
        );
        let system = time.to_system().ok();
        assert_eq!(system, Some(UNIX_EPOCH - Duration::from_millis(1500)));
        for (seconds, nanoseconds) in [(0, -1), (0, 1_000_000_000), (i64::MAX, 999_999_999)] {
            let time = Time {
                seconds,
                nanoseconds,
            };
            assert_eq!(time.to_system().is_ok(), seconds == i64::MAX, "{time:?}");
        }
    }
}
