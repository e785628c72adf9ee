// SPDX-License-Identifier: GPL-2.0-only
//! The walk through two trees side by side.
//!
//! Two walks take the same steps: the names of a directory that only one tree has are returned, and
//! taken out of its walk. A directory is entered only if both trees have one at that path, and both
//! can be opened and listed.

use super::names::DirectoryNames;
use super::one::{append, Entry, Next, Start, Step, Walk};
use super::stop::Stop;
use std::collections::VecDeque;
use std::ffi::{CStr, CString};
use std::io;

/// A step of a walk through two trees. Paths are relative to the tops; those have empty ones.
pub enum PairStep<'a> {
    /// A file of each tree, with the same path. Directories come before what is in them.
    Both([Entry<'a>; 2]),
    /// A path that only this tree has, 0 or 1.
    Only(usize, &'a [u8]),
    /// A directory of this tree that cannot be opened or listed to its end. Nothing in it is
    /// visited, in neither tree.
    Failed(usize, &'a [u8], io::Error),
}

/// A step that comes before the walks go on.
enum Pending {
    Only(usize, CString),
    Failed(usize, io::Error),
}

/// A walk through two trees that is under way.
pub struct PairWalk {
    walks: [Walk; 2],
    /// About the directory that the walks have entered, or could not enter.
    pending: VecDeque<Pending>,
    /// The path of the last name that only one tree has.
    path: Vec<u8>,
}

impl PairWalk {
    /// A walk through everything at and below two files.
    pub fn new(starts: [Start; 2], stop: impl Stop + Clone + Send + 'static) -> Self {
        Self {
            walks: starts.map(|start| Walk::new(start, Vec::new(), stop.clone())),
            pending: VecDeque::new(),
            path: Vec::new(),
        }
    }

    /// Does not go into the directories that were found last.
    pub fn skip(&mut self) {
        self.walks.iter_mut().for_each(Walk::skip);
    }

    /// The next step. `None` at the end, or when it is to stop.
    // No Iterator: a step borrows the walk.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Option<PairStep<'_>> {
        while self.pending.is_empty() {
            if self.advance()? {
                let [left, right] = &self.walks;
                return Some(PairStep::Both([left.here()?, right.here()?]));
            }
        }
        let path = &self.walks[0].path;
        match self.pending.pop_front()? {
            Pending::Failed(tree, error) => Some(PairStep::Failed(tree, path, error)),
            Pending::Only(tree, name) => {
                self.path.clone_from(path);
                append(&mut self.path, name.to_bytes());
                Some(PairStep::Only(tree, &self.path))
            }
        }
    }

    /// Lets both walks take a step. Returns whether they have found something.
    fn advance(&mut self) -> Option<bool> {
        if self.both_enter() {
            self.enter();
            return Some(false);
        }
        let [left, right] = &mut self.walks;
        let steps = (left.next()?, right.next()?);
        let found = matches!(steps, (Step::Found(_), Step::Found(_)));
        if found && !self.both_enter() {
            self.skip();
        }
        Some(found)
    }

    fn both_enter(&self) -> bool {
        let enters = |walk: &Walk| matches!(walk.next, Next::Enter);
        self.walks.iter().all(enters)
    }

    /// Enters the directories that were found, and compares their names.
    fn enter(&mut self) {
        let failed = self.walks.each_mut().map(|walk| walk.enter(None).err());
        let whole = failed.iter().all(Option::is_none);
        let failed = failed.into_iter().enumerate();
        let failed = failed.filter_map(|(tree, error)| Some(Pending::Failed(tree, error?)));
        self.pending.extend(failed);
        let names = self.walks.each_mut().map(Walk::entered_names);
        match names {
            [Some(left), Some(right)] if whole => {
                let pending = &mut self.pending;
                merge(left, right, |tree, name| {
                    pending.push_back(Pending::Only(tree, name.to_owned()));
                });
            }
            names => names.into_iter().flatten().for_each(DirectoryNames::clear),
        }
    }
}

/// Leaves only the names that both have, in the same order. Calls `only` with each other name, and
/// the tree that has it.
fn merge(
    left: &mut DirectoryNames,
    right: &mut DirectoryNames,
    mut only: impl FnMut(usize, &CStr),
) {
    left.sort();
    right.sort();
    let mut common = [DirectoryNames::default(), DirectoryNames::default()];
    let (mut of_left, mut of_right) = (left.iter().peekable(), right.iter().peekable());
    loop {
        let order = match (of_left.peek(), of_right.peek()) {
            (Some((a, _)), Some((b, _))) => a.cmp(b),
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (None, None) => break,
        };
        let a = of_left.next_if(|_| order.is_le());
        let b = of_right.next_if(|_| order.is_ge());
        match (a, b) {
            (Some((name, kind)), Some((_, other))) => {
                common[0].push(name, kind);
                common[1].push(name, other);
            }
            (Some((name, _)), None) => only(0, name),
            (None, Some((name, _))) => only(1, name),
            (None, None) => break,
        }
    }
    drop((of_left, of_right));
    [*left, *right] = common;
}

#[cfg(test)]
mod tests {
    use super::super::one::tests::{scratch, start};
    use super::*;

    fn steps(roots: [&std::path::Path; 2]) -> Vec<String> {
        let mut walk = PairWalk::new(roots.map(start), ());
        let mut steps = Vec::new();
        let shown = |path: &[u8]| String::from_utf8(path.to_vec()).unwrap();
        while let Some(step) = walk.next() {
            steps.push(match step {
                PairStep::Both([left, right]) => {
                    assert_eq!(left.path, right.path);
                    format!("={}", shown(left.path))
                }
                PairStep::Only(tree, path) => format!("{tree}{}", shown(path)),
                PairStep::Failed(tree, path, _) => format!("!{tree}{}", shown(path)),
            });
        }
        steps
    }

    #[test]
    fn names_of_both_trees_are_paired() {
        let roots = [scratch("left"), scratch("right")];
        for root in &roots {
            std::fs::create_dir_all(root.join("b/c")).unwrap();
            std::fs::write(root.join("b/z"), "").unwrap();
            std::fs::write(root.join("f"), "").unwrap();
        }
        let [left, right] = &roots;
        std::fs::write(left.join("a"), "").unwrap();
        std::fs::write(left.join("b/c/only"), "").unwrap();
        std::fs::create_dir(left.join("d")).unwrap();
        std::fs::write(left.join("d/e"), "").unwrap();
        std::fs::write(right.join("d"), "").unwrap();
        std::fs::write(right.join("x"), "").unwrap();
        let found = steps([left, right]);
        for root in &roots {
            std::fs::remove_dir_all(root).unwrap();
        }
        let expected = [
            "=",
            "0a",
            "1x",
            "=b",
            "=b/c",
            "0b/c/only",
            "=b/z",
            "=d",
            "=f",
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_directory_that_one_tree_cannot_open_is_left_out() {
        let roots = [scratch("good"), scratch("bad")];
        for root in &roots {
            std::fs::create_dir(root.join("b")).unwrap();
            std::fs::write(root.join("b/a"), "").unwrap();
            std::fs::write(root.join("c"), "").unwrap();
        }
        let mut walk = PairWalk::new([start(&roots[0]), start(&roots[1])], ());
        let mut found = Vec::new();
        while let Some(step) = walk.next() {
            match step {
                PairStep::Both([entry, _]) => {
                    if entry.path == b"b" {
                        std::fs::remove_dir_all(roots[1].join("b")).unwrap();
                    }
                    found.push(String::from_utf8(entry.path.to_vec()).unwrap());
                }
                PairStep::Only(..) => panic!("nothing is in one tree only"),
                PairStep::Failed(tree, path, error) => {
                    assert_eq!((tree, path), (1, b"b".as_slice()));
                    assert_eq!(error.kind(), io::ErrorKind::NotFound);
                    found.push("!".to_owned());
                }
            }
        }
        for root in &roots {
            std::fs::remove_dir_all(root).unwrap();
        }
        assert_eq!(found, ["", "b", "!", "c"]);
    }
}
