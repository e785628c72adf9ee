// SPDX-License-Identifier: GPL-2.0-only
//! `outboard tree`.

use crate::colors::{Colors, When};
use crate::commands::operands::find_trees;
use crate::format;
use crate::output::Output;
use crate::record::{kind, Bytes};
use clap::Args;
use outboard_error::{Error, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::operand::Named;
use outboard_transfer::walk::{Entry, EntryText, Step, Walk};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use serde::Serialize;
use std::ffi::{CStr, OsString};

/// Show directories of an image as a tree
#[derive(Args, Debug)]
#[command(after_help = "Examples:\
                        \n  outboard tree -L 2 disk.img:/\
                        \n  outboard tree -d -a disk.img@1:/home")]
pub struct TreeArgs {
    /// The place to begin at: IMAGE:/PATH or IMAGE@N:/PATH; IMAGE alone means its root
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Show at most N levels
    #[arg(short = 'L', value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub levels: Option<u32>,
    /// Show directories only
    #[arg(short)]
    pub directories: bool,
    /// Include names that begin with a dot
    #[arg(short)]
    pub all: bool,
    /// Colour names by the kind of the file, as LS_COLORS says [default: auto if LS_COLORS is set]
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always"
    )]
    pub color: Option<When>,
}

/// A file in JSON. The files of a directory follow it, with a depth that is larger by one.
#[derive(Serialize)]
struct Item<'a> {
    #[serde(flatten)]
    path: Bytes<'a>,
    depth: usize,
    #[serde(rename = "type")]
    kind: &'static str,
    #[serde(flatten)]
    target: Option<Bytes<'a>>,
}

pub fn run(options: &TreeArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let places = find_trees(session, &options.places, "tree", false)?;
    let interrupt = session.catch_interrupts();
    let mut drawing = Drawing {
        options,
        colors: Colors::new(options.color, output.is_terminal()),
        output,
        indent: Indent::default(),
        directories: 0,
        files: 0,
        failures: Failures::default(),
    };
    for place in &places {
        let part = drawing.draw(session, place, &interrupt);
        drawing.failures.take(part)?;
        interrupt.check()?;
    }
    drawing.finish()
}

/// The lines that connect a level with its parents, before each name.
#[derive(Default)]
struct Indent {
    text: String,
    /// The text's length at each level.
    levels: Vec<usize>,
}

impl Indent {
    /// For a name at this depth, 1 or more. `last`: no other follows in its directory.
    fn before(&mut self, depth: usize, last: bool) -> String {
        self.levels.truncate(depth);
        self.text.truncate(self.levels.last().copied().unwrap_or(0));
        let branch = if last {
            "\u{2514}\u{2500}\u{2500} "
        } else {
            "\u{251c}\u{2500}\u{2500} "
        };
        let line = format!("{}{branch}", self.text);
        self.text.push_str(if last {
            "    "
        } else {
            "\u{2502}\u{a0}\u{a0} "
        });
        self.levels.push(self.text.len());
        line
    }

    fn begin(&mut self) {
        self.text.clear();
        self.levels = vec![0];
    }
}

struct Drawing<'a> {
    options: &'a TreeArgs,
    colors: Option<Colors>,
    output: &'a mut Output,
    indent: Indent,
    directories: u64,
    files: u64,
    failures: Failures,
}

impl Drawing<'_> {
    fn draw(&mut self, session: &mut Session, place: &Place, interrupt: &Interrupt) -> Result<()> {
        let id = session.open(place, false)?;
        let top = Named::find(session.tree(id), place, false)
            .map_err(|error| Error::of_file("cannot look at", place.operand(), &error))?;
        let mut walk = Walk::new(top, place.operand(), interrupt.clone());
        let most = self
            .options
            .levels
            .map_or(usize::MAX, |levels| levels as usize);
        self.indent.begin();
        while let Some(step) = walk.next() {
            match step {
                Step::Found(entry) => {
                    let leaf = !entry.is_directory() || entry.depth >= most;
                    self.found(&entry)?;
                    if leaf {
                        walk.skip();
                    }
                }
                Step::Opened(opened) => {
                    opened.names.retain(|name, kind| self.shows(name, kind));
                    opened.names.sort();
                }
                Step::Left(_) => {}
                Step::Failed(entry, error) => {
                    self.failures.tell(entry.failure("read directory", &error));
                }
            }
        }
        Ok(())
    }

    fn shows(&self, name: &CStr, kind: u32) -> bool {
        let hidden = name.to_bytes().starts_with(b".");
        (self.options.all || !hidden) && (!self.options.directories || kind == libc::S_IFDIR)
    }

    fn found(&mut self, entry: &Entry) -> Result<()> {
        if entry.depth > 0 {
            if entry.is_directory() {
                self.directories += 1;
            } else {
                self.files += 1;
            }
        }
        let target = match entry.kind {
            libc::S_IFLNK => entry.directory.read_link_at(entry.name).ok(),
            _ => None,
        };
        let target = target.as_ref().map(|target| target.to_bytes());
        if self.output.is_json() {
            self.output.json_item(&Item {
                path: Bytes::new("path", entry.path),
                depth: entry.depth,
                kind: kind(entry.kind),
                target: target.map(|target| Bytes::new("target", target)),
            })
        } else {
            self.line(entry, target)
        }
    }

    fn line(&mut self, entry: &Entry, target: Option<&[u8]>) -> Result<()> {
        let terminal = self.output.is_terminal();
        let mut line = Vec::new();
        let mut name = entry.path;
        if entry.depth > 0 {
            line.extend(self.indent.before(entry.depth, entry.last).into_bytes());
            name = entry.name.to_bytes();
        }
        line.extend(self.painted(entry, format::name(name, terminal)));
        if let Some(target) = target {
            line.extend_from_slice(b" -> ");
            line.extend(format::name(target, terminal));
        }
        self.output.line(line)
    }

    /// A name in its colour, if there are colours. A file whose status cannot be read has none.
    fn painted(&self, entry: &Entry, shown: Vec<u8>) -> Vec<u8> {
        let Some(colors) = &self.colors else {
            return shown;
        };
        match entry.stat() {
            Ok(stat) => colors.paint(shown, entry.name.to_bytes(), stat.st_mode),
            Err(_) => shown,
        }
    }

    fn finish(self) -> Result<()> {
        if self.output.is_json() {
            self.output.json_member("directories", &self.directories)?;
            self.output.json_member("files", &self.files)?;
        } else {
            let directories = counted(self.directories, "directory", "directories");
            let files = counted(self.files, "file", "files");
            self.output.line("")?;
            self.output.line(if self.options.directories {
                directories
            } else {
                format!("{directories}, {files}")
            })?;
        }
        self.failures.finish()
    }
}

fn counted(number: u64, one: &str, several: &str) -> String {
    match number {
        1 => format!("1 {one}"),
        number => format!("{number} {several}"),
    }
}
