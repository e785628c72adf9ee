// SPDX-License-Identifier: GPL-2.0-only
//! `outboard ls`.

use crate::address::Place;
use crate::arguments::{Ls, Settings};
use crate::cat::image_place;
use crate::error::{reason, warn, Error, Result};
use crate::format;
use crate::output::Output;
use crate::record::Record;
use crate::session::{with_session, Session};
use outboard::{FileType, ReadDir, Tree};
use serde::Serialize;
use std::ffi::{CString, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub fn run(options: &Ls, settings: Settings) -> Result<()> {
    let places = options
        .places
        .iter()
        .map(|operand| image_place(operand))
        .collect::<Result<Vec<Place>>>()?;
    with_session(settings, |session| {
        let mut listing = Listing {
            options,
            output: Output::new(),
            json: Vec::new(),
            headers: places.len() > 1 || options.recursive,
            started: false,
            failed: false,
        };
        listing.places(session, &places)?;
        if options.json {
            listing.output.json(&listing.json)?;
        }
        listing.output.finish()?;
        if listing.failed {
            return Err(Error::Told);
        }
        Ok(())
    })
}

/// A name with what is known of it.
struct Line {
    name: Vec<u8>,
    directory: bool,
    /// Only for long listings and JSON.
    stat: Option<libc::stat>,
    target: Option<CString>,
}

#[derive(Serialize)]
struct Group {
    path: String,
    entries: Vec<Record>,
}

struct Listing<'a> {
    options: &'a Ls,
    output: Output,
    json: Vec<Group>,
    /// Whether a directory's name stands above its contents.
    headers: bool,
    /// Whether something was printed, so that an empty line comes before what follows.
    started: bool,
    failed: bool,
}

impl Listing<'_> {
    fn places(&mut self, session: &mut Session, places: &[Place]) -> Result<()> {
        let mut directories = Vec::new();
        let mut files = Vec::new();
        for place in places {
            let id = session.open(place, false)?;
            let tree = session.tree(id);
            match self.operand(tree, place) {
                Ok(None) => directories.push((id, place)),
                Ok(Some(line)) => files.push(line),
                Err(error) => self.complain(&place.shown(), &error),
            }
        }
        if !files.is_empty() {
            self.print(files, String::new(), false)?;
        }
        for (id, place) in directories {
            let tree = session.tree(id);
            self.tree(tree, place)?;
        }
        Ok(())
    }

    fn complain(&mut self, shown: &str, error: &io::Error) {
        warn(format!("cannot list {shown}: {}", reason(error)));
        self.failed = true;
    }

    /// The line of an operand that is not a directory. A link to a directory counts as one
    /// unless the listing is long.
    fn operand(&self, tree: &Tree, place: &Place) -> io::Result<Option<Line>> {
        let path = place.path();
        let own = tree.symlink_metadata(path)?;
        let slash = path.as_os_str().as_bytes().ends_with(b"/");
        if own.is_dir() {
            return Ok(None);
        }
        if own.is_symlink() && (!self.options.long || slash) {
            let leads_to_directory = tree.metadata(path).is_ok_and(|found| found.is_dir());
            if leads_to_directory {
                return Ok(None);
            }
        }
        if slash {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        let target = if own.is_symlink() {
            let target = tree.read_link(path)?;
            CString::new(target.as_os_str().as_bytes()).ok()
        } else {
            None
        };
        Ok(Some(Line {
            name: place.shown().into_bytes(),
            directory: false,
            stat: Some(*own.stat()),
            target,
        }))
    }

    /// Lists a directory and, with -R, those below it, without recursion of this function: a deep
    /// tree must not overflow the stack.
    fn tree(&mut self, tree: &Tree, place: &Place) -> Result<()> {
        let mut waiting = vec![place.path().to_path_buf()];
        while let Some(path) = waiting.pop() {
            let shown = shown_below(place, &path);
            let lines = match self.directory(tree, &path) {
                Ok(lines) => lines,
                Err(error) => {
                    self.complain(&shown, &error);
                    continue;
                }
            };
            if self.options.recursive {
                let below = lines.iter().rev().filter(|line| line.directory);
                waiting.extend(below.map(|line| path.join(OsStr::from_bytes(&line.name))));
            }
            self.print(lines, shown, true)?;
        }
        Ok(())
    }

    fn directory(&self, tree: &Tree, path: &Path) -> io::Result<Vec<Line>> {
        let details = self.options.long || self.options.json;
        let entries: ReadDir = tree.read_dir(path)?;
        let mut lines = Vec::new();
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().as_bytes().to_vec();
            if name.starts_with(b".") && !self.options.all {
                continue;
            }
            let stat = match details {
                true => Some(*entry.metadata()?.stat()),
                false => None,
            };
            let directory = match &stat {
                Some(stat) => stat.st_mode & libc::S_IFMT == libc::S_IFDIR,
                None => self.options.recursive && entry.file_type()? == FileType::Directory,
            };
            let link = stat.is_some_and(|stat| stat.st_mode & libc::S_IFMT == libc::S_IFLNK);
            let target = if link { entry.read_link().ok() } else { None };
            lines.push(Line {
                name,
                directory,
                stat,
                target,
            });
        }
        lines.sort_by(|a, b| a.name.cmp(&b.name));
        if self.options.all && !self.options.json {
            let mut dots = vec![dot(tree, path, ".")?, dot(tree, &path.join(".."), "..")?];
            dots.append(&mut lines);
            lines = dots;
        }
        Ok(lines)
    }

    fn print(&mut self, lines: Vec<Line>, path: String, directory: bool) -> Result<()> {
        if self.options.json {
            let entries = lines
                .iter()
                .filter_map(|line| {
                    let stat = line.stat.as_ref()?;
                    Some(Record::new(&line.name, stat, line.target.as_deref()))
                })
                .collect();
            self.json.push(Group { path, entries });
            return Ok(());
        }
        if self.started {
            self.output.line("")?;
        }
        self.started = true;
        if directory && self.headers {
            self.output.line(format!("{path}:"))?;
        }
        if !self.options.long {
            for line in &lines {
                let name = format::name(&line.name, self.output.is_terminal());
                self.output.line(name)?;
            }
            return Ok(());
        }
        if directory {
            let blocks: i64 = lines
                .iter()
                .filter_map(|line| Some(line.stat?.st_blocks))
                .sum();
            self.output.line(format!("total {}", blocks / 2))?;
        }
        self.print_long(&lines)
    }

    fn print_long(&mut self, lines: &[Line]) -> Result<()> {
        let rows: Vec<Vec<String>> = lines
            .iter()
            .filter_map(|line| line.stat.as_ref())
            .map(columns)
            .collect();
        let terminal = self.output.is_terminal();
        for (columns, line) in format::table(&rows, &[1, 2, 3, 4], " ")
            .into_iter()
            .zip(lines)
        {
            let mut text = columns.into_bytes();
            text.push(b' ');
            text.extend(format::name(&line.name, terminal));
            if let Some(target) = &line.target {
                text.extend_from_slice(b" -> ");
                text.extend(format::name(target.to_bytes(), terminal));
            }
            self.output.line(text)?;
        }
        Ok(())
    }
}

/// The directory itself, or the one above, under the name that it has inside.
fn dot(tree: &Tree, path: &Path, name: &str) -> io::Result<Line> {
    Ok(Line {
        name: name.into(),
        directory: false,
        stat: Some(*tree.metadata(path)?.stat()),
        target: None,
    })
}

fn columns(stat: &libc::stat) -> Vec<String> {
    let size = match stat.st_mode & libc::S_IFMT {
        libc::S_IFBLK | libc::S_IFCHR => {
            format!(
                "{}, {}",
                libc::major(stat.st_rdev),
                libc::minor(stat.st_rdev)
            )
        }
        _ => stat.st_size.to_string(),
    };
    vec![
        format::mode(stat.st_mode),
        stat.st_nlink.to_string(),
        stat.st_uid.to_string(),
        stat.st_gid.to_string(),
        size,
        format::minute(stat.st_mtime),
    ]
}

fn shown_below(place: &Place, path: &Path) -> String {
    match place {
        Place::Image(image, _) => Place::Image(image.clone(), PathBuf::from(path)).shown(),
        Place::Host(_) => path.display().to_string(),
    }
}
