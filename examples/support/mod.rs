//! Parts that the examples share: a deployment (keys on disk, a server in a process of its own, a device with
//! its client) and the log of rounds. No example uses all of it.
#![allow(dead_code)]

pub(crate) mod relay;
pub(crate) mod web;

use anyhow::{Context, Result, ensure};
use host::{Undone, lock};
use indicatif::{ProgressBar, ProgressStyle};
use protocol::{Exchanging, Shape, TaskKind, Updates, UserKeys, WidthShape};
use rand_chacha::ChaCha20Rng;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use user_client::{BanditDevice, Client, Device, MaskedTask, Opening, PaperDevice};
use wire::{PublicBundle, UserBundle, UserSecret};

const SERVE: &str = "--serve";

/// If this process was started as the server (by [`Deployment::start`]), serves until it is killed and does
/// not return.
pub(crate) fn serve_if_asked() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    let [_, verb, keys, state, authority @ ..] = &args[..] else { return Ok(()) };
    if verb != SERVE {
        return Ok(());
    }
    let authority = authority.first().map(|address| address.parse::<SocketAddr>()).transpose()?;
    // The server ends when the process that started it ends.
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        std::process::exit(0)
    });
    if std::env::var_os("RUST_LOG").is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    }
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let of_paper = wire::is_paper(keys.as_ref())?;
        let paper = of_paper.then(|| wire::PaperKeys::open(keys.as_ref())).transpose()?;
        let bundle = (!of_paper).then(|| PublicBundle::open(keys.as_ref())).transpose()?;
        // A page of another site must not reach the server under a name of its own.
        let settings = helba_server::Settings { hosts: Some(Vec::new()), paper, ..Default::default() };
        let state = helba_server::AppState::open(bundle, state.as_ref(), settings)?;
        let mut router = helba_server::app(state);
        if let Some(authority) = authority {
            router = router.merge(web::pages(authority)?);
        }
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        println!("{}", listener.local_addr()?);
        std::io::stdout().flush()?;
        // Many clients of one address.
        let most = 4096;
        let connections = helba_server::Connections { most, most_an_address: most, ..Default::default() };
        helba_server::serve(listener, router, connections, std::future::pending()).await;
        std::process::exit(0)
    })
}

/// Keys, a running server and a device. When this is dropped, or a signal ends the process, the server ends
/// and its files are deleted.
pub(crate) struct Deployment {
    server: Arc<Mutex<Child>>,
    client: Client,
    device: &'static Device,
    /// Seconds of key generation.
    pub(crate) keygen_seconds: f64,
    /// The bytes of the public bundle.
    pub(crate) public_bundle_bytes: u64,
    folder: tempfile::TempDir,
    _undone: [Undone; 2],
}

impl Drop for Deployment {
    fn drop(&mut self) {
        end(&self.server);
    }
}

/// Ends a process and waits until it has ended.
pub(crate) fn end(process: &Mutex<Child>) {
    let mut process = lock(process);
    // If this fails, it has ended already.
    let _ = process.kill();
    let _ = process.wait();
}

/// How long a round waits for a raiser.
const PATIENCE: Duration = Duration::from_secs(20);

/// The bytes of the exchanges that a holder of the key has answered beside the devices.
#[derive(Default)]
pub(crate) struct Raises {
    /// The bytes of all answers.
    sent: AtomicU64,
    /// Those to and from the holder in each exchange of an evaluation, by its number.
    by_exchange: Mutex<BTreeMap<u32, Vec<[f64; 2]>>>,
}

impl Raises {
    /// Adds the tasks of one message and their answers, of `bytes` bytes.
    fn add(&self, tasks: &[MaskedTask], bytes: [usize; 2]) {
        self.sent.fetch_add(bytes[1] as u64, Relaxed);
        let number = match tasks {
            [task] => match task.kind() {
                TaskKind::Stage { step, .. } => step,
                TaskKind::Scores { .. } => 0,
                TaskKind::Answers => 1,
                TaskKind::Sum | TaskKind::Model | TaskKind::Product { .. } | TaskKind::Pads => return,
            },
            // What each of them takes is not known.
            _ => return,
        };
        lock(&self.by_exchange).entry(number).or_default().push(bytes.map(|bytes| bytes as f64));
    }

    /// The bytes of all answers.
    pub(crate) fn bytes(&self) -> u64 {
        self.sent.load(Relaxed)
    }

    /// The medians of the bytes to and from the holder in each exchange of an evaluation, in their order.
    pub(crate) fn by_exchange(&self) -> Vec<[f64; 2]> {
        let medians = |all: &Vec<[f64; 2]>| {
            [0, 1].map(|way| median(&all.iter().map(|bytes| bytes[way]).collect::<Vec<_>>()))
        };
        lock(&self.by_exchange).values().map(medians).collect()
    }

    /// [`Self::by_exchange`] as a line; `None` without exchanges.
    pub(crate) fn line(&self) -> Option<String> {
        let all = self.by_exchange();
        let kilobytes = |[to, from]: &[f64; 2]| format!("{:.0}/{:.0}", to / 1e3, from / 1e3);
        let each: Vec<String> = all.iter().map(kilobytes).collect();
        (!all.is_empty()).then(|| {
            format!("{} exchanges an evaluation, kB to and from the holder: {}", all.len(), each.join(", "))
        })
    }
}

/// One round as the device saw it.
pub(crate) struct Round {
    pub(crate) arm: usize,
    pub(crate) reward: f64,
    pub(crate) round: u64,
    pub(crate) model_feedbacks: u64,
    pub(crate) bytes_up: usize,
    pub(crate) bytes_down: usize,
    /// Seconds of wall time in each phase.
    pub(crate) phases: Vec<(String, f64)>,
}

impl Deployment {
    /// Generates keys for d features and k arms in a temporary folder, and starts a server on a free loopback
    /// port. The device answers at most `trace_answers` trace questions.
    pub(crate) fn start(d: usize, k: usize, toy: bool, quiet: bool, trace_answers: u64) -> Result<Self> {
        let keys_for = (WidthShape::default(), Updates::Slots, Exchanging::One, UserKeys::Shared);
        Self::start_with((d, k), toy, quiet, trace_answers, None, keys_for)
    }

    /// As [`Self::start`], with the pages of the shop if there is a key `authority`, and keys of bandits that
    /// have this width, compute updates and evaluations like this, and whose users have such keys.
    pub(crate) fn start_with(
        (d, k): (usize, usize),
        toy: bool,
        quiet: bool,
        trace_answers: u64,
        authority: Option<SocketAddr>,
        (width, updates, exchanges, keys): (WidthShape, Updates, Exchanging, UserKeys),
    ) -> Result<Self> {
        host::undo_on_signals().context("listening for signals")?;
        let (folder, of_folder) = folder()?;
        let (public, secret) = (folder.path().join("public.bundle"), folder.path().join("secret.bundle"));
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        let security = if toy { keygen::Security::None } else { keygen::Security::Classical128 };
        let shape = Shape::for_problem(d, k);
        let request = keygen::Request { shape, security, width, exchanges, updates, keys, created };
        let bar = progress(0, "generating keys", quiet);
        let start = Instant::now();
        let summary =
            keygen::create_files(request, &public, &secret, None, &mut keygen::os_rng()?, |done, total| {
                bar.set_length(total.into());
                bar.set_position(done.into());
            })?;
        let keygen_seconds = start.elapsed().as_secs_f64();
        bar.finish_and_clear();

        let Started { process: server, address, undone: of_server } =
            serve(&public, &folder.path().join("state"), quiet, authority)?;
        // All users of an example share one device, which counts for each.
        let device = Device::open(&secret, &Opening { toy, ..Opening::default() })?;
        let device = device.with_most_answers(trace_answers).with_most_repeats(1 << 20);
        // Tasks of a runtime use it until the process ends.
        let device: &'static Device = Box::leak(Box::new(device));
        let client = Client::new(&format!("http://{address}"))?.with_device(device);
        Ok(Deployment {
            server,
            client,
            device,
            keygen_seconds,
            public_bundle_bytes: summary.public_bytes,
            folder,
            _undone: [of_folder, of_server],
        })
    }

    /// The deployment behind a line on which each message comes `late`, there and back.
    pub(crate) fn behind(mut self, late: Duration) -> Result<Self> {
        if !late.is_zero() {
            let server = self.client.server().trim_start_matches("http://").parse()?;
            let line = testkit::late_line(server, late)?;
            self.client = Client::new(&format!("http://{line}"))?.with_token(self.device.token().clone());
        }
        Ok(self)
    }

    /// The folder of keys and state, which only its owner can read.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// The secret bundle.
    pub(crate) fn secret(&self) -> PathBuf {
        self.folder.path().join("secret.bundle")
    }

    /// The device and client of a user with a key of its own, whom the owner of the keys has enrolled.
    pub(crate) fn user(&self) -> Result<(Device, Client)> {
        let secret = UserSecret::generate(&mut keygen::os_rng()?);
        let bundle = self.owner()?.enrol(&secret.request(), "user", self.times(), &mut keygen::os_rng()?)?;
        let device = Device::of_user(secret, bundle)?;
        let client = Client::new(self.client.server())?.with_device(&device);
        Ok((device, client))
    }

    /// The secrets and bundles of `count` further users, named by their numbers.
    pub(crate) fn enrol(&self, count: usize) -> Result<Vec<(UserSecret, UserBundle)>> {
        let (owner, times, rng) = (self.owner()?, self.times(), &mut keygen::os_rng()?);
        let enrol = |number: usize| {
            let secret = UserSecret::generate(rng);
            let bundle = owner.enrol(&secret.request(), &number.to_string(), times, rng)?;
            Ok((secret, bundle))
        };
        (0..count).map(enrol).collect()
    }

    fn owner(&self) -> Result<keygen::Owner> {
        Ok(keygen::Owner::open(&self.secret(), &self.folder().join("public.bundle"), None)?)
    }

    /// From now on for a day.
    fn times(&self) -> [u64; 2] {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        [now, now + 24 * 3600]
    }

    /// The device, which holds the secret bundle.
    pub(crate) fn device(&self) -> &'static Device {
        self.device
    }

    /// The client of the server, with the token of the device.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Plays one round of an encrypted bandit over HTTP with a device and its client, with the reward that
    /// `play` returns for an arm. If `synchronous`, it waits until a model whose update the feedback
    /// started is in use, for which a raiser must be there.
    pub(crate) fn round(
        &self,
        of: (&BanditDevice<'_>, &Client),
        rows: &[Vec<f64>],
        play: impl FnOnce(usize) -> f64,
        synchronous: bool,
        rng: &mut ChaCha20Rng,
    ) -> Result<Round> {
        self.round_learning(of, rows, |arm| (arm, play(arm)), synchronous, rng)
    }

    /// As [`Self::round`], with the reward of another arm than the chosen one: `play` returns the arm that is
    /// learnt, and its reward. [`Round::arm`] is the chosen one.
    pub(crate) fn round_learning(
        &self,
        (bandit, client): (&BanditDevice<'_>, &Client),
        rows: &[Vec<f64>],
        play: impl FnOnce(usize) -> (usize, f64),
        synchronous: bool,
        rng: &mut ChaCha20Rng,
    ) -> Result<Round> {
        let mut phases = Vec::new();
        let mut last = Instant::now();
        let mut lap = |name: &str| {
            let now = Instant::now();
            phases.push((name.to_string(), (now - last).as_secs_f64()));
            last = now;
        };
        let began = Instant::now();
        let mut round = loop {
            match bandit.decide(client, rows, rng) {
                // The raiser of this process has not come yet.
                Err(error) if error.is_temporary() && began.elapsed() < PATIENCE => {
                    std::thread::sleep(Duration::from_millis(100));
                }
                decided => break decided?,
            }
        };
        lap("decide: device, server and transfer");
        let choice = &round.choice;
        let (arm, id, number, model_feedbacks) =
            (choice.arm, choice.id, choice.round, choice.model_feedbacks);
        let (learnt, reward) = play(arm);
        let feedback = bandit.feedback(learnt, &rows[learnt], reward, round.choice.question.as_ref(), rng)?;
        client.feedback_encrypted(&bandit.created().id, id, &feedback)?;
        lap("feedback");
        bandit.answer_tasks(client, &mut round, rng)?;
        lap("tasks");
        if synchronous {
            let due = || client.encrypted(&bandit.created().id).map(|view| view.status);
            while due().map(|status| status.updating || status.refresh_due)? {
                std::thread::sleep(Duration::from_millis(20));
            }
            lap("wait for the batch update");
        }
        Ok(Round {
            arm,
            reward,
            round: number,
            model_feedbacks,
            bytes_up: round.sent + feedback.len(),
            bytes_down: round.received,
            phases,
        })
    }

    /// Answers the tasks of an encrypted bandit until `stop`, and adds their bytes to `raises`.
    pub(crate) fn raise(&self, bandit: &BanditDevice<'_>, stop: &AtomicBool, raises: &Raises) -> Result<()> {
        let (id, limits) = (&bandit.created().id, bandit.limits());
        let mut rng = user_client::os_rng()?;
        while !stop.load(Relaxed) {
            let reply = match self.client.raises(id, limits, 1) {
                // The server is at a limit.
                Err(error) if error.is_temporary() => {
                    std::thread::sleep(Duration::from_millis(100));
                    continue;
                }
                reply => reply?,
            };
            let mut next = reply;
            while let Some(reply) = next {
                let tasks = bandit.read(&reply)?.tasks;
                if tasks.is_empty() {
                    break;
                }
                let body = bandit.raise(&tasks, None, &mut rng)?;
                raises.add(&tasks, [reply.len(), body.len()]);
                // A task that is over was answered by another raiser. The reply has the next step of an
                // update.
                next = self.client.post_raises(id, limits, &body).ok();
            }
        }
        Ok(())
    }

    /// The parameters in use.
    pub(crate) fn params(&self) -> &ckks::Params {
        self.device.params()
    }

    /// The id of the server process.
    pub(crate) fn server_id(&self) -> u32 {
        lock(&self.server).id()
    }

    /// The peak resident memory of the server process in bytes; 0 if the system does not report it.
    pub(crate) fn server_peak_bytes(&self) -> u64 {
        peak_bytes(self.server_id())
    }
}

/// The largest resident memory of a process so far; 0 if the system does not report it.
pub(crate) fn peak_bytes(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

/// Processor seconds of a process, without those of its children; 0 if the system does not report them.
pub(crate) fn process_seconds(process: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |i: usize| fields.get(i).and_then(|t| t.parse::<f64>().ok()).unwrap_or(0.0);
    // Fields 14 and 15 of proc(5), of which the first two are cut off; a tick is 10 ms.
    (ticks(11) + ticks(12)) / 100.0
}

/// Keys of the paper's method, a running server and a device. When this is dropped, or a signal ends the
/// process, the server ends and its files are deleted.
pub(crate) struct PaperDeployment {
    server: Arc<Mutex<Child>>,
    pub(crate) client: Client,
    pub(crate) device: PaperDevice,
    pub(crate) public_bundle_bytes: u64,
    _folder: tempfile::TempDir,
    _undone: [Undone; 2],
}

impl Drop for PaperDeployment {
    fn drop(&mut self) {
        end(&self.server);
    }
}

impl PaperDeployment {
    /// Generates keys in a temporary folder, and starts a server on a free loopback port.
    pub(crate) fn start(toy: bool, quiet: bool) -> Result<Self> {
        host::undo_on_signals().context("listening for signals")?;
        let (folder, of_folder) = folder()?;
        let (public, secret) = (folder.path().join("public.bundle"), folder.path().join("secret.bundle"));
        let created = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |t| t.as_secs());
        let bar = progress(0, "generating keys of the paper's method", quiet);
        let (files, rng) = ([public.as_path(), secret.as_path()], &mut keygen::os_rng()?);
        let summary = keygen::create_paper_files((toy, created), files, None, rng, |done, total| {
            bar.set_length(total.into());
            bar.set_position(done.into());
        })?;
        bar.finish_and_clear();
        let Started { process: server, address, undone: of_server } =
            serve(&public, &folder.path().join("state"), quiet, None)?;
        let device = PaperDevice::open(&secret, &Opening { toy, ..Opening::default() })?;
        let client = Client::new(&format!("http://{address}"))?.with_token(device.token().clone());
        device.check_manifest(&client.paper_keys()?)?;
        let (public_bundle_bytes, _undone) = (summary.public_bytes, [of_folder, of_server]);
        Ok(PaperDeployment { server, client, device, public_bundle_bytes, _folder: folder, _undone })
    }
}

/// A server in a process of its own. A signal ends it.
pub(crate) struct Started {
    pub(crate) process: Arc<Mutex<Child>>,
    pub(crate) address: String,
    pub(crate) undone: Undone,
}

/// Starts a server with the public bundle `public` on a free loopback port.
pub(crate) fn serve(
    public: &Path,
    state: &Path,
    quiet: bool,
    authority: Option<SocketAddr>,
) -> Result<Started> {
    let bar = progress(0, "starting the server", quiet);
    bar.enable_steady_tick(Duration::from_millis(100));
    let mut command = Command::new(std::env::current_exe()?);
    command
        .args([SERVE.as_ref(), public.as_os_str(), state.as_os_str()])
        .args(authority.map(|address| OsString::from(address.to_string())))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    let (process, undone) = spawn(command).context("cannot start the server process")?;
    let mut address = String::new();
    let out = lock(&process).stdout.take();
    if let Some(out) = out {
        BufReader::new(out).read_line(&mut address)?;
    }
    ensure!(!address.is_empty(), "the server did not start; stderr has its message");
    bar.finish_and_clear();
    Ok(Started { process, address: address.trim().to_string(), undone })
}

/// A folder for keys and state that only its owner can read. A signal removes it.
pub(crate) fn folder() -> Result<(tempfile::TempDir, Undone)> {
    let make = || {
        let folder = tempfile::tempdir()?;
        let path = folder.path().to_path_buf();
        // A failure cannot be reported: a signal led there.
        let remove = move || drop(std::fs::remove_dir_all(path));
        Ok::<_, std::io::Error>((folder, remove))
    };
    Undone::after(make).context("no temporary folder for keys and state")
}

/// Starts a process. A signal ends it.
pub(crate) fn spawn(mut command: Command) -> std::io::Result<(Arc<Mutex<Child>>, Undone)> {
    Undone::after(|| {
        let child = Arc::new(Mutex::new(command.spawn()?));
        let of_signal = child.clone();
        Ok((child, move || end(&of_signal)))
    })
}

/// All rounds, and how the twin's indices compare in each.
#[derive(Default)]
pub(crate) struct Log {
    rounds: Vec<(Round, Compared)>,
}

/// The twin's indices in a round, relative to the range of the encrypted comparison.
struct Compared {
    /// How far the index of the arm that was played is below the largest: 0 if the twin plays the same arm.
    miss: f64,
    /// The gap between the two largest, infinite if there is one arm.
    margin: f64,
    /// The gap that the comparison resolves in this round.
    resolution: f64,
}

impl Log {
    /// Adds a round with the indices that the twin compares, the range of the encrypted comparison, and the
    /// part of it that it resolves.
    pub(crate) fn push(&mut self, round: Round, indices: &[f64], range: f64, resolution: f64) {
        let mut sorted = indices.to_vec();
        sorted.sort_by(|a, b| b.total_cmp(a));
        let miss = (sorted[0] - indices[round.arm]) / range;
        let margin = sorted.get(1).map_or(f64::INFINITY, |second| (sorted[0] - second) / range);
        self.rounds.push((round, Compared { miss, margin, resolution }));
    }

    /// The gaps of the twin's indices, relative to the range of the comparison, between its arm and another
    /// one that was played, in the rounds where there are two. Ascending.
    pub(crate) fn misses(&self) -> Vec<f64> {
        let mut misses: Vec<f64> =
            self.rounds.iter().map(|(_, c)| c.miss).filter(|miss| *miss > 0.0).collect();
        misses.sort_by(f64::total_cmp);
        misses
    }

    /// The widest of [`Self::misses`]; 0 if there are none.
    pub(crate) fn widest_miss(&self) -> f64 {
        self.misses().last().copied().unwrap_or(0.0)
    }

    /// The share of rounds whose arm has the twin's largest index.
    pub(crate) fn agreement(&self) -> f64 {
        1.0 - self.misses().len() as f64 / self.rounds.len().max(1) as f64
    }

    /// The number of rounds whose two largest indices are closer than the comparison resolves.
    pub(crate) fn ties(&self) -> usize {
        self.rounds.iter().filter(|(_, c)| c.margin < c.resolution).count()
    }

    /// The number of rounds whose two largest indices are at least as far apart as the comparison resolves,
    /// and of those whose arm is the twin's.
    pub(crate) fn resolved(&self) -> (usize, usize) {
        let resolved = || self.rounds.iter().filter(|(_, c)| c.margin >= c.resolution);
        (resolved().count(), resolved().filter(|(_, c)| c.miss <= 0.0).count())
    }

    /// Whether the ciphertexts decided as exact arithmetic wherever the comparison resolves the indices.
    pub(crate) fn verdict(&self) -> String {
        let (misses, rounds, ties) = (self.misses(), self.rounds.len(), self.ties());
        let resolution = self.rounds.iter().map(|(_, c)| c.resolution).fold(0.0, f64::max);
        let beyond = self.rounds.iter().any(|(_, c)| c.miss >= c.resolution);
        let (share, widest) = (100.0 * self.agreement(), self.widest_miss());
        if misses.is_empty() {
            return format!("verdict: the ciphertexts decided as exact arithmetic in all {rounds} rounds");
        }
        let gaps = format!(
            "Where arms differed ({} rounds), the exact indices were {:.4} of the comparison's range apart in the median \
             and {widest:.4} at most; the comparison resolves {resolution:.4}",
            misses.len(),
            median(&misses)
        );
        if !beyond {
            format!(
                "verdict: the ciphertexts decided as exact arithmetic but for ties, in {share:.1} % of rounds alike. {gaps}. \
                 In {ties} of {rounds} rounds the best two were closer than that: of candidates that are nearly equal, noise \
                 picks one"
            )
        } else {
            format!(
                "verdict: THE CIPHERTEXTS DID NOT DECIDE AS EXACT ARITHMETIC, which agrees in {share:.1} % of rounds only. {gaps}"
            )
        }
    }

    pub(crate) fn running_hit_rate(&self) -> Vec<f64> {
        let mut hits = 0.0;
        let running = |(t, (round, _)): (usize, &(Round, Compared))| {
            hits += round.reward;
            hits / (t + 1) as f64
        };
        self.rounds.iter().enumerate().map(running).collect()
    }

    /// Seconds of each round.
    pub(crate) fn seconds(&self) -> Vec<f64> {
        let total = |r: &Round| r.phases.iter().map(|(_, s)| s).sum();
        self.rounds.iter().map(|(r, _)| total(r)).collect()
    }

    pub(crate) fn bytes_up(&self) -> Vec<f64> {
        self.rounds.iter().map(|(r, _)| r.bytes_up as f64).collect()
    }

    pub(crate) fn bytes_down(&self) -> Vec<f64> {
        self.rounds.iter().map(|(r, _)| r.bytes_down as f64).collect()
    }

    /// Seconds by phase, in the order of a round.
    pub(crate) fn phases(&self) -> Vec<(String, Vec<f64>)> {
        let mut by_name = BTreeMap::<String, (usize, Vec<f64>)>::new();
        for (round, _) in &self.rounds {
            for (i, (name, s)) in round.phases.iter().enumerate() {
                by_name.entry(name.clone()).or_insert((i, Vec::new())).1.push(*s);
            }
        }
        let mut out: Vec<_> = by_name.into_iter().collect();
        out.sort_by_key(|(_, (i, _))| *i);
        out.into_iter().map(|(name, (_, v))| (name, v)).collect()
    }
}

pub(crate) fn median(values: &[f64]) -> f64 {
    percentile(values, 0.5)
}

/// The value below which a share `p` of the values lies; 0 if there are none.
pub(crate) fn percentile(values: &[f64], p: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(((sorted.len() as f64 - 1.0) * p).round().max(0.0) as usize).copied().unwrap_or(0.0)
}

pub(crate) fn progress(length: u64, what: &str, quiet: bool) -> ProgressBar {
    if quiet {
        return ProgressBar::hidden();
    }
    if !std::io::stderr().is_terminal() {
        eprintln!("{what} …");
    }
    let style = ProgressStyle::with_template("{msg:32} [{bar:40}] {pos}/{len} {elapsed} (left {eta})");
    // The template is a constant that parses.
    let style = style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> ");
    ProgressBar::new(length).with_style(style).with_message(what.to_string())
}
