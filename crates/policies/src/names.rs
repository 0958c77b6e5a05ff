//! Names of policies as others call them.

use wire::PolicyCard;

/// What other libraries call policies that are here, and their names here.
const ALIASES: [(&str, &str); 8] = [
    ("linucb", "oful"),
    ("lin-ucb", "oful"),
    ("linear-ucb", "oful"),
    ("rsoful", "oful"),
    ("ucb", "ucb1"),
    ("glmucb", "glm-ucb"),
    ("exp3", "ars-exp3"),
    ("ftl", "follow-the-leader"),
];

/// Policies that are not here, and which one comes nearest.
const NEAREST: [(&str, &str, &str); 9] = [
    ("thompson", "oful", "it explores by a confidence width where Thompson sampling draws from a posterior"),
    ("ts", "oful", "it explores by a confidence width where Thompson sampling draws from a posterior"),
    ("lints", "oful", "it explores by a confidence width where Thompson sampling draws from a posterior"),
    ("epsilon-greedy", "oful", "it explores by a confidence width where epsilon-greedy draws at random"),
    ("egreedy", "oful", "it explores by a confidence width where epsilon-greedy draws at random"),
    ("softmax", "oful", "it explores by a confidence width where softmax draws at random"),
    ("random", "uniform", "`data evaluate` has it as a baseline in every table"),
    ("logistic-ucb", "glm-ucb", "it is its policy for clicks"),
    ("squarecb", "oful", "it explores by a confidence width where SquareCB draws by inverse gaps"),
];

/// The name here of the policy that is called `name`: one of `known`, or what another library calls it, in
/// any case, with `_` or spaces for `-`.
///
/// # Errors
/// A sentence that names the nearest of `known`.
pub fn policy_name<'a>(name: &str, known: &[&'a str]) -> Result<&'a str, String> {
    let plain = name.trim().to_ascii_lowercase().replace(['_', ' '], "-");
    let find = |wanted: &str| known.iter().copied().find(|have| *have == wanted);
    if let Some(have) = find(&plain) {
        return Ok(have);
    }
    if let Some(have) = ALIASES.iter().find(|(alias, _)| *alias == plain).and_then(|(_, have)| find(have)) {
        return Ok(have);
    }
    let other = NEAREST.iter().find(|(other, ..)| plain.starts_with(other));
    let advice = match other {
        Some((_, nearest, why)) => format!("the nearest is {nearest}: {why}"),
        None => {
            let nearest = known.iter().min_by_key(|have| distance(&plain, have));
            format!("the nearest is {}", nearest.copied().unwrap_or("oful"))
        }
    };
    Err(format!("no policy is named {name}; {advice}. The names are {}", known.join(", ")))
}

/// The names of the policies that `cards` describe, each once.
pub fn policy_names(cards: &[PolicyCard]) -> Vec<&str> {
    let mut names: Vec<&str> = cards.iter().map(|card| card.policy.as_str()).collect();
    names.dedup();
    names
}

/// The number of letters to insert, delete or replace (Levenshtein).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut before = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = before + usize::from(x != *y);
            before = row[j + 1];
            row[j + 1] = replaced.min(before + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Error, cards};

    #[test]
    fn names_of_others_are_found_or_the_nearest_is_named() -> Result<(), Error> {
        let cards = cards()?;
        let known = policy_names(&cards);
        for (name, want) in [
            ("linucb", "oful"),
            ("LinUCB", "oful"),
            ("UCB", "ucb1"),
            ("GLM_UCB", "glm-ucb"),
            ("oful", "oful"),
        ] {
            assert_eq!(policy_name(name, &known).as_deref(), Ok(want));
        }
        // Each alias is of a policy that is here, and hides none.
        for (alias, have) in ALIASES {
            assert!(known.contains(&have) && !known.contains(&alias), "{alias}");
        }
        for (name, want) in [
            ("thompson", "nearest is oful"),
            ("Thompson sampling", "oful"),
            ("epsilon_greedy", "oful"),
            ("ucb2", "nearest is ucb1"),
            ("anytime", "anytime-lazy-ucb"),
        ] {
            let error = policy_name(name, &known).unwrap_err();
            assert!(
                error.starts_with(&format!("no policy is named {name}; ")) && error.contains(want),
                "{error}"
            );
        }
        Ok(())
    }
}
