//! Panics of a library on a damaged file, as errors.

use std::any::Any;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::Once;

thread_local! {
    /// Whether panics of this thread are returned, and not printed.
    static RETURNED: Cell<bool> = const { Cell::new(false) };
}

/// What `work` returns, or the message of its panic, which is not printed. For libraries that panic on a
/// damaged file where their caller must say what to do about it: what `work` has changed is not used
/// afterwards.
///
/// # Errors
/// The message of the panic.
pub fn without_panic<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let print = take_hook();
        set_hook(Box::new(move |panic| {
            if !RETURNED.get() {
                print(panic);
            }
        }));
    });
    let before = RETURNED.replace(true);
    let done = catch_unwind(AssertUnwindSafe(work));
    RETURNED.set(before);
    done.map_err(|panic| message(panic.as_ref()))
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| text.to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no reason is known".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A panic that is returned is not printed, and any other one is.
    #[test]
    fn a_panic_that_is_returned_is_not_printed() {
        const INSIDE: &str = "HOST_TEST_PANICS";
        if std::env::var_os(INSIDE).is_some() {
            let _ = without_panic(|| panic!("a returned one"));
            let _ = std::thread::spawn(|| panic!("another one")).join();
            return;
        }
        let name = "panics::tests::a_panic_that_is_returned_is_not_printed";
        let mut inside = std::process::Command::new(std::env::current_exe().unwrap());
        let inside = inside.args(["--exact", name, "--nocapture"]).env(INSIDE, "").output().unwrap();
        let said = String::from_utf8(inside.stderr).unwrap();
        assert!(said.contains("another one") && !said.contains("a returned one"), "{said}");
    }

    #[test]
    fn a_panic_is_returned() {
        assert_eq!(without_panic(|| 3), Ok(3));
        assert_eq!(without_panic(|| panic!("a page")), Err::<(), _>("a page".into()));
        assert_eq!(without_panic(|| panic!("page {}", 7)), Err::<(), _>("page 7".into()));
        let nested = without_panic(|| without_panic(|| panic!("inside")).unwrap_err());
        assert_eq!(nested, Ok("inside".to_string()));
        assert!(!RETURNED.get());
    }
}
