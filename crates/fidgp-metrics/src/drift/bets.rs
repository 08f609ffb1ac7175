//! Stakes against "these numbers are uniform on [0, 1] and independent".

/// Slopes of the bets `1 + ε(p − ½)`.
const SLOPES: [f64; 6] = [-1.9, -1.2, -0.5, 0.5, 1.2, 1.9];

/// Observations between two starts: a gambler who began long ago has lost much of the stake when things change.
const SPACING: usize = 50;

/// How many gamblers begin at the same time.
const GAMBLERS: usize = 2 * SLOPES.len();

/// Capital of many gamblers, each with a slope, each on p or on `2|p − ½|` (p moves to one side, or to both), one group
/// for each start; group k has the stake `1/((k + 1)(k + 2))`, so that all start with 1 in sum.
///
/// Gamblers of one kind win and lose by the same factor whenever they began: their sum is all that is kept, and a number
/// costs the same after a million others as at the start.
#[derive(Debug, Clone)]
pub struct Bets {
    capital: [f64; GAMBLERS], // logarithms of the sums over starts
    groups: usize,
    waiting: f64, // stake of the groups that are to come
    seen: usize,
    best: f64,
}

impl Default for Bets {
    fn default() -> Self {
        Self::new()
    }
}

impl Bets {
    /// Nothing won and nothing lost.
    pub fn new() -> Self {
        Self { capital: [f64::NEG_INFINITY; GAMBLERS], groups: 0, waiting: 1.0, seen: 0, best: 0.0 }
    }

    /// Numbers so far.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Bets on the next number, and returns the logarithm of the capital after it.
    pub fn add(&mut self, p: f64) -> f64 {
        if self.seen.is_multiple_of(SPACING) {
            let k = self.groups as f64;
            let stake = 1.0 / ((k + 1.0) * (k + 2.0));
            self.waiting = 1.0 / (k + 2.0);
            self.groups += 1;
            let own = (stake / GAMBLERS as f64).ln();
            for capital in &mut self.capital {
                *capital = log_sum(&[*capital, own]);
            }
        }
        self.seen += 1;
        let factors = factors(p.clamp(0.0, 1.0));
        self.capital.iter_mut().zip(factors).for_each(|(capital, factor)| *capital += factor);
        let now = self.log_capital();
        self.best = self.best.max(now);
        now
    }

    /// Logarithm of the capital: an e-value against "nothing has changed".
    pub fn log_capital(&self) -> f64 {
        log_sum(&[log_sum(&self.capital), self.waiting.ln()])
    }

    /// Logarithm of the most it ever was: above `ln(1/α)` with probability ≤ α if nothing has changed.
    pub fn log_best(&self) -> f64 {
        self.best
    }
}

/// Logarithm of the sum of what these are logarithms of.
fn log_sum(all: &[f64]) -> f64 {
    let most = all.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    if most == f64::NEG_INFINITY { most } else { most + all.iter().map(|one| (one - most).exp()).sum::<f64>().ln() }
}

/// Logarithms of what each gambler's capital is multiplied by.
fn factors(p: f64) -> [f64; GAMBLERS] {
    let spread = (2.0 * p - 1.0).abs();
    std::array::from_fn(|gambler| {
        let x = if gambler < SLOPES.len() { p } else { spread };
        (SLOPES[gambler % SLOPES.len()] * (x - 0.5)).ln_1p()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every gambler by itself, as the doc comment has it.
    #[derive(Default)]
    struct Plain {
        groups: Vec<[f64; GAMBLERS]>,
        seen: usize,
    }

    impl Plain {
        fn add(&mut self, p: f64) -> f64 {
            if self.seen.is_multiple_of(SPACING) {
                let k = self.groups.len() as f64;
                self.groups.push([1.0 / ((k + 1.0) * (k + 2.0)) / GAMBLERS as f64; GAMBLERS]);
            }
            self.seen += 1;
            let factors = factors(p).map(f64::exp);
            for group in &mut self.groups {
                group.iter_mut().zip(factors).for_each(|(capital, factor)| *capital *= factor);
            }
            (self.groups.iter().flatten().sum::<f64>() + 1.0 / (self.groups.len() as f64 + 1.0)).ln()
        }
    }

    #[test]
    fn sums_of_gamblers_are_what_the_gamblers_have() {
        let (mut bets, mut plain) = (Bets::new(), Plain::default());
        for i in 0..5000_u32 {
            let uniform = f64::from(i.wrapping_mul(2_654_435_761) >> 8) / f64::from(1_u32 << 24);
            let p = if i < 4000 { uniform } else { 0.8 * uniform };
            let (fast, slow) = (bets.add(p), plain.add(p));
            assert!((fast - slow).abs() < 1e-9, "{fast} and {slow} after {i}");
        }
        assert!(bets.log_capital() > 5.0, "the change is not seen");
    }
}
