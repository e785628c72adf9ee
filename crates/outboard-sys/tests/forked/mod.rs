// SPDX-License-Identifier: GPL-2.0-only
//! Forked children of tests that have kernels. Also for the tests of outboard-c: crates between the
//! two have no unsafe code.

/// A forked child of this process.
pub struct Child(libc::pid_t);

/// Forks this process, which must have no other threads than kernels have. Returns `None` in the
/// child, which ends by `end_at_once` with the number of a failure, or 0.
pub fn fork() -> Option<Child> {
    // SAFETY: the other threads of this process are the kernels' or wait for this one: no lock of
    // the C library or of Rust is held, and the child may call anything.
    match unsafe { libc::fork() } {
        0 => None,
        id => Some(Child(id)),
    }
}

impl Child {
    /// Waits until the child ends, and checks that it found nothing wrong.
    pub fn check(self) {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        assert_eq!(unsafe { libc::waitpid(self.0, &mut status, 0) }, self.0);
        assert!(libc::WIFEXITED(status), "{status:#x}");
        assert_eq!(libc::WEXITSTATUS(status), 0);
    }
}
