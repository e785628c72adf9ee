// SPDX-License-Identifier: GPL-2.0-only
//! The message of the process that serves a volume.

use crate::address::ImageName;
use serde::{Deserialize, Serialize};
use std::os::unix::ffi::OsStrExt;

/// The copy's only reply, when the file can be used: the selectors of the full name.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExportedName(pub Vec<u8>);

impl ExportedName {
    pub fn of(name: &ImageName) -> Self {
        let file = name.file.as_os_str().as_bytes().len();
        let operand = name.operand();
        let selectors = operand[file..].strip_prefix(b"@").unwrap_or_default();
        Self(selectors.to_vec())
    }
}
