// SPDX-License-Identifier: GPL-2.0-only
//! Standard error, where messages for the user go.

use crate::format;
use std::io::{self, Write};

/// Prints a message. No control character reaches a terminal. If the message cannot be printed,
/// because its reader has gone or a disk is full, the command goes on: it may be writing an image.
pub(crate) fn print(message: &str) {
    let line = format!("outboard: {}\n", format::message(message));
    let _ = io::stderr().write_all(line.as_bytes());
}
