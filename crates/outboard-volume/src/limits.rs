// SPDX-License-Identifier: GPL-2.0-only
//! Limits of the process (ulimit): checked before the program begins. The kernel's library names
//! the limits of address space and files that a boot fails at.

use outboard::{default_memory, ignore, System};
use outboard_error::format::size;
use outboard_error::{Error, Result};

/// A limit that the program raises as far as allowed.
struct Limit {
    resource: libc::c_uint,
    name: &'static str,
    /// Of the shell's ulimit.
    option: &'static str,
    wanted: u64,
    least: u64,
}

const LIMITS: [Limit; 2] = [
    Limit {
        resource: libc::RLIMIT_STACK,
        name: "stack",
        option: "-s",
        wanted: 8 << 20,
        least: 512 << 10,
    },
    // Stacks of threads, buffers, and the library's own data, which are 22 MB.
    Limit {
        resource: libc::RLIMIT_DATA,
        name: "data",
        option: "-d",
        wanted: u64::MAX,
        least: 128 << 20,
    },
];

impl Limit {
    fn adapt(&self) -> Result<()> {
        // getrlimit(2) cannot fail here; without an answer there is no limit to name.
        let limit = System::Host.raise_limit(self.resource, self.wanted);
        match limit.unwrap_or(self.wanted) {
            limit if limit < self.least => Err(Error::Failed(format!(
                "the {} of a process is limited to {} (ulimit {}): outboard needs {}",
                self.name,
                size(limit),
                self.option,
                size(self.least)
            ))),
            _ => Ok(()),
        }
    }
}

/// Most memory of a command's kernel: a damaged image could fill its caches.
const KERNEL_MOST: u64 = 2 << 30;

/// Memory of a command's kernel in bytes. 0: the library's default, which is less.
pub fn kernel_memory() -> u64 {
    // The kernel's memory is a file.
    let file = System::Host
        .raise_limit(libc::RLIMIT_FSIZE, 0)
        .unwrap_or(u64::MAX);
    if default_memory() > KERNEL_MOST && file >= KERNEL_MOST {
        KERNEL_MOST
    } else {
        0
    }
}

/// Call this first, while little of the stack is used.
pub fn adapt() -> Result<()> {
    // A file beyond RLIMIT_FSIZE is a write error (EFBIG), which names the file.
    ignore(libc::SIGXFSZ);
    LIMITS.iter().try_for_each(Limit::adapt)
}
