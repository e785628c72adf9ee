// SPDX-License-Identifier: GPL-2.0-only
//! Names of volumes and places. The first byte says which beginnings of the rest are host files.

use outboard_volume::address::{check_reserved, ImageName, Place};
use outboard_volume::remote::is_remote;
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
    if let Place::Image(name, _) = &place {
        if check_reserved(&name.file).is_err() {
            return;
        }
    }
    // A number loses its leading zeroes.
    if !text.windows(2).any(|pair| pair == b"@0") {
        let mut operand = place.operand();
        // The name of a server means its root.
        if is_remote(Path::new(OsStr::from_bytes(text))) && operand.len() == text.len() + 2 {
            assert!(operand.ends_with(b":/"), "{place:?}");
            operand.truncate(text.len());
        }
        assert_eq!(operand, text, "{place:?}");
    }
    assert_eq!(Place::parse(operand, exists), place);
    assert!(!place.shown().contains(['\n', '\x1b']));
    let _ = (place.parent(), place.below(b"name"));
    let image = ImageName::parse(operand, exists);
    assert!(!image.shown().contains(['\n', '\x1b']));
}
