// SPDX-License-Identifier: GPL-2.0-only
//! Patterns of the shell, as the host's C library understands them.

use libc::c_int;
use std::ffi::CStr;

/// A match may end before a slash, so that a directory's name matches what is in it.
const LEADING_DIRECTORY: c_int = 1 << 3;

/// Whether a pattern matches a path, or a directory that it is in. `*` matches slashes too.
pub fn matches(pattern: &CStr, path: &CStr) -> bool {
    // SAFETY: both are NUL-terminated strings that outlive the call.
    unsafe { libc::fnmatch(pattern.as_ptr(), path.as_ptr(), LEADING_DIRECTORY) == 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        assert!(matches(c"*.o", c"a/b.o"));
        assert!(matches(c"a", c"a/b"));
        assert!(matches(c"[ab]?", c"bc"));
        assert!(!matches(c"a", c"ab"));
        assert!(matches(c"\xff*", c"\xff\xfe"));
    }
}
