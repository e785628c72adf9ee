// SPDX-License-Identifier: GPL-2.0-only
//! Limits of memory and tasks, by control groups of the kernel: all clients, in them each user of
//! the host, in that each client with its copies.
//!
//! A client that ends leaves its group to a later one of its user, so that groups do not become
//! more and more: a removed group stays as long as it has files in memory. Only a group with many
//! such files is removed. They count for its user from then on.

use crate::limits::ClientLimits;
use outboard::{errno, ControlGroup, Kernel};
use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The name of the group of all clients.
const NAME: &str = "outboard-clients";

/// The groups of one user's clients.
struct UserGroups {
    group: ControlGroup,
    /// How many groups there have been.
    count: u64,
    /// Those whose client has ended.
    free: Vec<Group>,
}

/// The group of one client.
struct Group {
    name: String,
    group: ControlGroup,
}

/// The groups of all clients.
pub(crate) struct ClientGroups {
    /// `None`: the kernel has no control groups.
    clients: Option<ControlGroup>,
    /// Bytes of memory of a client.
    memory: u64,
    /// Bytes of memory of a user's clients.
    user_memory: u64,
    limits: ClientLimits,
    users: Mutex<HashMap<u32, UserGroups>>,
}

/// The group of a client that runs. Copies of the client have it, too.
pub(crate) struct ClientGroup {
    groups: Weak<ClientGroups>,
    user: u32,
    group: Option<Group>,
}

/// A kernel may be without one of the limits.
fn unless_missing(limited: io::Result<()>) -> io::Result<()> {
    match limited {
        Err(error) if errno(&error) == Some(libc::ENOENT) => Ok(()),
        other => other,
    }
}

impl ClientGroups {
    pub(crate) fn start(kernel: &Kernel, limits: &ClientLimits) -> io::Result<Arc<Self>> {
        let memory = kernel.memory_limit()?;
        let clients = match kernel.control_groups() {
            Ok(all) => {
                let clients = all.group(NAME)?;
                unless_missing(clients.limit_memory(memory / 4 * 3))?;
                Some(clients)
            }
            Err(error) if errno(&error) == Some(libc::ENODEV) => None,
            Err(error) => return Err(error),
        };
        Ok(Arc::new(Self {
            clients,
            memory: limits.memory.unwrap_or(memory / 4),
            user_memory: memory / 2,
            limits: *limits,
            users: Mutex::default(),
        }))
    }

    fn users(&self) -> MutexGuard<'_, HashMap<u32, UserGroups>> {
        self.users.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a new process, of a user of the host, into a group for it and its copies. `None`: the
    /// kernel has no groups.
    pub(crate) fn join(
        self: &Arc<Self>,
        user: u32,
        process: i32,
    ) -> io::Result<Option<Arc<ClientGroup>>> {
        let Some(clients) = &self.clients else {
            return Ok(None);
        };
        let mut users = self.users();
        let of_user = match users.entry(user) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(new) => new.insert(self.user(clients, user)?),
        };
        let group = match self.find_free(of_user) {
            Some(free) => free,
            None => self.client(of_user)?,
        };
        group.group.add(process)?;
        Ok(Some(Arc::new(ClientGroup {
            groups: Arc::downgrade(self),
            user,
            group: Some(group),
        })))
    }

    fn user(&self, clients: &ControlGroup, user: u32) -> io::Result<UserGroups> {
        let group = clients.group(&format!("user-{user}"))?;
        unless_missing(group.limit_memory(self.user_memory))?;
        // A client without further threads has two tasks.
        unless_missing(group.limit_tasks(self.limits.clients / 2 * 3))?;
        Ok(UserGroups {
            group,
            count: 0,
            free: Vec::new(),
        })
    }

    /// A new group for a client.
    fn client(&self, user: &mut UserGroups) -> io::Result<Group> {
        user.count += 1;
        let name = format!("client-{}", user.count);
        let group = user.group.group(&name)?;
        unless_missing(group.limit_memory(self.memory))?;
        unless_missing(group.limit_tasks(self.limits.tasks))?;
        Ok(Group { name, group })
    }

    /// A group that a client has left, with enough memory for the next one.
    fn find_free(&self, user: &mut UserGroups) -> Option<Group> {
        let is_fit = |free: &Group| free.group.memory().unwrap_or(0) <= self.memory / 2;
        let mut kept = Vec::new();
        let mut found = None;
        while let Some(free) = user.free.pop() {
            if !is_fit(&free) {
                free.group.drop_caches(self.memory);
            }
            if is_fit(&free) {
                found = Some(free);
                break;
            }
            // Its last process may be about to end.
            if user.group.remove(&free.name).is_err() {
                kept.push(free);
            }
        }
        user.free.extend(kept);
        found
    }
}

impl Drop for ClientGroup {
    fn drop(&mut self) {
        let group = self.group.take();
        let Some((groups, group)) = self.groups.upgrade().zip(group) else {
            return;
        };
        let mut users = groups.users();
        if let Some(user) = users.get_mut(&self.user) {
            user.free.push(group);
        }
    }
}
