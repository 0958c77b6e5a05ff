//! What a member shows to the others in a round of a run.

use crate::{Error, Field, Key, Kind, Label, MAC_BYTES};

/// The most numbers of a message.
const MOST_NUMBERS: usize = 1 << 22;

/// The numbers that a member shows in a round, with the hash of what it has seen opened before, and a MAC for
/// each other member: whoever carries it cannot change it.
#[derive(Clone, PartialEq, Eq)]
pub struct Message {
    /// The run.
    pub run: [u8; 32],
    /// The round, from 0.
    pub round: u32,
    /// The hash of all numbers that were opened in the rounds before. It is of values and not of messages,
    /// which differ between members once one lies.
    pub seen: [u8; 32],
    /// The numbers.
    pub numbers: Vec<Field>,
    /// By the number of the member, from 1; the sender's own is zeros.
    pub macs: Vec<[u8; MAC_BYTES]>,
}

impl Message {
    /// The MAC for `to` of what `from` shows, under the key of both.
    pub fn mac(&self, key: &Key, from: u8, to: u8) -> [u8; MAC_BYTES] {
        let label =
            Label::new(Kind::Message, &[&self.run, &self.round.to_le_bytes(), &[from, to], &self.seen]);
        let bytes: Vec<u8> = self.numbers.iter().flat_map(|number| number.to_bytes()).collect();
        crate::session::authentication_of(key, &label, &bytes)
    }

    /// Whether `to` reads what `from` has shown.
    ///
    /// # Errors
    /// [`Error::Mac`].
    pub fn check(&self, key: &Key, from: u8, to: u8) -> Result<(), Error> {
        let own = usize::from(to).checked_sub(1).and_then(|at| self.macs.get(at));
        let right = |mac: &&[u8; MAC_BYTES]| crate::session::same(mac, &self.mac(key, from, to));
        own.filter(right).map(drop).ok_or(Error::Mac)
    }

    /// 72 bytes, the MACs after their number, and 16 for each number.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(73 + self.macs.len() * MAC_BYTES + 16 * self.numbers.len());
        bytes.extend(self.run);
        bytes.extend(self.round.to_le_bytes());
        bytes.extend(self.seen);
        bytes.extend((self.numbers.len() as u32).to_le_bytes());
        bytes.push(self.macs.len() as u8);
        bytes.extend(self.macs.iter().flatten());
        self.numbers.iter().for_each(|number| bytes.extend(number.to_bytes()));
        bytes
    }

    /// Reads what [`Message::to_bytes`] writes.
    ///
    /// # Errors
    /// [`Error::Message`], [`Error::NoNumber`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Error> {
        let mut rest = bytes;
        let mut take = |count: usize| {
            let (part, after) = rest.split_at_checked(count).ok_or(Error::Message)?;
            rest = after;
            Ok::<&[u8], Error>(part)
        };
        let hash = |part: &[u8]| <[u8; 32]>::try_from(part).map_err(|_| Error::Message);
        let number =
            |part: &[u8]| <[u8; 4]>::try_from(part).map(u32::from_le_bytes).map_err(|_| Error::Message);
        let run = hash(take(32)?)?;
        let round = number(take(4)?)?;
        let seen = hash(take(32)?)?;
        let count = number(take(4)?)? as usize;
        let members = usize::from(take(1)?[0]);
        if count > MOST_NUMBERS {
            return Err(Error::Message);
        }
        let (macs, _) = take(members * MAC_BYTES)?.as_chunks::<MAC_BYTES>();
        let (numbers, _) = take(16 * count)?.as_chunks::<16>();
        let numbers: Result<Vec<Field>, Error> =
            numbers.iter().map(|bytes| Field::from_bytes(*bytes)).collect();
        if !rest.is_empty() {
            return Err(Error::Message);
        }
        Ok(Message { run, round, seen, numbers: numbers?, macs: macs.to_vec() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        let numbers = (0..5).map(|i| Field::new(1 << (25 * i))).collect();
        let mut message = Message { run: [1; 32], round: 3, seen: [2; 32], numbers, macs: vec![] };
        let key = |other: u8| Key::new([other; 32]);
        message.macs =
            (1..=3).map(|to| if to == 2 { [0; 16] } else { message.mac(&key(to), 2, to) }).collect();
        message
    }

    #[test]
    fn messages_arrive() {
        let sent = message();
        let bytes = sent.to_bytes();
        assert_eq!(bytes.len(), 73 + 3 * 16 + 5 * 16);
        assert!(Message::from_bytes(&bytes).unwrap() == sent);
        for cut in [0, 31, 72, 73, 100, bytes.len() - 1] {
            assert!(Message::from_bytes(&bytes[..cut]).is_err(), "{cut}");
        }
        assert!(Message::from_bytes(&[&bytes[..], &[0]].concat()).is_err());
        let mut no_number = bytes.clone();
        no_number.truncate(bytes.len() - 16);
        no_number.extend([255; 16]);
        assert_eq!(Message::from_bytes(&no_number).err(), Some(Error::NoNumber));
        let mut many = bytes;
        many[68..72].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(Message::from_bytes(&many).err(), Some(Error::Message));
    }

    /// Whoever carries a message changes a number, the round, the run, what was seen, the sender or the
    /// receiver: no MAC fits. In the control the message is as it was.
    #[test]
    fn attack_a_server_changes_a_number() {
        let sent = message();
        let key = Key::new([3; 32]);
        assert_eq!(sent.check(&key, 2, 3), Ok(()));
        let mut number = sent.clone();
        number.numbers[4] += Field::ONE;
        let mut seen = sent.clone();
        seen.seen[0] ^= 1;
        for changed in
            [number, Message { round: 4, ..sent.clone() }, Message { run: [9; 32], ..sent.clone() }, seen]
        {
            assert_eq!(changed.check(&key, 2, 3), Err(Error::Mac));
        }
        assert_eq!(sent.check(&key, 1, 3), Err(Error::Mac));
        assert_eq!(sent.check(&key, 2, 1), Err(Error::Mac));
        assert_eq!(sent.check(&key, 2, 0), Err(Error::Mac));
        assert_eq!(sent.check(&Key::new([4; 32]), 2, 3), Err(Error::Mac));
    }
}
