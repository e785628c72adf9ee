// SPDX-License-Identifier: GPL-2.0-only
//! Completion of the next word: names of commands, their options, and paths in the image or on the
//! host.

use super::places::{commands, host_part};
use super::{Prompt, BUILT_IN};
use crate::commands::line::CommandSet;
use crate::commands::settings::is_shared;
use outboard::{DirEntry, FileType, Tree};
use outboard_volume::address::Place;
use outboard_volume::session::TreeId;
use rustyline::completion::{Completer, Pair};
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::Validator;
use rustyline::{Context, Helper};
use std::borrow::Cow;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Names of a directory that are looked at: a prompt does not wait for millions.
const MOST: usize = 20_000;

impl Helper for Prompt<'_> {}
impl Validator for Prompt<'_> {}

impl Hinter for Prompt<'_> {
    type Hint = String;
}

impl Highlighter for Prompt<'_> {
    fn highlight_prompt<'b, 's: 'b, 'p: 'b>(
        &'s self,
        prompt: &'p str,
        _default: bool,
    ) -> Cow<'b, str> {
        Cow::Owned(format!("\x1b[1m{prompt}\x1b[0m"))
    }
}

impl Completer for Prompt<'_> {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let words = words(&line[..position]);
        let Some((word, before)) = words.split_last() else {
            return Ok((position, Vec::new()));
        };
        let found = match before.first() {
            None => command_names(self.commands, &word.text),
            Some(command) if word.text.starts_with('-') => {
                options(self.commands, &command.text, &word.text)
            }
            Some(command) if before.len() == 1 && command.text == "help" => {
                command_names(self.commands, &word.text)
            }
            Some(_) => self.paths(&word.text),
        };
        Ok((word.start, found))
    }
}

/// A word as far as it is typed.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    /// The column at which it begins in the line.
    start: usize,
    /// Without quotes and backslashes.
    text: String,
}

/// The words of a line; the last may be empty, and its quote may be open.
fn words(line: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut word: Option<Word> = None;
    let mut quote = None;
    let mut escaped = false;
    for (start, character) in line.char_indices() {
        let blank = character.is_ascii_whitespace() && quote.is_none() && !escaped;
        if blank {
            words.extend(word.take());
            continue;
        }
        let text = String::new();
        let word = word.get_or_insert(Word { start, text });
        match character {
            _ if escaped => {
                word.text.push(character);
                escaped = false;
            }
            '\\' if quote != Some('\'') => escaped = true,
            '\'' | '"' if quote.is_none() => quote = Some(character),
            _ if quote == Some(character) => quote = None,
            _ => word.text.push(character),
        }
    }
    words.push(word.unwrap_or(Word {
        start: line.len(),
        text: String::new(),
    }));
    words
}

/// A word as it is typed in a line.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len());
    for character in text.chars() {
        if matches!(character, ' ' | '\'' | '"' | '\\' | '#') {
            quoted.push('\\');
        }
        quoted.push(character);
    }
    quoted
}

fn pairs(names: impl Iterator<Item = String>, prefix: &str) -> Vec<Pair> {
    let mut names: Vec<String> = names.filter(|name| name.starts_with(prefix)).collect();
    names.sort();
    let pair = |name: String| Pair {
        replacement: format!("{name} "),
        display: name,
    };
    names.into_iter().map(pair).collect()
}

fn command_names(set: &CommandSet, prefix: &str) -> Vec<Pair> {
    let all = commands(set);
    let names = all.iter().map(|command| command.get_name());
    pairs(names.chain(BUILT_IN).map(str::to_owned), prefix)
}

fn options(set: &CommandSet, command: &str, prefix: &str) -> Vec<Pair> {
    let all = commands(set);
    let command = all.iter().find(|found| found.get_name() == command);
    let names = command
        .into_iter()
        .flat_map(|command| command.get_arguments())
        // A line cannot change the shared options.
        .filter(|argument| !is_shared(argument))
        .filter_map(|argument| argument.get_long());
    pairs(names.map(|name| format!("--{name}")), prefix)
}

impl Prompt<'_> {
    fn paths(&self, text: &str) -> Vec<Pair> {
        let (place, id, typed) = match host_part(OsStr::new(text)) {
            Some(path) => {
                let path = path.to_str().unwrap_or_default();
                (Place::Host(PathBuf::from(path)), Some(TreeId::Host), path)
            }
            None => (self.here.place(Path::new(text)), self.tree, text),
        };
        let Some(id) = id else {
            return Vec::new();
        };
        let (directory, prefix) = match typed.rfind('/') {
            Some(slash) => typed.split_at(slash + 1),
            None => ("", typed),
        };
        let looked_at = match place {
            Place::Host(_) if directory.is_empty() => PathBuf::from("."),
            Place::Host(_) => PathBuf::from(directory),
            Place::Image(..) => self.here.directory.join(directory),
        };
        let typed_before = &text[..text.len() - prefix.len()];
        names(self.session.tree(id), &looked_at, typed_before, prefix)
    }
}

/// The names of a directory that begin with `prefix`. Names that nobody can type are left out.
fn names(tree: &Tree, directory: &Path, typed_before: &str, prefix: &str) -> Vec<Pair> {
    let Ok(entries) = tree.read_dir(directory) else {
        return Vec::new();
    };
    let mut found: Vec<Pair> = entries
        .take(MOST)
        .filter_map(|entry| candidate(tree, directory, &entry.ok()?, typed_before, prefix))
        .collect();
    found.sort_by(|a, b| a.display.cmp(&b.display));
    found
}

fn candidate(
    tree: &Tree,
    directory: &Path,
    entry: &DirEntry,
    typed_before: &str,
    prefix: &str,
) -> Option<Pair> {
    let name = entry.file_name().to_str()?;
    let hidden = name.starts_with('.') && !prefix.starts_with('.');
    if !name.starts_with(prefix) || hidden || name.chars().any(char::is_control) {
        return None;
    }
    let leads_to_directory = match entry.file_type().ok()? {
        FileType::Directory => true,
        FileType::Symlink => tree
            .metadata(directory.join(name))
            .is_ok_and(|found| found.is_dir()),
        _ => false,
    };
    let end = if leads_to_directory { "/" } else { "" };
    let space = if leads_to_directory { "" } else { " " };
    Some(Pair {
        display: format!("{name}{end}"),
        replacement: format!("{}{end}{space}", quoted(&format!("{typed_before}{name}"))),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last(line: &str) -> (usize, String) {
        let word = words(line).pop().unwrap();
        (word.start, word.text)
    }

    #[test]
    fn the_word_that_is_typed() {
        assert_eq!(last(""), (0, String::new()));
        assert_eq!(last("ls /et"), (3, "/et".to_owned()));
        assert_eq!(last("ls "), (3, String::new()));
        assert_eq!(last("cat a\\ b"), (4, "a b".to_owned()));
        assert_eq!(last("cat 'a b"), (4, "a b".to_owned()));
        assert_eq!(last("cat \"a'b\" x"), (10, "x".to_owned()));
        assert_eq!(words("cat 'a b' c").len(), 3);
    }

    #[test]
    fn words_are_quoted() {
        let text = "a b'\"\\#c";
        assert_eq!(shlex::split(&quoted(text)), Some(vec![text.to_owned()]));
    }
}
