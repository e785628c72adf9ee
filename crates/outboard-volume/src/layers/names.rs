// SPDX-License-Identifier: GPL-2.0-only
//! Finds the nodes of names in a stack, and the names of nodes.
//!
//! A name is parsed from its start: selectors with `@` between them, each of a node above the one
//! before. A selector may be left out where only one node is possible. A rest that is no selector
//! is a subvolume of the file system found so far.

use super::subvolumes::{self, Subvolume};
use super::{Selector, Stack};
use crate::address::ImageName;
use outboard_error::format::escaped;
use outboard_error::{Error, ErrorKind, Hint, Result};
use outboard_image::Class;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The meaning of a name.
#[derive(Debug, PartialEq, Eq)]
pub enum Meaning {
    FileSystem(usize),
    /// A subvolume of this name, in one of these file systems or in the locked node.
    Subvolume(Vec<usize>, OsString, Option<usize>),
    /// This locked node, or a node that may be inside of it.
    Locked(usize),
}

/// The selectors of a name: the part after the image file.
pub(super) fn selectors(name: &ImageName) -> Vec<u8> {
    let file = name.file.as_os_str().as_bytes().len();
    name.operand()[file..]
        .strip_prefix(b"@")
        .unwrap_or_default()
        .to_vec()
}

/// The selector of a volume with a name of its own. A number is the name of a partition, `@` ends a
/// selector, `:/` ends the image, and `/` is in the name of each logical volume: a selector has
/// none of them.
pub(super) fn selector_of(name: &str) -> String {
    let name = name.replace(":/", "-").replace(['@', '/'], "-");
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        format!("md{name}")
    } else {
        name
    }
}

/// The rest of a name that begins with a selector.
fn after<'a>(name: &'a [u8], selector: &str) -> Option<&'a [u8]> {
    let rest = name.strip_prefix(selector.as_bytes())?;
    if rest.is_empty() {
        Some(rest)
    } else {
        rest.strip_prefix(b"@").filter(|rest| !rest.is_empty())
    }
}

impl Stack {
    /// The node of the image's disk, where a name begins.
    fn root(&self, name: &ImageName) -> usize {
        let is_root =
            |file: Option<&std::path::PathBuf>| file.is_some_and(|file| *file == name.file);
        let mut nodes = self.nodes.iter();
        nodes
            .position(|node| is_root(node.file.as_ref()))
            .unwrap_or(0)
    }

    fn is_above(&self, upper: usize, lower: usize) -> bool {
        self.ancestry.is_above(upper, lower)
    }

    /// How many nodes lie between this one and a disk.
    fn height(&self, index: usize) -> usize {
        self.ancestry.height(index)
    }

    /// The nodes along a name, each with the rest of the name; the first one is the image's disk.
    /// A volume that lies on other disks of the machine alone is found, too, unless the image has
    /// one of this name.
    fn along<'a>(&self, name: &ImageName, selectors: &'a [u8]) -> Vec<(usize, &'a [u8])> {
        let mut found = Vec::new();
        self.follow(self.root(name), selectors, &mut found);
        if found.len() > 1 {
            return found;
        }
        for (index, node) in self.nodes.iter().enumerate() {
            let Selector::Whole(selector) = &node.selector else {
                continue;
            };
            if let Some(rest) = after(selectors, selector) {
                self.follow(index, rest, &mut found);
            }
        }
        found
    }

    /// Collects the nodes along a name that begins with this node.
    fn follow<'a>(&self, from: usize, name: &'a [u8], found: &mut Vec<(usize, &'a [u8])>) {
        found.push((from, name));
        for (index, node) in self.nodes.iter().enumerate() {
            let (Selector::Within(selector) | Selector::Whole(selector)) = &node.selector else {
                continue;
            };
            if let Some(rest) = after(name, selector).filter(|_| self.is_above(index, from)) {
                self.follow(index, rest, found);
            }
        }
    }

    /// Nodes that a node's name may mean: itself, or nodes above it. `forced`: also nodes with
    /// unknown contents.
    fn candidates(&self, index: usize, forced: bool) -> Vec<usize> {
        let is_candidate = |&index: &usize| {
            let node = &self.nodes[index];
            let probe = node.probe.as_ref();
            let is_file_system = probe.is_some_and(|probe| probe.class == Class::FileSystem);
            node.locked || is_file_system || forced && probe.is_none()
        };
        (0..self.nodes.len())
            .filter(|&other| other == index || self.is_above(other, index))
            .filter(|&other| !self.is_opened(other))
            .filter(is_candidate)
            .collect()
    }

    /// The selectors that lead to a node.
    fn selectors(&self, index: usize) -> String {
        let node = &self.nodes[index];
        let below = node.below.first().map(|&below| self.selectors(below));
        let below = below.unwrap_or_default();
        match &node.selector {
            Selector::Same => below,
            Selector::Whole(selector) => selector.clone(),
            Selector::Within(selector) if below.is_empty() => selector.clone(),
            Selector::Within(selector) => format!("{below}@{selector}"),
        }
    }

    /// As the user would write it.
    pub fn image_name(&self, index: usize) -> ImageName {
        let disk = &self.nodes[self.disk_below(index)];
        let file = disk.file.clone().unwrap_or_default();
        let selectors = self.selectors(index);
        if selectors.is_empty() {
            ImageName::new(file, None)
        } else {
            ImageName::with_selectors(&file, selectors.as_bytes())
        }
    }

    /// The name of a subvolume of a node: the first form that commands read as this subvolume.
    pub fn subvolume_name(&self, node: usize, subvolume: &Subvolume) -> ImageName {
        let host = self.image_name(node);
        let mut last = None;
        for form in subvolumes::forms(subvolume) {
            let mut all = selectors(&host);
            if !all.is_empty() {
                all.push(b'@');
            }
            all.extend(&form);
            let name = ImageName::with_selectors(&host.file, &all);
            let ends_early = form.windows(2).any(|pair| pair == b":/");
            if !ends_early && self.is_subvolume_of(&name, node, &form) {
                return name;
            }
            last = Some(name);
        }
        last.unwrap_or(host)
    }

    /// Whether commands read a name as this subvolume of a node.
    fn is_subvolume_of(&self, name: &ImageName, node: usize, subvolume: &[u8]) -> bool {
        let found = self.find(name, false);
        let is_meant =
            |hosts: &[usize], rest: &OsStr| hosts == [node] && rest.as_bytes() == subvolume;
        name.volume.is_some()
            && matches!(found, Ok(Meaning::Subvolume(hosts, rest, _)) if is_meant(&hosts, &rest))
    }

    /// [`Stack::image_name`] for messages.
    pub fn name(&self, index: usize) -> String {
        self.image_name(index).shown()
    }

    /// The first disk that a node lies on.
    fn disk_below(&self, index: usize) -> usize {
        match self.nodes[index].below.first() {
            Some(&below) => self.disk_below(below),
            None => index,
        }
    }

    /// The type of what a node holds.
    pub fn kind(&self, index: usize) -> &'static str {
        let probe = self.nodes[index].probe.as_ref();
        probe.map_or("unknown", |probe| probe.kind)
    }

    /// The names and contents of nodes, for a message with a choice.
    fn choice(&self, nodes: &[usize]) -> String {
        let shown = |&index: &usize| format!("{}:/ ({})", self.name(index), self.kind(index));
        let list: Vec<String> = nodes.iter().map(shown).collect();
        list.join(" or ")
    }

    /// The problems of a node and the nodes above it.
    fn problems(&self, index: usize) -> Option<String> {
        let above = |&other: &usize| other == index || self.is_above(other, index);
        let problem = |other: usize| {
            let problem = self.nodes[other].problem.as_ref()?;
            Some(format!("{}: {problem}", self.name(other)))
        };
        let problems: Vec<String> = (0..self.nodes.len())
            .filter(above)
            .filter_map(problem)
            .collect();
        (!problems.is_empty()).then(|| problems.join("\n  "))
    }

    /// Whether a disk is missing for what is above a node.
    fn lacks_disks(&self, index: usize) -> bool {
        let above = |&other: &usize| other == index || self.is_above(other, index);
        let mut nodes = (0..self.nodes.len()).filter(above);
        nodes.any(|other| self.nodes[other].incomplete)
    }

    fn no_file_system(&self, name: &ImageName, index: usize) -> Error {
        let problems = self.problems(index);
        let kind = match (self.lacks_disks(index), problems.is_some()) {
            (true, _) => ErrorKind::Incomplete,
            (false, true) => ErrorKind::Damaged,
            (false, false) => ErrorKind::NotAFileSystem,
        };
        let Some(problems) = problems else {
            let name = name.shown();
            return Error::hinted(kind, Hint::Inspect { name: name.clone() }, |see| {
                format!("{name}: no file system that is known{see}")
            });
        };
        of_kind(kind, problems)
    }

    /// All that went wrong in the disk that a node lies on.
    pub fn problems_of_disk(&self, index: usize) -> Option<String> {
        self.problems(self.disk_below(index))
    }

    /// The only file system in a node or above it.
    fn settle(&self, name: &ImageName, index: usize, forced: bool) -> Result<Meaning> {
        let found = self.candidates(index, forced);
        match found.as_slice() {
            [only] if self.nodes[*only].locked => Ok(Meaning::Locked(*only)),
            [only] => Ok(Meaning::FileSystem(*only)),
            [] => Err(self.no_file_system(name, index)),
            several => Err(Error::known(
                ErrorKind::Ambiguous,
                format!(
                    "{} has several file systems: say which one, {}",
                    name.shown(),
                    self.choice(several)
                ),
            )),
        }
    }

    /// The nodes that a name means, and all nodes above them.
    pub fn all_of(&self, name: &ImageName) -> Vec<usize> {
        let selectors = selectors(name);
        let found = self.along(name, &selectors);
        let ends = found.iter().filter(|(_, rest)| rest.is_empty());
        let is_meant = |index: usize| {
            let above = |(end, _): &(usize, &[u8])| *end == index || self.is_above(index, *end);
            ends.clone().any(above)
        };
        (0..self.nodes.len())
            .filter(|&index| is_meant(index))
            .collect()
    }

    /// The node that a name leads to, if it leads all the way.
    fn end(&self, selectors: &[u8], found: &[(usize, &[u8])]) -> Option<usize> {
        if selectors.is_empty() {
            return found.first().map(|(root, _)| *root);
        }
        let ends = found.iter().filter(|(_, rest)| rest.is_empty());
        // A partition of the disk and one inside a volume may have the same number.
        ends.map(|(node, _)| *node)
            .min_by_key(|node| self.height(*node))
    }

    /// Finds the meaning of a name. `forced`: the user named the file system's type.
    pub fn find(&self, name: &ImageName, forced: bool) -> Result<Meaning> {
        let selectors = selectors(name);
        let found = self.along(name, &selectors);
        match self.end(&selectors, &found) {
            Some(node) => self.settle(name, node, forced),
            None => self.find_subvolume(name, &found),
        }
    }

    /// The nodes that [`Stack::find`] chooses from: file systems and locked volumes.
    pub fn choices(&self, name: &ImageName, forced: bool) -> Vec<usize> {
        let selectors = selectors(name);
        let found = self.along(name, &selectors);
        let end = self.end(&selectors, &found);
        end.map_or(Vec::new(), |node| self.candidates(node, forced))
    }

    /// The node that a name means, whatever its contents. Of several nodes with the same name, the
    /// topmost one.
    pub fn find_itself(&self, name: &ImageName) -> Result<Meaning> {
        let selectors = selectors(name);
        let found = self.along(name, &selectors);
        let ends = found.iter().filter(|(_, rest)| rest.is_empty());
        let Some((node, _)) = ends.min_by_key(|(node, _)| self.height(*node)) else {
            return self.find_subvolume(name, &found);
        };
        let mut top = *node;
        while let Some(above) = self.same_above(top) {
            top = above;
        }
        Ok(if self.nodes[top].locked {
            Meaning::Locked(top)
        } else {
            Meaning::FileSystem(top)
        })
    }

    /// The node that is the whole contents of this one.
    fn same_above(&self, index: usize) -> Option<usize> {
        let mut nodes = self.nodes.iter();
        nodes.position(|node| node.selector == Selector::Same && node.below.contains(&index))
    }

    /// Finds the subvolume that the rest of a name means.
    fn find_subvolume(&self, name: &ImageName, found: &[(usize, &[u8])]) -> Result<Meaning> {
        let longest = found.iter().min_by_key(|(_, rest)| rest.len());
        let (node, rest) = longest.copied().unwrap_or((self.root(name), b""));
        let candidates = self.candidates(node, false);
        let with_subvolumes = |&index: &usize| self.nodes[index].holds("btrfs");
        let hosts: Vec<usize> = candidates.iter().copied().filter(with_subvolumes).collect();
        let mut locked = candidates.iter().copied();
        let locked = locked.find(|&index| self.nodes[index].locked);
        match (hosts.is_empty(), locked) {
            (true, None) => Err(self.nothing_of_this_name(node, rest)),
            (true, Some(locked)) => Ok(Meaning::Locked(locked)),
            (false, locked) => {
                let rest = OsStr::from_bytes(rest).to_owned();
                Ok(Meaning::Subvolume(hosts, rest, locked))
            }
        }
    }

    fn nothing_of_this_name(&self, node: usize, rest: &[u8]) -> Error {
        let (shown, rest) = (self.name(node), escaped(rest));
        let known = self.candidates(node, false);
        let problems = self.problems(node).unwrap_or_default();
        let of_this: Vec<&str> = problems
            .lines()
            .filter(|line| line.contains(&rest))
            .collect();
        let why = match (of_this.is_empty(), known.is_empty(), problems.is_empty()) {
            (false, ..) => format!("\n  {}", of_this.join("\n  ")),
            (true, false, _) => format!(": it has {}", self.choice(&known)),
            (true, true, false) => format!("\n  {problems}"),
            (true, true, true) => {
                let see = Hint::Inspect {
                    name: shown.clone(),
                };
                see.to_string()
            }
        };
        let kind = if self.lacks_disks(node) {
            ErrorKind::Incomplete
        } else {
            ErrorKind::NotFound
        };
        of_kind(kind, format!("no volume {rest} in {shown}{why}"))
    }
}

/// An error about a volume, with the hint of its kind.
fn of_kind(kind: ErrorKind, text: String) -> Error {
    match kind {
        ErrorKind::Incomplete => Error::hinted(kind, Hint::AddDisks, |_| text),
        _ => Error::known(kind, text),
    }
}
