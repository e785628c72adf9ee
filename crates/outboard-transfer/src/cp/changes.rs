// SPDX-License-Identifier: GPL-2.0-only
//! Metadata of copies that their sources do not have: other owners, SELinux labels, other times.

use crate::labels::Labels;
use crate::owner::Owner;
use std::str::FromStr;

/// Owners from `first` on become those from `new` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnerRange {
    first: u32,
    new: u32,
    count: u32,
}

impl OwnerRange {
    fn map(&self, owner: u32) -> Option<u32> {
        let offset = owner.checked_sub(self.first)?;
        (offset < self.count).then(|| self.new + offset)
    }
}

/// `FROM:TO` or `FROM:TO:COUNT`.
impl FromStr for OwnerRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is not FROM:TO or FROM:TO:COUNT, as in 1000:0:1");
        let numbers = text
            .split(':')
            .map(|part| part.parse::<u32>().map_err(|_| wrong()))
            .collect::<Result<Vec<u32>, String>>()?;
        let (first, new, count) = match numbers[..] {
            [first, new] => (first, new, 1),
            [first, new, count] if count > 0 => (first, new, count),
            _ => return Err(wrong()),
        };
        // The largest number stands for "no owner".
        let fits = |start: u32| u64::from(start) + u64::from(count) <= u64::from(u32::MAX);
        if fits(first) && fits(new) {
            Ok(Self { first, new, count })
        } else {
            Err(format!(
                "\"{text}\": an owner would be larger than 4294967294"
            ))
        }
    }
}

/// Changes to the metadata of all copies.
#[derive(Debug, Default)]
pub struct Changes {
    /// The user and group of all copies; `None` in it: unchanged.
    pub owner: Option<Owner>,
    /// For users and groups alike; the first range that contains the number counts.
    pub owners: Vec<OwnerRange>,
    pub labels: Option<Labels>,
    /// For reproducible copies: no time is later than this second, and access times equal
    /// modification times.
    pub newest: Option<i64>,
}

impl Changes {
    /// Whether owners may change.
    pub fn change_owners(&self) -> bool {
        self.owner.is_some() || !self.owners.is_empty()
    }

    /// The metadata of a source, as its copy is to have it.
    pub fn of_metadata(&self, stat: &libc::stat) -> libc::stat {
        let mut stat = *stat;
        let mapped = |owner: u32| {
            let new = self.owners.iter().find_map(|range| range.map(owner));
            new.unwrap_or(owner)
        };
        let new = self.owner.unwrap_or_default();
        stat.st_uid = new.user.unwrap_or_else(|| mapped(stat.st_uid));
        stat.st_gid = new.group.unwrap_or_else(|| mapped(stat.st_gid));
        if let Some(newest) = self.newest {
            if stat.st_mtime >= newest {
                (stat.st_mtime, stat.st_mtime_nsec) = (newest, 0);
            }
            (stat.st_atime, stat.st_atime_nsec) = (stat.st_mtime, stat.st_mtime_nsec);
        }
        stat
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_of_owners() {
        let range: OwnerRange = "1000:0:10".parse().unwrap();
        assert_eq!(range.map(999), None);
        assert_eq!(range.map(1000), Some(0));
        assert_eq!(range.map(1009), Some(9));
        assert_eq!(range.map(1010), None);
        assert_eq!("5:6".parse::<OwnerRange>().unwrap().map(6), None);
        for bad in [
            "",
            "1",
            "1:2:0",
            "1:2:3:4",
            "a:b",
            "4294967295:0",
            "0:1:4294967295",
            "-1:0",
        ] {
            assert!(bad.parse::<OwnerRange>().is_err(), "{bad}");
        }
    }
}
