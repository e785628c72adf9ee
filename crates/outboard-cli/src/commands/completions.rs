// SPDX-License-Identifier: GPL-2.0-only
//! `outboard completions`: what shells need to complete the command line, made from its own description.

use crate::arguments::Arguments;
use crate::error::{Error, Result};
use clap::{Args, CommandFactory, ValueEnum};
use clap_complete::Shell as Kind;
use std::io::{self, Write};

/// Write the completions for a shell to standard output
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  outboard completions bash > ~/.local/share/bash-completion/completions/outboard"
)]
pub struct Completions {
    /// The shell
    pub shell: Shell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Shell {
    Bash,
    Zsh,
    Fish,
}

pub fn run(options: &Completions) -> Result<()> {
    let kind = match options.shell {
        Shell::Bash => Kind::Bash,
        Shell::Zsh => Kind::Zsh,
        Shell::Fish => Kind::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(kind, &mut Arguments::command(), "outboard", &mut text);
    io::stdout()
        .write_all(&text)
        .map_err(|error| Error::failed("cannot write the completions", &error))
}
