// SPDX-License-Identifier: GPL-2.0-only
//! A difference between two trees.

use outboard_error::format::escaped;

/// Something of a file that can differ.
#[derive(Debug, PartialEq, Eq)]
pub enum ComparedValue {
    Type(u32),
    Mode(u32),
    Owner { user: u32, group: u32 },
    Modified { seconds: i64, part: i64 },
    Size(i64),
    Device(u64),
    Target(Vec<u8>),
}

impl ComparedValue {
    /// Its name.
    pub fn what(&self) -> &'static str {
        match self {
            ComparedValue::Type(_) => "type",
            ComparedValue::Mode(_) => "mode",
            ComparedValue::Owner { .. } => "owner",
            ComparedValue::Modified { .. } => "modified",
            ComparedValue::Size(_) => "size",
            ComparedValue::Device(_) => "device",
            ComparedValue::Target(_) => "target",
        }
    }
}

/// How a pair of files differs.
#[derive(Debug)]
pub enum What {
    /// Only this tree has the file: 0, 1.
    OnlyIn(usize),
    /// The contents are the same before this offset.
    Contents(u64),
    Values([ComparedValue; 2]),
    /// An extended attribute. `None`: the file does not have it.
    Attribute {
        name: Vec<u8>,
        values: [Option<Vec<u8>>; 2],
    },
}

/// A difference of two files with the same path.
#[derive(Debug)]
pub struct Difference {
    /// Relative to the two trees; empty: they themselves.
    pub path: Vec<u8>,
    pub what: What,
}

impl Difference {
    /// The difference in words. Differences of one file are printed in the order of this text.
    pub fn words(&self) -> String {
        match &self.what {
            What::OnlyIn(_) => "missing".to_owned(),
            What::Contents(offset) => format!("contents differ from byte {}", offset + 1),
            What::Values([left, _]) => left.what().to_owned(),
            What::Attribute { name, .. } => format!("xattr {}", escaped(name)),
        }
    }
}
