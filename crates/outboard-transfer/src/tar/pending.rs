// SPDX-License-Identifier: GPL-2.0-only
//! Directories of an archive that wait for their attributes: these are given at the end, when no
//! member changes the directories any more. The memory for them has a limit.

use super::attributes::MemberAttributes;
use super::flights::Identity;
use std::collections::HashMap;

/// Most bytes of names and attributes that wait. An archive of three million directories has them.
pub const MOST: usize = 256 << 20;

/// A directory, and the attributes that it gets at the end.
pub struct Later {
    pub path: Vec<u8>,
    pub attributes: MemberAttributes,
}

impl Later {
    fn bytes(&self) -> usize {
        let xattrs = self.attributes.xattrs.iter();
        let each = |(name, value): &(std::ffi::CString, Vec<u8>)| name.count_bytes() + value.len();
        self.path.len() + xattrs.map(each).sum::<usize>()
    }
}

/// All directories that wait. The last member that describes a directory counts.
pub struct Pending {
    directories: HashMap<Identity, Later>,
    bytes: usize,
    most: usize,
}

impl Pending {
    pub fn new(most: usize) -> Self {
        Self {
            directories: HashMap::new(),
            bytes: 0,
            most,
        }
    }

    /// Adds a directory. An error returns what has no room.
    pub fn add(&mut self, identity: Identity, later: Later) -> Result<(), Later> {
        if let Some(before) = self.directories.remove(&identity) {
            self.bytes -= before.bytes();
        }
        let bytes = self.bytes + later.bytes();
        if bytes > self.most {
            return Err(later);
        }
        self.bytes = bytes;
        self.directories.insert(identity, later);
        Ok(())
    }

    /// Removes all directories.
    pub fn take(&mut self) -> HashMap<Identity, Later> {
        self.bytes = 0;
        std::mem::take(&mut self.directories)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(path: &[u8], value: usize) -> Later {
        let times = [libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        }; 2];
        Later {
            path: path.to_vec(),
            attributes: MemberAttributes {
                mode: 0o755,
                user: 0,
                group: 0,
                times,
                xattrs: vec![(c"user.a".to_owned(), vec![0; value])],
                strange: Vec::new(),
            },
        }
    }

    #[test]
    fn names_and_attributes_have_a_limit() {
        let mut pending = Pending::new(100);
        assert!(pending.add((1, 1), later(b"a", 43)).is_ok());
        let refused = pending.add((1, 2), later(b"b", 44)).unwrap_err();
        assert_eq!(refused.path, b"b");
        assert!(pending.add((1, 2), later(b"b", 43)).is_ok());
        assert!(pending.add((1, 3), later(b"c", 0)).is_err());
        // The second member of a directory takes the place of the first one.
        assert!(pending.add((1, 1), later(b"a", 36)).is_ok());
        assert!(pending.add((1, 3), later(b"c", 0)).is_ok());
        let all = pending.take();
        assert_eq!(all.len(), 3);
        assert_eq!(all[&(1, 1)].attributes.xattrs[0].1.len(), 36);
        assert!(pending.add((1, 1), later(b"a", 93)).is_ok());
    }
}
