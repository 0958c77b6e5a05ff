//! Regret under anonymous feedback against figures of another implementation, three standard errors at most
//! apart.

use bandit::delayed::{
    ArsClw, ArsClwConfig, ArsExp3, ArsExp3Config, ArsUcb, ArsUcbConfig, Clw, ClwConfig, Composite, Delivery,
    Odaaf, OdaafConfig, OdaafRule, Rewards, RoundSize, UpdateRule,
};
use bandit::{Environment, Error, Policy, Summary};
use privacy::source::SplitMix64;

const NINE: [f64; 9] = [0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1];

/// Regret after each of the slots `at`.
fn curve<P>(policy: Result<P, Error>, environment: &Composite, at: &[u64], seed: u64) -> Vec<f64>
where
    P: Policy<Context = (), Feedback = f64>,
{
    let (mut policy, mut environment) = (policy.unwrap(), environment.clone());
    let (mut rng, mut own) = (SplitMix64::new(seed), SplitMix64::noise(seed));
    let (mut sum, mut slot) = (0.0, 0);
    let mut to = |end: &u64| {
        while slot < *end {
            slot += 1;
            assert!(environment.begin(&mut rng));
            let arm = policy.decide(&(), &mut own).unwrap();
            sum += environment.play(arm, &mut rng).unwrap().regret;
            policy.learn(&(), arm, environment.feedback().unwrap(), &mut own).unwrap();
        }
        sum
    };
    at.iter().map(&mut to).collect()
}

fn finals<P>(
    policy: impl Fn() -> Result<P, Error>,
    environment: &Composite,
    slots: u64,
    runs: u64,
) -> Vec<f64>
where
    P: Policy<Context = (), Feedback = f64>,
{
    (0..runs).map(|seed| curve(policy(), environment, &[slots], 1000 + seed)[0]).collect()
}

/// Collects what differs, so that one run shows all.
#[derive(Default)]
struct Sheet {
    cells: usize,
    apart: Vec<String>,
}

impl Sheet {
    fn compare(&mut self, name: &str, got: &[f64], mean: f64, standard_error: f64) {
        let s = Summary::of(got).unwrap();
        let error = s.standard_error.hypot(standard_error);
        let line =
            format!("{name}: {:.0} ± {:.0} against {mean} ± {standard_error}", s.mean, s.standard_error);
        println!("{line}");
        self.cells += 1;
        if (s.mean - mean).abs() > 3.0 * error {
            self.apart.push(line);
        }
    }

    fn done(self) {
        assert!(self.apart.is_empty(), "{} of {}: {:#?}", self.apart.len(), self.cells, self.apart);
    }
}

fn composite(delivery: Delivery) -> Composite {
    Composite::new(Rewards::Bernoulli(NINE.to_vec()), delivery).unwrap()
}

fn ucb(alpha: f64, round_size: RoundSize) -> impl Fn() -> Result<ArsUcb, Error> {
    move || ArsUcb::new(ArsUcbConfig { arms: 9, alpha, round_size })
}

fn odaaf(rule: OdaafRule) -> impl Fn() -> Result<Odaaf, Error> {
    move || Odaaf::new(OdaafConfig { arms: 9, horizon: 100_000, rule })
}

const fn power(exponent: u32) -> RoundSize {
    RoundSize::Power { factor: 1, exponent }
}

#[test]
fn short_runs() {
    let mut sheet = Sheet::default();
    let random = composite(Delivery::Random { lo: 10, hi: 30 });
    sheet.compare("ARS-UCB", &finals(ucb(4.0, RoundSize::SQUARES), &random, 3_000, 1_000), 618.7, 4.6);
    let click = Rewards::click_one(&[0.8, 0.1, 0.1]);
    let click = Composite::new(click, Delivery::Random { lo: 5, hi: 10 }).unwrap();
    let exp3 = || ArsExp3::new(ArsExp3Config::new(3, 4_000));
    sheet.compare("ARS-EXP3", &finals(exp3, &click, 4_000, 100), 1444.7, 11.0);
    let clw = || Clw::new(ClwConfig::new(3, 4_000, 10));
    sheet.compare("CLW", &finals(clw, &click, 4_000, 100), 1414.9, 7.0);
    let ars_clw = || ArsClw::new(ArsClwConfig::new(3));
    sheet.compare("ARS-CLW", &finals(ars_clw, &click, 4_000, 100), 1776.1, 17.0);
    let discounted = composite(Delivery::Discounted { discount: 0.8 });
    for (alpha, f, mean, error) in [
        (1.0, RoundSize::SQUARES, 406.0, 7.0),
        (4.0, RoundSize::SQUARES, 1216.0, 12.0),
        (4.0, RoundSize::Doubling { shift: 0 }, 1422.0, 32.0),
    ] {
        let got = finals(ucb(alpha, f), &discounted, 100_000, 20);
        sheet.compare("ARS-UCB, discounted", &got, mean, error);
    }
    let rule = OdaafRule::Mean { delay: 20.0 };
    sheet.compare("ODAAF", &finals(odaaf(rule), &random, 100_000, 20), 9312.0, 70.0);
    sheet.done();
}

/// Slots between updates: `2d - 1` and a geometric number, `4d - 1` on average; with look-ahead every slot
/// ends a round with probability `q (1 - q)^(2d - 1)`. Five standard deviations: false alarm below 1e-6.
#[test]
fn updates_come_at_their_rate() {
    let environment = Composite::new(Rewards::weekday_bits(), Delivery::Random { lo: 5, hi: 10 }).unwrap();
    for (interval, rule, expected) in [
        (10, UpdateRule::Spaced, 25_641.0),
        (20, UpdateRule::Spaced, 12_658.0),
        (10, UpdateRule::LookAhead, 18_868.0),
        (20, UpdateRule::LookAhead, 9_313.0f64),
    ] {
        let config = ClwConfig { rule, ..ClwConfig::new(7, 1_000_000, interval) };
        let (mut policy, mut environment) = (Clw::new(config).unwrap(), environment.clone());
        let (mut rng, mut own) = (SplitMix64::new(1), SplitMix64::noise(1));
        for _ in 0..1_000_000 {
            environment.begin(&mut rng);
            let arm = policy.decide(&(), &mut own).unwrap();
            environment.play(arm, &mut rng).unwrap();
            policy.learn(&(), arm, environment.feedback().unwrap(), &mut own).unwrap();
        }
        // Updates are more regular than independent ones, whose number has the variance of its mean.
        let off = policy.updates() as f64 - expected;
        assert!(off.abs() < 5.0 * expected.sqrt(), "{interval}, {rule:?}: {}", policy.updates());
    }
}

/// All cells of the paper's stochastic cases, T = 1e5, 20 runs.
#[test]
#[ignore = "long: half a minute"]
fn the_whole_stochastic_table() {
    let k2 = RoundSize::SQUARES;
    let doubling = RoundSize::Doubling { shift: 0 };
    let sizes = [
        (1.0, k2),
        (2.0, k2),
        (4.0, k2),
        (8.0, k2),
        (4.0, power(1)),
        (4.0, power(3)),
        (4.0, doubling),
        (4.0, power(0)),
    ];
    let random = |lo, hi| Delivery::Random { lo, hi };
    let polynomial = |exponent| Delivery::Polynomial { exponent, taps: 2000 };
    let discounted = |discount| Delivery::Discounted { discount };
    #[rustfmt::skip]
    let table: [(Delivery, [(f64, f64); 8]); 12] = [
        (random(10, 30), [(1555., 435.), (1155., 329.), (1374., 14.), (2495., 14.), (1582., 84.), (1504., 17.), (1472., 33.), (2001., 134.)]),
        (random(0, 60), [(2815., 875.), (999., 105.), (1413., 26.), (2572., 22.), (1664., 111.), (1520., 24.), (1507., 36.), (2149., 165.)]),
        (Delivery::interval(30, 40), [(3921., 1070.), (4843., 1112.), (1520., 99.), (2562., 32.), (2185., 526.), (1500., 23.), (1473., 32.), (4256., 946.)]),
        (Delivery::interval(10, 20), [(1032., 332.), (716., 13.), (1381., 12.), (2348., 20.), (1524., 29.), (1478., 25.), (1558., 26.), (2177., 178.)]),
        (Delivery::decreasing(100), [(1436., 543.), (932., 78.), (1485., 20.), (2627., 26.), (1652., 110.), (1524., 26.), (1555., 41.), (6278., 1101.)]),
        (Delivery::decreasing(50), [(580., 67.), (773., 16.), (1389., 15.), (2409., 16.), (1800., 31.), (1466., 23.), (1557., 33.), (3651., 714.)]),
        (Delivery::increasing(100), [(4278., 1206.), (3810., 1251.), (2819., 594.), (2858., 136.), (3791., 943.), (1663., 166.), (1840., 155.), (11660., 1641.)]),
        (Delivery::increasing(50), [(3349., 1183.), (1949., 481.), (1470., 63.), (2607., 36.), (3208., 721.), (1516., 28.), (1513., 39.), (4101., 902.)]),
        (discounted(0.8), [(406., 7.), (692., 12.), (1216., 12.), (2127., 17.), (1344., 15.), (1413., 31.), (1422., 32.), (2384., 36.)]),
        (discounted(0.9), [(412., 9.), (747., 12.), (1322., 15.), (2258., 22.), (1566., 14.), (1469., 26.), (1452., 31.), (2829., 423.)]),
        (polynomial(3.0), [(360., 7.), (657., 11.), (1162., 13.), (2088., 16.), (1103., 11.), (1381., 26.), (1361., 21.), (1539., 18.)]),
        (polynomial(2.0), [(392., 9.), (662., 12.), (1204., 14.), (2153., 15.), (1205., 10.), (1416., 23.), (1408., 29.), (1733., 12.)]),
    ];
    let mut sheet = Sheet::default();
    for (case, (delivery, cells)) in table.into_iter().enumerate() {
        let environment = composite(delivery);
        for ((alpha, f), (mean, error)) in sizes.into_iter().zip(cells) {
            let got = finals(ucb(alpha, f), &environment, 100_000, 20);
            sheet.compare(&format!("case {case}, alpha {alpha}, {f:?}"), &got, mean, error);
        }
    }
    let bounded = |delay, bound| OdaafRule::Bounded { delay, bound };
    let variance = |delay, variance| OdaafRule::Variance { delay, variance };
    for (delivery, rule, mean, error) in [
        (random(10, 30), OdaafRule::Mean { delay: 20.0 }, 9312., 70.),
        (random(10, 30), bounded(20.0, 30), 6197., 29.),
        (random(10, 30), variance(20.0, 110.0 / 3.0), 11231., 110.),
        (random(0, 60), OdaafRule::Mean { delay: 30.0 }, 11458., 87.),
        (random(0, 60), bounded(30.0, 60), 7063., 55.),
        (Delivery::interval(30, 40), OdaafRule::Composite { interval: 40 }, 4303., 64.),
        (Delivery::interval(10, 20), OdaafRule::Composite { interval: 20 }, 2623., 42.),
        (Delivery::decreasing(100), OdaafRule::Composite { interval: 100 }, 7844., 54.),
        (Delivery::decreasing(50), OdaafRule::Composite { interval: 50 }, 4632., 27.),
        (Delivery::increasing(100), OdaafRule::Composite { interval: 100 }, 8458., 127.),
        (Delivery::increasing(50), OdaafRule::Composite { interval: 50 }, 4958., 77.),
    ] {
        let name = format!("{rule:?}");
        sheet.compare(&name, &finals(odaaf(rule), &composite(delivery), 100_000, 20), mean, error);
    }
    sheet.done();
}

/// Oblivious delays on the weekday stand-in, T = 1e6, 10 runs.
#[test]
#[ignore = "long: half a minute"]
fn oblivious_delays() {
    const SLOTS: u64 = 1_000_000;
    let mut sheet = Sheet::default();
    let environment = |lo, hi| Composite::new(Rewards::weekday_bits(), Delivery::Random { lo, hi }).unwrap();
    let clw = |interval, rule| move || Clw::new(ClwConfig { rule, ..ClwConfig::new(7, SLOTS, interval) });
    let exp3 = || ArsExp3::new(ArsExp3Config::new(7, SLOTS));
    let ars_clw = |root| move || ArsClw::new(ArsClwConfig { root, ..ArsClwConfig::new(7) });
    let ten = environment(5, 10);
    sheet.compare("ARS-EXP3, 5..10", &finals(exp3, &ten, SLOTS, 10), 51313., 791.);
    for (d, mean, error) in
        [(9, 48110., 636.), (10, 49571., 758.), (11, 50415., 777.), (5, 41770., 718.), (20, 58673., 723.)]
    {
        sheet.compare(&format!("CLW {d}"), &finals(clw(d, UpdateRule::Spaced), &ten, SLOTS, 10), mean, error);
    }
    let ahead = finals(clw(10, UpdateRule::LookAhead), &ten, SLOTS, 10);
    sheet.compare("CLW with look-ahead", &ahead, 56920., 465.);
    sheet.compare("ARS-CLW 1/3", &finals(ars_clw(3), &ten, SLOTS, 10), 75915., 434.);
    sheet.compare("ARS-CLW 1/4", &finals(ars_clw(4), &ten, SLOTS, 10), 73847., 371.);
    let twenty = environment(10, 20);
    sheet.compare("ARS-EXP3, 10..20", &finals(exp3, &twenty, SLOTS, 10), 54525., 828.);
    for (d, mean, error) in
        [(18, 57521., 782.), (20, 58948., 681.), (22, 58873., 507.), (10, 52084., 694.), (40, 63686., 448.)]
    {
        sheet.compare(
            &format!("CLW {d}, 10..20"),
            &finals(clw(d, UpdateRule::Spaced), &twenty, SLOTS, 10),
            mean,
            error,
        );
    }
    let ahead = finals(clw(20, UpdateRule::LookAhead), &twenty, SLOTS, 10);
    sheet.compare("CLW with look-ahead, 10..20", &ahead, 60646., 972.);
    sheet.compare("ARS-CLW 1/3, 10..20", &finals(ars_clw(3), &twenty, SLOTS, 10), 75918., 433.);
    sheet.compare("ARS-CLW 1/4, 10..20", &finals(ars_clw(4), &twenty, SLOTS, 10), 73902., 376.);
    sheet.done();
}

/// Delays that follow the player, T = 1e7, 3 runs: ARS-EXP3's regret flattens, that of CLW grows linearly.
#[test]
#[ignore = "long: half a minute"]
fn delays_that_follow_the_player() {
    const SLOTS: u64 = 10_000_000;
    let environment =
        |p: &[f64]| Composite::new(Rewards::click_one(p), Delivery::Streak { interval: 10 }).unwrap();
    let mut sheet = Sheet::default();
    let mut compare = |name: &str, curves: &[Vec<f64>], mean, error| {
        let slope = |i: usize, j: usize, slots: f64| {
            curves.iter().map(|c| c[j] - c[i]).sum::<f64>() / curves.len() as f64 / slots
        };
        let slopes = [slope(0, 1, 2e6), slope(1, 2, 3e6), slope(2, 3, 4e6)];
        println!("{name}: slopes {slopes:.4?}");
        sheet.compare(name, &curves.iter().map(|c| c[3]).collect::<Vec<_>>(), mean, error);
        slopes
    };
    let at = [SLOTS / 10, 3 * SLOTS / 10, 6 * SLOTS / 10, SLOTS];
    let near = environment(&[0.50, 0.46, 0.02, 0.02]);
    let exp3 = |e: &Composite| -> Vec<_> {
        (0..3).map(|seed| curve(ArsExp3::new(ArsExp3Config::new(4, SLOTS)), e, &at, seed)).collect()
    };
    let clw = |e: &Composite| -> Vec<_> {
        (0..3).map(|seed| curve(Clw::new(ClwConfig::new(4, SLOTS, 10)), e, &at, seed)).collect()
    };
    let fading = compare("ARS-EXP3", &exp3(&near), 290_359., 4809.);
    assert!(fading[2] <= 0.02 && fading[2] < fading[1] && fading[1] < fading[0]);
    let linear = compare("CLW", &clw(&near), 357_932., 2036.);
    assert!(linear[2] >= 0.028 && linear[2] > linear[1] && linear[1] > linear[0]);
    let far = environment(&[0.50, 0.45, 0.03, 0.02]);
    let fading = compare("ARS-EXP3, .45", &exp3(&far), 292_294., 6472.);
    assert!(fading[2] <= 0.02 && fading[2] < fading[1] && fading[1] < fading[0]);
    compare("CLW, .45", &clw(&far), 305_615., 2302.);
    sheet.done();
}
