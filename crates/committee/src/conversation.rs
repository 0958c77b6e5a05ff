//! A computation that asks others between its steps, without I/O.

use crate::Error;
use shares::Field;
use shares::preparation::Statement;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// What a member's computation asks for.
#[derive(Clone, PartialEq, Eq)]
pub enum Ask {
    /// The sum of the numbers of all who prepare, of which these are the member's own; none if it only
    /// listens.
    Sum(Option<Vec<Field>>),
    /// The shares that all show, of which these are the member's own.
    Show(Vec<Field>),
    /// What all have signed, of which this is the member's own statement.
    Sign(Statement),
    /// The seeds that all open, of which these are the member's own.
    Open(Vec<[u8; 32]>),
}

/// What others have sent.
#[derive(Clone)]
pub enum Reply {
    /// The sums, or the opened numbers.
    Numbers(Vec<Field>),
    /// The shares of each member who is here, its own among them.
    Shown(Vec<(u8, Vec<Field>)>),
    /// The statements and signatures of each, its own among them.
    Signed(Vec<(u8, Statement, Vec<u8>)>),
    /// Seeds, its own among them.
    Opened(Vec<[u8; 32]>),
}

#[derive(Default)]
struct Mail {
    asked: Option<Ask>,
    reply: Option<Reply>,
}

/// Where a computation asks.
#[derive(Clone, Default)]
pub struct Port(Arc<Mutex<Mail>>);

impl Port {
    fn with<T>(&self, act: impl FnOnce(&mut Mail) -> T) -> T {
        act(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Asks, and waits for the reply.
    pub(crate) async fn ask(&self, ask: Ask) -> Reply {
        // A reply that came before the question is none to it.
        self.with(|mail| (mail.asked, mail.reply) = (Some(ask), None));
        std::future::poll_fn(|_| match self.with(|mail| mail.reply.take()) {
            Some(reply) => Poll::Ready(reply),
            None => Poll::Pending,
        })
        .await
    }
}

type Computation<T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send>>;

/// A computation that was begun.
pub struct Conversation<T> {
    port: Port,
    /// None once it has ended.
    computation: Option<Computation<T>>,
}

/// What a computation does next.
pub enum Next<T> {
    /// It asks, and goes on with the reply.
    Ask(Ask),
    /// It has ended.
    Done(Result<T, Error>),
}

impl<T> Conversation<T> {
    /// Begins a computation.
    pub fn new<F>(computation: impl FnOnce(Port) -> F) -> Self
    where
        F: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let port = Port::default();
        Conversation { computation: Some(Box::pin(computation(port.clone()))), port }
    }

    /// Goes on with the reply to what was asked last: none at the beginning. After its end it has no further
    /// result, and says [`Error::Message`].
    pub fn next(&mut self, reply: Option<Reply>) -> Next<T> {
        let Some(computation) = &mut self.computation else {
            return Next::Done(Err(Error::Message));
        };
        self.port.with(|mail| mail.reply = reply);
        match computation.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(result) => {
                self.computation = None;
                Next::Done(result)
            }
            Poll::Pending => match self.port.with(|mail| mail.asked.take()) {
                Some(ask) => Next::Ask(ask),
                None => Next::Done(Err(Error::Message)),
            },
        }
    }
}
