// SPDX-License-Identifier: GPL-2.0-only
//! Parts that the program needs of every host, and that some containers and rescue systems lack. A
//! missing piece shows up as "No such file or directory" in many places, so one note explains them
//! all.

use std::path::Path;

/// A path, and how to get it.
const NEEDS: [(&str, &str); 2] = [
    (
        "/proc/self/fd",
        "/proc is not mounted here: mount -t proc proc /proc",
    ),
    (
        "/dev/null",
        "/dev/null does not exist here: mknod -m 666 /dev/null c 1 3",
    ),
];

/// Notes on what this host lacks. Call this before the sandbox hides the host's files.
pub fn missing() -> Vec<&'static str> {
    NEEDS
        .into_iter()
        .filter(|(path, _)| !Path::new(path).exists())
        .map(|(_, note)| note)
        .collect()
}
