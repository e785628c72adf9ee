// SPDX-License-Identifier: GPL-2.0-only
//! Keeps writers apart in a session of a library, whose volumes have different owners.
//!
//! | two volumes | with one of them written |
//! |---|---|
//! | partitions or logical volumes without common bytes | allowed |
//! | different subvolumes of one btrfs | allowed if both are written: they are one file system |
//! | one volume, by whatever names | an error |
//! | a volume, and a partition or volume below it | an error |
//!
//! Volumes that are only read may have common bytes. One command of the program may read and write
//! one mount, so that this rule is not for its sessions.

use super::mounted::{MountSource, MountedDevice};
use super::slots::{DiskPart, Slots};
use outboard_error::{Error, ErrorKind, Result};

impl DiskPart {
    fn overlaps(&self, other: &Self) -> bool {
        self.disk == other.disk && self.range.overlaps(other.range)
    }
}

/// Whether these are two subvolumes of one file system.
fn are_subvolumes_of_one(one: MountSource, other: MountSource) -> bool {
    let file_system = |source| match source {
        MountSource::Node { stack, node, .. } => Some((stack, node)),
        _ => None,
    };
    let [first, second] = [one, other].map(file_system);
    one != other && first.is_some() && first == second
}

impl Slots {
    /// An error if another mount has bytes of a new one, and one of the two is written. `shown`:
    /// the name of the new one.
    pub(super) fn check_writers(
        &self,
        shown: &str,
        origin: MountSource,
        write: bool,
    ) -> Result<()> {
        let excludes = |mounted: &&MountedDevice| {
            let is_written = mounted.is_written();
            let has_writer = write || is_written;
            let one_state = write == is_written && are_subvolumes_of_one(origin, mounted.origin);
            has_writer && !one_state && self.have_common_bytes(origin, mounted.origin)
        };
        match self.mounts().find(excludes) {
            None => Ok(()),
            Some(other) => Err(in_use(shown, &other.name, other.is_written())),
        }
    }

    fn have_common_bytes(&self, one: MountSource, other: MountSource) -> bool {
        use MountSource::{Node, Server};
        match (one, other) {
            (Server { .. }, _) | (_, Server { .. }) => one == other,
            (
                Node { stack, node, .. },
                Node {
                    stack: same,
                    node: second,
                    ..
                },
            ) if stack == same => self.stack(stack).have_common_bytes(node, second),
            _ => {
                let others = self.parts_under(other);
                let mut parts = self.parts_under(one).into_iter();
                parts.any(|part| others.iter().any(|other| part.overlaps(other)))
            }
        }
    }
}

/// The error of a volume that is excluded by another one.
fn in_use(shown: &str, other: &str, is_written: bool) -> Error {
    let text = if shown == other && is_written {
        format!("{shown} is open for writing: close that volume first, or use it for both")
    } else if shown == other {
        format!("cannot write to {shown}: it is also open for reading: close that volume first")
    } else {
        format!(
            "{shown} and {other} have bytes in common, and one of them is written: close {other} \
             first"
        )
    };
    Error::known(ErrorKind::Locked, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Range;

    fn part(disk: usize, start: u64, size: u64) -> DiskPart {
        let range = Range { start, size };
        DiskPart { disk, range }
    }

    #[test]
    fn parts_overlap_by_their_bytes() {
        assert!(part(0, 0, 10).overlaps(&part(0, 9, 1)));
        assert!(part(0, 5, 1).overlaps(&part(0, 0, 10)));
        assert!(!part(0, 0, 10).overlaps(&part(0, 10, 10)));
        assert!(!part(0, 0, 10).overlaps(&part(1, 0, 10)));
        assert!(!part(0, 5, 0).overlaps(&part(0, 0, 10)));
        let beyond = part(0, 1, u64::MAX);
        assert!(beyond.overlaps(&part(0, 7, u64::MAX)));
    }

    #[test]
    fn subvolumes_have_one_file_system() {
        let subvolume = |node, subvolume| MountSource::Node {
            stack: 0,
            node,
            subvolume,
        };
        assert!(are_subvolumes_of_one(
            subvolume(3, None),
            subvolume(3, Some(256))
        ));
        assert!(!are_subvolumes_of_one(
            subvolume(3, None),
            subvolume(3, None)
        ));
        assert!(!are_subvolumes_of_one(
            subvolume(3, None),
            subvolume(4, Some(256))
        ));
        let disk = MountSource::Disk {
            disk: 0,
            partition: None,
        };
        assert!(!are_subvolumes_of_one(disk, disk));
    }

    #[test]
    fn messages_name_both() {
        let text = |error: Error| error.message().unwrap().to_owned();
        let both = text(in_use("d@2", "d@vg/root", true));
        assert!(both.contains("d@2 and d@vg/root"), "{both}");
        assert!(text(in_use("d@2", "d@2", true)).contains("d@2 is open for writing"));
        assert!(text(in_use("d@2", "d@2", false)).contains("cannot write to d@2"));
    }
}
