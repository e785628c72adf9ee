// SPDX-License-Identifier: GPL-2.0-only
//! The error of data that contradicts itself or its protocol.

use std::io;

/// An error of kind InvalidData with this text.
pub(crate) fn invalid_data(text: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text.into())
}
