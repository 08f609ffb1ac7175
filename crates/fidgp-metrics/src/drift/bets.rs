//! Stakes against "these numbers are uniform on [0, 1] and independent".

/// Slopes of the bets `1 + ε(p − ½)`.
const SLOPES: [f64; 6] = [-1.9, -1.2, -0.5, 0.5, 1.2, 1.9];

/// Observations between two starts: a gambler who began long ago has lost much of the stake when things change.
const SPACING: usize = 50;

/// Capital of many gamblers, each with a slope, each on p or on `2|p − ½|` (p moves to one side, or to both), one group
/// for each start; group k has the stake `1/((k + 1)(k + 2))`, so that all start with 1 in sum.
#[derive(Debug, Clone, Default)]
pub struct Bets {
    groups: Vec<Vec<f64>>, // logarithms of the capital
    waiting: f64,          // stake of the groups that are to come
    seen: usize,
    best: f64,
}

impl Bets {
    /// Nothing won and nothing lost.
    pub fn new() -> Self {
        Self { groups: Vec::new(), waiting: 1.0, seen: 0, best: 0.0 }
    }

    /// Numbers so far.
    pub fn seen(&self) -> usize {
        self.seen
    }

    /// Bets on the next number, and returns the logarithm of the capital after it.
    pub fn add(&mut self, p: f64) -> f64 {
        if self.seen.is_multiple_of(SPACING) {
            let k = self.groups.len() as f64;
            let stake = 1.0 / ((k + 1.0) * (k + 2.0));
            self.waiting = 1.0 / (k + 2.0);
            self.groups.push(vec![(stake / (2 * SLOPES.len()) as f64).ln(); 2 * SLOPES.len()]);
        }
        self.seen += 1;
        let factors = factors(p.clamp(0.0, 1.0));
        for group in &mut self.groups {
            group.iter_mut().zip(&factors).for_each(|(capital, factor)| *capital += factor);
        }
        let now = self.log_capital();
        self.best = self.best.max(now);
        now
    }

    /// Logarithm of the capital: an e-value against "nothing has changed".
    pub fn log_capital(&self) -> f64 {
        let all = || self.groups.iter().flatten().copied();
        let most = all().fold(self.waiting.ln(), f64::max);
        most + (all().map(|capital| (capital - most).exp()).sum::<f64>() + (self.waiting.ln() - most).exp()).ln()
    }

    /// Logarithm of the most it ever was: above `ln(1/α)` with probability ≤ α if nothing has changed.
    pub fn log_best(&self) -> f64 {
        self.best
    }
}

/// Logarithms of what each gambler's capital is multiplied by.
fn factors(p: f64) -> Vec<f64> {
    let spread = (2.0 * p - 1.0).abs();
    [p, spread].iter().flat_map(|x| SLOPES.map(|slope| (slope * (x - 0.5)).ln_1p())).collect()
}
