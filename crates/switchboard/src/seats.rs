//! The members: who is here, and what each is told next.

use shares::talk::ToMember;
use shares::{Session, SessionId};
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A member that was not heard for so long is away.
const AWAY: Duration = Duration::from_secs(45);
/// The most messages that wait for a member: one that lets more wait is away, and begins again.
const MOST_WAITING: usize = 100_000;

pub(crate) struct Seats {
    seats: Vec<Seat>,
    /// Messages are numbered from here: above those of every switchboard before, so that a member that has
    /// taken these takes the next.
    base: u64,
    /// The time, as it was last told.
    now: Option<Instant>,
}

#[derive(Default)]
struct Seat {
    nonce: Option<[u8; 32]>,
    heard: Option<Instant>,
    queue: VecDeque<(u64, Arc<ToMember>)>,
    last: u64,
    /// The sessions that it was told since its start.
    sessions: HashSet<SessionId>,
}

impl Seats {
    pub(crate) fn new(members: u8, base: u64) -> Self {
        Seats { seats: (0..members).map(|_| Seat::default()).collect(), base, now: None }
    }

    fn seat(&mut self, member: u8) -> Option<&mut Seat> {
        self.seats.get_mut(usize::from(member).checked_sub(1)?)
    }

    /// Whether the member has started since it came last.
    pub(crate) fn comes(&mut self, member: u8, nonce: [u8; 32], now: Instant) -> bool {
        let base = self.base;
        self.time(now);
        let Some(seat) = self.seat(member) else { return false };
        seat.heard = Some(now);
        if seat.nonce == Some(nonce) {
            return false;
        }
        *seat = Seat { nonce: Some(nonce), heard: Some(now), last: base.max(seat.last), ..Seat::default() };
        true
    }

    /// It is so late.
    pub(crate) fn time(&mut self, now: Instant) {
        self.now = self.now.max(Some(now));
    }

    pub(crate) fn heard(&mut self, member: u8, now: Instant) {
        self.time(now);
        if let Some(seat) = self.seat(member) {
            seat.heard = Some(now);
        }
    }

    /// The member counts as away until it is heard again.
    pub(crate) fn is_silent(&mut self, member: u8) {
        if let Some(seat) = self.seat(member) {
            seat.heard = None;
        }
    }

    pub(crate) fn here(&self) -> Vec<u8> {
        let lately = |at: Instant| self.now.is_none_or(|now| now.saturating_duration_since(at) < AWAY);
        let here = |seat: &Seat| seat.nonce.is_some() && seat.heard.is_some_and(lately);
        (1..).zip(&self.seats).filter(|(_, seat)| here(seat)).map(|(member, _)| member).collect()
    }

    pub(crate) fn nonce(&self, member: u8) -> Option<[u8; 32]> {
        self.seats.get(usize::from(member).checked_sub(1)?)?.nonce
    }

    fn push(seat: &mut Seat, message: Arc<ToMember>) {
        if seat.nonce.is_none() {
            return;
        }
        if seat.queue.len() >= MOST_WAITING {
            *seat = Seat::default();
            return;
        }
        seat.last += 1;
        seat.queue.push_back((seat.last, message));
    }

    pub(crate) fn tell(&mut self, member: u8, message: ToMember) {
        if let Some(seat) = self.seat(member) {
            Self::push(seat, Arc::new(message));
        }
    }

    pub(crate) fn tell_some(&mut self, members: &[u8], message: ToMember) {
        let message = Arc::new(message);
        for member in members {
            if let Some(seat) = self.seat(*member) {
                Self::push(seat, message.clone());
            }
        }
    }

    pub(crate) fn tell_all(&mut self, message: &ToMember) {
        let message = Arc::new(message.clone());
        self.seats.iter_mut().for_each(|seat| Self::push(seat, message.clone()));
    }

    pub(crate) fn tell_session(&mut self, session: &Session, id: SessionId) {
        let message = Arc::new(ToMember::Session(session.clone()));
        for seat in &mut self.seats {
            if seat.nonce.is_some() && seat.sessions.insert(id) {
                Self::push(seat, message.clone());
            }
        }
    }

    pub(crate) fn forget_sessions(&mut self, gone: &[SessionId]) {
        for seat in &mut self.seats {
            let known: Vec<SessionId> = gone.iter().filter(|id| seat.sessions.remove(*id)).copied().collect();
            if !known.is_empty() {
                Self::push(seat, Arc::new(ToMember::Forget(known)));
            }
        }
    }

    pub(crate) fn tell_session_to(&mut self, member: u8, session: &Session, id: SessionId) {
        if let Some(seat) = self.seat(member)
            && seat.sessions.insert(id)
        {
            Self::push(seat, Arc::new(ToMember::Session(session.clone())));
        }
    }

    /// What the member is told next, after what it has taken.
    pub(crate) fn next(&mut self, member: u8, after: u64) -> Vec<(u64, Arc<ToMember>)> {
        let Some(seat) = self.seat(member) else { return vec![] };
        while seat.queue.front().is_some_and(|(number, _)| *number <= after) {
            seat.queue.pop_front();
        }
        seat.queue.iter().cloned().collect()
    }
}
