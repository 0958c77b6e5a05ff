//! Seconds and bytes of exchanges with a holder of the key, by the numbers of ciphertexts that are read and
//! made.
//!
//! The prices are those of `benches/exchanges.rs`, on one thread: a mask is added to what is read, and server
//! and holder read numbers and make others, which the holder encrypts. Times grow with the coefficients and
//! limbs; the transforms of slots grow faster, as they do from 2¹⁴ to 2¹⁵.

use ckks::{Domain, Exchange, Params, ciphertext_bytes};
use rns::Kernel;

const MEASURED: &str = include_str!("../../../benches/record/2026-11-29-exchanges.csv");

/// The ciphertexts on one side of an exchange.
#[derive(Debug, Clone)]
pub(crate) struct Side {
    pub(crate) params: Params,
    pub(crate) ciphertexts: usize,
    pub(crate) level: usize,
    /// Whether numbers are in slots, and not in coefficients.
    pub(crate) slots: bool,
}

impl From<&ckks::Side> for Side {
    fn from(side: &ckks::Side) -> Self {
        let slots = side.domain == Domain::Slots;
        Side { params: side.params.clone(), ciphertexts: side.ciphertexts, level: side.level, slots }
    }
}

impl Side {
    fn limbs(&self) -> f64 {
        (self.level + 1) as f64
    }

    fn coefficients(&self) -> f64 {
        (self.ciphertexts * self.params.n()) as f64
    }

    fn bytes(&self, seeded: bool) -> u64 {
        (self.ciphertexts * ciphertext_bytes(&self.params, self.level, seeded)) as u64
    }
}

/// What a holder of the key is asked for at once: groups of what it is sent, and what it makes of each.
#[derive(Debug, Clone)]
pub(crate) struct Asked(pub(crate) Vec<(Side, Vec<Side>)>);

impl Asked {
    /// The exchanges of each group, which share what is masked.
    pub(crate) fn of(groups: &[Vec<Exchange>]) -> Self {
        let group = |group: &Vec<Exchange>| {
            let first = group.first()?;
            Some((first.from().into(), group.iter().map(|exchange| exchange.to().into()).collect()))
        };
        Asked(groups.iter().filter_map(group).collect())
    }

    /// The bytes to the holder of the key, and from it.
    pub(crate) fn bytes(&self) -> [u64; 2] {
        let sent = self.0.iter().map(|(from, _)| from.bytes(false)).sum();
        [sent, self.0.iter().flat_map(|(_, to)| to).map(|side| side.bytes(true)).sum()]
    }
}

/// Seconds of the parts of an exchange, a coefficient; NaN for kernels that were not measured.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExchangePrices {
    /// A limb of a mask, with an encryption of zero.
    mask: f64,
    /// A limb of coefficients that are read, and of those that are made: by the server, by the holder.
    read: f64,
    made: [f64; 2],
    /// Slots that are read, with two limbs; those that are made, with no limb, and each limb of them.
    decoded: f64,
    encoded: [f64; 2],
    /// An encryption of slots with no limb, and each limb of it.
    encrypted: [f64; 2],
    /// The time of a transform of slots of twice the length.
    longer: f64,
}

impl ExchangePrices {
    pub(crate) fn new(kernel: Kernel) -> Self {
        let word = kernel.to_string();
        let measured = |id: &str, log_n: u32| -> f64 {
            let id = format!("exchanges/{id}/n=2^{log_n}/l=1/threads=1");
            let row = |line: &&str| {
                let mut fields = line.split(',').skip(3);
                fields.next() == Some(&word) && fields.next() == Some(&id)
            };
            let ns = MEASURED.lines().find(row).and_then(|line| line.split(',').nth(5)?.parse().ok());
            ns.unwrap_or(f64::NAN) * 1e-9 / f64::from(log_n).exp2()
        };
        let (small, large) = (|id: &str| measured(id, 13), |id: &str| measured(id, 14));
        // Contexts are eight ciphertexts of two limbs, and products two, of which two with three limbs of
        // slots are made in the ring of twice the length; pairs are two, of which one with eleven limbs is
        // made; Newton's steps make two with two limbs of one.
        let read = (small("contexts_image") - small("products_image")) / 12.0;
        let decoded = large("answers_image");
        let made = ["newton_image", "newton_holder"].map(|id| (small(id) - 2.0 * read) / 4.0);
        let two_limbs = large("wide_transforms") - decoded;
        let limb = (large("pairs_image") - 2.0 * decoded - two_limbs) / 9.0;
        let three = (small("products_holder") - small("products_image")) / 4.0;
        let of_limb = (large("pairs_holder") - large("pairs_image") - three) / 8.0;
        ExchangePrices {
            mask: large("answers_mask") / 2.0,
            read,
            made,
            decoded,
            encoded: [two_limbs - 2.0 * limb, limb],
            encrypted: [three - 3.0 * of_limb, of_limb],
            longer: 2.0 * measured("wide_transforms", 15) / large("wide_transforms"),
        }
    }

    /// Seconds of the server for masks and what they become, and of the holder of the key, which take
    /// ciphertexts side by side on this many threads.
    pub(crate) fn seconds(&self, asked: &Asked, threads: usize) -> [f64; 2] {
        let (mut server, mut holder) = (0.0, 0.0);
        for (from, to) in &asked.0 {
            let beside = |ciphertexts: usize| ciphertexts as f64 / ciphertexts.div_ceil(threads) as f64;
            let (of_from, of_to) =
                (beside(from.ciphertexts), beside(to.iter().map(|to| to.ciphertexts).sum()));
            // The exchanges of a group decode what they share once.
            let read = self.read(from) / of_from;
            server += self.mask * from.limbs() * from.coefficients() / of_from + read;
            holder += read;
            for side in to {
                server += self.made(side, 0) / of_to;
                holder += self.made(side, 1) / of_to;
            }
        }
        [server, holder]
    }

    /// The time of the transforms of a ring over that of the ring that was measured, a coefficient.
    fn transform(&self, side: &Side) -> f64 {
        (self.longer / 2.0).powi(side.params.spec().log_n as i32 - 14)
    }

    fn read(&self, side: &Side) -> f64 {
        let one = match side.slots {
            true => self.decoded * self.transform(side),
            false => self.read * side.limbs(),
        };
        one * side.coefficients()
    }

    /// By the server, or by the holder, who encrypts.
    fn made(&self, side: &Side, holder: usize) -> f64 {
        let limbs = side.limbs();
        let one = match side.slots {
            true => {
                let encoded = (self.encoded[0] + self.encoded[1] * limbs) * self.transform(side);
                encoded + holder as f64 * (self.encrypted[0] + self.encrypted[1] * limbs)
            }
            false => self.made[holder] * limbs,
        };
        one * side.coefficients()
    }
}
