// SPDX-License-Identifier: GPL-2.0-only
//! The ioctls of files that are safe to pass on: attributes as lsattr(1) and chattr(1) use them.

/// Most bytes that one of them reads or writes: `struct fsxattr` has 28.
pub const CONTROL_SIZE: usize = 32;

/// An ioctl with a pointer to at most [`CONTROL_SIZE`] bytes. (Numbers: linux/fs.h; those of the
/// flags say 8 bytes, and move 4.)
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// `FS_IOC_GETFLAGS`.
    GetFlags,
    /// `FS_IOC_SETFLAGS`.
    SetFlags,
    /// `FS_IOC_GETVERSION`.
    GetVersion,
    /// `FS_IOC_FSGETXATTR`.
    GetAttributes,
    /// `FS_IOC_FSSETXATTR`.
    SetAttributes,
}

impl Control {
    const ALL: [Self; 5] = [
        Self::GetFlags,
        Self::SetFlags,
        Self::GetVersion,
        Self::GetAttributes,
        Self::SetAttributes,
    ];

    pub(crate) fn number(self) -> usize {
        match self {
            Self::GetFlags => 0x8008_6601,
            Self::SetFlags => 0x4008_6602,
            Self::GetVersion => 0x8008_7601,
            Self::GetAttributes => 0x801c_581f,
            Self::SetAttributes => 0x401c_5820,
        }
    }

    /// The one with this number.
    pub fn from_number(number: u32) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|control| control.number() == number as usize)
    }
}
