use serde::{Deserialize, Serialize};

use crate::{check, error::Result};

/// The rising step function closest to the outcomes in squares, by pooling adjacent violators.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Isotonic {
    /// Smallest score of each step, rising.
    pub from: Vec<f64>,
    /// Height of each step, rising.
    pub value: Vec<f64>,
}

/// Neighbouring scores that share one height.
struct Block {
    from: f64,
    sum: f64,
    count: f64,
}

impl Isotonic {
    /// Fits outcomes to scores.
    ///
    /// # Shapes
    /// `scores`, `outcomes` (0 or 1, or any number): `[N]`
    ///
    /// ```
    /// use fidgp_metrics::recalibration::Isotonic;
    ///
    /// let fitted = Isotonic::fit(&[0.1, 0.2, 0.3, 0.9], &[0.0, 1.0, 0.0, 1.0])?;
    /// assert_eq!([0.15, 0.25, 0.95].map(|s| fitted.at(s)), [0.0, 0.5, 1.0]);
    /// # Ok::<(), fidgp_metrics::MetricError>(())
    /// ```
    pub fn fit(scores: &[f64], outcomes: &[f64]) -> Result<Self> {
        check::pair(("scores", scores), ("outcomes", outcomes))?;
        let mut order: Vec<usize> = (0..scores.len()).collect();
        order.sort_by(|&a, &b| scores[a].total_cmp(&scores[b]));
        let mut blocks: Vec<Block> = Vec::new();
        #[expect(clippy::float_cmp, reason = "a tie is exact equality")]
        for tied in order.chunk_by(|&a, &b| scores[a] == scores[b]) {
            let sum = tied.iter().map(|&i| outcomes[i]).sum();
            blocks.push(Block { from: scores[tied[0]], sum, count: tied.len() as f64 });
            pool(&mut blocks);
        }
        let value = blocks.iter().map(|block| block.sum / block.count).collect();
        Ok(Self { from: blocks.iter().map(|block| block.from).collect(), value })
    }

    /// The height at a score; below all scores that of the first step.
    pub fn at(&self, score: f64) -> f64 {
        let step = self.from.partition_point(|&from| from <= score);
        self.value[step.saturating_sub(1)]
    }
}

/// Joins the last block with those before it as long as it is not higher.
fn pool(blocks: &mut Vec<Block>) {
    while let [.., before, last] = blocks.as_mut_slice() {
        if last.sum * before.count > before.sum * last.count {
            return;
        }
        before.sum += last.sum;
        before.count += last.count;
        blocks.pop();
    }
}
