// SPDX-License-Identifier: GPL-2.0-only
//! The command line.

use crate::commands::settings::{check_used, Settings};
use crate::commands::Command;
use clap::{Args, CommandFactory, FromArgMatches, Parser};
use outboard::{profile, release, version};
use std::ffi::OsString;

/// Open, read and write disk images with Linux's own file systems, without root.
///
/// A place inside an image is written IMAGE:/PATH, IMAGE@N:/PATH for partition N, and
/// IMAGE@NAME:/PATH for a volume that "outboard info" names. PATH may have wildcards: *, ?, [a-z].
/// Everything without ":/" is a path of the host, or an image or volume where a command takes one.
#[derive(Debug, Parser)]
#[command(name = "outboard", version = version_text(), max_term_width = 100)]
pub struct Arguments {
    #[command(flatten)]
    pub settings: Settings,
    #[command(subcommand)]
    pub command: Command,
}

impl Arguments {
    /// The command line for help, manual pages, completions and lines of scripts: a command has
    /// only the shared options that it uses.
    pub fn grammar() -> clap::Command {
        Self::command().mut_args(|argument| argument.global(false))
    }

    /// Parses a command line, as [`Parser::try_parse_from`] does. To build the command lines of all
    /// commands takes longer than to boot the kernel, so those of other commands are left out at
    /// first. Help and errors need all of them.
    pub fn of(words: &[OsString]) -> Result<Self, clap::Error> {
        let mut grammar = few_commands(words);
        let matches = grammar.try_get_matches_from_mut(words).or_else(|_| {
            grammar = Self::grammar();
            grammar.try_get_matches_from_mut(words)
        })?;
        if let Some(name) = matches.subcommand_name() {
            check_used(&mut grammar, &matches, name, Command::settings_of(name))?;
        }
        Self::from_arg_matches(&matches)
    }
}

/// The command line with the commands that one of the words names. Each takes all shared options:
/// [`check_used`] then knows which of them the command does not use.
fn few_commands(words: &[OsString]) -> clap::Command {
    let mut names: Vec<&str> = words.iter().filter_map(|word| word.to_str()).collect();
    names.sort_unstable();
    names.dedup();
    let commands = names.into_iter().filter_map(Command::named);
    Settings::augment_args(clap::Command::new("outboard"))
        .subcommand_required(true)
        .subcommands(commands)
}

fn version_text() -> String {
    format!("{} (Linux {}, profile {})", version(), release(), profile())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_command_line_is_well_formed() {
        Arguments::command().debug_assert();
        Arguments::grammar().debug_assert();
    }

    /// Clap makes this check by itself only in debug builds.
    #[test]
    fn no_letter_means_two_options() {
        let mut all = Arguments::grammar();
        all.build();
        for command in all.get_subcommands() {
            let mut letters = HashSet::new();
            for letter in command
                .get_arguments()
                .filter_map(|option| option.get_short())
            {
                assert!(letters.insert(letter), "{} -{letter}", command.get_name());
            }
        }
    }

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    /// Without the short cut.
    fn of_all(words: &[OsString]) -> Result<Arguments, clap::Error> {
        let matches = Arguments::grammar().try_get_matches_from(words)?;
        Arguments::from_arg_matches(&matches)
    }

    #[test]
    fn every_command_can_be_built_alone() {
        let ids = |command: &clap::Command| -> Vec<String> {
            let arguments = command.get_arguments();
            arguments
                .map(|argument| argument.get_id().to_string())
                .collect()
        };
        for command in Arguments::command().get_subcommands() {
            let alone = Command::named(command.get_name()).expect("a command of this name");
            assert_eq!(ids(&alone), ids(command));
        }
    }

    #[test]
    fn only_commands_that_are_named_are_built() {
        for (line, count) in [
            ("outboard ls disk.img:/", 1),
            ("outboard --type ls ls ls disk.img:/ls", 1),
            ("outboard cat ls", 2),
            ("outboard lss", 0),
        ] {
            let built = few_commands(&words(line));
            assert_eq!(built.get_subcommands().count(), count, "{line}");
        }
    }

    #[test]
    fn a_short_cut_changes_nothing() {
        for line in [
            "outboard ls -lR disk.img:/ --ro",
            "outboard --memory 64M --type ls ls cat",
            "outboard -v cp -a ls disk.img:/cp",
            "outboard cat -- --ro ls",
            "outboard part list disk.img",
        ] {
            let all = of_all(&words(line)).map_err(|error| error.to_string());
            let quick = Arguments::of(&words(line)).map_err(|error| error.to_string());
            assert_eq!(format!("{quick:?}"), format!("{all:?}"), "{line}");
            let few = few_commands(&words(line)).try_get_matches_from(words(line));
            assert_eq!(few.is_ok(), all.is_ok(), "{line}");
        }
        for line in [
            "outboard",
            "outboard ls",
            "outboard lss disk.img:/",
            "outboard help ls",
            "outboard ls --help",
            "outboard --version",
            "outboard ls --memory 1.5G x",
        ] {
            let all = of_all(&words(line)).unwrap_err().to_string();
            assert_eq!(
                Arguments::of(&words(line)).unwrap_err().to_string(),
                all,
                "{line}"
            );
        }
    }

    #[test]
    fn copying_needs_two_places() {
        assert!(Arguments::of(&words("outboard cp a")).is_err());
        let parsed = Arguments::of(&words("outboard cp -a a b --ro")).unwrap();
        assert!(parsed.settings.images.read_only);
    }
}
