// SPDX-License-Identifier: GPL-2.0-only
//! The language of find: its expressions are those of GNU find. The caller walks, and does what the
//! actions say.

mod expression;
mod parser;
mod printf;

pub use expression::{modified, ExaminedFile, Expression, FindAction, Match, Number, Test};
pub use parser::{operand_count, parse, Options, Parsed};
pub use printf::{kilobytes, Facts, PrintfFormat};
