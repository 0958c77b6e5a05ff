//! Keys of the paper's method.

use crate::files::write_files;
use crate::generate::RingKeys;
use crate::{Error, Passphrase};
use ckks::{GaloisElement, KeyStorage};
use protocol::paper::PaperPlan;
use rand::CryptoRng;
use std::io::Write;
use std::path::Path;
use wire::{AccessToken, PaperKeys, PaperManifest, PaperSecret};

/// A key pair of the paper's method that was written.
#[derive(Debug, Clone, PartialEq)]
pub struct PaperSummary {
    /// The manifest of the public bundle.
    pub manifest: PaperManifest,
    /// Bytes of the public bundle.
    pub public_bytes: u64,
    /// Bytes of the secret bundle.
    pub secret_bytes: u64,
}

/// Generates keys of the paper's method into two new files, as [`crate::create_files`] does, at the time
/// `created` in seconds since 1970. `toy` keys have no security.
///
/// # Errors
/// As [`crate::create_files`].
pub fn create_paper_files<R: CryptoRng>(
    (toy, created): (bool, u64),
    [public, secret]: [&Path; 2],
    passphrase: Option<&Passphrase>,
    rng: &mut R,
    progress: impl FnMut(u32, u32),
) -> Result<PaperSummary, Error> {
    let make = |public: &mut dyn Write, secret: &mut dyn Write, rng: &mut R| {
        generate_paper((toy, created), public, secret, rng, progress)
    };
    let (summary, sealed) = write_files([public, secret], passphrase, rng, make)?;
    Ok(PaperSummary { secret_bytes: sealed.unwrap_or(summary.secret_bytes), ..summary })
}

/// Generates keys of the paper's method and writes both bundles.
///
/// # Errors
/// As [`crate::generate`].
pub fn generate_paper<R: CryptoRng>(
    (toy, created): (bool, u64),
    public: impl Write,
    secret: impl Write,
    rng: &mut R,
    mut progress: impl FnMut(u32, u32),
) -> Result<PaperSummary, Error> {
    let plan = PaperPlan::new(toy);
    let params = plan.params.validate()?;
    let top = params.max_level();
    let rotations = plan.rotations.iter().map(|&k| Some(GaloisElement::rotation(&params, k)));
    let wanted = [None].into_iter().chain(rotations).map(|key| (key, top, KeyStorage::Expanded)).collect();
    let keys = RingKeys::generate(params, wanted, rng);
    let token = AccessToken::generate(rng);
    let manifest = |frames| PaperManifest::new(&keys.params, keys.key_id, created, frames, token.digest());
    let frame = keys.secret_key.to_bytes(keys.key_id);
    let (_, secret_bytes) = PaperSecret::write(&manifest(2), &frame, &token, secret)?;
    let manifest = manifest(keys.public_frames());
    let mut writer = PaperKeys::writer(&manifest, public)?;
    let mut done = 0;
    keys.write(&mut writer, rng, || {
        done += 1;
        progress(done, manifest.frames);
    })?;
    let (_, public_bytes) = writer.finish()?;
    Ok(PaperSummary { manifest, public_bytes, secret_bytes })
}
