//! The cards of all policies that the service offers.

use crate::error::Error;
use protocol::BanditConfig;
use serde_json::Map;
use std::collections::BTreeMap;
use wire::{FeedbackKind, PolicyCard};

/// The card of every policy, HELBA first.
pub(crate) fn cards() -> Result<Vec<PolicyCard>, Error> {
    let broken = |_| Error::Broken("an example that cannot be written");
    let config = BanditConfig::new(7, 4);
    let mut example = serde_json::to_value(config).map_err(broken)?;
    example["policy"] = "helba".into();
    let about = "HELBA: linear contextual bandit on ciphertexts; the server sees neither contexts nor rewards \
                 (Garcelon, Perchet, Pirotta). This is the default";
    let helba = PolicyCard {
        policy: "helba".into(),
        about: about.into(),
        example,
        defaults: Map::new(),
        parameters: BTreeMap::new(),
        feedback: FeedbackKind::Encrypted,
        contextual: true,
        late: None,
    };
    Ok(std::iter::once(helba).chain(policies::cards()?).collect())
}
