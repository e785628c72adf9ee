// SPDX-License-Identifier: MIT
//! Processors, and where a thread may run.

use std::mem::{size_of, zeroed};

/// The number of the processor on which the calling thread runs. Without a host call, where the
/// host has a vDSO.
pub(crate) fn current() -> u32 {
    // SAFETY: has no arguments.
    let number = unsafe { libc::sched_getcpu() };
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// A set of processors.
#[derive(Clone, Copy)]
pub(crate) struct Processors(libc::cpu_set_t);

impl Processors {
    fn empty() -> Self {
        // SAFETY: all-zero is valid for the set.
        Self(unsafe { zeroed() })
    }

    /// Those on which the calling thread may run.
    pub(crate) fn allowed() -> Self {
        let mut set = Self::empty();
        // SAFETY: the set has the size that is told. An error leaves it empty.
        unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set.0) };
        set
    }

    /// This one alone, if it belongs to the set; else none.
    pub(crate) fn only(&self, number: u32) -> Self {
        let mut only = Self::empty();
        if self.has(number) {
            // SAFETY: the index is below the size of the set.
            unsafe { libc::CPU_SET(number as usize, &mut only.0) };
        }
        only
    }

    /// The set without this one.
    pub(crate) fn without(mut self, number: u32) -> Self {
        if self.has(number) {
            // SAFETY: the index is below the size of the set.
            unsafe { libc::CPU_CLR(number as usize, &mut self.0) };
        }
        self
    }

    fn has(&self, number: u32) -> bool {
        let index = number as usize;
        // SAFETY: the index is below the size of the set.
        index < 8 * size_of::<libc::cpu_set_t>() && unsafe { libc::CPU_ISSET(index, &self.0) }
    }

    /// From now on the calling thread runs on these. Returns whether it does: not, if there are
    /// none, or the host forbids it.
    pub(crate) fn bind(&self) -> bool {
        // SAFETY: the set has the size that is told.
        unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) == 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_moves() {
        let all = Processors::allowed();
        let here = current();
        assert!(all.only(here).bind());
        assert_eq!(current(), here);
        if all.without(here).bind() {
            assert_ne!(current(), here);
        }
        assert!(all.bind());
        assert!(!all.only(u32::MAX).bind());
        assert!(!all.only(5000).bind());
    }
}
