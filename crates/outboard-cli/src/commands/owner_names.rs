// SPDX-License-Identifier: GPL-2.0-only
//! The names of owners, read once for each tree that a command lists.

use outboard::Tree;
use outboard_transfer::accounts::Accounts;
use outboard_volume::session::TreeId;
use std::rc::Rc;

/// The names that images have for their users and groups.
pub struct OwnerNames {
    /// Whether the command shows names. If not, nothing is read.
    shown: bool,
    known: Vec<(TreeId, Rc<Accounts>)>,
}

impl OwnerNames {
    pub fn new(shown: bool) -> Self {
        Self {
            shown,
            known: Vec::new(),
        }
    }

    /// The names of a tree; none if they are not shown.
    pub fn of(&mut self, tree: &Tree, id: TreeId) -> Rc<Accounts> {
        if !self.shown {
            return Rc::default();
        }
        if let Some((_, known)) = self.known.iter().find(|(known, _)| *known == id) {
            return Rc::clone(known);
        }
        let accounts = Rc::new(Accounts::read_or_none(tree));
        self.known.push((id, Rc::clone(&accounts)));
        accounts
    }
}
