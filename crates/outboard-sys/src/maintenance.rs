// SPDX-License-Identifier: GPL-2.0-only
//! Requests to a mounted file system: resizing and discarding. The file is any directory in it,
//! usually the root. Also queries of a block device without a file system.

use crate::assembly::BtrfsVolume;
use crate::system::{pointer, pointer_mut};
use crate::Fd;
use libc::c_int;
use std::io;

/// `_IO(0x12, 104)`.
const BLKSSZGET: usize = 0x1268;
/// `_IOWR('X', 121, struct fstrim_range)`.
const FITRIM: usize = 0xc018_5879;
/// `_IOR('X', 126, struct xfs_fsop_geom)`.
const XFS_IOC_FSGEOMETRY: usize = 0x8100_587e;
/// `_IOW('X', 110, struct xfs_growfs_data)`.
const XFS_IOC_FSGROWFSDATA: usize = 0x4010_586e;
/// `_IOW(0x94, 3, struct btrfs_ioctl_vol_args)`.
const BTRFS_IOC_RESIZE: usize = 0x5000_9403;

#[repr(C)]
struct TrimRange {
    start: u64,
    length: u64,
    minimum: u64,
}

/// `struct xfs_fsop_geom`; only what is needed has a name.
#[repr(C)]
struct XfsGeometry {
    block_size: u32,
    skipped: [u32; 6],
    maximum_percent: u32,
    rest: [u32; 56],
}

#[repr(C)]
struct XfsGrow {
    blocks: u64,
    maximum_percent: u32,
    padding: u32,
}

impl Fd {
    /// Bytes of a sector of this block device.
    pub fn sector_size(&self) -> io::Result<u64> {
        let mut size: c_int = 0;
        // SAFETY: the kernel writes an int, which outlives the call.
        unsafe { self.ioctl(BLKSSZGET, pointer_mut(&mut size)) }?;
        Ok(size as u64)
    }

    /// Tells the disk which blocks of this file's file system are free. Returns how many bytes.
    /// EOPNOTSUPP: the file system or the disk cannot do that.
    pub fn trim_file_system(&self, minimum: u64) -> io::Result<u64> {
        let mut range = TrimRange {
            start: 0,
            length: u64::MAX,
            minimum,
        };
        // SAFETY: `range` has the kernel's layout and outlives the call.
        unsafe { self.ioctl(FITRIM, pointer_mut(&mut range)) }?;
        Ok(range.length)
    }

    /// Makes this file's XFS as large as `size` bytes, in whole blocks.
    pub fn grow_xfs(&self, size: u64) -> io::Result<()> {
        let mut geometry = XfsGeometry {
            block_size: 0,
            skipped: [0; 6],
            maximum_percent: 0,
            rest: [0; 56],
        };
        // SAFETY: `geometry` has the size and layout of the kernel's structure and outlives the
        // call.
        unsafe { self.ioctl(XFS_IOC_FSGEOMETRY, pointer_mut(&mut geometry)) }?;
        let block_size = u64::from(geometry.block_size.max(512));
        let grow = XfsGrow {
            blocks: size / block_size,
            maximum_percent: geometry.maximum_percent,
            padding: 0,
        };
        // SAFETY: `grow` has the kernel's layout and outlives the call.
        unsafe { self.ioctl(XFS_IOC_FSGROWFSDATA, pointer(&grow)) }.map(drop)
    }

    /// Makes the first device of this file's btrfs as large as `size` bytes.
    pub fn resize_btrfs(&self, size: u64) -> io::Result<()> {
        let volume = BtrfsVolume::new(size.to_string().as_bytes())?;
        // SAFETY: `volume` has the kernel's layout, its name ends in NUL, and it outlives the call.
        unsafe { self.ioctl(BTRFS_IOC_RESIZE, pointer(&volume)) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::size_of;

    #[test]
    fn structures_have_the_sizes_that_the_requests_say() {
        let size = |request: usize| request >> 16 & 0x3fff;
        assert_eq!(size_of::<TrimRange>(), size(FITRIM));
        assert_eq!(size_of::<XfsGeometry>(), size(XFS_IOC_FSGEOMETRY));
        assert_eq!(size_of::<XfsGrow>(), size(XFS_IOC_FSGROWFSDATA));
        assert_eq!(size_of::<BtrfsVolume>(), size(BTRFS_IOC_RESIZE));
    }
}
