// SPDX-License-Identifier: MIT
//! Why some system calls do not travel.

/// The reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kernel would change which memory the client has, or look at it when it likes. It has
    /// only a slot of it.
    Memory,
    /// It makes, replaces or ends a task: the protocol has requests of its own for that.
    Task,
    /// It says where a signal is handled: the client's library does that itself.
    Handler,
    /// Its structures lead to further memory, in ways that nobody has described here.
    Nested,
    /// It changes what the calling thread's own code may do, on a processor that runs no such code.
    Code,
    /// It does several calls at once: the client's library makes them one by one.
    Several,
    /// It concerns the machine, and there is none.
    Machine,
}

impl Reason {
    /// The reason as a sentence, for a message.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Memory => "the kernel does not have the client's memory",
            Self::Task => "the protocol has a request of its own for this",
            Self::Handler => "the client's library handles signals itself",
            Self::Nested => "its structures lead to memory that the protocol does not describe",
            Self::Code => "the client's code does not run on this kernel",
            Self::Several => "the client's library makes these calls one by one",
            Self::Machine => "there is no such machine",
        }
    }
}
