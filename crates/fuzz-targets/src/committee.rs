//! What the members of a committee, its devices and a server read of each other.

use committee::keygen::{Announcement, Contribution};
use serde::{Serialize, de::DeserializeOwned};
use shares::talk::{
    Answered, Checkpoint, Decided, FromMember, Poll, Signatures, SignedPoll, ToMember, from_bytes, to_bytes,
};
use shares::{Feedback, Proposal, Request, SignedManifest};

/// The members of the committee whose requests and feedbacks are read.
pub const MEMBERS: u8 = 3;

/// A message between members, devices and a server, a proposal or a manifest. A message that is read is
/// written with bytes that are read and written the same.
pub(crate) fn message(input: &[u8]) {
    fn check(input: &[u8], read: impl Fn(&[u8]) -> Option<Vec<u8>>) {
        if let Some(written) = read(input) {
            assert!(read(&written).as_ref() == Some(&written), "written messages are read as another");
        }
    }
    fn said<T: Serialize + DeserializeOwned>(bytes: &[u8]) -> Option<Vec<u8>> {
        to_bytes(&from_bytes::<T>(bytes).ok()?).ok()
    }
    check(input, said::<Poll>);
    check(input, said::<SignedPoll>);
    check(input, said::<FromMember>);
    check(input, said::<Vec<(u64, ToMember)>>);
    check(input, said::<ToMember>);
    check(input, said::<Answered>);
    check(input, said::<Decided>);
    check(input, said::<Checkpoint>);
    check(input, said::<Signatures>);
    check(input, |bytes| Some(Request::from_bytes(bytes, MEMBERS).ok()?.to_bytes()));
    check(input, |bytes| Some(Feedback::from_bytes(bytes, MEMBERS).ok()?.to_bytes()));
    check(input, said::<Contribution>);
    check(input, said::<Announcement>);
    for proposal in [Proposal::from_bytes(input).ok(), serde_json::from_slice(input).ok()] {
        _ = proposal.map(|proposal| proposal.check());
    }
    check(input, |bytes| Some(SignedManifest::from_bytes(bytes).ok()?.to_bytes()));
    if let Ok(manifest) = SignedManifest::from_bytes(input) {
        _ = manifest.check();
    }
}
