use crate::{Client, Device, Error};
use ckks::KeyId;
use host::lock;
use std::sync::{Arc, Mutex};

/// A device and the client of its server, for programs that run long: when the committee of its keys has
/// rotated, both go on with the keys that follow.
pub struct Connected {
    now: Mutex<(Arc<Device>, Client)>,
    /// Held while the keys that follow are asked for.
    following: Mutex<()>,
}

impl Connected {
    /// The device with the client. Nothing is sent.
    pub fn new(device: Arc<Device>, client: Client) -> Self {
        Connected { now: Mutex::new((device, client)), following: Mutex::default() }
    }

    /// The device, with the last keys that it knows.
    pub fn device(&self) -> Arc<Device> {
        lock(&self.now).0.clone()
    }

    /// The client.
    pub fn client(&self) -> Client {
        lock(&self.now).1.clone()
    }

    /// Whether a request of a device with the key `key` that failed with `error` may be made again with
    /// another device: one that has the keys that follow. They are asked for if the error may come from a
    /// rotation and nobody has meanwhile. Bandits are joined again then.
    ///
    /// # Errors
    /// As [`Client::successor`] and [`Device::followed_by`].
    pub fn follow(&self, key: KeyId, error: &Error) -> Result<bool, Error> {
        let _following = lock(&self.following);
        let (device, client) = lock(&self.now).clone();
        if device.key_id() != key {
            return Ok(true);
        }
        // The token of the bundle is not for a server that was given another one.
        if !client.shows(device.token()) || !device.is_of_committee() || !error.may_be_rotation() {
            return Ok(false);
        }
        let Some(successor) = client.successor(&device)? else { return Ok(false) };
        let next = device.followed_by(&successor)?;
        let client = client.with_token_after(device.token(), next.token());
        *lock(&self.now) = (Arc::new(next), client);
        Ok(true)
    }
}
