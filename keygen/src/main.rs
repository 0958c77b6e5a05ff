//! `helba-keygen`: plans problems, generates key pairs and tokens, and prints the manifest of a bundle.

#![deny(clippy::print_stdout, clippy::print_stderr, reason = "`say!` and `tell!` escape what others named")]

use anyhow::Context;
use clap::{Parser, Subcommand};
use host::say;
use indicatif::{ProgressBar, ProgressStyle};
use keygen::{Owner, Passphrase, Request, Security, create_files, create_paper_files, os_rng};
use planner::{Choice, Line, Problem, Wanted, choose, default_updates};
use protocol::paper::PaperPlan;
use protocol::staged::{MOST_STAGED_ARMS, MOST_STAGED_FEATURES};
use protocol::{Exchanging, MOST_ARMS, MOST_FEATURES, Shape, Updates, UserKeys, WidthShape};
use std::fs::File;
use std::io::{Read, Seek};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use wire::{BundleKind, BundleReader, EnrolmentRequest, RemovedUsersFile, SECURITY_TABLE};

/// The rounds that keys are planned for: no size depends on them.
const PLANNED_ROUNDS: u64 = 1000;

/// Plans encrypted bandits, and generates their keys.
///
/// Run it offline. Give the public bundle to the server, and the secret bundle to the devices of the users
/// only.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Generates a key pair.
    Create {
        /// The method of the bandits that the keys serve: `default`, or `paper`, which computes HELBA by the
        /// circuits of the paper, and is slower. Its keys are for 2 features and 2 arms.
        #[arg(long, default_value = "default", value_parser = ["default", "paper"])]
        method: String,
        /// Number of features of an arm, d, at least 1. The keys fit every d that rounds up to the same power
        /// of two. `plan` prints the range.
        #[arg(long)]
        features: usize,
        /// Number of arms, K, at least 1. The keys fit every K that rounds up to the same power of two.
        #[arg(long)]
        arms: usize,
        /// New file for the public bundle, for the server.
        #[arg(long)]
        public: PathBuf,
        /// New file for the secret bundle, for users. Only its owner can read it.
        #[arg(long)]
        secret: PathBuf,
        /// File whose first line is a passphrase. It seals the secret bundle.
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
        /// Generates small keys without security, for tests. A problem that is too large for these gets keys
        /// with security.
        #[arg(long, conflicts_with = "security")]
        toy: bool,
        /// Bits of security against classical attacks, at least: 128, 192 or 256. More than 128 take a ring
        /// of twice the degree.
        #[arg(long, default_value = "128", value_parser = security)]
        security: Security,
        /// The width of the bandits that the keys serve: `root` adds keys for square roots, beside which
        /// `tangent` goes on to work.
        #[arg(long, default_value = "tangent", value_parser = width)]
        width: WidthShape,
        /// How often a decision asks a holder of the key: `one` raise, which every device may answer;
        /// `staged` 3 to 8 times, for up to 64 features and 256 arms with a tenth of the bytes of
        /// keys, which a raiser or a device with the scope `raise` answers. Bandits in stages have the
        /// tangent, a public schedule and updates by products. `auto` is the one of both for which a user
        /// alone waits less, or the only one that carries the problem; it says why, and `inspect` what it
        /// chose.
        #[arg(long, default_value = "one")]
        exchanges: Wanted,
        #[command(flatten)]
        line: LineArguments,
        /// How updates are computed: `slots` in a deep ring, by two exchanges that every device may answer;
        /// `products` in the ring of scores, by some nine that a raiser or a device with the scope `raise`
        /// answers. Keys for products are much smaller. Their bandits have the tangent, a public schedule and
        /// at most 16 features with one raise [default: slots with one raise, products in stages].
        #[arg(long)]
        updates: Option<Updates>,
        /// Whose keys users have: `shared`, the secret bundle; or `own`, where each user makes a key of its
        /// own and is enrolled (`enrol`), and the secret bundle is for the owner's raiser alone.
        #[arg(long, default_value = "shared")]
        keys: UserKeys,
    },
    /// Enrols a user of keys that were made with `--keys own`.
    Enrol {
        /// The secret bundle.
        #[arg(long)]
        secret: PathBuf,
        /// The public bundle.
        #[arg(long)]
        public: PathBuf,
        /// File whose first line is the passphrase of a sealed secret bundle.
        #[arg(long, value_name = "FILE")]
        passphrase_file: Option<PathBuf>,
        /// The user's request, from `helba-client user`.
        #[arg(long)]
        request: PathBuf,
        /// A name by which the user is removed again: up to 64 letters, digits, '-', '_', '.' or '@'.
        #[arg(long)]
        name: String,
        /// Days for which the enrolment holds: from 1 to 3650.
        #[arg(long, default_value_t = 365, value_parser = clap::value_parser!(u64).range(1..=3650))]
        days: u64,
        /// New file for the user's bundle, which the user gets.
        #[arg(long)]
        user: PathBuf,
    },
    /// Adds users to the owner's list of those for whom no answers are made, which `helba-raiser --removed`
    /// reads. The list is created if it does not exist.
    Remove {
        /// The list.
        #[arg(long, value_name = "FILE")]
        list: PathBuf,
        /// Names by which the users were enrolled; none makes an empty list.
        names: Vec<String>,
    },
    /// Says what a problem would cost before any key is generated: seconds a decision, bytes a round, users
    /// at once, size of the bundle, memory.
    Plan {
        /// Features of an arm, d: from 1 to 16, and in stages to 64.
        #[arg(long, visible_alias = "d")]
        features: usize,
        /// Arms, K: from 1 to 64, and in stages to 256.
        #[arg(long, visible_alias = "k")]
        arms: usize,
        /// How often a decision asks a holder of the key, as for `create`.
        #[arg(long, default_value = "one")]
        exchanges: Wanted,
        #[command(flatten)]
        line: LineArguments,
        /// How updates are computed, as for `create`.
        #[arg(long)]
        updates: Option<Updates>,
        /// Rounds to plan for: from 1 to 10⁹.
        #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
        rounds: u64,
        /// Bits of security against classical attacks, at least: 128, 192 or 256.
        #[arg(long, default_value = "128", value_parser = security)]
        security: Security,
        /// Every detail: parameters with reasons, levels, keys, messages, and seconds by step.
        #[arg(long)]
        explain: bool,
        /// One JSON object instead of text; of a problem that is refused, `refused` and `instead`.
        #[arg(long)]
        json: bool,
    },
    /// Generates an access token.
    ///
    /// An operator's token is for `helba-server --operator-token-file` and `helba-client --token-file`. The
    /// token of a collector or an adder is for `--token-file` of `secure-sum` and `sum-authority`.
    Token {
        /// New file for the token, 64 hexadecimal digits. Only its owner can read it.
        file: PathBuf,
    },
    /// Prints the manifest of a bundle, which contains no secret.
    Inspect {
        /// Public or secret bundle.
        bundle: PathBuf,
    },
}

/// The line for which `--exchanges auto` chooses.
#[derive(clap::Args)]
struct LineArguments {
    /// With --exchanges auto: milliseconds of a round trip between the server and who answers its exchanges
    /// [default: 1, that of a raiser near the server].
    #[arg(long, value_name = "MS", value_parser = amount)]
    round_trip: Option<f64>,
    /// With --exchanges auto: Mbit a second to the server [default: 1000].
    #[arg(long, value_name = "MBIT", value_parser = amount)]
    up: Option<f64>,
    /// With --exchanges auto: Mbit a second from the server [default: 1000].
    #[arg(long, value_name = "MBIT", value_parser = amount)]
    down: Option<f64>,
}

impl LineArguments {
    /// The exchanges and updates of the keys, with a sentence about what was chosen.
    fn resolve(
        &self,
        wanted: Wanted,
        updates: Option<Updates>,
        problem: Problem,
    ) -> anyhow::Result<(Exchanging, Updates, Option<String>)> {
        let given = [("--round-trip", self.round_trip), ("--up", self.up), ("--down", self.down)];
        let (exchanges, why) = match wanted {
            Wanted::Only(exchanges) => {
                if let Some((name, _)) = given.iter().find(|(_, value)| value.is_some()) {
                    anyhow::bail!("{name} is for --exchanges auto, which is not given");
                }
                (exchanges, None)
            }
            Wanted::Auto => {
                let speed = |mbit: Option<f64>| mbit.unwrap_or(1000.0) * 1e6 / 8.0;
                let round_trip = self.round_trip.unwrap_or(1.0) / 1e3;
                let line = Line { round_trip, up: speed(self.up), down: speed(self.down) };
                let Choice { exchanges, why } = choose(problem, updates, &line)?;
                (exchanges, Some(why))
            }
        };
        Ok((exchanges, updates.unwrap_or(default_updates(exchanges)), why))
    }
}

/// A number above 0.
fn amount(text: &str) -> Result<f64, &'static str> {
    let amount = text.parse().ok().filter(|x: &f64| x.is_finite() && *x > 0.0);
    amount.ok_or("this must be a number above 0")
}

fn main() -> ExitCode {
    host::exit("helba-keygen", run(Arguments::parse().command))
}

fn run(command: Command) -> anyhow::Result<()> {
    host::undo_on_signals().context("listening for signals")?;
    match command {
        Command::Create {
            method,
            features,
            arms,
            public,
            secret,
            passphrase_file,
            toy,
            security,
            width,
            exchanges,
            line,
            updates,
            keys,
        } => {
            if method == "paper" {
                let one = Wanted::Only(Exchanging::One);
                anyhow::ensure!(
                    (security, width, updates.unwrap_or_default(), exchanges, keys)
                        == (
                            Security::Classical128,
                            WidthShape::Tangent,
                            Updates::Slots,
                            one,
                            UserKeys::Shared
                        ),
                    "--method paper has keys of 128 bits or toy keys, and takes none of --security, --width, --exchanges, --updates and --keys"
                );
                PaperPlan::check_shape(features, arms)?;
                return create_paper([&public, &secret], passphrase_file.as_deref(), toy);
            }
            let security = if toy { Security::None } else { security };
            let problem = Problem { width, ..Problem::new(features, arms, PLANNED_ROUNDS, security) };
            let (exchanges, updates, why) = line.resolve(exchanges, updates, problem)?;
            if let Some(why) = why {
                say!("exchanges     {why}");
            }
            let created = now();
            let wanted = |shape| Request { shape, security, width, exchanges, updates, keys, created };
            create((features, arms), [&public, &secret], passphrase_file.as_deref(), exchanges, wanted)
        }
        Command::Remove { list, names } => {
            let removed = RemovedUsersFile::remove(&list, names.iter().map(String::as_str), now())?;
            say!("removed       {} of {} in {}", names.len(), removed.iter().count(), list.display());
            Ok(())
        }
        Command::Enrol { secret, public, passphrase_file, request, name, days, user } => {
            let passphrase = opened(passphrase_file.as_deref())?;
            let owner = Owner::open(&secret, &public, passphrase.as_ref())?;
            let text = read_request(&request)?;
            let wanted: EnrolmentRequest =
                serde_json::from_str(&text).with_context(|| request.display().to_string())?;
            let enrolled = now();
            let times = [enrolled, enrolled + days * 24 * 3600];
            let bundle = owner.enrol(&wanted, &name, times, &mut os_rng()?)?;
            keygen::create_user_bundle(&user, &bundle)?;
            say!("user          {name}, for {days} days");
            say!("fingerprint   {}: compare it with the user's, by another way", wanted.fingerprint());
            say!("bundle        {}", user.display());
            Ok(())
        }
        Command::Plan { features, arms, exchanges, line, updates, rounds, security, explain, json } => {
            let problem = Problem::new(features, arms, rounds, security);
            let (exchanges, updates, why) = line.resolve(exchanges, updates, problem)?;
            if let Some(why) = why.filter(|_| !json) {
                say!("exchanges   {why}");
            }
            print_plan(problem.with_keys(updates, exchanges), explain, json)
        }
        Command::Token { file } => create_token(&file),
        Command::Inspect { bundle } => inspect(&bundle),
    }
}

fn create_paper(
    [public, secret]: [&Path; 2],
    passphrase_file: Option<&Path>,
    toy: bool,
) -> anyhow::Result<()> {
    let passphrase = opened(passphrase_file)?;
    let start = Instant::now();
    let (bar, rng) = (key_bar()?, &mut os_rng()?);
    let result =
        create_paper_files((toy, now()), [public, secret], passphrase.as_ref(), rng, |done, total| {
            bar.set_length(total.into());
            bar.set_position(done.into());
        });
    bar.finish_and_clear();
    let summary = result?;
    print_paper_manifest(&summary.manifest)?;
    if toy {
        say!("NO SECURITY: toy keys, for tests only");
    }
    print_files([public, secret], [summary.public_bytes, summary.secret_bytes], start)
}

/// The text of a request, which has some 3 kB.
fn read_request(path: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    file.take(64 << 10).read_to_string(&mut text).with_context(|| path.display().to_string())?;
    Ok(text)
}

/// The passphrase in a file, if there is one.
fn opened(passphrase_file: Option<&Path>) -> anyhow::Result<Option<Passphrase>> {
    let open = |path: &Path| Passphrase::open(path).with_context(|| path.display().to_string());
    passphrase_file.map(open).transpose()
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs())
}

fn key_bar() -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} keys  {elapsed} of about {duration}")?;
    Ok(ProgressBar::new(0).with_style(style))
}

fn print_files(
    [public, secret]: [&Path; 2],
    [public_bytes, secret_bytes]: [u64; 2],
    start: Instant,
) -> anyhow::Result<()> {
    say!("public        {}  {}", public.display(), mebibytes(public_bytes));
    say!("secret        {}  {}", secret.display(), mebibytes(secret_bytes));
    say!("time          {:.1} s", start.elapsed().as_secs_f64());
    Ok(())
}

fn create(
    (features, arms): (usize, usize),
    [public, secret]: [&Path; 2],
    passphrase_file: Option<&Path>,
    exchanges: Exchanging,
    wanted: impl FnOnce(Shape) -> Request,
) -> anyhow::Result<()> {
    // No parameter set fits larger problems, and the power of two must not overflow.
    for (name, value, of_one, staged) in [
        ("--features", features, MOST_FEATURES, MOST_STAGED_FEATURES),
        ("--arms", arms, MOST_ARMS, MOST_STAGED_ARMS),
    ] {
        let (most, more) = match exchanges {
            Exchanging::One => (of_one, format!(", and those of `--exchanges staged` up to {staged}")),
            Exchanging::Staged => (staged, String::new()),
        };
        anyhow::ensure!((1..=most).contains(&value), "{name} {value}: keys carry from 1 to {most}{more}");
    }
    let passphrase = opened(passphrase_file)?;
    let start = Instant::now();
    let request = wanted(Shape::for_problem(features, arms));
    let bar = key_bar()?;
    let result = create_files(request, public, secret, passphrase.as_ref(), &mut os_rng()?, |done, total| {
        bar.set_length(total.into());
        bar.set_position(done.into());
    });
    bar.finish_and_clear();
    let summary = result.map_err(|error| match error {
        // No other shape helps against what contradicts stages.
        keygen::Error::Protocol(why @ protocol::Error::OutOfRange(_)) => why.into(),
        keygen::Error::Protocol(why) => {
            let Request { width, security, updates, .. } = request;
            let problem = Problem { width, ..Problem::new(features, arms, PLANNED_ROUNDS, security) };
            planner::Error::no_plan(problem.with_keys(updates, exchanges), why).into()
        }
        other => anyhow::Error::new(other),
    })?;
    print_manifest(&summary.manifest)?;
    match summary.max_log2_qp {
        Some(allowed) => say!("table limit   {allowed}  ({SECURITY_TABLE})"),
        None => say!("NO SECURITY: toy keys, for tests only"),
    }
    print_files([public, secret], [summary.public_bytes, summary.secret_bytes], start)
}

fn create_token(file: &Path) -> anyhow::Result<()> {
    keygen::create_token_file(file, &mut os_rng()?)?;
    say!("token         {}", file.display());
    Ok(())
}

/// A number of bits that sets of keys claim.
fn security(text: &str) -> Result<Security, String> {
    let claimed = text.parse().ok().filter(|bits| *bits > 0).and_then(Security::of_bits);
    claimed.ok_or_else(|| "sets of keys claim 128, 192 or 256 bits".into())
}

fn width(text: &str) -> Result<WidthShape, String> {
    match text {
        "tangent" => Ok(WidthShape::Tangent),
        "root" => Ok(WidthShape::Root),
        _ => Err("this must be tangent or root".into()),
    }
}

fn print_plan(problem: Problem, explain: bool, json: bool) -> anyhow::Result<()> {
    let report = match planner::plan(problem) {
        Ok(report) => report,
        Err(e) => {
            if let (true, planner::Error::NoPlan { why, instead }) = (json, &e) {
                say!("{}", serde_json::json!({ "refused": why.to_string(), "instead": instead }));
            }
            return Err(e.into());
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    if json {
        say!("{}", serde_json::to_string_pretty(&report)?);
        return Ok(());
    }
    if explain {
        say!("{report}");
    } else {
        say!("{}", report.summary(threads));
        say!("more        --explain has parameters, levels, keys, messages and seconds by step");
    }
    Ok(())
}

fn inspect(path: &Path) -> anyhow::Result<()> {
    let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
    let mut start = Vec::new();
    (&file).take(ckks_secret::SEALED_MAGIC.len() as u64).read_to_end(&mut start)?;
    if start == ckks_secret::SEALED_MAGIC {
        say!("bundle        secret, sealed by a passphrase together with its manifest");
        return Ok(());
    }
    (&file).rewind()?;
    if wire::is_paper(path)? {
        // Without a buffer, nothing behind the manifest is read.
        let (kind, manifest) = wire::read_paper_manifest(file).with_context(|| path.display().to_string())?;
        say!("bundle        {}, {} frames announced", kind_name(kind), manifest.frames);
        print_paper_manifest(&manifest)?;
        manifest.plan().with_context(|| path.display().to_string())?;
        return Ok(());
    }
    // Without a buffer, nothing behind the manifest is read.
    let reader = BundleReader::new(file).with_context(|| path.display().to_string())?;
    say!("bundle        {}, {} frames announced", kind_name(reader.kind()), reader.manifest().frames);
    print_manifest(reader.manifest())?;
    say!("frames        not checked here: server and device check them when they load the bundle");
    let large = reader.manifest().params().with_context(|| path.display().to_string())?;
    let (ring, _) = reader.manifest().scores(&large).with_context(|| path.display().to_string())?;
    let rings = reader.manifest().rings().with_context(|| path.display().to_string())?;
    reader.manifest().scores.answers(ring, &rings.decisions).with_context(|| path.display().to_string())?;
    Ok(())
}

fn kind_name(kind: BundleKind) -> &'static str {
    match kind {
        BundleKind::Public => "public",
        BundleKind::Secret => "secret",
    }
}

fn print_paper_manifest(m: &wire::PaperManifest) -> anyhow::Result<()> {
    say!("method        paper, for 2 features and 2 arms");
    print_ring(&m.ring)?;
    say!("created       {}", m.created_at());
    Ok(())
}

fn print_ring(ring: &wire::RingManifest) -> anyhow::Result<()> {
    say!("parameters    {}", ring.params);
    say!("fingerprint   {}", ring.fingerprint);
    say!("key id        {}", ring.key_id);
    say!("security      {} bits", ring.security_bits);
    say!("log2(QP)      {:.1}", ring.log2_qp);
    Ok(())
}

fn print_manifest(m: &wire::Manifest) -> anyhow::Result<()> {
    print_ring(&m.ring)?;
    say!("shape         {}", m.shape);
    say!(
        "made for      {}",
        match m.exchanges {
            Exchanging::One => "decisions of one raise",
            Exchanging::Staged => "decisions in stages",
        }
    );
    if m.user_keys() == UserKeys::Own {
        say!("users         have keys of their own, and are enrolled");
    }
    if let Some(wire::DecisionsManifest { ring, .. }) = &m.decisions {
        say!("evaluations   {}: {} bits, log2(QP) {:.1}", ring.params, ring.security_bits, ring.log2_qp);
        say!("  fingerprint {}", ring.fingerprint);
        say!("  key id      {}", ring.key_id);
    }
    let wire::RingManifest { params, fingerprint, key_id, security_bits, log2_qp } = &m.scores.ring;
    say!("ring of scores {params}: {security_bits} bits, log2(QP) {log2_qp:.1}");
    say!("  fingerprint {fingerprint}");
    say!("  key id      {key_id}");
    say!("  answers     log2(QP) {:.1}", m.scores.answers.log2_qp);
    say!("created       {}", m.created_at());
    Ok(())
}

fn mebibytes(bytes: u64) -> String {
    format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64)
}
