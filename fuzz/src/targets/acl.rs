// SPDX-License-Identifier: GPL-2.0-only
//! Access lists: as an attribute has them, and as the text of an archive.

use outboard_transfer::acl::Acl;
use outboard_transfer::tar::fuzzing::{acl_from_text, acl_to_text};

pub fn run(bytes: &[u8]) {
    if let Some(value) = acl_from_text(bytes) {
        if value.len() > 4 {
            let text = acl_to_text(&value).expect("it was made from a text");
            assert_eq!(acl_from_text(text.as_bytes()), Some(value));
        }
    }
    let Some(mut list) = Acl::decode(bytes) else {
        return;
    };
    assert_eq!(Acl::decode(&list.encode()), Some(list.clone()));
    let text = acl_to_text(&list.encode()).expect("it was decoded");
    assert_eq!(acl_from_text(text.as_bytes()), Some(list.encode()));
    list.calculate_mask();
    assert_eq!(list.problem(), None);
    list.remove_extended();
    assert!(!list.is_extended() && list.problem().is_none());
}
