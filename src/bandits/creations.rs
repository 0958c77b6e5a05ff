//! Creations that may be repeated. For a day the server remembers what it answered to a creation with an
//! `Idempotency-Key`, and a repeated request gets this answer. A refused creation is not remembered, so that
//! it can be tried again.

use crate::error::Error;
use crate::store::{Edit, Named, NamedEdit, Numbered, Recent};
use serde::{Deserialize, Serialize};

/// The most creations that are remembered. One more replaces the oldest.
const MOST: usize = 1024;
/// The seconds for which a creation is remembered.
const REMEMBERED: u64 = 24 * 3600;

/// A digest of caller and key.
type Key = [u8; 32];

/// A creation as a request with a key asks for it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Repeatable {
    key: Key,
    body: [u8; 32],
}

impl Repeatable {
    /// The creation that `caller` asks for under `key`. Keys of different callers are different.
    pub(crate) fn new(caller: &str, key: &str, body: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(caller.len() as u64).to_le_bytes());
        hasher.update(caller.as_bytes()).update(key.as_bytes());
        Repeatable { key: hasher.finalize().into(), body: blake3::hash(body).into() }
    }
}

/// The answer to a creation: the id of the bandit, and a JSON message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Answered {
    pub(crate) id: String,
    pub(crate) body: String,
}

/// A creation that is remembered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Creation {
    /// Seconds since 1970.
    at: u64,
    /// The digest of the request's body.
    body: [u8; 32],
    answer: Answered,
    /// Whether the bandit was deleted since. A creation whose bandit is missing and was not deleted was
    /// interrupted.
    deleted: bool,
}

impl Numbered for Creation {
    fn number(&self) -> u64 {
        self.at
    }
}

/// The creations that are remembered.
pub(super) struct Creations(Recent<Key, Creation>);

/// Changes of [`Creations`], which are stored before they are applied.
pub(super) struct Changes(Vec<Edit<Key, Creation>>);

impl Changes {
    /// As a commit writes them.
    pub(super) fn stored(&self) -> Result<Vec<NamedEdit>, Error> {
        let stored = |edit: &Edit<Key, Creation>| {
            let value = edit.value.as_ref().map(postcard::to_stdvec).transpose();
            let value = value.map_err(|_| Error::Broken("a creation that cannot be serialised"))?;
            Ok(NamedEdit { table: Named::Creations, key: ckks::Hex(&edit.key).to_string(), value })
        };
        self.0.iter().map(stored).collect()
    }
}

impl Creations {
    /// Reads the rows of a store. Those of interrupted creations are left out and returned as changes:
    /// `exists` says whether a bandit does.
    pub(super) fn read(
        rows: &[(String, Vec<u8>)],
        exists: impl Fn(&str) -> bool,
    ) -> Result<(Self, Vec<NamedEdit>), String> {
        let (mut kept, mut interrupted) = (Recent::new(MOST), Vec::new());
        for (key, value) in rows {
            let bad = || key.clone();
            let creation: Creation = postcard::from_bytes(value).map_err(|_| bad())?;
            let digest = blake3::Hash::from_hex(key).map_err(|_| bad())?;
            if creation.deleted || exists(&creation.answer.id) {
                kept.apply(vec![Edit { key: digest.into(), value: Some(creation) }]);
            } else {
                interrupted.push(NamedEdit { table: Named::Creations, key: key.clone(), value: None });
            }
        }
        Ok((Creations(kept), interrupted))
    }

    /// The answer to the creation, if it was made before, at the time `now`.
    pub(super) fn find(&self, asked: &Repeatable, now: u64) -> Result<Option<Answered>, Error> {
        match self.0.get(&asked.key).filter(|made| !is_over(made, now)) {
            Some(made) if made.body == asked.body => Ok(Some(made.answer.clone())),
            Some(_) => Err(Error::KeyReused),
            None => Ok(None),
        }
    }

    /// The changes that add a creation, and remove those whose time is over.
    pub(super) fn add(&self, asked: &Repeatable, answer: Answered, now: u64) -> Changes {
        let over = self.0.in_order().filter(|(key, made)| **key != asked.key && is_over(made, now));
        let mut changes: Vec<_> = over.map(|(key, _)| Edit { key: *key, value: None }).collect();
        let creation = Creation { at: now, body: asked.body, answer, deleted: false };
        changes.extend(self.0.set(asked.key, creation));
        Changes(changes)
    }

    /// The changes after the bandit `id` was deleted.
    pub(super) fn delete(&self, id: &str) -> Changes {
        let of_bandit = self.0.iter().filter(|(_, made)| made.answer.id == id);
        let deleted = |(key, made): (&Key, &Creation)| Edit {
            key: *key,
            value: Some(Creation { deleted: true, ..made.clone() }),
        };
        Changes(of_bandit.map(deleted).collect())
    }

    /// Applies changes that were stored.
    pub(super) fn apply(&mut self, changes: Changes) {
        self.0.apply(changes.0);
    }
}

fn is_over(made: &Creation, now: u64) -> bool {
    now.saturating_sub(made.at) >= REMEMBERED
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(key: &str, body: &[u8]) -> Repeatable {
        Repeatable::new("operator", key, body)
    }

    fn answer(id: &str) -> Answered {
        Answered { id: id.into(), body: format!("{{\"id\": \"{id}\"}}") }
    }

    fn empty() -> Creations {
        Creations(Recent::new(MOST))
    }

    fn add(creations: &mut Creations, asked: &Repeatable, id: &str, now: u64) {
        let changes = creations.add(asked, answer(id), now);
        creations.apply(changes);
    }

    #[test]
    fn a_key_gives_its_answer_for_a_day() {
        let mut creations = empty();
        add(&mut creations, &asked("a", b"1"), "x", 1000);
        let found = |creations: &Creations, asked: &Repeatable, now| creations.find(asked, now);
        assert_eq!(found(&creations, &asked("a", b"1"), 1000).unwrap(), Some(answer("x")));
        assert!(matches!(found(&creations, &asked("a", b"2"), 1000), Err(Error::KeyReused)));
        // Another caller, and another split of caller and key.
        assert_eq!(found(&creations, &Repeatable::new("operato", "ra", b"1"), 1000).unwrap(), None);
        assert_eq!(found(&creations, &Repeatable::new("", "a", b"1"), 1000).unwrap(), None);
        let last = 1000 + REMEMBERED - 1;
        assert_eq!(found(&creations, &asked("a", b"1"), last).unwrap(), Some(answer("x")));
        assert_eq!(found(&creations, &asked("a", b"2"), last + 1).unwrap(), None);
        // A clock that was set back.
        assert_eq!(found(&creations, &asked("a", b"1"), 1).unwrap(), Some(answer("x")));
        add(&mut creations, &asked("b", b"1"), "y", last + 1);
        assert_eq!(creations.0.len(), 1, "what is over is removed");
    }

    #[test]
    fn the_oldest_make_room() {
        let mut creations = empty();
        for n in 0..MOST as u64 + 10 {
            add(&mut creations, &asked(&n.to_string(), b""), &n.to_string(), n);
        }
        assert_eq!(creations.0.len(), MOST);
        assert_eq!(creations.find(&asked("9", b""), 2000).unwrap(), None);
        assert_eq!(creations.find(&asked("10", b""), 2000).unwrap(), Some(answer("10")));
    }

    /// A creation that was interrupted is forgotten at the next start, and one whose bandit was deleted is
    /// not.
    #[test]
    fn interrupted_creations_are_forgotten() {
        let mut creations = empty();
        for id in ["kept", "deleted", "interrupted"] {
            add(&mut creations, &asked(id, b""), id, 1);
        }
        let deleted = creations.delete("deleted");
        creations.apply(deleted);
        let all =
            Changes(creations.0.iter().map(|(k, v)| Edit { key: *k, value: Some(v.clone()) }).collect());
        let rows: Vec<_> =
            all.stored().unwrap().into_iter().map(|edit| (edit.key, edit.value.unwrap())).collect();
        let (read, removed) = Creations::read(&rows, |id| id == "kept").unwrap();
        let found = |id: &str| read.find(&asked(id, b""), 1).unwrap().is_some();
        assert_eq!(["kept", "deleted", "interrupted"].map(found), [true, true, false]);
        assert_eq!(removed.len(), 1);
        assert!(Creations::read(&[("00".into(), rows[0].1.clone())], |_| true).is_err());
        assert!(Creations::read(&[(rows[0].0.clone(), vec![1])], |_| true).is_err());
    }
}
