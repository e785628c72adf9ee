// SPDX-License-Identifier: GPL-2.0-only
//! Names of nodes and links, and ranges of them.

use crate::error::{Error, Result};
use std::collections::HashMap;

/// Most nodes: each is a process.
pub(super) const MOST_NODES: usize = 2000;

/// The index of each name.
pub(crate) type NameIndex = HashMap<String, usize>;

/// Whether a text can be the name of a node or link, and part of a file's name.
fn is_name(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    (1..=32).contains(&text.len()) && text.bytes().all(is_word)
}

pub(super) fn check_name(text: &str, line: usize) -> Result<()> {
    if is_name(text) {
        Ok(())
    } else {
        let text = format!("{text:?} is no name: use up to 32 letters, digits, - and _");
        Err(Error::topology(line, text))
    }
}

/// The names of `n1..n255` or `n01..n255`, or the one name.
pub(super) fn expand(text: &str, line: usize) -> Result<Vec<String>> {
    let Some((first, last)) = text.split_once("..") else {
        check_name(text, line)?;
        return Ok(vec![text.to_owned()]);
    };
    let range = numbered(first).zip(numbered(last));
    match range {
        Some(((stem, from, width), (other, to, other_width)))
            if stem == other && from <= to && to - from < MOST_NODES =>
        {
            let width = width.max(other_width);
            let names = (from..=to).map(|number| {
                let name = format!("{stem}{number:0width$}");
                check_name(&name, line).map(|()| name)
            });
            names.collect()
        }
        _ => {
            let text =
                format!("{text:?} is no range: write it as n1..n9, of at most {MOST_NODES} names");
            Err(Error::topology(line, text))
        }
    }
}

/// Splits the number at the end of a name off: the stem, the number, and how many digits the
/// numbers of a range have at least. As in a shell, a leading zero asks for numbers of one width.
fn numbered(name: &str) -> Option<(&str, usize, usize)> {
    let stem = name.trim_end_matches(|character: char| character.is_ascii_digit());
    let digits = &name[stem.len()..];
    let has_zero = digits.len() > 1 && digits.starts_with('0');
    let width = if has_zero { digits.len() } else { 0 };
    Some((stem, digits.parse().ok()?, width))
}

/// The index that a name has.
pub(super) fn find(names: &NameIndex, kind: &str, name: &str, line: usize) -> Result<usize> {
    names
        .get(name)
        .copied()
        .ok_or_else(|| Error::topology(line, format!("there is no {kind} {name:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str) -> Vec<String> {
        expand(text, 1).unwrap()
    }

    #[test]
    fn a_range_has_the_names_that_it_shows() {
        assert_eq!(names("n1"), ["n1"]);
        assert_eq!(names("n9..n11"), ["n9", "n10", "n11"]);
        assert_eq!(names("n01..n03"), ["n01", "n02", "n03"]);
        assert_eq!(names("n08..n10"), ["n08", "n09", "n10"]);
        assert_eq!(names("n1..n03"), ["n01", "n02", "n03"]);
        assert_eq!(names("n099..n101"), ["n099", "n100", "n101"]);
        assert_eq!(names("n0..n1"), ["n0", "n1"]);
        assert_eq!(names("r2-n1..r2-n2"), ["r2-n1", "r2-n2"]);
        assert_eq!(names("7..8"), ["7", "8"]);
    }

    #[test]
    fn wrong_ranges_are_refused() {
        let long = "a".repeat(32);
        for text in [
            "n2..n1",
            "n1..m2",
            "n..n2",
            "n1..",
            "n1..n99999999999999999999999",
            "n1..n2001",
            "a/1..a/2",
            &format!("{long}1..{long}9"),
            &format!("{0}9..{0}10", &long[1..]),
        ] {
            assert!(expand(text, 1).is_err(), "{text}");
        }
    }
}
