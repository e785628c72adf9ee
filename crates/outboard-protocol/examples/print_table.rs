// SPDX-License-Identifier: MIT
//! Prints the table, for the test that compares it with the kernel's sources: a line "call NUMBER
//! NAME" with a word for each argument, or "refused NUMBER NAME"; and a line "choice NUMBER COMMAND
//! WORD" for each choice.

use outboard_protocol::argument::{Argument, Size};
use outboard_protocol::row::Way;
use outboard_protocol::{choice, table};

/// `number`, `chosen`, `pointer`, or `pointer:BYTES` if the size is fixed.
fn word(argument: &Argument) -> String {
    match argument {
        Argument::Chosen => "chosen".to_owned(),
        Argument::Bytes {
            size: Size::Fixed(bytes),
            ..
        } => format!("pointer:{bytes}"),
        other if other.is_pointer() => "pointer".to_owned(),
        _ => "number".to_owned(),
    }
}

fn main() {
    for call in table::all() {
        let (number, name) = (call.number, call.name);
        match call.way {
            Way::Refused(_) => println!("refused {number} {name}"),
            Way::Arguments(arguments) => {
                let words: Vec<String> = arguments.iter().map(word).collect();
                println!("call {number} {name} {}", words.join(" "));
            }
        }
        for (command, argument) in choice::rows(number) {
            println!("choice {number} {command} {}", word(argument));
        }
    }
}
