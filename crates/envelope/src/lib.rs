//! Sealed and signed messages between the members of a committee, and from them to users.
//!
//! Sealing is hybrid public key encryption (RFC 9180, base mode) with X-Wing, which is X25519 and ML-KEM-768
//! together, and ChaCha20-Poly1305: a recorded message stays secret while one of the two problems is hard.
//! Signatures are Ed25519 (RFC 8032), verified strictly. A message is sealed once under a key, so that each
//! sealing draws its own encapsulation.
//!
//! No type of this crate that holds a secret has Debug, Clone or Serialize, and each is zeroed when it is
//! dropped.

use ed25519_dalek::{Signature, Signer, VerifyingKey};
use hpke::aead::ChaCha20Poly1305;
use hpke::kdf::KdfTurboShake128;
use hpke::kem::XWing;
use hpke::{Deserializable, Kem, OpModeR, OpModeS, Serializable};
use rand::CryptoRng;
use zeroize::Zeroizing;

/// Bytes of a public sealing key: an encapsulation key of X-Wing.
pub const SEALING_KEY_BYTES: usize = 1216;
/// Bytes of a secret sealing key.
pub const SEALING_SECRET_BYTES: usize = 32;
/// Bytes that sealing adds to a message: an encapsulation, and the tag.
pub const SEALED_OVERHEAD: usize = 1120 + 16;
/// Bytes of a public signing key.
pub const VERIFYING_KEY_BYTES: usize = 32;
/// Bytes of a secret signing key.
pub const SIGNING_SECRET_BYTES: usize = 32;
/// Bytes of a signature.
pub const SIGNATURE_BYTES: usize = 64;

/// The reason why a message or a key was refused. All are faults of whoever sent it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Untrusted: bytes that are no public key.
    #[error("the bytes are no {0}")]
    BadKey(&'static str),
    /// Untrusted: the message was sealed under another key or for another purpose, or was changed.
    #[error("a sealed message cannot be opened: it is for another key or another purpose, or was changed")]
    Unopened,
    /// Untrusted: the signature is not one of this key under this message.
    #[error("a signature does not belong to its message and signer")]
    BadSignature,
}

/// The secret that messages are opened with.
pub struct SealingSecret(<XWing as Kem>::PrivateKey);

impl SealingSecret {
    /// A fresh secret.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Self {
        SealingSecret(XWing::gen_keypair_with_rng(rng).0)
    }

    /// The secret with these bytes.
    ///
    /// # Errors
    /// [`Error::BadKey`].
    pub fn from_bytes(bytes: &[u8; SEALING_SECRET_BYTES]) -> Result<Self, Error> {
        let secret = <XWing as Kem>::PrivateKey::from_bytes(bytes);
        secret.map(SealingSecret).map_err(|_| Error::BadKey("secret sealing key"))
    }

    /// The secret as bytes, to be stored where only its owner reads.
    pub fn to_bytes(&self) -> Zeroizing<[u8; SEALING_SECRET_BYTES]> {
        let mut out = Zeroizing::new([0; SEALING_SECRET_BYTES]);
        self.0.write_exact(&mut *out);
        out
    }

    /// The public key.
    pub fn public(&self) -> Vec<u8> {
        XWing::sk_to_pk(&self.0).to_bytes().to_vec()
    }

    /// Opens a message that was sealed under [`Self::public`] for this `purpose`.
    ///
    /// # Errors
    /// [`Error::Unopened`].
    pub fn open(&self, purpose: &[u8], sealed: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        let split = SEALED_OVERHEAD - 16;
        let (encapsulated, box_) = sealed.split_at_checked(split).ok_or(Error::Unopened)?;
        let encapsulated =
            <XWing as Kem>::EncappedKey::from_bytes(encapsulated).map_err(|_| Error::Unopened)?;
        let opened = hpke::single_shot_open::<ChaCha20Poly1305, KdfTurboShake128, XWing>(
            &OpModeR::Base,
            &self.0,
            &encapsulated,
            purpose,
            box_,
            b"",
        );
        opened.map(Zeroizing::new).map_err(|_| Error::Unopened)
    }
}

/// Seals `message` under a public key, for a `purpose` that whoever opens it must name. `purpose` says
/// everything that the message means; it is not part of the result.
///
/// # Errors
/// [`Error::BadKey`].
pub fn seal<R: CryptoRng>(
    public: &[u8],
    purpose: &[u8],
    message: &[u8],
    rng: &mut R,
) -> Result<Vec<u8>, Error> {
    let bad = |_| Error::BadKey("sealing key");
    let public = <XWing as Kem>::PublicKey::from_bytes(public).map_err(bad)?;
    let (encapsulated, sealed) =
        hpke::single_shot_seal_with_rng::<ChaCha20Poly1305, KdfTurboShake128, XWing>(
            &OpModeS::Base,
            &public,
            purpose,
            message,
            b"",
            rng,
        )
        .map_err(bad)?;
    let mut out = encapsulated.to_bytes().to_vec();
    out.extend(sealed);
    Ok(out)
}

/// Refuses bytes that [`seal`] would refuse as a public key.
///
/// # Errors
/// [`Error::BadKey`].
pub fn check_sealing_key(public: &[u8]) -> Result<(), Error> {
    let read = <XWing as Kem>::PublicKey::from_bytes(public);
    read.map(drop).map_err(|_| Error::BadKey("sealing key"))
}

/// The secret that messages are signed with.
pub struct SigningSecret(ed25519_dalek::SigningKey);

impl SigningSecret {
    /// A fresh secret.
    pub fn generate<R: CryptoRng>(rng: &mut R) -> Self {
        let mut bytes = Zeroizing::new([0; SIGNING_SECRET_BYTES]);
        rng.fill_bytes(&mut *bytes);
        Self::from_bytes(&bytes)
    }

    /// The secret with these bytes.
    pub fn from_bytes(bytes: &[u8; SIGNING_SECRET_BYTES]) -> Self {
        SigningSecret(ed25519_dalek::SigningKey::from_bytes(bytes))
    }

    /// The secret as bytes, to be stored where only its owner reads.
    pub fn to_bytes(&self) -> Zeroizing<[u8; SIGNING_SECRET_BYTES]> {
        Zeroizing::new(self.0.to_bytes())
    }

    /// The public key.
    pub fn public(&self) -> Vec<u8> {
        self.0.verifying_key().to_bytes().to_vec()
    }

    /// Signs `message` in the domain `context`, a constant of the protocol.
    pub fn sign(&self, context: &'static str, message: &[u8]) -> [u8; SIGNATURE_BYTES] {
        self.0.sign(&digest(context, message)).to_bytes()
    }
}

/// Checks that the owner of the public key `signer` signed `message` in the domain `context`.
///
/// # Errors
/// [`Error::BadKey`], [`Error::BadSignature`].
pub fn verify(signer: &[u8], context: &'static str, message: &[u8], signature: &[u8]) -> Result<(), Error> {
    let bytes = signer.try_into().map_err(|_| Error::BadKey("verifying key"))?;
    let key = VerifyingKey::from_bytes(bytes).map_err(|_| Error::BadKey("verifying key"))?;
    let signature = Signature::from_slice(signature).map_err(|_| Error::BadSignature)?;
    key.verify_strict(&digest(context, message), &signature).map_err(|_| Error::BadSignature)
}

/// What is signed. A signature of one domain is none of another, whatever the messages are.
fn digest(context: &'static str, message: &[u8]) -> [u8; 32] {
    blake3::derive_key(context, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha20Rng;

    #[test]
    fn sealed_messages_are_opened_by_their_receiver_for_their_purpose_alone() {
        let mut rng = ChaCha20Rng::seed_from_u64(1);
        let [secret, other] = [(); 2].map(|()| SealingSecret::generate(&mut rng));
        let public = secret.public();
        assert_eq!(public.len(), SEALING_KEY_BYTES);
        let sealed = seal(&public, b"purpose", b"message", &mut rng).unwrap();
        assert_eq!(sealed.len(), SEALED_OVERHEAD + 7);
        assert_eq!(&**secret.open(b"purpose", &sealed).unwrap(), b"message");
        let again = SealingSecret::from_bytes(&secret.to_bytes()).unwrap();
        assert_eq!(&**again.open(b"purpose", &sealed).unwrap(), b"message");
        assert_ne!(seal(&public, b"purpose", b"message", &mut rng).unwrap(), sealed);

        assert_eq!(secret.open(b"another", &sealed), Err(Error::Unopened));
        assert_eq!(other.open(b"purpose", &sealed), Err(Error::Unopened));
        for at in [0, 500, 1119, 1120, sealed.len() - 1] {
            let mut bad = sealed.clone();
            bad[at] ^= 1;
            assert_eq!(secret.open(b"purpose", &bad), Err(Error::Unopened), "byte {at}");
        }
        for len in [0, 1119, 1120, 1135, sealed.len() - 1] {
            assert_eq!(secret.open(b"purpose", &sealed[..len]), Err(Error::Unopened), "{len}");
        }
        for bad in [&[][..], &public[1..], &[0xff; SEALING_KEY_BYTES]] {
            assert_eq!(seal(bad, b"", b"", &mut rng), Err(Error::BadKey("sealing key")));
            assert!(check_sealing_key(bad).is_err());
        }
        assert!(check_sealing_key(&public).is_ok());
    }

    #[test]
    fn signatures_belong_to_signer_domain_and_message() {
        let mut rng = ChaCha20Rng::seed_from_u64(2);
        let [secret, other] = [(); 2].map(|()| SigningSecret::generate(&mut rng));
        let signature = secret.sign("helba test: one", b"message");
        let check = |signer: &SigningSecret, context, message: &[u8], signature: &[u8]| {
            verify(&signer.public(), context, message, signature)
        };
        let again = SigningSecret::from_bytes(&secret.to_bytes());
        assert_eq!(check(&again, "helba test: one", b"message", &signature), Ok(()));
        let bad = Err(Error::BadSignature);
        assert_eq!(check(&other, "helba test: one", b"message", &signature), bad);
        assert_eq!(check(&secret, "helba test: two", b"message", &signature), bad);
        assert_eq!(check(&secret, "helba test: one", b"massage", &signature), bad);
        assert_eq!(check(&secret, "helba test: one", b"message", &signature[..63]), bad);
        assert_eq!(verify(&[0; 31], "helba test: one", b"", &signature), Err(Error::BadKey("verifying key")));
    }
}
