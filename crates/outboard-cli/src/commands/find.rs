// SPDX-License-Identifier: GPL-2.0-only
//! `outboard find`: walks ([`outboard_transfer::walk`]) and evaluates an expression
//! ([`outboard_transfer::find`]).

use crate::commands::operands::{find_trees, tree_place};
use crate::commands::{image_place, uses_images};
use crate::format;
use crate::output::Output;
use crate::record;
use clap::Args;
use outboard::ReadDir;
use outboard_error::{Error, Failures, Result};
use outboard_sandbox::interrupt::Interrupt;
use outboard_sandbox::HostAccess;
use outboard_transfer::accounts::Accounts;
use outboard_transfer::find::{
    kilobytes, modified, operand_count, parse, ExaminedFile, Expression, Facts, FindAction,
    Options, Parsed, Test,
};
use outboard_transfer::operand::{base_name, is_directory, is_link, Named};
use outboard_transfer::owner::Owner;
use outboard_transfer::walk::{Entry, EntryText, Step, Walk};
use outboard_volume::address::Place;
use outboard_volume::session::{Session, TreeId};
use std::ffi::{CString, OsString};
use std::io;
use std::time::SystemTime;

/// Find files in an image by name, type, size, time, owner and more
///
/// The expression is that of GNU find. Options: -maxdepth N -mindepth N -depth -xdev. Tests:
/// -name -iname -path -ipath PATTERN, -type LETTERS, -size [+-]N[cwbkMG], -mtime -mmin [+-]N,
/// -newer IMAGE:/PATH, -user NAME, -group NAME, -perm [-/]MODE, -links [+-]N, -inum [+-]N, -empty,
/// -true, -false. Actions: -print -print0 -printf FORMAT -ls -delete -prune. Operators: ( ) ! -not
/// -a -and -o -or. -path matches the path inside the image.
#[derive(Args, Debug)]
#[command(
    override_usage = "outboard find [OPTIONS] <IMAGE:/PATH>... [EXPRESSION]",
    after_help = "Examples:\
                  \n  outboard find disk.img:/etc -name '*.conf' -newer disk.img:/etc/passwd\
                  \n  outboard find disk.img:/ -xdev -type f -perm /6000 -ls\
                  \n  outboard find disk.img@1:/tmp -mindepth 1 -delete\
                  \n  outboard find --json disk.img:/ -size +10M"
)]
pub struct FindArgs {
    /// Let -ls print numbers of owners and groups, not the image's names. Options stand before the
    /// places
    #[arg(short)]
    pub numeric: bool,
    /// The files and directories to search, and then the expression; IMAGE alone means its root
    #[arg(
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_names = ["IMAGE:/PATH", "EXPRESSION"]
    )]
    pub words: Vec<OsString>,
}

impl FindArgs {
    pub fn host_access(&self) -> HostAccess {
        let (operands, expression) = self.words.split_at(operand_count(&self.words));
        let is_place = |word: &&OsString| matches!(Place::find(word), Place::Image(..));
        let places = operands.iter().chain(expression.iter().filter(is_place));
        uses_images(places, self.deletes())
    }

    fn deletes(&self) -> bool {
        self.words.iter().any(|word| word == "-delete")
    }
}

pub fn run(options: &FindArgs, session: &mut Session, output: &mut Output) -> Result<()> {
    let Parsed {
        operands,
        options: limits,
        mut expression,
    } = parse(&options.words, image_place)?;
    let mut starts = operands.iter();
    starts.try_for_each(|operand| tree_place(operand).map(drop))?;
    expression.each_test(&mut |test| match test {
        Test::Newer { place, modified } => {
            *modified = modification(session, place)?;
            Ok(())
        }
        _ => Ok(()),
    })?;
    let places = find_trees(session, &operands, "find", limits.deletes)?;
    let interrupt = session.catch_interrupts();
    let shows_owners = output.is_json() || options.words.iter().any(|word| word == "-ls");
    let mut search = Search {
        names: !options.numeric && shows_owners,
        accounts: Accounts::default(),
        limits,
        now: now(),
        output,
        failures: Failures::default(),
    };
    for place in &places {
        let part = search.place(session, place, &mut expression, &interrupt);
        search.failures.take(part)?;
        interrupt.check()?;
    }
    search.failures.finish()
}

/// Nanoseconds since 1970.
fn now() -> i128 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_nanos() as i128)
}

fn look<T>(place: &Place, found: io::Result<T>) -> Result<T> {
    found.map_err(|error| Error::of_file("cannot look at", place.operand(), &error))
}

/// When a file was modified, in nanoseconds since 1970.
fn modification(session: &mut Session, place: &Place) -> Result<i128> {
    let id = session.open(place, false)?;
    let found = look(place, Named::find(session.tree(id), place, false))?;
    Ok(modified(&found.stat))
}

/// Finds out which numbers the names of users and groups are in an image.
fn find_owners(
    session: &Session,
    id: TreeId,
    place: &Place,
    expression: &mut Expression,
) -> Result<()> {
    let tree = session.tree(id);
    expression.each_test(&mut |test| {
        match test {
            Test::User { name, id } => *id = Owner::find(name, tree, place)?.user,
            Test::Group { name, id } => {
                let name = [b":", name.as_slice()].concat();
                *id = Owner::find(&name, tree, place)?.group;
            }
            _ => {}
        }
        Ok(())
    })
}

struct Search<'o> {
    /// Whether names of owners are shown; and those of the image that is searched.
    names: bool,
    accounts: Accounts,
    limits: Options,
    now: i128,
    output: &'o mut Output,
    failures: Failures,
}

impl Search<'_> {
    fn place(
        &mut self,
        session: &mut Session,
        place: &Place,
        expression: &mut Expression,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let id = session.open(place, self.limits.deletes)?;
        find_owners(session, id, place, expression)?;
        if self.names {
            self.accounts = Accounts::read_or_none(session.tree(id));
        }
        let operand = place.operand();
        let start = operand.len();
        let prefix = start - place.path().as_os_str().len();
        let top = look(place, Named::find(session.tree(id), place, false))?;
        let device = top.stat.st_dev;
        let mut walk = Walk::new(top, operand, interrupt.clone());
        while let Some(step) = walk.next() {
            match step {
                Step::Found(entry) => {
                    let mut visit = Visit::new(self, &entry, prefix, start);
                    let enter = entry.is_directory() && visit.may_enter(device);
                    if !(enter && visit.search.limits.depth_first) {
                        visit.evaluate(expression)?;
                    }
                    if !enter || visit.pruned {
                        walk.skip();
                    }
                }
                Step::Left(entry) if self.limits.depth_first => {
                    Visit::new(self, &entry, prefix, start).evaluate(expression)?;
                }
                Step::Opened(_) | Step::Left(_) => {}
                Step::Failed(entry, error) => {
                    self.failures.tell(entry.failure("read directory", &error));
                }
            }
        }
        Ok(())
    }
}

/// One file to which the expression is applied.
struct Visit<'a, 'o> {
    search: &'a mut Search<'o>,
    entry: &'a Entry<'a>,
    /// Bytes of the image's name in the path.
    prefix: usize,
    /// Bytes of the place where the search began.
    start: usize,
    /// Once it was asked for.
    stat: Option<Option<libc::stat>>,
    /// Whether the walk shall not go into it.
    pruned: bool,
    /// An error of the output.
    broken: Option<Error>,
}

impl<'a, 'o> Visit<'a, 'o> {
    fn new(search: &'a mut Search<'o>, entry: &'a Entry<'a>, prefix: usize, start: usize) -> Self {
        Self {
            search,
            entry,
            prefix,
            start,
            stat: None,
            pruned: false,
            broken: None,
        }
    }

    /// Whether options let the walk go into this directory. `device`: where the walk began.
    fn may_enter(&mut self, device: u64) -> bool {
        let limits = &self.search.limits;
        let other = limits.one_file_system;
        self.entry.depth < limits.most_depth
            && !(other && self.stat().is_some_and(|stat| stat.st_dev != device))
    }

    fn evaluate(&mut self, expression: &Expression) -> Result<()> {
        if self.entry.depth >= self.search.limits.least_depth {
            expression.evaluate(self);
        }
        self.broken.take().map_or(Ok(()), Err)
    }

    /// Prints the file as JSON. One that cannot be looked at is reported.
    fn print_json(&mut self) -> Result<()> {
        let Some(stat) = self.stat() else {
            return Ok(());
        };
        let target = self.target(&stat);
        let (path, accounts) = (self.entry.path, &self.search.accounts);
        let file = record::FileRecord::new(path, &stat, target.as_deref(), accounts);
        self.search.output.json_item(&file)
    }

    fn print(&mut self, action: &FindAction) -> Result<bool> {
        if self.search.output.is_json() {
            return self.print_json().map(|()| true);
        }
        let terminal = self.search.output.is_terminal();
        let line = match action {
            FindAction::Print0 => {
                self.search.output.bytes(self.entry.path)?;
                self.search.output.bytes(b"\0")?;
                return Ok(true);
            }
            FindAction::PrintAs(format) => {
                if let Some(stat) = self.stat() {
                    let line = format.line(&self.facts(stat, terminal));
                    self.search.output.bytes(&line)?;
                }
                return Ok(true);
            }
            FindAction::List => match self.stat() {
                Some(stat) => self.long_line(&stat, terminal),
                None => return Ok(true),
            },
            _ => format::name(self.entry.path, terminal),
        };
        self.search.output.line(line)?;
        Ok(true)
    }

    fn facts(&self, stat: libc::stat, terminal: bool) -> Facts<'a> {
        Facts {
            path: self.entry.path,
            start: self.start,
            depth: self.entry.depth,
            target: self.target(&stat),
            stat,
            terminal,
        }
    }

    /// The target of a link.
    fn target(&self, stat: &libc::stat) -> Option<CString> {
        if is_link(stat) {
            self.entry.directory.read_link_at(self.entry.name).ok()
        } else {
            None
        }
    }

    /// As -ls has it: inode, KiB, mode, links, owner, group, size, time, name.
    fn long_line(&self, stat: &libc::stat, terminal: bool) -> Vec<u8> {
        let size = match stat.st_mode & libc::S_IFMT {
            libc::S_IFBLK | libc::S_IFCHR => format!(
                "{}, {}",
                libc::major(stat.st_rdev),
                libc::minor(stat.st_rdev)
            ),
            _ => stat.st_size.to_string(),
        };
        let mut line = format!(
            "{:>9} {:>6} {} {:>3} {:<8} {:<8} {:>8} {} ",
            stat.st_ino,
            kilobytes(stat),
            format::mode(stat.st_mode),
            stat.st_nlink,
            self.search.accounts.users.name(stat.st_uid),
            self.search.accounts.groups.name(stat.st_gid),
            size,
            format::minute(stat.st_mtime)
        )
        .into_bytes();
        line.extend(format::name(self.entry.path, terminal));
        if let Some(target) = self.target(stat) {
            line.extend_from_slice(b" -> ");
            line.extend(format::name(target.to_bytes(), terminal));
        }
        line
    }

    fn delete(&mut self) -> bool {
        let entry = self.entry;
        if matches!(entry.name.to_bytes(), b"" | b".") {
            // The place where the walk began, not by a name of its own.
            return true;
        }
        let flags = if entry.is_directory() {
            libc::AT_REMOVEDIR
        } else {
            0
        };
        match entry.directory.unlink_at(entry.name, flags) {
            Ok(()) => true,
            Err(error) => {
                self.search.failures.tell(entry.failure("delete", &error));
                false
            }
        }
    }

    fn directory_is_empty(&self) -> io::Result<bool> {
        let name = match self.entry.name {
            name if name.is_empty() => c".",
            name => name,
        };
        let flags = libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW;
        let directory = self.entry.directory.open_at(name, flags, 0)?;
        ReadDir::new(directory)
            .next()
            .transpose()
            .map(|first| first.is_none())
    }
}

impl ExaminedFile for Visit<'_, '_> {
    fn name(&self) -> &[u8] {
        match (self.entry.depth, base_name(self.path())) {
            (0, b"") => b"/",
            (0, name) => name,
            _ => self.entry.name.to_bytes(),
        }
    }

    fn path(&self) -> &[u8] {
        &self.entry.path[self.prefix..]
    }

    fn kind(&mut self) -> u32 {
        match self.entry.kind {
            0 => self.stat().map_or(0, |stat| stat.st_mode & libc::S_IFMT),
            kind => kind,
        }
    }

    fn stat(&mut self) -> Option<libc::stat> {
        if let Some(known) = self.stat {
            return known;
        }
        let found = match self.entry.stat() {
            Ok(stat) => Some(stat),
            Err(error) => {
                let text = self.entry.failure("look at", &error);
                self.search.failures.tell(text);
                None
            }
        };
        self.stat = Some(found);
        found
    }

    fn now(&self) -> i128 {
        self.search.now
    }

    fn is_empty(&mut self) -> bool {
        let Some(stat) = self.stat() else {
            return false;
        };
        if !is_directory(&stat) {
            return stat.st_mode & libc::S_IFMT == libc::S_IFREG && stat.st_size == 0;
        }
        self.directory_is_empty().unwrap_or_else(|error| {
            let text = self.entry.failure("read directory", &error);
            self.search.failures.tell(text);
            false
        })
    }

    fn act(&mut self, action: &FindAction) -> bool {
        match action {
            FindAction::Prune => {
                self.pruned = true;
                true
            }
            FindAction::Delete => self.delete(),
            _ if self.broken.is_some() => false,
            _ => self.print(action).unwrap_or_else(|error| {
                self.broken = Some(error);
                false
            }),
        }
    }
}
