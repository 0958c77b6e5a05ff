//! A plan as text: in a user's words, and in every detail.

use crate::Report;
use crate::plan::{Depth, KeyCost, Traced, many};
use protocol::Exchanging;

impl Report {
    /// The plan in a user's words: what a user waits for and sends, how many decide at once, and what the
    /// server needs. Times are those of the arithmetic on one thread or on two, whichever is nearer to
    /// `threads`.
    pub fn summary(&self, threads: usize) -> String {
        let threads = threads.clamp(1, 2);
        let (features, arms) = (many(self.features as u64, "feature"), many(self.arms as u64, "arm"));
        let mut lines = vec![format!("problem     {features}, {arms}, {}", many(self.rounds, "round"))];
        lines.push(match self.security_bits {
            0 => "security    NONE: toy keys, for tests only".into(),
            bits => format!("security    {bits} bits"),
        });
        if let Some(seconds) = self.seconds.iter().find(|s| s.threads == threads) {
            lines.push(format!(
                "a decision  {:.2} s of the server's time on {}, and {:.0} ms of the key's holder; network and disk come on top",
                seconds.decision(),
                many(threads as u64, "thread"),
                1e3 * seconds.holder
            ));
            lines.push(format!(
                "at once     up to {} in one evaluation; of {} each takes {:.1} ms",
                many(self.users as u64, "user"),
                self.packed_users,
                1e3 * seconds.packed
            ));
            lines.push(format!(
                "learning    an update takes {} beside the decisions, at most {} of them",
                duration(seconds.update),
                self.updates_at_most
            ));
        }
        let (contexts, feedback) = (self.bytes("contexts"), self.bytes("feedback, to the server"));
        let asked = |all: &[[u64; 2]]| -> String {
            let [to, from] = [0, 1].map(|way| size(all.iter().map(|bytes| bytes[way]).sum()));
            format!("{}, {to} to the key's holder and {from} back", many(all.len() as u64, "exchange"))
        };
        lines.push(format!(
            "a round     sends {} and receives {}; alone it takes {}",
            size(contexts + feedback),
            size(self.bytes("answer to one of several")),
            asked(&self.bytes_by_exchange)
        ));
        lines.push(format!("an update   {}", asked(&self.update_bytes_by_exchange)));
        lines.push(format!(
            "bundle      {} of public keys for the server",
            size(self.keys.iter().map(|k| k.bytes).sum())
        ));
        lines.push(format!(
            "server      {} of memory with one bandit; buffers of requests and updates come on top",
            size(self.memory)
        ));
        lines.join("\n")
    }

    /// The bytes of the first message whose name begins so.
    pub(crate) fn bytes(&self, what: &str) -> u64 {
        self.messages.iter().find(|message| message.what.starts_with(what)).map_or(0, |message| message.bytes)
    }
}

/// Seconds, or milliseconds of what is short.
fn duration(seconds: f64) -> String {
    if seconds < 0.095 { format!("{:.0} ms", 1e3 * seconds) } else { format!("{seconds:.1} s") }
}

/// Bytes as kB, MB or GB with two digits or more.
pub(crate) fn size(bytes: u64) -> String {
    let bytes = bytes as f64;
    match bytes {
        _ if bytes < 999.5e3 => format!("{:.0} kB", bytes / 1e3),
        _ if bytes < 9.95e6 => format!("{:.1} MB", bytes / 1e6),
        _ if bytes < 999.5e6 => format!("{:.0} MB", bytes / 1e6),
        _ => format!("{:.1} GB", bytes / 1e9),
    }
}

/// The sum of the levels, and the levels of each step.
fn by_step(depth: &[Depth]) -> String {
    format!("{}: {}", depth.iter().map(|d| d.levels).sum::<usize>(), steps(depth))
}

/// The levels of each step.
fn steps(depth: &[Depth]) -> String {
    let parts: Vec<String> = depth.iter().map(|d| format!("{} {}", d.step, d.levels)).collect();
    parts.join(", ")
}

/// Every detail, for those who know the scheme.
impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mib = |bytes: u64| format!("{:.2} MiB", bytes as f64 / (1 << 20) as f64);
        let (features, arms) = (many(self.features as u64, "feature"), many(self.arms as u64, "arm"));
        writeln!(f, "problem       {features}, {arms}, {}", many(self.rounds, "round"))?;
        writeln!(f, "parameters    {} (N = 2^{}, {} levels)", self.params, self.log_n, self.levels)?;
        self.why.iter().try_for_each(|why| writeln!(f, "              {why}"))?;
        match self.log2_qp_allowed {
            Some(allowed) => writeln!(
                f,
                "security      {} bits: log2(QP) = {:.1} of {allowed} allowed",
                self.security_bits, self.log2_qp
            )?,
            None => writeln!(f, "security      NONE: toy keys, for tests only")?,
        }
        writeln!(
            f,
            "evaluation    up to {} users; ring of scores N = 2^{}",
            self.users, self.log_n_of_scores
        )?;
        match self.exchanges {
            Exchanging::One => writeln!(f, "              levels {}", by_step(&self.decision_depth))?,
            Exchanging::Staged => writeln!(f, "              levels of {}", steps(&self.decision_depth))?,
        }
        if !self.update_depth.is_empty() {
            writeln!(f, "update        levels {}", by_step(&self.update_depth))?;
        }
        let [decision, update] = self.slots;
        writeln!(f, "slots         user {decision}, update {update}, of {}", self.slots_available)?;
        for k in &self.keys {
            let (file, memory) = (mib(k.bytes), mib(k.memory));
            writeln!(f, "key           {} ({}): {file} in the bundle, {memory} in memory", k.kind, k.count)?;
        }
        let all = |of: fn(&KeyCost) -> u64| mib(self.keys.iter().map(of).sum());
        writeln!(f, "keys          {} in the bundle, {} in memory", all(|k| k.bytes), all(|k| k.memory))?;
        for m in &self.messages {
            writeln!(f, "message       {}: {} kB", m.what, thousands(m.bytes))?;
        }
        for (what, all) in [
            ("a decision", &self.bytes_by_exchange),
            ("a packed one", &self.packed_bytes_by_exchange),
            ("an update", &self.update_bytes_by_exchange),
        ] {
            let each: Vec<String> = all.iter().map(|bytes| bytes.map(thousands).join("/")).collect();
            writeln!(
                f,
                "exchanges     {} of {what}, kB to and from the key's holder: {}",
                each.len(),
                each.join(", ")
            )?;
        }
        writeln!(
            f,
            "memory        {} for one bandit with its keys; buffers of requests and updates come on top, 0.2 to 1.1 GiB where measured",
            mib(self.memory)
        )?;
        for s in &self.seconds {
            writeln!(
                f,
                "seconds       on {}: evaluation {:.3}, exchanges {:.3} and of the key's holder {:.3}, and {:.1} ms of scores and \
                 {:.1} ms of answer a user; one of {} {:.4}; update {:.3} and of the holder {:.3}, at most {} of them; all rounds of \
                 users alone at most {:.1}",
                many(s.threads as u64, "thread"),
                s.evaluation,
                s.exchanges,
                s.holder,
                1e3 * s.user,
                1e3 * s.answer,
                self.packed_users,
                s.packed,
                s.update,
                s.update_holder,
                self.updates_at_most,
                s.all_rounds_at_most
            )?;
        }
        for s in self.traced.iter().flat_map(|t| &t.seconds) {
            writeln!(
                f,
                "trace_or_growth on {}: evaluation and question {:.3}; update {:.3}",
                many(s.threads as u64, "thread"),
                s.evaluation,
                s.update
            )?;
        }
        if let Some(t) = &self.traced {
            let Traced { users, updates_at_most, .. } = t;
            writeln!(
                f,
                "              up to {users} users in an evaluation, at most {updates_at_most} updates"
            )?;
        }
        for s in &self.seconds {
            writeln!(f, "kernels       {}", self.kernel_outlook(s.threads))?;
        }
        writeln!(f, "prices        measured at {}, carried over by limbs", self.measured_at)?;
        write!(
            f,
            "              arithmetic alone, on an idle machine: what was measured took 0.8 to 1.3 times that; clients, HTTP and disk come on top"
        )
    }
}

/// Thousands of bytes, with one digit behind the point below 10 000 bytes.
fn thousands(bytes: u64) -> String {
    let kilo = bytes as f64 / 1e3;
    if kilo < 10.0 { format!("{kilo:.1}") } else { format!("{kilo:.0}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Problem;

    #[test]
    fn sizes_have_two_digits() {
        let sizes = [
            549,
            100_472,
            999_499,
            999_500,
            2_100_000,
            9_949_999,
            9_950_000,
            225 << 20,
            999_500_000,
            1 << 31,
        ];
        let want =
            ["1 kB", "100 kB", "999 kB", "1.0 MB", "2.1 MB", "9.9 MB", "10 MB", "236 MB", "1.0 GB", "2.1 GB"];
        assert_eq!(sizes.map(size), want);
    }

    /// No name of a message is misspelt.
    #[test]
    fn a_summary_adds_up_messages() {
        let report = crate::plan(Problem::new(7, 4, 1000, ckks::Security::Classical128)).unwrap();
        let names =
            ["contexts", "feedback, to the server", "answer to one of several", "answer to a user alone"];
        assert!(names.iter().all(|name| report.bytes(name) > 0));
        let [[to, from]] = report.bytes_by_exchange[..] else { panic!("{:?}", report.bytes_by_exchange) };
        let text = report.summary(64);
        for part in [
            "7 features, 4 arms, 1000 rounds",
            "128 bits",
            "on 2 threads",
            "up to 512 users",
            &size(report.bytes(names[0]) + report.bytes(names[1])),
            &format!("1 exchange, {} to the key's holder and {} back", size(to), size(from)),
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(
            crate::plan(Problem::new(2, 2, 1000, ckks::Security::None)).unwrap().summary(1).contains("NONE")
        );
    }
}
