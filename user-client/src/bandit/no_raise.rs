//! A device without a secret key answers no tasks.

use super::BanditDevice;
use crate::Error;
use protocol::TaskKind;
use rand::CryptoRng;
use wire::{RaiseTask, Ticket};

/// A task of a holder of the key. Without the feature `secret` there is none.
pub enum MaskedTask {}

impl MaskedTask {
    /// The kind.
    pub fn kind(&self) -> TaskKind {
        match *self {}
    }
}

impl BanditDevice<'_> {
    /// Refuses a task.
    pub(super) fn task(&self, _: &RaiseTask) -> Result<MaskedTask, Error> {
        Err(Error::NoSecret("a task"))
    }

    /// Refuses to answer tasks.
    ///
    /// # Errors
    /// [`Error::NoSecret`].
    pub fn raise<R: CryptoRng>(
        &self,
        _: &[MaskedTask],
        _: Option<Ticket>,
        _: &mut R,
    ) -> Result<Vec<u8>, Error> {
        Err(Error::NoSecret("a task"))
    }
}
