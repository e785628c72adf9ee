// SPDX-License-Identifier: GPL-2.0-only
//! The front of the engine in this process: a program, or a library for another language.

use crate::hint::Hint;
use std::fmt::{Display, Formatter};
use std::sync::OnceLock;

/// The front of the engine. A process has one, as it has one locale.
pub trait Front: Sync {
    /// Its words for a hint. `None`: the neutral ones.
    fn words(&self, hint: &Hint) -> Option<String>;
}

static FRONT: OnceLock<&'static dyn Front> = OnceLock::new();

/// Installs the front of this process. Only the first one counts. Without one, messages name no
/// option of any program.
pub fn install(front: &'static dyn Front) {
    FRONT.get_or_init(|| front);
}

impl Display for Hint {
    /// The words of the front, or neutral ones.
    fn fmt(&self, formatter: &mut Formatter) -> std::fmt::Result {
        let words = FRONT.get().and_then(|front| front.words(self));
        formatter.write_str(&words.unwrap_or_else(|| self.neutral()))
    }
}
