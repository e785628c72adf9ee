// SPDX-License-Identifier: GPL-2.0-only
//! Records of PAX headers, and the numbers in them.

use outboard_transfer::tar::fuzzing::{pax_again, pax_time_again};

pub fn run(bytes: &[u8]) {
    if let Some((first, second)) = pax_again(bytes) {
        assert_eq!(first, second, "records that are written and read again");
    }
    if let Some((first, second)) = pax_time_again(bytes) {
        assert_eq!(first, second, "a time that is written and read again");
        let longer = [bytes, b"x"].concat();
        assert_eq!(
            pax_time_again(&longer),
            None,
            "a part of {longer:?} is ignored"
        );
    }
}
