use super::Stop;
use host::stop_signal;

/// Runs `work` until it ends, and returns its result. An interrupt or, on Unix, the signal to terminate gives
/// the order to `stop`.
///
/// # Errors
/// Those of the operating system, if it takes no handler or starts no thread; a panic of `work`.
pub fn until_signal<T: Send + 'static>(
    stop: Stop,
    work: impl FnOnce() -> T + Send + 'static,
) -> std::io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (ended, end) = tokio::sync::oneshot::channel();
    std::thread::spawn(move || ended.send(work()));
    runtime.block_on(async {
        let mut end = std::pin::pin!(end);
        let ended = tokio::select! {
            ended = &mut end => ended,
            heard = stop_signal() => {
                heard?;
                stop.stop();
                end.await
            }
        };
        ended.map_err(|_| std::io::Error::other("a thread panicked"))
    })
}
