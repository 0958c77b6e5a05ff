//! Updates by products: steps that a holder of the scope `raise` answers, through kills of the server.

use crate::fixture::*;
use crate::users::*;
use helba_server::{NewToken, Scope, TokensFile};
use protocol::{Answers, TaskKind};
use tempfile::TempDir;
use wire::{DecideReply, RaiseTask};

/// A device alone answers the steps of updates beside its decisions, and decides as the twin. The server is
/// killed between any two steps of an update, and asks for the same bytes under the same number. A step is
/// answered once, and a token for decisions neither gets a step nor may answer one.
#[test]
fn updates_by_products_go_on_after_kills() {
    let (state, keys) = (TempDir::new().unwrap(), product_keys());
    let start = || Program::spawn(&mut command(&keys.public_file(), state.path(), "127.0.0.1:0"));
    let mut server = start();
    let mut user = User::create_with(Device::new(server.address, keys), &every_round(Answers::Arm));
    let (history, mut rng) = (History::default(), rng(51));
    (0..6).for_each(|_| drop(user.round(&history, &mut rng)));
    assert!(user.status().model_feedbacks >= 5, "{:?}", user.status());
    user.settle(&mut rng);

    // A phone decides. Its feedback ends the batch, of which it gets no step.
    user.round(&history, &mut rng);
    let scopes = vec![Scope::Decide, Scope::Feedback];
    let new = NewToken { name: "phone".into(), scopes, bandit: None, expires: None };
    let token = TokensFile::of(state.path()).create(new, &mut rng).unwrap();
    let phone = user.http.with_token(Some(&token));
    let contexts = user.contexts(&mut rng);
    let reply = user.device.read(&phone.post(&user.path("/decisions"), &contexts).ok()).unwrap();
    assert!(reply.tasks.iter().all(|task| matches!(task.kind(), TaskKind::Scores { .. })));
    let raised = user.device.raise(&reply.tasks, reply.ticket, &mut rng).unwrap();
    let reply = user.device.read(&phone.post(&user.path("/raises"), &raised).ok()).unwrap();
    assert!(reply.choice.is_some() && reply.tasks.is_empty());

    let learnt = user.status().model_feedbacks;
    let limits = *user.device.limits();
    let tasks = |bytes: &[u8]| DecideReply::read(bytes, &limits).unwrap().tasks;
    let mut last: Option<Vec<RaiseTask>> = None;
    let mut steps = 0;
    loop {
        let bytes = user.client.raises(user.id(), &limits, 0).unwrap().unwrap();
        assert!(matches!(tasks(&bytes)[..], [RaiseTask { kind: TaskKind::Product { .. }, .. }]));
        assert!(last.is_none_or(|last| last == tasks(&bytes)));
        let body = user.device.raise(&user.device.read(&bytes).unwrap().tasks, None, &mut rng).unwrap();
        let refused = user.http.with_token(Some(&token)).post(&user.path("/raises"), &body).problem();
        assert_eq!((refused.status, refused.reason.as_deref()), (403, Some("forbidden_scope")));
        let next = user.http.post(&user.path("/raises"), &body).ok();
        let again = user.http.post(&user.path("/raises"), &body).problem();
        assert_eq!(again.reason.as_deref(), Some("task_over"));
        steps += 1;
        server.kill();
        server = start();
        user = user.at(server.address);
        if tasks(&next).is_empty() {
            break;
        }
        last = Some(tasks(&next));
    }
    assert!(steps >= 6 && user.status().model_feedbacks == learnt + 1, "{steps}, {:?}", user.status());
    (0..2).for_each(|_| drop(user.round(&history, &mut rng)));
    assert!(history.check() > 0.9);
}
