// SPDX-License-Identifier: GPL-2.0-only
//! The ioctls of /dev/mapper/control. The header linux/dm-ioctl.h describes them.

use crate::system::pointer_mut;
use crate::Fd;
use std::io;

/// `struct dm_ioctl` in bytes, which every request begins with.
pub const MAPPER_HEADER_SIZE: usize = 312;
/// The offset in it of the size of the whole buffer.
const DATA_SIZE: std::ops::Range<usize> = 12..16;

/// A request to the device mapper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapperRequest {
    /// `DM_DEV_CREATE`.
    Create,
    /// `DM_DEV_REMOVE`.
    Remove,
    /// Suspends a device, or lets it run with the table that was loaded last.
    Suspend,
    /// `DM_TABLE_LOAD`.
    Load,
    /// `DM_TABLE_STATUS`.
    Status,
}

impl MapperRequest {
    /// `_IOWR(0xfd, n, struct dm_ioctl)`.
    fn number(self) -> usize {
        let command = match self {
            Self::Create => 3,
            Self::Remove => 4,
            Self::Suspend => 6,
            Self::Load => 9,
            Self::Status => 12,
        };
        0xc138_fd00 | command
    }
}

impl Fd {
    /// Makes a request of the device mapper, whose control device this is. The kernel reads the
    /// buffer and puts its answer there.
    pub fn map_devices(&self, request: MapperRequest, buffer: &mut [u8]) -> io::Result<()> {
        if buffer.len() < MAPPER_HEADER_SIZE {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let size = u32::try_from(buffer.len()).map_err(|_| io::ErrorKind::InvalidInput)?;
        buffer[DATA_SIZE].copy_from_slice(&size.to_ne_bytes());
        let arguments = [request.number(), pointer_mut(buffer), 0, 0, 0];
        // SAFETY: the kernel reads and writes as many bytes as the header says, which is the
        // buffer's length.
        unsafe { self.call(libc::SYS_ioctl, arguments) }.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_size_of_the_header() {
        let size = MapperRequest::Create.number() >> 16 & 0x3fff;
        assert_eq!(size, MAPPER_HEADER_SIZE);
    }
}
