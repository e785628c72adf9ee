// SPDX-License-Identifier: GPL-2.0-only
//! Permissions as chmod takes them.

use outboard_transfer::mode::ModeChange;

pub fn run(bytes: &[u8]) {
    let Some(change) = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| ModeChange::parse(text).ok())
    else {
        return;
    };
    let longer = [bytes, b"\x01"].concat();
    let longer = String::from_utf8_lossy(&longer);
    assert!(
        ModeChange::parse(&longer).is_err(),
        "a part of {longer:?} is ignored"
    );
    for mode in [0, 0o644, 0o4755, 0o7777, 0o100_644] {
        for directory in [false, true] {
            assert!(change.apply(mode, directory, 0o022) <= 0o7777);
        }
    }
}
