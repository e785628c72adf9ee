// SPDX-License-Identifier: MIT
//! Messages of a client: a process outside that is a process of the kernel, too. Its connection
//! begins with [`Request::Client`](crate::frames::Request::Client). Its system calls do not travel
//! in messages, but in slots of shared memory.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt::{self, Write};
use std::str::FromStr;

/// The version of these messages, and of the slots.
pub const VERSION: u32 = 1;

/// Bytes of a ticket.
pub const TICKET_BYTES: usize = 16;

/// Proves that a connection is the copy of a process, or its new program: the kernel has given it
/// with the result of a fork or an exec. As text, 32 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Ticket(pub [u8; TICKET_BYTES]);

/// The first message of a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientRequest {
    /// The version of the protocol that the client has: [`VERSION`].
    pub version: u32,
    /// The name of the process, as Linux shows it. Longer ones are cut.
    pub name: String,
    /// Of a fork or an exec, or of a further thread without a slot; `None`: a new process.
    #[serde(default)]
    pub ticket: Option<Ticket>,
    /// Calls travel in slots of shared memory; else in frames, for one thread per connection.
    #[serde(default = "yes")]
    pub slots: bool,
}

fn yes() -> bool {
    true
}

/// A later message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientNote {
    /// A further thread of the process, which needs a slot, or without slots a connection.
    Thread,
    /// A signal has come for a thread while its request was under way.
    Interrupt {
        /// The thread, by its number in the kernel.
        thread: i32,
        /// The number of the request in the thread's slot.
        request: u32,
    },
    /// The copy of the process does not exist outside: the one in the kernel has to end.
    Cancel {
        /// The copy.
        ticket: Ticket,
    },
}

/// A message to a client.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ClientAnswer {
    /// The client is a process of the kernel. The descriptor of its first thread's slot comes with
    /// the first byte of this frame.
    Attached {
        /// The version that the server speaks with this client.
        version: u32,
        /// The number of the process.
        process: i32,
        /// The number of its first thread.
        thread: i32,
        /// Bytes of the data of each slot.
        slot_size: u64,
    },
    /// A further thread. The descriptor of its slot comes with the first byte of this frame.
    Thread {
        /// The number of the thread.
        thread: i32,
    },
    /// A further thread, which needs a connection of its own, with this ticket.
    Ticket {
        /// The ticket.
        ticket: Ticket,
    },
    /// The last message had no effect. If it was the first one, the connection ends.
    Failed {
        /// The reason, one line.
        reason: String,
        /// The exit code that fits.
        code: u8,
    },
}

/// A text is no ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoTicket;

impl fmt::Display for NoTicket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a ticket has 32 hexadecimal digits")
    }
}

impl std::error::Error for NoTicket {}

impl fmt::Display for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Logs get no tickets: a reader of one could become the process.
impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}

impl FromStr for Ticket {
    type Err = NoTicket;

    fn from_str(text: &str) -> Result<Self, NoTicket> {
        let mut digits = text.chars();
        let mut bytes = [0; TICKET_BYTES];
        for byte in &mut bytes {
            for _ in 0..2 {
                let digit = digits.next().and_then(|digit| digit.to_digit(16));
                *byte = *byte << 4 | digit.ok_or(NoTicket)? as u8;
            }
        }
        match digits.next() {
            Some(_) => Err(NoTicket),
            None => Ok(Self(bytes)),
        }
    }
}

impl Serialize for Ticket {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = String::with_capacity(2 * TICKET_BYTES);
        let _ = write!(text, "{self}");
        serializer.serialize_str(&text)
    }
}

impl<'de> Deserialize<'de> for Ticket {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frames::{Frame, Request};

    const HEX: &str = "000102030405060708090a0b0c0d0eff";

    fn ticket() -> Ticket {
        HEX.parse().unwrap()
    }

    /// The message's JSON, which must mean the same message again.
    fn text<T>(message: &T) -> String
    where
        T: Serialize + serde::de::DeserializeOwned + PartialEq + fmt::Debug,
    {
        let mut bytes = Vec::new();
        Frame::send(&mut bytes, message).unwrap();
        let frame = Frame::read(&mut &bytes[..]).unwrap().unwrap();
        assert_eq!(frame.message::<T>().unwrap(), *message);
        String::from_utf8(frame.bytes).unwrap()
    }

    #[test]
    fn requests_have_the_form_of_the_documentation() {
        let mut request = ClientRequest {
            version: VERSION,
            name: "cat".to_owned(),
            ticket: None,
            slots: true,
        };
        assert_eq!(
            text(&Request::Client(request.clone())),
            r#"{"Client":{"version":1,"name":"cat","ticket":null,"slots":true}}"#
        );
        let older = r#"{"version":1,"name":"cat","ticket":null}"#;
        assert_eq!(
            serde_json::from_str::<ClientRequest>(older).unwrap(),
            request
        );
        request.ticket = Some(ticket());
        assert!(text(&Request::Client(request)).contains(HEX));
    }

    #[test]
    fn notes_have_the_form_of_the_documentation() {
        let interrupt = ClientNote::Interrupt {
            thread: 7,
            request: u32::MAX,
        };
        let cancel = ClientNote::Cancel { ticket: ticket() };
        assert_eq!(text(&ClientNote::Thread), r#""Thread""#);
        assert_eq!(
            text(&interrupt),
            r#"{"Interrupt":{"thread":7,"request":4294967295}}"#
        );
        assert_eq!(
            text(&cancel),
            format!(r#"{{"Cancel":{{"ticket":"{HEX}"}}}}"#)
        );
    }

    #[test]
    fn answers_have_the_form_of_the_documentation() {
        let attached = ClientAnswer::Attached {
            version: VERSION,
            process: 5,
            thread: 5,
            slot_size: 1 << 20,
        };
        let failed = ClientAnswer::Failed {
            reason: "no".to_owned(),
            code: 125,
        };
        assert_eq!(
            text(&attached),
            r#"{"Attached":{"version":1,"process":5,"thread":5,"slot_size":1048576}}"#
        );
        assert_eq!(
            text(&ClientAnswer::Thread { thread: 6 }),
            r#"{"Thread":{"thread":6}}"#
        );
        assert_eq!(text(&failed), r#"{"Failed":{"reason":"no","code":125}}"#);
    }

    #[test]
    fn a_ticket_is_32_digits() {
        let reads = |text: &str| serde_json::from_str::<Ticket>(&format!("{text:?}"));
        assert_eq!(reads(HEX).unwrap(), ticket());
        assert_eq!(reads(&HEX.to_uppercase()).unwrap(), ticket());
        let longer = format!("{HEX}0");
        for wrong in ["", &HEX[1..], &longer, "g00102030405060708090a0b0c0d0eff"] {
            assert!(reads(wrong).is_err(), "{wrong}");
        }
        assert_eq!(format!("{:?}", ticket()), "Ticket");
    }
}
