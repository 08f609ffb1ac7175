//! Sums over pixels, kept on the device while images go by: everything a segmentation is measured by.

use fidgp::objective::VOID;
use fidgp::predict::Segmented;
use fidgp_metrics::{BinnedRisk, Confusion, ReliabilityTable};
use tch::{Device, Kind, Tensor};

use super::BINS;
use crate::error::Result;
use crate::model::OwnPart;
use crate::record::Boundary;

/// Bins of confidence of the risk-coverage curve.
pub const RISK_BINS: i64 = 2000;
/// The doubt `1 − confidence` that the last of them begins at.
const LEAST_DOUBT: f64 = 1e-7;
/// A pixel lies at a boundary when a pixel of another class is at most so many rows and columns away.
pub const BOUNDARY_REACH: i64 = 2;

/// Sums over the pixels that have a class.
#[derive(Debug)]
pub struct Tally {
    classes: i64,
    /// `[classes²]`
    confusion: Tensor,
    /// Count, correct, confidence of each calibration bin. `[3, BINS]`
    bins: Tensor,
    /// Count, errors of each bin of confidence. `[2, RISK_BINS]`
    risk: Tensor,
    /// NLL, Brier, total, aleatoric, epistemic. `[5]`
    sums: Tensor,
    /// Count, errors, total, aleatoric, epistemic; at boundaries and inside objects. `[2, 5]`
    boundary: Tensor,
    /// Mean NLL and accuracy of each image.
    images: Vec<Tensor>,
}

impl Tally {
    /// No pixels yet.
    pub fn new(classes: i64, device: Device) -> Self {
        let zeros = |shape: &[i64]| Tensor::zeros(shape, (Kind::Double, device));
        Self {
            classes,
            confusion: zeros(&[classes * classes]),
            bins: zeros(&[3, BINS as i64]),
            risk: zeros(&[2, RISK_BINS]),
            sums: zeros(&[5]),
            boundary: zeros(&[2, 5]),
            images: Vec::new(),
        }
    }

    /// Adds images with their masks. `[N, H, W]`
    ///
    /// # Errors
    /// When masks and predictions do not fit each other.
    pub fn add(&mut self, segmented: &Segmented, masks: &Tensor) -> Result<()> {
        let valid = masks.ne(VOID);
        let weight = valid.to_kind(Kind::Double);
        let (confidence, predicted) = segmented.probs.f_max_dim(1, false)?;
        let labels = masks.clamp(0, self.classes - 1);
        let own = segmented.probs.f_gather(1, &labels.unsqueeze(1), false)?.squeeze_dim(1);
        let right = predicted.eq_tensor(&labels).to_kind(Kind::Double) * &weight;
        let nll = -own.to_kind(Kind::Double).clamp_min(f64::from(f32::MIN_POSITIVE)).log() * &weight;
        let squares = segmented.probs.square().sum_dim_intlist(1, false, Kind::Float);
        let brier = (squares - &own * 2.0 + 1.0).to_kind(Kind::Double) * &weight;
        let confidence = confidence.to_kind(Kind::Double);

        let cells = (&labels * self.classes + &predicted).flatten(0, -1);
        self.confusion += sums(&cells, &weight, self.classes * self.classes);
        let bin = ((&confidence * BINS as f64).ceil() - 1.0).clamp(0.0, BINS as f64 - 1.0).to_kind(Kind::Int64);
        for (row, values) in [&weight, &right, &(&confidence * &weight)].into_iter().enumerate() {
            let mut row = self.bins.get(row as i64);
            row += sums(&bin.flatten(0, -1), values, BINS as i64);
        }
        // Fine where most pixels are: by the logarithm of the doubt.
        let sure = (-(&confidence - 1.0)).clamp(LEAST_DOUBT, 1.0).log() / LEAST_DOUBT.ln(); // 0 … 1
        let bin = ((-sure + 1.0) * (RISK_BINS - 1) as f64).to_kind(Kind::Int64).flatten(0, -1); // surest first
        for (row, values) in [&weight, &(&weight - &right)].into_iter().enumerate() {
            let mut row = self.risk.get(row as i64);
            row += sums(&bin, values, RISK_BINS);
        }
        let doubts = [&segmented.total, &segmented.aleatoric, &segmented.epistemic].map(|d| d.to_kind(Kind::Double));
        let [total, aleatoric, epistemic] = &doubts;
        let sum = |values: &Tensor| (values * &weight).sum(Kind::Double);
        self.sums += Tensor::stack(&[sum(&nll), sum(&brier), sum(total), sum(aleatoric), sum(epistemic)], 0);
        let at = at_boundary(masks);
        for (row, place) in [&at, &(1.0 - &at)].into_iter().enumerate() {
            let here = place * &weight;
            let sum = |values: &Tensor| (values * &here).sum(Kind::Double);
            let errors = sum(&(&weight - &right));
            let all = [here.sum(Kind::Double), errors, sum(total), sum(aleatoric), sum(epistemic)];
            let mut row = self.boundary.get(row as i64);
            row += Tensor::stack(&all, 0);
        }
        let each = |values: &Tensor| values.flatten(1, -1).sum_dim_intlist(1, false, Kind::Double);
        let counts = each(&weight).clamp_min(1.0);
        self.images.push(Tensor::stack(&[each(&nll) / &counts, each(&right) / &counts], 1));
        Ok(())
    }

    /// The same of what all processes have seen.
    ///
    /// # Errors
    /// When a process is gone.
    pub fn gathered(mut self, part: &OwnPart) -> Result<Self> {
        for sums in [&mut self.confusion, &mut self.bins, &mut self.risk, &mut self.sums, &mut self.boundary] {
            *sums = part.sum(sums, "sums over pixels")?;
        }
        if !self.images.is_empty() {
            self.images = vec![part.gathered(&Tensor::f_cat(&self.images, 0)?, "sums over pictures")?];
        }
        Ok(self)
    }

    /// Pixels seen.
    pub fn pixels(&self) -> f64 {
        self.confusion.sum(Kind::Double).double_value(&[])
    }

    /// True against predicted classes.
    ///
    /// # Errors
    /// Never for a table of this size.
    pub fn confusion(&self) -> Result<Confusion> {
        let counts: Vec<u64> = numbers(&self.confusion)?.into_iter().map(|count| count.round() as u64).collect();
        Ok(Confusion::new(&counts, self.classes as usize)?)
    }

    /// Confidence against accuracy.
    ///
    /// # Errors
    /// When a sum is not finite.
    pub fn reliability(&self) -> Result<ReliabilityTable> {
        let mut table = ReliabilityTable::with_bins(BINS)?;
        let [counts, correct, confidence] = [0, 1, 2].map(|row| numbers(&self.bins.get(row)));
        table.add_sums(&counts?, &correct?, &confidence?)?;
        Ok(table)
    }

    /// Errors among the surest pixels.
    ///
    /// # Errors
    /// When no pixel has a class.
    pub fn risk(&self) -> Result<BinnedRisk> {
        Ok(BinnedRisk::new(&numbers(&self.risk.get(0))?, &numbers(&self.risk.get(1))?)?)
    }

    /// Mean NLL, Brier score, total, aleatoric and epistemic uncertainty of a pixel.
    ///
    /// # Errors
    /// When libtorch cannot read the sums.
    pub fn means(&self) -> Result<[f64; 5]> {
        let (sums, count) = (numbers(&self.sums)?, self.pixels());
        Ok([0, 1, 2, 3, 4].map(|part| sums[part] / count))
    }

    /// Means at boundaries and inside objects.
    ///
    /// # Errors
    /// When libtorch cannot read the sums.
    pub fn boundary(&self) -> Result<[Boundary; 2]> {
        let rows = numbers(&self.boundary)?;
        let row = |first: usize| {
            let mean = |part: usize| (rows[first] > 0.0).then(|| rows[first + part] / rows[first]);
            Boundary {
                pixels: rows[first].round() as u64,
                error: mean(1),
                total: mean(2),
                aleatoric: mean(3),
                epistemic: mean(4),
            }
        };
        Ok([row(0), row(5)])
    }

    /// Mean NLL and accuracy of each image.
    ///
    /// # Errors
    /// When libtorch cannot read the sums.
    pub fn images(&self) -> Result<(Vec<f64>, Vec<f64>)> {
        if self.images.is_empty() {
            return Ok((Vec::new(), Vec::new()));
        }
        let all = Tensor::f_cat(&self.images, 0)?;
        Ok((numbers(&all.select(1, 0))?, numbers(&all.select(1, 1))?))
    }
}

/// Sums of values over equal indices. `[P]`, any shape of P numbers → `[count]`
fn sums(index: &Tensor, values: &Tensor, count: i64) -> Tensor {
    let zeros = Tensor::zeros([count], (Kind::Double, values.device()));
    zeros.index_add(0, index, &values.reshape([-1]))
}

fn numbers(tensor: &Tensor) -> Result<Vec<f64>> {
    Ok(Vec::try_from(tensor.to_kind(Kind::Double).to_device(Device::Cpu).reshape([-1]))?)
}

/// 1 where a pixel of another class is near, 0 elsewhere; void pixels make no boundary. `[N, H, W]` → the same
pub fn at_boundary(masks: &Tensor) -> Tensor {
    let side = 2 * BOUNDARY_REACH + 1;
    let largest = |labels: &Tensor| {
        let labels = labels.to_kind(Kind::Float).unsqueeze(1);
        labels.max_pool2d([side; 2], [1; 2], [BOUNDARY_REACH; 2], [1; 2], false).squeeze_dim(1)
    };
    let void = masks.eq(VOID);
    let most = largest(&masks.masked_fill(&void, -1));
    let least = -largest(&(-masks).masked_fill(&void, -VOID - 1));
    most.ne_tensor(&least).to_kind(Kind::Double) * masks.ne(VOID).to_kind(Kind::Double)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two images of 1×4 pixels with three classes; class 2 never occurs, two pixels are void.
    fn tally(split: bool) -> Tally {
        let rows: [[f64; 3]; 8] = [
            [0.7, 0.2, 0.1],
            [0.1, 0.8, 0.1],
            [0.6, 0.3, 0.1],
            [0.2, 0.2, 0.6],
            [0.9, 0.05, 0.05],
            [0.5, 0.4, 0.1],
            [0.1, 0.1, 0.8],
            [0.3, 0.6, 0.1],
        ];
        let probs = Tensor::from_slice(&rows.concat()).view([2, 1, 4, 3]).permute([0, 3, 1, 2]);
        let masks = Tensor::from_slice(&[0i64, 1, 1, VOID, 0, 0, 0, VOID]).view([2, 1, 4]);
        let total = -(&probs * probs.log()).sum_dim_intlist(1, false, Kind::Double);
        let segmented = |first: i64, count: i64| Segmented {
            probs: probs.narrow(0, first, count),
            total: total.narrow(0, first, count),
            aleatoric: total.narrow(0, first, count),
            epistemic: total.narrow(0, first, count) * 0.0,
        };
        let mut tally = Tally::new(3, Device::Cpu);
        if split {
            tally.add(&segmented(0, 1), &masks.narrow(0, 0, 1)).unwrap();
            tally.add(&segmented(1, 1), &masks.narrow(0, 1, 1)).unwrap();
        } else {
            tally.add(&segmented(0, 2), &masks).unwrap();
        }
        tally
    }

    #[test]
    fn sums_are_those_of_a_hand_made_table() {
        let tally = tally(false);
        let confusion = tally.confusion().unwrap();
        // true 0: 3 as 0, 1 as 2; true 1: 1 as 0, 1 as 1
        assert_eq!(confusion, Confusion::new(&[3, 0, 1, 1, 1, 0, 0, 0, 0], 3).unwrap());
        assert_eq!(confusion.mean_iou(), Some((3.0 / 5.0 + 1.0 / 2.0 + 0.0) / 3.0));
        assert_eq!(confusion.mean_accuracy(), Some(f64::midpoint(0.75, 0.5)));
        let nll = -(0.7f64.ln() + 0.8f64.ln() + 0.3f64.ln() + 0.9f64.ln() + 0.5f64.ln() + 0.1f64.ln()) / 6.0;
        assert!((tally.means().unwrap()[0] - nll).abs() < 1e-9);
        let ece = tally.reliability().unwrap();
        assert_eq!(ece.count(), 6);
        let confidences: f64 = ece.bins().iter().map(|bin| bin.confidence_sum).sum();
        assert!((confidences - (0.7 + 0.8 + 0.6 + 0.9 + 0.5 + 0.8)).abs() < 1e-9);
        let risk = tally.risk().unwrap();
        assert!((risk.curve().last().unwrap().risk - 2.0 / 6.0).abs() < 1e-12);
        assert!(risk.curve()[0].risk < 1e-12, "the surest pixel is right");
        let (nll, right) = tally.images().unwrap();
        assert_eq!(right, [2.0 / 3.0, 2.0 / 3.0]);
        assert_eq!(nll.len(), 2);
    }

    #[test]
    fn part_by_part_is_the_same() {
        let (whole, parts) = (tally(false), tally(true));
        assert_eq!(whole.confusion().unwrap(), parts.confusion().unwrap());
        assert_eq!(whole.reliability().unwrap(), parts.reliability().unwrap());
        assert_eq!(whole.boundary().unwrap()[0].pixels, parts.boundary().unwrap()[0].pixels);
    }

    #[test]
    fn boundaries_are_where_classes_meet_and_void_makes_none() {
        let masks = Tensor::from_slice(&[0i64, 0, 0, 0, 1, 1, VOID, 1, 1, 1]).view([1, 1, 10]);
        let at = Vec::<f64>::try_from(at_boundary(&masks).reshape([-1])).unwrap();
        assert_eq!(at, [0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    }
}
