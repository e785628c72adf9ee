// SPDX-License-Identifier: GPL-2.0-only
//! Why the metadata of an image cannot be used.

use std::fmt::{self, Display, Formatter};

/// A reason, as a text that continues "the image, but ...".
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The metadata contradict themselves, or a part of the image is missing.
    Damaged(String),
    /// The image may be good: this program cannot use its format.
    Unsupported(String),
}

impl Fault {
    pub(crate) fn damaged(text: impl Into<String>) -> Self {
        Self::Damaged(text.into())
    }

    pub(crate) fn unsupported(text: impl Into<String>) -> Self {
        Self::Unsupported(text.into())
    }
}

impl Display for Fault {
    fn fmt(&self, formatter: &mut Formatter) -> fmt::Result {
        match self {
            Self::Damaged(text) | Self::Unsupported(text) => formatter.write_str(text),
        }
    }
}
