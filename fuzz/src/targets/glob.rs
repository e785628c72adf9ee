// SPDX-License-Identifier: GPL-2.0-only
//! Patterns of names. The input is a pattern and a name with a NUL between them.

use outboard_transfer::glob::Pattern;

/// The pattern that matches this name alone.
fn literal(name: &[u8]) -> Vec<u8> {
    let special = |byte: &u8| b"*?[]\\".contains(byte);
    name.iter()
        .flat_map(|byte| special(byte).then_some(b'\\').into_iter().chain([*byte]))
        .collect()
}

pub fn run(bytes: &[u8]) {
    // Names and patterns are short; the worst case takes the product of both.
    let bytes = &bytes[..bytes.len().min(4096)];
    let mut parts = bytes.splitn(2, |&byte| byte == 0);
    let (Some(pattern), Some(name)) = (parts.next(), parts.next()) else {
        return;
    };
    let plain = Pattern::new(pattern, false).matches(name);
    let ignoring = Pattern::new(pattern, true).matches(name);
    let inverts = pattern.windows(2).any(|pair| matches!(pair, b"[!" | b"[^"));
    assert!(
        ignoring || !plain || inverts,
        "case counts more when it is ignored"
    );
    assert!(Pattern::new(&literal(name), false).matches(name));
    let inside = Pattern::new(pattern, false).matches_inside(name);
    assert!(inside || !plain, "all of a path is a part of it");
    // A backslash at the end stands for itself, but would take the special meaning of the star.
    let backslashes = pattern.iter().rev().take_while(|&&byte| byte == b'\\');
    let escapes = backslashes.count() % 2 == 1;
    assert!(Pattern::new(&[pattern, b"*"].concat(), false).matches(name) || !plain || escapes);
}
