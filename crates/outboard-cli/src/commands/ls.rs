// SPDX-License-Identifier: GPL-2.0-only
//! `outboard ls`.

use super::columns::{terminal_width, width, ColumnLayout};
use super::owner_names::OwnerNames;
use crate::colors::{Colors, When};
use crate::commands::operands::find_trees;
use crate::format;
use crate::output::Output;
use crate::record::FileRecord;
use clap::Args;
use outboard::{Fd, Tree};
use outboard_error::{Error, Failure, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_transfer::accounts::Accounts;
use outboard_transfer::acl::{ACCESS, DEFAULT};
use outboard_transfer::operand::{is_directory, is_link, Named};
use outboard_transfer::walk::{join, Entry, OpenDirectory, Step, Walk};
use outboard_volume::address::Place;
use outboard_volume::session::Session;
use std::cmp::Ordering;
use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::rc::Rc;

/// List directories of an image
#[derive(Args, Debug)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:\
                  \n  outboard ls disk.img:/\
                  \n  outboard ls -l disk.img@2:/etc disk.img@2:/srv\
                  \n  outboard ls -lR stick.img@1:/\
                  \n  outboard ls -lan disk.img:/root\
                  \n  outboard ls 'disk.img:/etc/*.conf'"
)]
pub struct LsArgs {
    /// The files to list: IMAGE:/PATH or IMAGE@N:/PATH; IMAGE alone means its root
    #[arg(required = true, value_name = "IMAGE:/PATH")]
    pub places: Vec<OsString>,
    /// Print one line per file: mode ("+": the file has an access control list), links, owner and
    /// group (names of the image), size, time (UTC)
    #[arg(short)]
    pub long: bool,
    /// As -l, but print numbers of owners and groups
    #[arg(short)]
    pub numeric: bool,
    /// Print one name per line [default unless standard output is a terminal]
    #[arg(short = '1', overrides_with = "columns")]
    pub single: bool,
    /// Print names in columns [default on a terminal]
    #[arg(short = 'C', overrides_with = "single")]
    pub columns: bool,
    /// Print a sign after the name: "/" directory, "*" program, "@" link, "|" FIFO, "=" socket
    #[arg(short = 'F')]
    pub classify: bool,
    /// Include names that begin with a dot
    #[arg(short)]
    pub all: bool,
    /// As -a, without "." and ".."
    #[arg(short = 'A')]
    pub almost_all: bool,
    /// List subdirectories, too
    #[arg(short = 'R')]
    pub recursive: bool,
    /// List directories themselves, not their contents
    #[arg(short, conflicts_with = "recursive")]
    pub directories: bool,
    /// Print the numbers of inodes
    #[arg(short)]
    pub inodes: bool,
    /// Print sizes as in 1.5M (units are powers of 1024)
    #[arg(short = 'h', long)]
    pub human_readable: bool,
    /// Sort by time, newest first
    #[arg(short = 't', overrides_with = "by_size")]
    pub by_time: bool,
    /// Sort by size, largest first
    #[arg(short = 'S', overrides_with = "by_time")]
    pub by_size: bool,
    /// Reverse the order
    #[arg(short)]
    pub reverse: bool,
    /// Colour names by the kind of the file, as LS_COLORS says [default: auto if LS_COLORS is set]
    #[arg(
        long,
        value_name = "WHEN",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "always"
    )]
    pub color: Option<When>,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
}

impl LsArgs {
    /// Whether more is needed of each file than its name.
    fn needs_metadata(&self) -> bool {
        self.is_long() || self.classify || self.inodes || self.by_time || self.by_size
    }

    fn is_long(&self) -> bool {
        self.long || self.numeric
    }

    fn sort(&self, lines: &mut [Line]) {
        let number = |line: &Line| {
            line.stat.map_or((0, 0), |stat| {
                if self.by_size {
                    (stat.st_size, 0)
                } else {
                    (stat.st_mtime, stat.st_mtime_nsec)
                }
            })
        };
        lines.sort_by(|a, b| {
            let first = if self.by_time || self.by_size {
                number(b).cmp(&number(a))
            } else {
                Ordering::Equal
            };
            first.then_with(|| a.name.cmp(&b.name))
        });
        if self.reverse {
            lines.reverse();
        }
    }
}

pub fn run(options: &LsArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let places = find_trees(session, &options.places, "ls", false)?;
    let shows_names = (options.long || output.is_json()) && !options.numeric;
    let mut listing = Listing {
        options,
        interrupt: session.catch_interrupts(),
        colors: Colors::new(options.color, output.is_terminal()),
        output,
        names: OwnerNames::new(shows_names),
        accounts: Rc::default(),
        headers: places.len() > 1 || options.recursive,
        started: false,
        failures: Failures::default(),
    };
    listing.places(session, &places)?;
    listing.failures.finish()
}

/// A name with what is known of it.
struct Line {
    name: Vec<u8>,
    directory: bool,
    /// Only for long listings, colours and JSON, and there `None` if it could not be found out.
    stat: Option<libc::stat>,
    target: Option<CString>,
    /// Mode of what a link leads to. Only for long listings with -F; 0 if it leads nowhere.
    target_mode: u32,
    /// Only for long listings.
    access_list: bool,
    /// The image's names of users and groups.
    accounts: Rc<Accounts>,
}

impl Line {
    /// A name of which nothing is known yet.
    fn new(name: &[u8]) -> Self {
        Self {
            name: name.to_vec(),
            directory: false,
            stat: None,
            target: None,
            target_mode: 0,
            access_list: false,
            accounts: Rc::default(),
        }
    }

    fn mode(&self) -> u32 {
        self.stat.map_or(0, |stat| stat.st_mode)
    }
}

/// The letter that tells the kind of a file with this mode.
fn letter_of(mode: u32) -> &'static [u8] {
    match mode & libc::S_IFMT {
        libc::S_IFDIR => b"/",
        libc::S_IFLNK => b"@",
        libc::S_IFIFO => b"|",
        libc::S_IFSOCK => b"=",
        libc::S_IFREG if mode & 0o111 != 0 => b"*",
        _ => b"",
    }
}

/// Whether there is an access control list among these attributes.
fn has_list(names: io::Result<Vec<CString>>) -> bool {
    let is_list = |name: &CString| [ACCESS, DEFAULT].contains(&name.as_c_str());
    names.is_ok_and(|names| names.iter().any(is_list))
}

fn xattrs_of(tree: &Tree, path: &Path) -> io::Result<Vec<CString>> {
    let (directory, name) = tree.open_parent(path)?;
    directory.xattrs_at(&name)
}

/// The path in the tree of something at or below `top`, which a listing names as the user would.
fn path_in_tree<'a>(top: &Place, operand: &'a [u8]) -> &'a Path {
    let image = top.operand().len() - top.path().as_os_str().len();
    Path::new(OsStr::from_bytes(&operand[image..]))
}

/// Facts of a directory.
struct Found {
    stat: libc::stat,
    xattrs: io::Result<Vec<CString>>,
}

fn found(directory: &Fd) -> io::Result<Found> {
    let stat = directory.stat()?;
    let xattrs = directory.xattrs();
    Ok(Found { stat, xattrs })
}

fn found_at(tree: &Tree, path: &Path) -> io::Result<Found> {
    let directory = tree.open_path(path, true)?;
    let stat = directory.stat()?;
    let xattrs = directory.xattrs();
    Ok(Found { stat, xattrs })
}

struct Listing<'a> {
    options: &'a LsArgs,
    interrupt: Interrupt,
    output: &'a mut Output,
    colors: Option<Colors>,
    /// Names of owners, and those of the tree that is listed.
    names: OwnerNames,
    accounts: Rc<Accounts>,
    /// Whether a directory's name stands above its contents.
    headers: bool,
    /// Whether something was printed, so that an empty line comes before what follows.
    started: bool,
    failures: Failures,
}

impl Listing<'_> {
    fn places(&mut self, session: &mut Session, places: &[Place]) -> Result<()> {
        let mut directories = Vec::new();
        let mut files = Vec::new();
        for place in places {
            let Some(id) = self.failures.take(session.open(place, false))? else {
                continue;
            };
            self.accounts = self.names.of(session.tree(id), id);
            match self.operand(session.tree(id), place) {
                Ok(None) => directories.push((id, place)),
                Ok(Some(line)) => files.push(line),
                Err(error) => self.complain(place.operand(), &error),
            }
        }
        if !files.is_empty() {
            self.options.sort(&mut files);
            self.print(files, None)?;
        }
        for (id, place) in directories {
            self.accounts = self.names.of(session.tree(id), id);
            self.tree(session.tree(id), place)?;
        }
        Ok(())
    }

    /// Tells of something that could not be listed.
    fn complain(&mut self, path: Vec<u8>, error: &io::Error) {
        self.failures
            .tell(Failure::of_file("cannot list", path, error));
    }

    /// The line of an operand that is not a directory. A link to a directory counts as one
    /// unless the listing is long.
    fn operand(&self, tree: &Tree, place: &Place) -> io::Result<Option<Line>> {
        let path = place.path();
        let own = tree.symlink_metadata(path)?;
        let slash = path.as_os_str().as_bytes().ends_with(b"/");
        if own.is_dir() && !self.options.directories {
            return Ok(None);
        }
        if own.is_symlink() && (!self.options.is_long() || slash) && !self.options.directories {
            let leads_to_directory = tree.metadata(path).is_ok_and(|found| found.is_dir());
            if leads_to_directory {
                return Ok(None);
            }
        }
        if slash && !own.is_dir() {
            return Err(io::Error::from_raw_os_error(libc::ENOTDIR));
        }
        let target = if own.is_symlink() {
            let target = tree.read_link(path)?;
            CString::new(target.as_os_str().as_bytes()).ok()
        } else {
            None
        };
        Ok(Some(Line {
            name: place.operand(),
            directory: false,
            stat: Some(*own.stat()),
            target,
            target_mode: self.target_mode(tree, path),
            access_list: self.options.is_long() && has_list(xattrs_of(tree, path)),
            accounts: Rc::clone(&self.accounts),
        }))
    }

    /// Mode of what a path leads to, if the listing shows it; 0 if it leads nowhere.
    fn target_mode(&self, tree: &Tree, path: &Path) -> u32 {
        let is_shown = self.options.is_long() && self.options.classify;
        let found = is_shown.then(|| tree.metadata(path).ok()).flatten();
        found.map_or(0, |found| found.stat().st_mode)
    }

    /// Lists a directory and, with -R, those below it.
    fn tree(&mut self, tree: &Tree, place: &Place) -> Result<()> {
        let top = match Named::find(tree, place, true) {
            Ok(top) => top,
            Err(error) => {
                self.complain(place.operand(), &error);
                return Ok(());
            }
        };
        let mut walk = Walk::new(top, place.operand(), self.interrupt.clone());
        while let Some(step) = walk.next() {
            match step {
                Step::Opened(opened) => self.directory(opened, tree, place)?,
                Step::Failed(entry, error) => self.complain(entry.path.to_vec(), &error),
                Step::Found(_) | Step::Left(_) => {}
            }
        }
        self.go_on()
    }

    /// An error if the user wants to stop.
    fn go_on(&self) -> Result<()> {
        if self.interrupt.asked() {
            Err(Error::Interrupted("interrupted".to_owned()))
        } else {
            Ok(())
        }
    }

    /// Lists a directory. With -R, the walk goes on through the directories in there, in the order
    /// in which they are listed. A line whose facts are known in part is listed, too.
    fn directory(&mut self, opened: OpenDirectory, tree: &Tree, top: &Place) -> Result<()> {
        let OpenDirectory {
            entry: Entry { path, .. },
            directory,
            names,
            ..
        } = opened;
        let mut lines = Vec::new();
        for (name, kind) in names.iter() {
            self.go_on()?;
            let shows_all = self.options.all || self.options.almost_all;
            if shows_all || !name.to_bytes().starts_with(b".") {
                lines.push(self.line(path, directory, name, kind));
            }
        }
        for line in lines.iter_mut().filter(|line| line.target.is_some()) {
            let path = join(path, &line.name);
            line.target_mode = self.target_mode(tree, path_in_tree(top, &path));
        }
        self.options.sort(&mut lines);
        names.clear();
        if self.options.recursive {
            let below = lines.iter().filter(|line| line.directory);
            for name in below.filter_map(|line| CString::new(line.name.as_slice()).ok()) {
                names.push(&name, libc::S_IFDIR);
            }
        }
        if self.options.all && !self.output.is_json() {
            let above = match opened.entry.depth {
                0 => found_at(tree, top.below(b"..").path()),
                _ => found(opened.entry.directory),
            };
            let dots = [
                self.dot(path, b".", found(directory)),
                self.dot(path, b"..", above),
            ];
            lines.splice(0..0, dots);
        }
        self.print(lines, Some(path))
    }

    fn line(&mut self, path: &[u8], directory: &Fd, name: &CStr, kind: u32) -> Line {
        let mut line = Line::new(name.to_bytes());
        line.accounts = Rc::clone(&self.accounts);
        line.access_list = self.options.is_long() && has_list(directory.xattrs_at(name));
        line.directory = self.options.recursive && kind == libc::S_IFDIR;
        let needs_metadata = self.options.needs_metadata() || self.output.is_json();
        if !needs_metadata && self.colors.is_none() {
            return line;
        }
        match directory.stat_at(name, libc::AT_SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                line.directory = is_directory(&stat);
                if is_link(&stat) {
                    line.target = directory.read_link_at(name).ok();
                }
                line.stat = Some(stat);
            }
            Err(error) => self.complain(join(path, name.to_bytes()), &error),
        }
        line
    }

    /// The directory itself, or the one above, under the name that it has inside.
    fn dot(&mut self, path: &[u8], name: &[u8], found: io::Result<Found>) -> Line {
        let mut line = Line::new(name);
        line.accounts = Rc::clone(&self.accounts);
        match found {
            Ok(found) => {
                line.stat = Some(found.stat);
                line.access_list = self.options.is_long() && has_list(found.xattrs);
            }
            Err(error) => self.complain(join(path, name), &error),
        }
        line
    }

    /// Prints the lines of a directory, or those of operands that are none.
    fn print(&mut self, lines: Vec<Line>, directory: Option<&[u8]>) -> Result<()> {
        if self.output.is_json() {
            let mut lines = lines.iter();
            return lines.try_for_each(|line| self.print_json(line, directory));
        }
        if self.started {
            self.output.line("")?;
        }
        self.started = true;
        if let Some(directory) = directory.filter(|_| self.headers) {
            let mut header = format::name(directory, self.output.is_terminal());
            header.push(b':');
            self.output.line(header)?;
        }
        if !self.options.is_long() {
            return self.print_short(&lines);
        }
        if directory.is_some() {
            let stats = lines.iter().filter_map(|line| line.stat.as_ref());
            let total = total(stats, self.options.human_readable);
            self.output.line(format!("total {total}"))?;
        }
        self.print_long(&lines)
    }

    /// Prints a file as JSON. One that could not be looked at was reported.
    fn print_json(&mut self, line: &Line, directory: Option<&[u8]>) -> Result<()> {
        let Some(stat) = &line.stat else {
            return Ok(());
        };
        let path = match directory {
            Some(directory) => join(directory, &line.name),
            None => line.name.clone(),
        };
        let mut file = FileRecord::new(path, stat, line.target.as_deref(), &line.accounts);
        file.access_list = self.options.is_long().then_some(line.access_list);
        self.output.json_item(&file)
    }

    /// A name as it is shown.
    fn name(&self, line: &Line) -> Vec<u8> {
        let name = format::name(&line.name, self.output.is_terminal());
        match (&self.colors, &line.stat) {
            (Some(colors), Some(stat)) => colors.paint(name, &line.name, stat.st_mode),
            _ => name,
        }
    }

    /// The names, after numbers of inodes if these are wanted.
    fn print_short(&mut self, lines: &[Line]) -> Result<()> {
        let rows: Vec<Vec<String>> = lines.iter().map(|line| self.inode(line)).collect();
        let numbers = format::table(&rows, &[0], " ");
        let terminal = self.output.is_terminal();
        let mut texts = Vec::with_capacity(lines.len());
        let mut widths = Vec::with_capacity(lines.len());
        for (number, line) in numbers.into_iter().zip(lines) {
            let mut text = number.into_bytes();
            if self.options.inodes {
                text.push(b' ');
            }
            let letter = self.letter(line);
            let shown = width(&format::name(&line.name, terminal));
            widths.push(text.len() + shown + letter.len());
            text.extend(self.name(line));
            text.extend(letter);
            texts.push(text);
        }
        if !(self.options.columns || terminal && !self.options.single) {
            return texts.iter().try_for_each(|text| self.output.line(text));
        }
        let layout = ColumnLayout::of(&widths, terminal_width());
        for line in 0..layout.lines {
            for (index, gap) in layout.line(&widths, line) {
                self.output.bytes(&texts[index])?;
                self.output.bytes(&vec![b' '; gap])?;
            }
            self.output.line("")?;
        }
        Ok(())
    }

    /// The letter after a name.
    fn letter(&self, line: &Line) -> &'static [u8] {
        if self.options.classify {
            letter_of(line.mode())
        } else {
            b""
        }
    }

    /// The column of inode numbers, if it is wanted.
    fn inode(&self, line: &Line) -> Vec<String> {
        let number = || {
            line.stat
                .map_or("?".to_owned(), |stat| stat.st_ino.to_string())
        };
        self.options.inodes.then(number).into_iter().collect()
    }

    /// The columns of a long line before the name.
    fn columns(&self, line: &Line) -> Vec<String> {
        let mut row = self.inode(line);
        row.extend(match &line.stat {
            Some(stat) => columns(line, stat, self.options.human_readable),
            None => unknown(),
        });
        row
    }

    fn print_long(&mut self, lines: &[Line]) -> Result<()> {
        let mut rows: Vec<Vec<String>> = lines.iter().map(|line| self.columns(line)).collect();
        let terminal = self.output.is_terminal();
        let (right, owners): (&[usize], _) = if self.options.inodes {
            (&[0, 2, 5], [3, 4])
        } else {
            (&[1, 4], [2, 3])
        };
        for column in owners {
            align_numbers(&mut rows, column);
        }
        for (columns, line) in format::table(&rows, right, " ").into_iter().zip(lines) {
            let mut text = columns.into_bytes();
            text.push(b' ');
            text.extend(self.name(line));
            if line.target.is_none() {
                text.extend(self.letter(line));
            }
            if let Some(target) = &line.target {
                text.extend_from_slice(b" -> ");
                text.extend(format::name(target.to_bytes(), terminal));
                text.extend(letter_of(line.target_mode));
            }
            self.output.line(text)?;
        }
        Ok(())
    }
}

/// Aligns numbers in a column of owners at the right. Names stay at the left: no name is a number.
fn align_numbers(rows: &mut [Vec<String>], column: usize) {
    let widths = rows.iter().map(|row| row[column].chars().count());
    let width = widths.max().unwrap_or(0);
    for cell in rows.iter_mut().map(|row| &mut row[column]) {
        if cell.parse::<u32>().is_ok() {
            *cell = format!("{cell:>width$}");
        }
    }
}

/// The columns of what could not be looked at.
fn unknown() -> Vec<String> {
    ["??????????", "?", "?", "?", "?", "?"]
        .map(str::to_owned)
        .to_vec()
}

/// The room that the files of a directory take: KiB, or a brief size.
fn total<'a>(stats: impl Iterator<Item = &'a libc::stat>, human_readable: bool) -> String {
    let blocks = stats.map(|stat| stat.st_blocks.max(0) as u64);
    let blocks = blocks.fold(0, u64::saturating_add);
    if human_readable {
        format::brief_size(blocks.saturating_mul(512))
    } else {
        (blocks / 2).to_string()
    }
}

fn columns(line: &Line, stat: &libc::stat, human_readable: bool) -> Vec<String> {
    let size = match stat.st_mode & libc::S_IFMT {
        libc::S_IFBLK | libc::S_IFCHR => {
            format!(
                "{}, {}",
                libc::major(stat.st_rdev),
                libc::minor(stat.st_rdev)
            )
        }
        _ if human_readable => format::brief_size(stat.st_size.max(0) as u64),
        _ => stat.st_size.to_string(),
    };
    let list = if line.access_list { "+" } else { "" };
    vec![
        format!("{}{list}", format::mode(stat.st_mode)),
        stat.st_nlink.to_string(),
        line.accounts.users.name(stat.st_uid),
        line.accounts.groups.name(stat.st_gid),
        size,
        format::minute(stat.st_mtime),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use outboard::HostTree;

    #[test]
    fn totals() {
        let root = HostTree.open_fd("/".as_ref(), libc::O_PATH, 0);
        let stat = root.unwrap().stat().unwrap();
        let shown = |blocks: &[i64], human_readable| {
            let mut stats = vec![stat; blocks.len()];
            for (stat, blocks) in stats.iter_mut().zip(blocks) {
                stat.st_blocks = *blocks;
            }
            total(stats.iter(), human_readable)
        };
        assert_eq!(shown(&[8, 3], false), "5");
        assert_eq!(shown(&[8, 8], true), "8.0K");
        // A damaged image may claim any number.
        assert_eq!(shown(&[i64::MAX; 3], false), (u64::MAX / 2).to_string());
        assert_eq!(shown(&[i64::MAX; 3], true), "16E");
        assert_eq!(shown(&[8, -1], false), "4");
    }
}
