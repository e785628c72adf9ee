// SPDX-License-Identifier: GPL-2.0-only
//! The arguments after a command's name: its own options, and how it prints.

use clap::Args;

// No doc comment here: clap would take it for the command's description.
#[derive(Args, Debug)]
pub struct Invocation<T: Args> {
    #[command(flatten)]
    pub options: T,
    /// Print JSON: one object, or a line for each file
    #[arg(long, global = true)]
    pub json: bool,
}
