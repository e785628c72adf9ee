// SPDX-License-Identifier: GPL-2.0-only
//! The parts of the host that a sandboxed process keeps.

use crate::host_port::HostPort;
use std::path::PathBuf;

/// The needs of a command on the host, besides its standard streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostAccess {
    /// Images, and whether they may be written.
    pub images: Vec<(PathBuf, bool)>,
    /// Files to read, and directories with everything below.
    pub reads: Vec<PathBuf>,
    /// Files to write, and directories below which everything may be changed.
    pub writes: Vec<PathBuf>,
    /// The command uses all attributes of the files that it reads, also those that only root sees.
    pub keeps_attributes: bool,
    /// The command parses files that it reads: it runs in the sandbox also without an image.
    pub parses: bool,
    /// The command uses names and attributes of files alone, or a few blocks: the kernel's memory
    /// grows little.
    pub is_small: bool,
    /// Written files may be device nodes.
    pub makes_nodes: bool,
    /// The command stays outside of the sandbox, so it must not run the kernel: it starts programs,
    /// each in a sandbox ([`super::programs`]), or copies of itself that run the kernel.
    pub outside: bool,
    /// The command's kernel runs programs of an image: the process that makes processes for them
    /// starts before the sandbox.
    pub runs_programs: bool,
    /// The command reaches servers.
    pub network: Option<NetworkAccess>,
    /// Ports of the host that lead to programs.
    pub ports: Vec<HostPort>,
    /// The command serves front-ends of vhost-user, on sockets that listen before. Other processes
    /// of the user open its memory, so it keeps the user's namespaces.
    pub serves: bool,
    /// Processes of the host use the command's kernel, by connections to Unix sockets that listen
    /// before and by memory that they share with it. The command sees whose they are, so it keeps
    /// the user's namespaces.
    pub serves_clients: bool,
}

/// The network of the host, as far as a command uses it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NetworkAccess {
    /// TCP ports of servers. Empty: any.
    pub ports: Vec<u16>,
    /// The kernel's sockets are the host's: its clients of servers send and receive messages.
    pub kernel_sockets: bool,
    /// The process connects programs of another one: TCP, UDP and ICMP echo, and connections to
    /// sockets that listen before.
    pub translates: bool,
    /// The sockets of programs are the host's: the same, and sockets that listen.
    pub listens: bool,
}

/// The allowed system calls on sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SocketCalls {
    /// None.
    Nothing,
    /// Connections to servers.
    Connections,
    /// The same, with messages of several pieces.
    Messages,
    /// Connections of others to sockets that listen already.
    Serving,
    /// Messages, datagrams, and connections of others to sockets that listen already.
    Translating,
    /// The same, and new sockets that listen.
    Everything,
}

impl SocketCalls {
    pub(super) fn of(access: &HostAccess) -> Self {
        match &access.network {
            None if access.serves => Self::Serving,
            None => Self::Nothing,
            Some(network) if network.listens => Self::Everything,
            Some(network) if network.translates => Self::Translating,
            Some(network) if network.kernel_sockets => Self::Messages,
            Some(_) => Self::Connections,
        }
    }
}

impl NetworkAccess {
    /// Adds the needs of another command.
    fn add(&mut self, other: NetworkAccess) {
        self.kernel_sockets |= other.kernel_sockets;
        self.translates |= other.translates;
        self.listens |= other.listens;
        if self.ports.is_empty() || other.ports.is_empty() {
            self.ports.clear();
        } else {
            self.ports.extend(other.ports);
        }
    }
}

impl HostAccess {
    /// Whether all used files are images.
    pub fn is_images_only(&self) -> bool {
        self.reads.is_empty() && self.writes.is_empty()
    }

    /// Whether a kernel of the command looks at what strangers have made: images, or programs.
    pub fn needs_kernel(&self) -> bool {
        !self.images.is_empty() || self.runs_programs
    }

    /// Adds further disks of the same machine, with the rights of the images.
    pub fn with_disks(&self, disks: &[PathBuf]) -> Self {
        let mut access = self.clone();
        if !self.images.is_empty() {
            let write = self.images.iter().any(|(_, write)| *write);
            let disks = disks.iter().map(|disk| (disk.clone(), write));
            access.images.extend(disks);
        }
        access
    }

    /// Adds the needs of another command.
    pub fn add(&mut self, other: HostAccess) {
        self.images.extend(other.images);
        self.reads.extend(other.reads);
        self.writes.extend(other.writes);
        self.keeps_attributes |= other.keeps_attributes;
        self.parses |= other.parses;
        self.is_small &= other.is_small;
        self.makes_nodes |= other.makes_nodes;
        self.outside |= other.outside;
        self.runs_programs |= other.runs_programs;
        self.serves |= other.serves;
        self.serves_clients |= other.serves_clients;
        self.ports.extend(other.ports);
        match (&mut self.network, other.network) {
            (Some(network), Some(other)) => network.add(other),
            (network @ None, other) => *network = other,
            (Some(_), None) => {}
        }
    }
}
