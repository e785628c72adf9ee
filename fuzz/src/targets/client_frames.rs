// SPDX-License-Identifier: GPL-2.0-only
//! Frames of a connection to a server, one after the other: messages of clients and answers to
//! them, calls and replies. A frame that is understood means the same when it is written again.

use outboard_protocol::call_frame::{CallFrame, ReplyFrame};
use outboard_protocol::client::{ClientAnswer, ClientNote};
use outboard_protocol::frames::{Frame, FrameKind, Request};
use serde::de::DeserializeOwned;
use serde::Serialize;
use std::fmt::Debug;

/// A message that can be read is the same after it was sent.
fn message<T: Serialize + DeserializeOwned + PartialEq + Debug>(frame: &Frame) {
    let Ok(message) = frame.message::<T>() else {
        return;
    };
    let mut bytes = Vec::new();
    Frame::send(&mut bytes, &message).expect("it is no longer than it was");
    let again = Frame::read(&mut &bytes[..]).expect("it is whole");
    let again = again.expect("it is there").message::<T>();
    assert_eq!(again.expect("it is a message"), message);
}

pub fn run(mut bytes: &[u8]) {
    while let Ok(Some(frame)) = Frame::read(&mut bytes) {
        match frame.kind {
            FrameKind::Call => {
                if let Some(call) = CallFrame::parse(&frame.bytes) {
                    assert_eq!(call.bytes(), frame.bytes);
                }
            }
            FrameKind::Reply => {
                if let Some(reply) = ReplyFrame::parse(&frame.bytes) {
                    assert_eq!(reply.bytes(), frame.bytes);
                }
            }
            _ => {
                message::<Request>(&frame);
                message::<ClientNote>(&frame);
                message::<ClientAnswer>(&frame);
            }
        }
    }
}
