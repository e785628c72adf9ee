// SPDX-License-Identifier: GPL-2.0-only
//! `outboard completions`: what shells need to complete the command line, made from its own
//! description.

use crate::commands::manual::table_row;
use crate::output::print_all;
use clap::{Args, Command, ValueEnum};
use clap_complete::Shell as Kind;
use outboard_error::Result;

/// Write completions for a shell to standard output
#[derive(Args, Debug)]
#[command(after_help = "Example:\
                        \n  outboard completions bash > \
                        ~/.local/share/bash-completion/completions/outboard")]
pub struct CompletionsArgs {
    /// The shell
    pub shell: CompletionShell,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CompletionShell {
    Bash,
    Zsh,
    Fish,
}

/// More completions, for bash alone; "@OPTIONS@" stands for the words after `mount -o`.
const BASH: &str = include_str!("completions.bash");

/// `whole`: the command line.
pub fn run(options: &CompletionsArgs, mut whole: Command) -> Result<()> {
    let kind = match options.shell {
        CompletionShell::Bash => Kind::Bash,
        CompletionShell::Zsh => Kind::Zsh,
        CompletionShell::Fish => Kind::Fish,
    };
    let mut text = Vec::new();
    clap_complete::generate(kind, &mut whole, "outboard", &mut text);
    if kind == Kind::Bash {
        text.extend_from_slice(BASH.replace("@OPTIONS@", &mount_options(&whole)).as_bytes());
    }
    print_all(&text)
}

/// The words after `mount -o`, from the table in its help. With a value they end in "=".
fn mount_options(whole: &Command) -> String {
    let mount = whole.find_subcommand("mount");
    let help = mount.and_then(|mount| mount.get_after_help());
    let help = help.map(ToString::to_string).unwrap_or_default();
    let rows = help.split_once("Options after -o").map(|(_, table)| table);
    let words: Vec<String> = rows
        .unwrap_or_default()
        .lines()
        .skip(1)
        .flat_map(|row| table_row(row).0.split(", "))
        .map(|word| match word.split_once('=') {
            Some((name, _)) => format!("{name}="),
            None => word.to_owned(),
        })
        .collect();
    words.join(" ")
}
