// SPDX-License-Identifier: GPL-2.0-only
//! The place in an image that the shell is in, and the meaning of the command line's places there.
//!
//! The commands know nothing of the shell. Their command line is taken as it is described to clap;
//! only operands that are places are read otherwise: a path becomes `IMAGE:/DIRECTORY/PATH` before
//! the command sees it. The names of their values tell which operands are places.

use crate::commands::line::CommandSet;
use clap::builder::{OsStringValueParser, TypedValueParser};
use clap::{Arg, Command};
use outboard_error::format::escaped;
use outboard_volume::address::{ImageName, Place};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Commands that take the current directory if they are given none.
const ABOUT_HERE: [&str; 5] = ["ls", "lsattr", "tree", "du", "df"];

/// Commands whose operands are not all places: [`Here::operands`] tells which are.
const MIXED: [&str; 2] = ["find", "ln"];

/// An image and a directory in it.
#[derive(Clone, Debug)]
pub struct Here {
    pub image: ImageName,
    /// Absolute, without symbolic links.
    pub directory: PathBuf,
}

impl Here {
    /// The place that a path means.
    pub fn place(&self, path: &Path) -> Place {
        Place::Image(self.image.clone(), self.directory.join(path))
    }

    pub fn root(&self) -> Place {
        self.place(Path::new("/"))
    }

    /// For the prompt: the image's file without its directories.
    pub fn shown(&self) -> String {
        let place = self.place(&self.directory).operand();
        let directories = self.image.file.parent().map_or(0, |parent| {
            let length = parent.as_os_str().len();
            length + usize::from(length > 0 && parent != Path::new("/"))
        });
        escaped(&place[directories.min(place.len())..])
    }

    /// The words of a line, with places where a command has them among other operands.
    pub fn operands(&self, mut words: Vec<OsString>) -> Vec<OsString> {
        let command = words.first().cloned().unwrap_or_default();
        let is_option = |word: &OsString| word.as_encoded_bytes().starts_with(b"-");
        if command == "find" {
            let first = words.iter().skip(1).take_while(|word| *word == "--json");
            let first = 1 + first.count();
            let is_test = |word: &OsString| is_option(word) || word == "(" || word == "!";
            let rest = words.iter().skip(first);
            let end = first + rest.take_while(|word| !is_test(word)).count();
            if first == end {
                words.insert(first, self.operand(OsStr::new(".")));
            } else {
                self.replace(&mut words[first..end]);
            }
        }
        if command == "ln" && words.len() > 2 {
            let long = |word: &OsString| word.as_encoded_bytes().starts_with(b"--");
            let symbolic = words.iter().any(|word| {
                let letters = is_option(word) && !long(word);
                word == "--symbolic" || letters && word.as_encoded_bytes().contains(&b's')
            });
            let mut places: Vec<&mut OsString> = words
                .iter_mut()
                .skip(1)
                .filter(|word| !is_option(word))
                .collect();
            let texts = if symbolic {
                places.len().saturating_sub(1)
            } else {
                0
            };
            for word in places.drain(texts..) {
                *word = self.operand(word);
            }
        }
        words
    }

    fn replace(&self, words: &mut [OsString]) {
        for word in words {
            *word = self.operand(word);
        }
    }

    /// The command line as it is understood here.
    pub fn grammar(&self, commands: &CommandSet) -> Command {
        (commands.grammar)().mut_subcommands(|command| {
            if MIXED.contains(&command.get_name()) {
                return command;
            }
            let about_here = ABOUT_HERE.contains(&command.get_name());
            command.mut_args(|argument| {
                if !takes_places(&argument) {
                    return argument;
                }
                let here = self.clone();
                let default = about_here && argument.is_required_set();
                let parser =
                    OsStringValueParser::new().map(move |word: OsString| here.operand(&word));
                let argument = argument.value_parser(parser);
                if default {
                    argument.required(false).default_value(".")
                } else {
                    argument
                }
            })
        })
    }

    /// The operand of the command line that a word stands for.
    fn operand(&self, word: &OsStr) -> OsString {
        match host_part(word) {
            Some(path) => path.to_owned(),
            None => OsString::from_vec(self.place(Path::new(word)).operand()),
        }
    }
}

/// Whether values of this argument are places: "IMAGE:/PATH", and what `cp` has.
pub fn takes_places(argument: &Arg) -> bool {
    let names = argument.get_value_names().unwrap_or_default();
    let text = argument.get_value_parser().type_id() == std::any::TypeId::of::<OsString>();
    text && names
        .iter()
        .any(|name| name.contains(":/") || matches!(name.as_str(), "SRC" | "DST"))
}

/// The commands that the help shows.
pub fn commands(commands: &CommandSet) -> Vec<Command> {
    let all = (commands.grammar)();
    let shown = all
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    shown.cloned().collect()
}

/// Whether a word is written so that the host is meant; and what then follows.
pub fn host_part(word: &OsStr) -> Option<&OsStr> {
    word.as_bytes()
        .strip_prefix(b"host:")
        .map(OsStr::from_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::line::{split, understand};
    use crate::commands::COMMANDS;

    fn here() -> Here {
        Here {
            image: ImageName::new("dir/d.img", Some(2)),
            directory: "/etc".into(),
        }
    }

    fn parsed(line: &str) -> String {
        let words = here().operands(split(line.as_bytes()).unwrap());
        format!(
            "{:?}",
            understand(words, here().grammar(&COMMANDS), &COMMANDS).unwrap()
        )
    }

    #[test]
    fn paths_become_places() {
        for (line, expected) in [
            ("cat passwd", "\"dir/d.img@2:/etc/passwd\""),
            ("cat /usr/x ", "\"dir/d.img@2:/usr/x\""),
            ("ls -l", "\"dir/d.img@2:/etc/.\""),
            ("ls ..", "\"dir/d.img@2:/etc/..\""),
            ("cp a host:b", "[\"dir/d.img@2:/etc/a\", \"b\"]"),
            (
                "cp host:o.img:/x .",
                "[\"o.img:/x\", \"dir/d.img@2:/etc/.\"]",
            ),
            ("find -name x", "[\"dir/d.img@2:/etc/.\", \"-name\", \"x\"]"),
            (
                "find a /b ( -empty )",
                "[\"dir/d.img@2:/etc/a\", \"dir/d.img@2:/b\", \"(\", \"-empty\", \")\"]",
            ),
            ("ln -sf ../x y", "[\"../x\", \"dir/d.img@2:/etc/y\"]"),
            ("ln x y", "[\"dir/d.img@2:/etc/x\", \"dir/d.img@2:/etc/y\"]"),
            ("setfattr -n user.a -v b c", "\"dir/d.img@2:/etc/c\""),
        ] {
            let found = parsed(line);
            assert!(found.contains(expected), "{line}: {found}");
        }
        assert!(parsed("info x.img").contains("\"x.img\""));
    }

    #[test]
    fn what_the_prompt_shows() {
        assert_eq!(here().shown(), "d.img@2:/etc");
        let mut there = here();
        there.image.file = "/d.img".into();
        assert_eq!(there.shown(), "d.img@2:/etc");
        there.image.file = "d.img".into();
        assert_eq!(there.shown(), "d.img@2:/etc");
    }
}
