// SPDX-License-Identifier: GPL-2.0-only
//! The bytes of an inode, in the form of 64 bytes that has times and large owners.

use super::tree::Attributes;
use super::xattr;

/// Bytes of an inode, without what follows it.
pub(super) const SIZE: u64 = 64;
/// Inodes begin at multiples of this, which their numbers count.
pub(super) const SLOT: u64 = 32;
/// The bit of a format that says which form the inode has.
const EXTENDED: u16 = 1;

/// Where the contents are.
#[derive(Clone, Copy)]
pub(super) enum Layout {
    /// In blocks of their own.
    Plain = 0,
    /// Behind the inode, in the same block.
    Inline = 2,
}

pub(super) struct Inode<'a> {
    pub(super) attributes: &'a Attributes,
    /// Its `S_IF*`.
    pub(super) kind: u32,
    pub(super) size: u64,
    /// The first block of the contents, or the number of a device.
    pub(super) value: u32,
    pub(super) links: u32,
    /// The number that old interfaces show.
    pub(super) number: u32,
    pub(super) layout: Layout,
}

impl Inode<'_> {
    pub(super) fn bytes(&self) -> Vec<u8> {
        let attributes = self.attributes;
        let format = EXTENDED | ((self.layout as u16) << 1);
        let mode = (self.kind | attributes.mode) as u16;
        let mut bytes = Vec::with_capacity(SIZE as usize);
        bytes.extend(format.to_le_bytes());
        bytes.extend(xattr::count(&attributes.xattrs).to_le_bytes());
        bytes.extend(mode.to_le_bytes());
        bytes.extend([0; 2]);
        bytes.extend(self.size.to_le_bytes());
        for number in [self.value, self.number, attributes.user, attributes.group] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(attributes.seconds.to_le_bytes());
        bytes.extend(attributes.nanoseconds.to_le_bytes());
        bytes.extend(self.links.to_le_bytes());
        bytes.resize(SIZE as usize, 0);
        bytes
    }
}

/// The number of a device as Linux stores it: the major one has 12 bits, the minor one 20.
pub(super) fn device_number(device: u64) -> u32 {
    let (major, minor) = (libc::major(device), libc::minor(device));
    (minor & 0xff) | ((major & 0xfff) << 8) | ((minor & 0xfff00) << 12)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_have_numbers_of_linux() {
        assert_eq!(device_number(libc::makedev(1, 3)), 0x103);
        assert_eq!(device_number(libc::makedev(0xabc, 0x12345)), 0x123a_bc45);
    }
}
