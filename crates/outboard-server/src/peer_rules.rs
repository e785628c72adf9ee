// SPDX-License-Identifier: GPL-2.0-only
//! Users of the host who may use a server, and who they are inside.

use crate::peer::{ClientPeer, InsideUser};
use outboard::{peer_credentials, System};
use std::io;
use std::os::fd::AsFd;

/// The rules of a server. Its own user, and root, are root inside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerRules {
    owner: u32,
    /// Numbers of users of the host.
    allowed: Vec<(u32, InsideUser)>,
}

impl PeerRules {
    /// `allowed`: numbers of other users of the host. The first rule for a user counts.
    pub fn new(allowed: Vec<(u32, InsideUser)>) -> Self {
        Self {
            owner: System::Host.effective_user(),
            allowed,
        }
    }

    /// Whether other users of the host have rules.
    pub(crate) fn allow_others(&self) -> bool {
        !self.allowed.is_empty()
    }

    /// The other end of a connection. The error: the number of its user, who has no rule.
    pub(crate) fn peer(&self, socket: impl AsFd) -> io::Result<Result<ClientPeer, u32>> {
        let found = peer_credentials(socket)?;
        let inside = self.inside(found.user).ok_or(found.user);
        Ok(inside.map(|inside| ClientPeer {
            process: found.process,
            user: found.user,
            inside,
        }))
    }

    fn inside(&self, user: u32) -> Option<InsideUser> {
        if user == self.owner || user == 0 {
            return Some(InsideUser::ROOT);
        }
        let mut rules = self.allowed.iter();
        let found = rules.find(|(allowed, _)| *allowed == user);
        found.map(|(_, inside)| *inside)
    }
}

impl Default for PeerRules {
    /// Nobody else may connect.
    fn default() -> Self {
        Self::new(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::net::UnixStream;

    #[test]
    fn others_need_a_rule() {
        let inside = |user| InsideUser { user, group: 9 };
        let rules = PeerRules {
            owner: 1000,
            allowed: vec![(7, inside(1)), (7, inside(2)), (1000, inside(3))],
        };
        assert_eq!(rules.inside(0), Some(InsideUser::ROOT));
        assert_eq!(rules.inside(1000), Some(InsideUser::ROOT));
        assert_eq!(rules.inside(7), Some(inside(1)));
        assert_eq!(rules.inside(8), None);
    }

    #[test]
    fn the_owner_is_root_inside() {
        let (ours, _theirs) = UnixStream::pair().unwrap();
        let peer = PeerRules::new(Vec::new()).peer(&ours).unwrap().unwrap();
        assert_eq!(peer.inside, InsideUser::ROOT);
        assert_eq!(peer.process as u32, std::process::id());
    }
}
