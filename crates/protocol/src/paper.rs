//! The paper's own method for the toy problem (2 features, 2 arms): what its server and its devices agree on.
//!
//! Vectors have 16 slots in the layout (k, h, i, j) of `circuits::inverse`, each index 0 or 1 and k the
//! highest bit. With x' = x/L:
//!
//! | vector | slots |
//! |---|---|
//! | contexts, left | (k, 0, i, j) = x'_k,i, (k, 1, 0, j) = 1, where x_k is the row of arm k |
//! | contexts, right | (k, 0, i, j) = (k, 1, 0, j) = x'_k,j |
//! | feedback, left | (k, h, i, j) = x'_i |
//! | feedback, right | (k, 0, i, j) = r/L, (k, 1, i, j) = x'_k |
//!
//! The product of the feedback's vectors is V/L² at h = 1 and g/L² at h = 0, as `circuits::inverse` takes
//! them; that of the contexts' and of the model [A | ω] has xᵀAx/L² and ⟨ω, x⟩/L as sums over four slots.

use crate::{Error, check_features};
pub use bandit::LinearConfig;
use bandit::{Schedule, Width};
use ckks::{Domain, Exchange, MapTerm, Params, ParamsSpec, Side};
use fault::OutOfRange;
use num_complex::Complex64;

/// The features and the arms of a bandit of the paper.
pub const PAPER_SIDE: usize = 2;

/// The slots of its vectors.
pub const PAPER_SLOTS: usize = 16;

/// The slots of an arm in scores and answers: that of arm a is slot `a PAPER_BLOCK`.
pub const PAPER_BLOCK: usize = PAPER_SLOTS / PAPER_SIDE;

/// The slots of a vector.
pub type PaperSlots = Vec<Complex64>;

/// The level at which a vector is masked and raised. Its 73 bits hold a value and a mask.
pub const PAPER_RAISE_LEVEL: usize = 1;

/// The level at which a trace comparison is masked and opened. Nothing is encrypted anew from it, so that it
/// may wrap modulo q.
pub const PAPER_OPEN_LEVEL: usize = 0;

/// The level of an answer.
pub const PAPER_ANSWER_LEVEL: usize = 0;

/// The bits b of the noise ± 2⁻ᵇ that a device adds to a trace comparison before it answers.
pub const PAPER_TRACE_FLOOD_BITS: u32 = 6;

/// The parameter set and the evaluation keys of the paper's method. All keys are of the top level.
#[derive(Debug, Clone, PartialEq)]
pub struct PaperPlan {
    /// The parameters.
    pub params: ParamsSpec,
    /// The rotations that have keys, beside the relinearisation key.
    pub rotations: Vec<i64>,
}

impl PaperPlan {
    /// The plan for 128 bits of security, or that of toy keys, which have none.
    pub fn new(toy: bool) -> Self {
        let params = if toy { ckks::TOY_LOGN12_DEPTH21 } else { ckks::LOGN15_LOGQP825_DEPTH17 };
        PaperPlan { params, rotations: vec![1, 2, 4, 8, 12, 14, 15] }
    }

    /// The plan with the parameter set `params`, which must be that of a plan.
    pub fn with_set(params: &ParamsSpec) -> Option<Self> {
        [false, true].map(Self::new).into_iter().find(|plan| plan.params == *params)
    }

    /// Refuses problems that are not the paper's toy problem.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    pub fn check_shape(features: usize, arms: usize) -> Result<(), Error> {
        for (field, got) in [("features", features), ("arms", arms)] {
            if got != PAPER_SIDE {
                let want = "2 for `method: paper`, whose circuits are there for the paper's toy problem; \
                            the default method takes other problems";
                return Err(OutOfRange::new(field, got, want).into());
            }
        }
        Ok(())
    }

    /// The opening of a vector at [`PAPER_OPEN_LEVEL`].
    ///
    /// # Errors
    /// As [`Self::refresh`].
    pub fn opening(params: &Params) -> Result<Exchange, ckks::Error> {
        Self::from_level(params, PAPER_OPEN_LEVEL)
    }

    /// The raise of a vector from [`PAPER_RAISE_LEVEL`] to the top level of `params`.
    ///
    /// # Errors
    /// [`ckks::Error::BadParams`] never for the parameters of a plan.
    pub fn refresh(params: &Params) -> Result<Exchange, ckks::Error> {
        Self::from_level(params, PAPER_RAISE_LEVEL)
    }

    /// The exchange of a vector of period [`PAPER_SLOTS`] at `level` for itself at the top level. Only every
    /// N/(2·[`PAPER_SLOTS`])-th coefficient belongs to such a vector; the others hold noise, and become 0.
    fn from_level(params: &Params, level: usize) -> Result<Exchange, ckks::Error> {
        let side = |level| {
            let (params, scale) = (params.clone(), params.scale(level));
            Side { params, domain: Domain::Coefficients, ciphertexts: 1, level, scale }
        };
        let own = (0..params.n()).step_by(params.max_slots() / PAPER_SLOTS);
        let terms = own.map(|k| MapTerm { from: k, to: k, weight: 1.0, group: 0 }).collect();
        Exchange::new(side(level), side(params.max_level()), terms)
    }
}

/// Refuses a configuration that is not for the paper's method.
///
/// # Errors
/// [`Error::Config`], [`Error::OutOfRange`].
pub fn check_paper(config: &LinearConfig) -> Result<(), Error> {
    config.validate()?;
    PaperPlan::check_shape(config.d, config.k)?;
    if config.width != Width::Theory {
        let want = "theory for `method: paper`";
        return Err(OutOfRange::new("width", format!("{:?}", config.width), want).into());
    }
    if config.schedule != Schedule::TraceOrGrowth {
        let want = "trace_or_growth for `method: paper`";
        return Err(OutOfRange::new("schedule", format!("{:?}", config.schedule), want).into());
    }
    Ok(())
}

/// The slots of the left and of the right vector of the contexts `rows`, one row an arm.
///
/// # Errors
/// [`Error::ArmCount`]; as [`check_features`].
pub fn paper_contexts(config: &LinearConfig, rows: &[Vec<f64>]) -> Result<[PaperSlots; 2], Error> {
    if rows.len() != config.k {
        return Err(Error::ArmCount { got: rows.len(), want: config.k });
    }
    let row = |(at, x): (usize, &Vec<f64>)| {
        let x = check_features(at + 1, x, config.d, config.l)?;
        Ok(x.iter().map(|x| x / config.l).collect::<Vec<f64>>())
    };
    let x: Vec<Vec<f64>> = rows.iter().enumerate().map(row).collect::<Result<_, Error>>()?;
    let left = paper_slots(|[k, h, i, _]| match (h, i) {
        (0, _) => x[k][i],
        (_, 0) => 1.0,
        _ => 0.0,
    });
    let right = paper_slots(|[k, h, i, j]| if h == 0 || i == 0 { x[k][j] } else { 0.0 });
    Ok([left, right])
}

/// The slots of the left and of the right vector of the feedback `reward`, within ± 1, on `features`.
///
/// # Errors
/// [`Error::RewardOutOfRange`]; as [`check_features`].
pub fn paper_feedback(
    config: &LinearConfig,
    features: &[f64],
    reward: f64,
) -> Result<[PaperSlots; 2], Error> {
    let x = check_features(1, features, config.d, config.l)?;
    if !(-1.0..=1.0).contains(&reward) {
        return Err(Error::RewardOutOfRange);
    }
    let left = paper_slots(|[_, _, i, _]| x[i] / config.l);
    let right = paper_slots(|[k, h, _, _]| if h == 0 { reward / config.l } else { x[k] / config.l });
    Ok([left, right])
}

/// The values of `f` in all slots.
pub fn paper_slots(f: impl Fn([usize; 4]) -> f64) -> PaperSlots {
    (0..PAPER_SLOTS).map(|s| f([s >> 3, (s >> 2) & 1, (s >> 1) & 1, s & 1]).into()).collect()
}
