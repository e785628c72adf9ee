// SPDX-License-Identifier: GPL-2.0-only
//! The parts of find's expression: tests and actions, and which facts of a file they need.

use super::printf::PrintfFormat;
use crate::glob::Pattern;
use outboard_error::Result;
use outboard_volume::address::Place;

/// A file as the expression sees it.
pub trait ExaminedFile {
    /// Its last name.
    fn name(&self) -> &[u8];
    /// Its path inside the image.
    fn path(&self) -> &[u8];
    /// `S_IF*`.
    fn kind(&mut self) -> u32;
    /// `None`, once told, if it cannot be looked at: then tests that need it fail.
    fn stat(&mut self) -> Option<libc::stat>;
    /// Nanoseconds since 1970.
    fn now(&self) -> i128;
    /// Whether it is an empty file or directory.
    fn is_empty(&mut self) -> bool;
    fn act(&mut self, action: &FindAction) -> bool;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expression {
    And(Vec<Expression>),
    Or(Vec<Expression>),
    Not(Box<Expression>),
    Test(Test),
    Act(FindAction),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FindAction {
    Print,
    Print0,
    PrintAs(PrintfFormat),
    List,
    Delete,
    Prune,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Test {
    Constant(bool),
    Name(Pattern),
    Path(Pattern),
    /// One of these `S_IF*`.
    Kind(Vec<u32>),
    /// In units of so many bytes, rounded up.
    Size(Number, u64),
    /// Since the modification, in units of so many seconds, rounded down.
    Age(Number, u32),
    /// `modified` is found out before the search.
    Newer {
        place: Place,
        modified: i128,
    },
    /// `id` is found out in each image.
    User {
        name: Vec<u8>,
        id: Option<u32>,
    },
    Group {
        name: Vec<u8>,
        id: Option<u32>,
    },
    Permissions(Match, u32),
    Links(Number),
    Inode(Number),
    Empty,
}

/// A number as in "5", "+5" (more) or "-5" (less).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Number {
    Exactly(u64),
    More(u64),
    Less(u64),
}

impl Number {
    pub fn accepts(self, value: i128) -> bool {
        match self {
            Number::Exactly(number) => value == i128::from(number),
            Number::More(number) => value > i128::from(number),
            Number::Less(number) => value < i128::from(number),
        }
    }
}

/// How permissions are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Match {
    Exactly,
    All,
    Any,
}

/// When a file was modified, in nanoseconds since 1970.
pub fn modified(stat: &libc::stat) -> i128 {
    i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec)
}

impl Expression {
    pub fn evaluate(&self, file: &mut dyn ExaminedFile) -> bool {
        match self {
            Expression::And(parts) => parts.iter().all(|part| part.evaluate(file)),
            Expression::Or(parts) => parts.iter().any(|part| part.evaluate(file)),
            Expression::Not(part) => !part.evaluate(file),
            Expression::Test(test) => test.evaluate(file),
            Expression::Act(action) => file.act(action),
        }
    }

    /// Shows each test to `visit`, which may change it.
    pub fn each_test(&mut self, visit: &mut dyn FnMut(&mut Test) -> Result<()>) -> Result<()> {
        match self {
            Expression::And(parts) | Expression::Or(parts) => {
                parts.iter_mut().try_for_each(|part| part.each_test(visit))
            }
            Expression::Not(part) => part.each_test(visit),
            Expression::Test(test) => visit(test),
            Expression::Act(_) => Ok(()),
        }
    }
}

impl Test {
    fn evaluate(&self, file: &mut dyn ExaminedFile) -> bool {
        match self {
            Test::Constant(value) => *value,
            Test::Name(pattern) => pattern.matches(file.name()),
            Test::Path(pattern) => pattern.matches(file.path()),
            Test::Kind(kinds) => kinds.contains(&file.kind()),
            Test::Empty => file.is_empty(),
            other => match file.stat() {
                Some(stat) => other.holds_for(&stat, file.now()),
                None => false,
            },
        }
    }

    /// The tests that need nothing but metadata.
    fn holds_for(&self, stat: &libc::stat, now: i128) -> bool {
        match self {
            Test::Size(number, unit) => {
                let size = stat.st_size.max(0) as u64;
                number.accepts(size.div_ceil(*unit).into())
            }
            Test::Age(number, unit) => {
                let unit = i128::from(*unit) * 1_000_000_000;
                number.accepts((now - modified(stat)).div_euclid(unit))
            }
            Test::Newer { modified: time, .. } => modified(stat) > *time,
            Test::User { id, .. } => *id == Some(stat.st_uid),
            Test::Group { id, .. } => *id == Some(stat.st_gid),
            Test::Permissions(how, wanted) => {
                let mode = stat.st_mode & 0o7777;
                match how {
                    Match::Exactly => mode == *wanted,
                    Match::All => mode & wanted == *wanted,
                    Match::Any => *wanted == 0 || mode & wanted != 0,
                }
            }
            Test::Links(number) => number.accepts(stat.st_nlink.into()),
            Test::Inode(number) => number.accepts(stat.st_ino.into()),
            _ => false,
        }
    }
}
