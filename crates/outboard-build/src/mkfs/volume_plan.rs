// SPDX-License-Identifier: GPL-2.0-only
//! A file system that is to be made, as a value.

use outboard_error::format::{escaped, size as size_text};
use outboard_transfer::cp::OwnerRange;
use outboard_volume::address::ImageName;
use serde::{Serialize, Serializer};
use std::ffi::{OsStr, OsString};
use std::fmt::{self, Display, Formatter};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// A file system that is to be made.
#[derive(Clone, Debug, Serialize)]
pub struct VolumePlan {
    /// The place where it is made: a new image, of the format that its name says, or a volume of an
    /// image.
    #[serde(serialize_with = "shown_name")]
    pub name: ImageName,
    /// Its type, as in "ext4".
    #[serde(rename = "type")]
    pub kind: String,
    /// The size in bytes; `None`: that of the place, or one that fits the contents.
    pub size: Option<u64>,
    /// Choose a size that fits the contents.
    pub fit: bool,
    /// The contents: a directory, or a tar archive. `None`: it is empty.
    #[serde(serialize_with = "shown_text")]
    pub from: Option<PathBuf>,
    /// Its label.
    pub label: Option<String>,
    /// Its UUID, or the serial number of FAT.
    pub uuid: Option<String>,
    /// The same contents make the same image, bit by bit.
    pub reproducible: bool,
    /// The owner of all files, as [`Owner`](outboard_transfer::owner::Owner) understands it.
    #[serde(serialize_with = "shown_text")]
    pub owner: Option<OsString>,
    /// Users and groups that get other numbers.
    #[serde(skip)]
    pub owner_map: Vec<OwnerRange>,
    /// A file of SELinux labels, in the form of file_contexts.
    #[serde(serialize_with = "shown_text")]
    pub file_contexts: Option<PathBuf>,
    /// Overwrite a file or file system that exists.
    pub force: bool,
    /// Further options of the tool that makes it.
    #[serde(serialize_with = "shown_texts")]
    pub options: Vec<OsString>,
}

fn shown_name<S: Serializer>(
    name: &ImageName,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.serialize_str(&name.shown())
}

fn shown_text<S: Serializer>(
    text: &Option<impl AsRef<OsStr>>,
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    let shown = text.as_ref().map(|text| escaped(text.as_ref().as_bytes()));
    shown.serialize(serializer)
}

fn shown_texts<S: Serializer>(
    texts: &[OsString],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(texts.iter().map(|text| escaped(text.as_bytes())))
}

/// The size that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    Exactly(u64),
    Fit,
}

impl VolumePlan {
    /// An empty file system of this type.
    ///
    /// `name` is `IMAGE`, `IMAGE@PARTITION` or `IMAGE@VOLUME`, as for the program `outboard`.
    pub fn new(name: impl AsRef<OsStr>, kind: impl Into<String>) -> Self {
        Self {
            name: ImageName::find(name.as_ref()),
            kind: kind.into(),
            size: None,
            fit: false,
            from: None,
            label: None,
            uuid: None,
            reproducible: false,
            owner: None,
            owner_map: Vec::new(),
            file_contexts: None,
            force: false,
            options: Vec::new(),
        }
    }
}

/// As in "disk.img@1: vfat, 100.0 MiB, from boot".
impl Display for VolumePlan {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        write!(formatter, "{}: {}", self.name.shown(), self.kind)?;
        if let Some(size) = self.size {
            write!(formatter, ", {}", size_text(size))?;
        }
        if let Some(from) = &self.from {
            write!(formatter, ", from {}", escaped(from.as_os_str().as_bytes()))?;
        }
        match &self.label {
            Some(label) => write!(formatter, ", label {}", escaped(label.as_bytes())),
            None => Ok(()),
        }
    }
}
