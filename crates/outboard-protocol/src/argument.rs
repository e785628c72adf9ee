// SPDX-License-Identifier: MIT
//! How one argument of a system call travels.

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The kernel reads them.
    ToKernel,
    /// The kernel writes them.
    FromKernel,
    /// The kernel reads them, and may write others in their place.
    Both,
}

/// How many bytes a pointer leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Always so many.
    Fixed(u32),
    /// As many items as that argument says, each of `unit` bytes, after `before` bytes.
    Count {
        /// The index of the argument.
        argument: usize,
        /// Bytes of an item.
        unit: u32,
        /// Bytes in front of the first item.
        before: u32,
    },
    /// A bit for each number below that argument, in words of 8 bytes.
    Bits {
        /// The index of the argument.
        argument: usize,
    },
    /// As many bytes as the argument of that index, which is an [`Argument::Length`], points to.
    Pointed {
        /// The index of the argument.
        argument: usize,
    },
    /// `bytes` if the first four bytes of what another argument leads to are one of `versions`;
    /// else `other`.
    ByVersion {
        /// The index of the argument.
        argument: usize,
        /// The numbers.
        versions: [u32; 2],
        /// How many bytes they have.
        bytes: u32,
        /// How many the others have.
        other: u32,
    },
    /// As many bytes as the first four of the structure say, and `more`; `most` in all.
    Leading {
        /// Bytes that the structure does not count.
        more: u32,
        /// The limit.
        most: u32,
    },
}

impl Size {
    /// The length of a structure whose [`Size::ByVersion`] this is; 0 of others.
    pub fn of_version(self, version: u32) -> u32 {
        match self {
            Self::ByVersion {
                versions, bytes, ..
            } if versions.contains(&version) => bytes,
            Self::ByVersion { other, .. } => other,
            _ => 0,
        }
    }
}

/// An argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// A number, which means the same to the client and to the kernel.
    Number,
    /// A number with bits that must be 0: they would give the kernel the client's memory itself.
    Flags {
        /// Those bits.
        refused: u64,
    },
    /// A pointer to a string that ends with a zero byte, of at most so many bytes with that byte.
    Text {
        /// The limit.
        most: u32,
    },
    /// A pointer to a string of mount options. The kernel gets a copy.
    Options,
    /// A pointer to bytes.
    Bytes {
        /// Which way they go.
        flow: Flow,
        /// How many they are.
        size: Size,
    },
    /// A pointer to four bytes: the length of what another argument points to. The kernel gets a
    /// copy, so that the client cannot change it after it was checked.
    Length,
    /// A pointer to structures `iovec`; the next argument is their number. On the way they are one
    /// piece: this argument is its place, and the next one its length.
    Pieces {
        /// Which way the bytes go.
        flow: Flow,
    },
    /// A pointer to a structure `msghdr`. On the way it is a [`crate::message::Message`].
    Message {
        /// Which way the bytes go.
        flow: Flow,
    },
    /// A pointer to a pointer to a set of signals, and its size. On the way it is a pointer to the
    /// eight bytes of the set.
    SignalSet,
    /// Another argument says which of these this is: see [`crate::choice`].
    Chosen,
    /// Only NULL may be there.
    Null,
}

impl Argument {
    /// Whether the kernel sees an address here.
    pub const fn is_pointer(&self) -> bool {
        !matches!(self, Self::Number | Self::Flags { .. } | Self::Chosen)
    }
}
