//! A bucket's group: first in, first out, at least once.

use crate::sale::Key;

/// A message of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Message {
    /// A gate said yes.
    ClaimCreated {
        /// The claim's key.
        key: Key,
        /// The life of the gate.
        epoch: u8,
    },
    /// The bucket is frozen in this life.
    Recover {
        /// The published one.
        epoch: u8,
    },
}

/// The messages, the oldest first.
pub type Group = Vec<Message>;

/// Stores a message. One that is there already is a duplicate by its id.
pub fn send(group: &mut Group, message: Message) {
    if !group.contains(&message) {
        group.push(message);
    }
}

/// Deletes a message that was handled.
pub fn delete(group: &mut Group, message: Message) {
    if let Some(place) = group.iter().position(|other| *other == message) {
        group.remove(place);
    }
}
