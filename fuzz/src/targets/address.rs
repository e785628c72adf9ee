// SPDX-License-Identifier: GPL-2.0-only
//! Names of volumes and places. The first byte says which beginnings of the rest are host files.

use outboard_volume::address::{ImageName, Place};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

pub fn run(bytes: &[u8]) {
    let Some((&exists, text)) = bytes.split_first() else {
        return;
    };
    // A command line has no NUL.
    if text.contains(&0) {
        return;
    }
    let exists = |path: &Path| match exists {
        0 => false,
        length => path.as_os_str().len() == usize::from(length),
    };
    let operand = OsStr::from_bytes(text);
    let place = Place::parse(operand, exists);
    // A number loses its leading zeroes.
    if !text.windows(2).any(|pair| pair == b"@0") {
        assert_eq!(place.operand(), text, "{place:?}");
    }
    assert_eq!(Place::parse(operand, exists), place);
    assert!(!place.shown().contains(['\n', '\x1b']));
    let _ = (place.parent(), place.below(b"name"));
    let image = ImageName::parse(operand, exists);
    assert!(!image.shown().contains(['\n', '\x1b']));
}
