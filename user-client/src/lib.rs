//! The user's side: encrypt contexts and rewards, decrypt actions.
