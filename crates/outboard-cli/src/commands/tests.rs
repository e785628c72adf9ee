// SPDX-License-Identifier: GPL-2.0-only
//! Tests of the command line and its short cut.

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
fn of_all(words: &[OsString]) -> std::result::Result<Arguments, clap::Error> {
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
