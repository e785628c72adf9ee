// SPDX-License-Identifier: GPL-2.0-only
//! The arguments after a command's name: its own options, how it prints, and the shared options
//! that it uses.

use super::settings::{CommandArgs, UsedSettings};
use clap::Args;

// No doc comment here: clap would take it for the command's description.
#[derive(Args, Debug)]
pub struct Invocation<T: CommandArgs> {
    #[command(flatten)]
    pub options: T,
    /// Print JSON: one object, or a line for each file
    #[arg(long, global = true, hide = !T::HAS_JSON)]
    pub json: bool,
    #[command(flatten)]
    settings: UsedSettings<T>,
}
