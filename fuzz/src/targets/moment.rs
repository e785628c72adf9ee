// SPDX-License-Identifier: GPL-2.0-only
//! Times that users write.

use outboard_transfer::moment::parse_moment;

pub fn run(bytes: &[u8]) {
    let Some(moment) = std::str::from_utf8(bytes)
        .ok()
        .and_then(|text| parse_moment(text).ok())
    else {
        return;
    };
    let text = String::from_utf8_lossy(bytes);
    for tail in ["\u{1}", "[x]", "x"] {
        let longer = format!("{text}{tail}");
        assert!(
            parse_moment(&longer).is_err(),
            "a part of {longer:?} is ignored"
        );
    }
    assert!((0..1_000_000_000).contains(&moment.tv_nsec));
    if moment.tv_nsec == 0 {
        let again = parse_moment(&format!("@{}", moment.tv_sec)).expect("it is a time");
        assert_eq!((again.tv_sec, again.tv_nsec), (moment.tv_sec, 0));
    }
}
