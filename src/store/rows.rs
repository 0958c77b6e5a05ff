//! Bounded maps of rows. Their changes are lists of edits, so that a store writes single rows.

use crate::error::Error;
use serde::{Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};

/// A row with a number. The row with the smaller number is older.
pub(crate) trait Numbered {
    /// The round or the count of the row.
    fn number(&self) -> u64;
}

/// A map of the newest rows, at most `most`. Finding a row, and finding the oldest row, take logarithmic
/// time.
///
/// A change has two steps: [`set`](Self::set) returns edits and changes nothing, and [`apply`](Self::apply)
/// applies edits after they are stored.
#[derive(Debug, Clone)]
pub(crate) struct Recent<K, V> {
    most: usize,
    rows: BTreeMap<K, V>,
    by_number: BTreeSet<(u64, K)>,
}

/// A row that is written, or removed if `value` is `None`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Edit<K, V> {
    /// The key of the row.
    pub(crate) key: K,
    /// The new value.
    pub(crate) value: Option<V>,
}

/// An [`Edit`] as a store writes it.
pub(crate) type StoredEdit = Edit<Vec<u8>, Vec<u8>>;
/// A row as a store holds it: key and value.
pub(crate) type StoredRow = (Vec<u8>, Vec<u8>);

impl<K: Copy + Ord, V: Numbered> Recent<K, V> {
    /// An empty map that keeps at most `most` rows.
    pub(crate) fn new(most: usize) -> Self {
        Recent { most, rows: BTreeMap::new(), by_number: BTreeSet::new() }
    }

    /// Reads the rows of a store.
    pub(crate) fn read(most: usize, rows: &[StoredRow]) -> Result<Self, String>
    where
        K: DeserializeOwned,
        V: DeserializeOwned,
    {
        let mut out = Self::new(most);
        for (key, value) in rows {
            out.write(decode(key)?, decode(value)?);
        }
        Ok(out)
    }

    /// The rows, in the order of their keys.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.rows.iter()
    }

    /// The row of this key.
    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.rows.get(key)
    }

    /// The rows, the oldest first.
    pub(crate) fn in_order(&self) -> impl Iterator<Item = (&K, &V)> {
        self.by_number.iter().filter_map(|(_, key)| self.rows.get_key_value(key))
    }

    /// Whether the map has a row of this key.
    pub(crate) fn contains(&self, key: &K) -> bool {
        self.rows.contains_key(key)
    }

    /// The number of rows.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// The edits that write a row. A new row beyond the bound replaces the oldest row.
    pub(crate) fn set(&self, key: K, value: V) -> Vec<Edit<K, V>> {
        self.set_all(vec![(key, value)])
    }

    /// As [`set`](Self::set), for several rows with different keys. Of more than the bound, the last are
    /// written.
    pub(crate) fn set_all(&self, mut rows: Vec<(K, V)>) -> Vec<Edit<K, V>> {
        rows.drain(..rows.len().saturating_sub(self.most));
        let new = rows.iter().filter(|(key, _)| !self.contains(key)).count();
        let excess = (self.len() + new).saturating_sub(self.most);
        let oldest = self.by_number.iter().filter(|(_, old)| rows.iter().all(|(key, _)| key != old));
        let mut edits: Vec<_> = oldest.take(excess).map(|(_, key)| Edit { key: *key, value: None }).collect();
        edits.extend(rows.into_iter().map(|(key, value)| Edit { key, value: Some(value) }));
        edits
    }

    /// The edits that remove every row.
    pub(crate) fn clear(&self) -> Vec<Edit<K, V>> {
        self.rows.keys().map(|key| Edit { key: *key, value: None }).collect()
    }

    /// Applies `edits`.
    pub(crate) fn apply(&mut self, edits: Vec<Edit<K, V>>) {
        for Edit { key, value } in edits {
            match value {
                Some(value) => self.write(key, value),
                None => self.erase(&key),
            }
        }
    }

    fn write(&mut self, key: K, value: V) {
        self.erase(&key);
        self.by_number.insert((value.number(), key));
        self.rows.insert(key, value);
    }

    fn erase(&mut self, key: &K) {
        if let Some(old) = self.rows.remove(key) {
            self.by_number.remove(&(old.number(), *key));
        }
    }
}

/// The edits as a store writes them.
pub(crate) fn encode<K: Serialize, V: Serialize>(edits: &[Edit<K, V>]) -> Result<Vec<StoredEdit>, Error> {
    let bytes = |edit: &Edit<K, V>| {
        let value = edit.value.as_ref().map(postcard::to_stdvec).transpose()?;
        Ok(Edit { key: postcard::to_stdvec(&edit.key)?, value })
    };
    let edits: Result<_, postcard::Error> = edits.iter().map(bytes).collect();
    edits.map_err(|_| Error::Broken("a row that cannot be serialised"))
}

/// Reads `bytes` to their end.
fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(format!("{} bytes after its end", rest.len())),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Numbered for u64 {
        fn number(&self) -> u64 {
            *self
        }
    }

    /// The newest rows stay, whatever order their keys have, and listed edits change nothing until they are
    /// applied.
    #[test]
    fn the_oldest_make_room() {
        let oldest = |recent: &Recent<u64, u64>| recent.in_order().next().map(|(_, number)| *number);
        let mut recent = Recent::<u64, u64>::new(3);
        for number in 1..=5 {
            let edits = recent.set(100 - number, number);
            assert_eq!(edits.len(), if number > 3 { 2 } else { 1 });
            assert!(!recent.contains(&(100 - number)));
            recent.apply(edits);
        }
        assert_eq!((recent.len(), oldest(&recent)), (3, Some(3)));
        // A row that is written again takes its new number, and no row is removed.
        let edits = recent.set(97, 6);
        assert_eq!(edits.len(), 1);
        recent.apply(edits);
        assert_eq!((recent.len(), oldest(&recent)), (3, Some(4)));
        recent.apply(vec![Edit { key: 96, value: None }]);
        assert_eq!((recent.len(), oldest(&recent)), (2, Some(5)));
        // Several at once, of which the bound removes as many as one after the other.
        let edits = recent.set_all(vec![(10, 20), (11, 21)]);
        assert_eq!(edits.iter().filter(|edit| edit.value.is_none()).count(), 1);
        assert_eq!(recent.set_all((0..5).map(|key| (key, 9)).collect()).len(), 5);
        let rows = encode(&[recent.set(1, 7)].concat()).unwrap();
        let rows: Vec<StoredRow> = rows.into_iter().map(|row| (row.key, row.value.unwrap())).collect();
        assert_eq!(Recent::<u64, u64>::read(3, &rows).unwrap().get(&1), Some(&7));
        let longer = [rows[0].1.as_slice(), &[0]].concat();
        assert!(Recent::<u64, u64>::read(3, &[(rows[0].0.clone(), longer)]).is_err());
        recent.apply(recent.clear());
        assert!(recent.len() == 0 && oldest(&recent).is_none());
    }
}
