// SPDX-License-Identifier: GPL-2.0-only
//! Kernels that take no calls.

use std::fmt;
use std::io;

/// Why there is no kernel to call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KernelError {
    /// The process has as many kernels as the library can keep. Kernels that have panicked count.
    TooMany,
    /// The kernel was halted.
    Halted,
    /// The kernel has panicked, and the panic was contained.
    Panicked,
    /// The kernel is in the parent of this forked process.
    InParent,
}

impl fmt::Display for KernelError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::TooMany => "this process has as many kernels as it can: halt and drop one",
            Self::Halted => "this kernel was halted",
            Self::Panicked => "this kernel has panicked",
            Self::InParent => "this kernel is in the parent process: boot another one",
        })
    }
}

impl KernelError {
    /// Whether there was a kernel, and this process has it no more.
    pub(crate) fn is_gone(self) -> bool {
        !matches!(self, Self::TooMany)
    }
}

impl std::error::Error for KernelError {}

impl From<KernelError> for io::Error {
    fn from(error: KernelError) -> Self {
        let kind = match error {
            KernelError::TooMany => io::ErrorKind::QuotaExceeded,
            _ => io::ErrorKind::NotConnected,
        };
        io::Error::new(kind, error)
    }
}
