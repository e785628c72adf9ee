// SPDX-License-Identifier: GPL-2.0-only
//! A difference between two trees, as text and as JSON.

use crate::commands::getfattr::encode;
use crate::format::{self, name};
use crate::output::{Output, Print};
use crate::record::{kind, nanoseconds, Bytes, DeviceNumber};
use outboard_error::format::escaped;
use outboard_error::Result;
use outboard_transfer::diff::{ComparedValue, Difference, Side, What};
use serde::{Serialize, Serializer};

fn shown(value: &ComparedValue) -> String {
    match value {
        ComparedValue::Type(mode) => format::kind(*mode, 1).to_owned(),
        ComparedValue::Mode(mode) => format!("{mode:04o}"),
        ComparedValue::Owner { user, group } => format!("{user}:{group}"),
        ComparedValue::Modified { seconds, part } => format::moment(*seconds, *part),
        ComparedValue::Size(size) => size.to_string(),
        ComparedValue::Device(number) => {
            format!("{},{}", libc::major(*number), libc::minor(*number))
        }
        ComparedValue::Target(target) => format!("\"{}\"", escaped(target)),
    }
}

/// As JSON, unless it is bytes.
fn plain(value: &ComparedValue) -> Option<Plain> {
    Some(match value {
        ComparedValue::Type(mode) => Plain::Word(kind(*mode)),
        ComparedValue::Mode(mode) => Plain::Number((*mode).into()),
        ComparedValue::Owner { user, group } => Plain::Owner {
            uid: *user,
            gid: *group,
        },
        ComparedValue::Modified { seconds, part } => Plain::Number(nanoseconds(*seconds, *part)),
        ComparedValue::Size(size) => Plain::Number((*size).into()),
        ComparedValue::Device(number) => Plain::Device(DeviceNumber::new(*number)),
        ComparedValue::Target(_) => return None,
    })
}

fn bytes_of(value: &ComparedValue) -> Option<&[u8]> {
    match value {
        ComparedValue::Target(target) => Some(target),
        _ => None,
    }
}

/// The two values, if there are any to show.
fn values(difference: &Difference) -> Option<[String; 2]> {
    match &difference.what {
        What::OnlyIn(_) | What::Contents(_) => None,
        What::Values(values) => Some(values.each_ref().map(shown)),
        What::Attribute { values, .. } => Some(values.each_ref().map(attribute)),
    }
}

/// The value of an attribute, for a line.
fn attribute(value: &Option<Vec<u8>>) -> String {
    match value {
        Some(value) => String::from_utf8_lossy(&encode(value, None, true)).into_owned(),
        None => "none".to_owned(),
    }
}

#[derive(Serialize)]
#[serde(untagged)]
enum Plain {
    Number(i128),
    Word(&'static str),
    Owner { uid: u32, gid: u32 },
    Device(DeviceNumber),
}

/// A difference as JSON.
#[derive(Serialize)]
struct DifferenceRecord<'a> {
    #[serde(flatten)]
    path: Bytes<'a>,
    what: &'static str,
    /// Of an extended attribute.
    #[serde(flatten)]
    name: Option<Bytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    only_in: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    offset: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    left: Option<Plain>,
    #[serde(flatten)]
    left_bytes: Option<Bytes<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    right: Option<Plain>,
    #[serde(flatten)]
    right_bytes: Option<Bytes<'a>>,
}

impl<'a> DifferenceRecord<'a> {
    fn new(difference: &'a Difference) -> Self {
        let empty = Self {
            path: Bytes::new("path", difference.path.as_slice()),
            what: "missing",
            name: None,
            only_in: None,
            offset: None,
            left: None,
            left_bytes: None,
            right: None,
            right_bytes: None,
        };
        let bytes = |name, value: Option<&'a [u8]>| value.map(|value| Bytes::new(name, value));
        match &difference.what {
            What::OnlyIn(side) => Self {
                only_in: Some(["left", "right"][*side]),
                ..empty
            },
            What::Contents(offset) => Self {
                what: "contents",
                offset: Some(*offset),
                ..empty
            },
            What::Values([left, right]) => Self {
                what: left.what(),
                left: plain(left),
                left_bytes: bytes("left", bytes_of(left)),
                right: plain(right),
                right_bytes: bytes("right", bytes_of(right)),
                ..empty
            },
            What::Attribute { name, values } => Self {
                what: "xattr",
                name: Some(Bytes::new("name", name.as_slice())),
                left_bytes: bytes("left", values[0].as_deref()),
                right_bytes: bytes("right", values[1].as_deref()),
                ..empty
            },
        }
    }
}

/// A difference with the two trees, which text names.
pub struct Line<'a> {
    pub difference: &'a Difference,
    pub sides: &'a [Side; 2],
}

impl Serialize for Line<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        DifferenceRecord::new(self.difference).serialize(serializer)
    }
}

impl Print for Line<'_> {
    /// As `diff` has it: "Only in A:/etc: hosts"; else "etc/hosts: mode: 0644 and 0600".
    fn print(&self, output: &mut Output) -> Result<()> {
        let terminal = output.is_terminal();
        let path = self.difference.path.as_slice();
        if let What::OnlyIn(side) = self.difference.what {
            return output.line(only_in(&self.sides[side], path, terminal));
        }
        let path = match path {
            b"" => b".".as_slice(),
            path => path,
        };
        let mut line = name(path, terminal);
        line.extend(format!(": {}", self.difference.words()).bytes());
        if let Some([left, right]) = values(self.difference) {
            line.extend(format!(": {left} and {right}").bytes());
        }
        output.line(line)
    }
}

fn only_in(side: &Side, path: &[u8], terminal: bool) -> Vec<u8> {
    let (directory, file) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&path[..0], path),
    };
    let place = match directory {
        b"" => side.place.operand(),
        directory => side.place.below(directory).operand(),
    };
    let (place, file) = (name(&place, terminal), name(file, terminal));
    [b"Only in ".as_slice(), &place, b": ", &file].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(what: What) -> String {
        let path = b"a".to_vec();
        serde_json::to_string(&DifferenceRecord::new(&Difference { path, what })).unwrap()
    }

    #[test]
    fn values_keep_their_types() {
        let modified = |seconds| ComparedValue::Modified { seconds, part: 1 };
        assert_eq!(
            json(What::Values([modified(-1), modified(i64::MAX)])),
            "{\"path\":\"a\",\"what\":\"modified\",\"left\":-999999999,\
             \"right\":9223372036854775807000000001}"
        );
        let targets = [b"x".to_vec(), b"\xff".to_vec()].map(ComparedValue::Target);
        assert_eq!(
            json(What::Values(targets)),
            "{\"path\":\"a\",\"what\":\"target\",\"left\":\"x\",\"right\":\"\u{fffd}\",\
             \"right_base64\":\"/w==\"}"
        );
        assert_eq!(
            json(What::Attribute {
                name: b"user.x".to_vec(),
                values: [None, Some(b"1".to_vec())],
            }),
            "{\"path\":\"a\",\"what\":\"xattr\",\"name\":\"user.x\",\"right\":\"1\"}"
        );
    }
}
