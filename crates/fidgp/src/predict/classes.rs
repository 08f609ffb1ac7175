//! Classes, of inputs or of their pixels: the mean over draws, and uncertainty split into aleatoric and epistemic.

use tch::{Kind, Tensor};

use super::gather::gather;
use super::{Draws, Gather, Spent, offsets};
use crate::{Error, Result};

/// What K draws say about the class of each input.
#[derive(Debug)]
pub struct Classified {
    /// `mean_k p_k`. `[N, classes]`
    pub probs: Tensor,
    /// Entropy of the mean. `[N]`
    pub total: Tensor,
    /// Mean of the entropies. `[N]`
    pub aleatoric: Tensor,
    /// Their difference: the mutual information between label and weights. `[N]`
    pub epistemic: Tensor,
    /// `mean_k −log p_k(label)` of each input, when labels were given: the paper's CIFAR script reports its mean. `[N]`
    pub mean_nll: Option<Tensor>,
}

impl Classified {
    /// Several parts of a set as one.
    ///
    /// # Errors
    /// When there is no part, or they have other numbers of classes.
    pub fn joined(parts: &[Self]) -> Result<Self> {
        let join = |part: fn(&Self) -> &Tensor| Tensor::f_cat(&parts.iter().map(part).collect::<Vec<_>>(), 0);
        let nlls: Vec<_> = parts.iter().filter_map(|part| part.mean_nll.as_ref()).collect();
        Ok(Self {
            probs: join(|part| &part.probs)?,
            total: join(|part| &part.total)?,
            aleatoric: join(|part| &part.aleatoric)?,
            epistemic: join(|part| &part.epistemic)?,
            mean_nll: if nlls.is_empty() { None } else { Some(Tensor::f_cat(&nlls, 0)?) },
        })
    }
}

/// Classifies batches with K draws (and the network's members, which count as draws).
///
/// # Shapes
/// batches of `[n_i, ..]`, labels `[N]` → fields of N rows
///
/// # Errors
/// When there is no batch, a batch does not fit the network, or the labels do not fit the inputs.
pub fn classify(draws: &Draws, batches: &[Tensor], labels: Option<&Tensor>) -> Result<Classified> {
    let offsets = offsets(batches)?;
    let rows = batches.iter().map(|batch| batch.size()[0]).sum::<i64>();
    if let Some(labels) = labels.filter(|labels| labels.size() != [rows]) {
        return Err(Error::shape("labels", &labels.size(), format!("[{rows}], one label for each input")));
    }
    let own = |(batch, &start): (&Tensor, &i64)| ClassDraws {
        labels: labels.map(|labels| labels.narrow(0, start, batch.size()[0])),
        ..ClassDraws::new(draws.network.members())
    };
    let mut all: Vec<_> = batches.iter().zip(&offsets).map(own).collect();
    draws.outputs(batches, |index, logits| all[index].add(&logits))?;
    Classified::joined(&all.into_iter().map(ClassDraws::done).collect::<Result<Vec<_>>>()?)
}

/// Classifies a batch with as many draws as are needed, but at most K: until the [error](Gather::error) of every probability is
/// at most `tolerance`. Also returns what it took, and what error is left: K draws may not be enough.
///
/// # Shapes
/// batch `[N, ..]` → fields of N rows
///
/// # Errors
/// When the tolerance is not positive or the batch does not fit the network.
pub fn classify_to(draws: &Draws, batch: &Tensor, tolerance: f64) -> Result<(Classified, Spent)> {
    let mut classes = ClassDraws::new(draws.network.members()).with_error();
    let spent = gather(draws.count, Some(tolerance), &mut classes, |range, each| {
        draws.outputs_of(range, std::slice::from_ref(batch), |_, outputs| each(outputs))
    })?;
    Ok((classes.done()?, spent))
}

/// Class probabilities of draws as they come. Classes stand on the second axis: `[N, classes]`, or `[N, classes, H, W]` for
/// pixels. A draw of a network of M members has `M·N` rows.
#[derive(Debug)]
pub struct ClassDraws {
    members: i64,
    labels: Option<Tensor>,
    with_error: bool,
    count: f64,
    probs: Option<Tensor>,
    squares: Option<Tensor>,
    entropies: Option<Tensor>,
    nlls: Option<Tensor>,
}

impl ClassDraws {
    /// Nothing yet, of a network of so many members.
    pub fn new(members: i64) -> Self {
        let (probs, squares, entropies, nlls) = (None, None, None, None);
        Self { members, labels: None, with_error: false, count: 0.0, probs, squares, entropies, nlls }
    }

    /// Also gathers what the Monte-Carlo error follows from.
    #[must_use]
    pub fn with_error(self) -> Self {
        Self { with_error: true, ..self }
    }

    /// Adds the probabilities of one draw.
    ///
    /// # Errors
    /// When the rows are not those of the members.
    pub fn add_probs(&mut self, probs: &Tensor) -> Result<()> {
        self.add_draw(probs, &log_of(probs))
    }

    fn add_draw(&mut self, probs: &Tensor, log_p: &Tensor) -> Result<()> {
        let rows = probs.size().first().copied().unwrap_or(0);
        if rows % self.members != 0 {
            let expected = format!("a multiple of {} rows, one block for each member", self.members);
            return Err(Error::shape("outputs", &probs.size(), expected));
        }
        let each = (rows / self.members).max(1);
        for (p, log_p) in probs.split(each, 0).into_iter().zip(log_p.split(each, 0)) {
            add(&mut self.entropies, &entropy_of(&p, &log_p));
            if self.with_error {
                add(&mut self.squares, &p.square());
            }
            if let Some(labels) = &self.labels {
                let own = log_p.f_gather(1, &labels.to_device(log_p.device()).unsqueeze(1), false)?;
                add(&mut self.nlls, &-own.squeeze_dim(1));
            }
            add(&mut self.probs, &p);
            self.count += 1.0;
        }
        Ok(())
    }

    /// Mean, and the split of its entropy.
    ///
    /// # Errors
    /// When nothing was added.
    pub fn done(self) -> Result<Classified> {
        let mean = |sum: Tensor| sum / self.count;
        let missing = || Error::setting("draws", 0, "prediction needs at least one draw");
        let (probs, aleatoric) = (mean(self.probs.ok_or_else(missing)?), mean(self.entropies.ok_or_else(missing)?));
        let total = entropy_of(&probs, &log_of(&probs));
        let epistemic = (&total - &aleatoric).clamp_min(0.0); // rounding may leave it below
        Ok(Classified { epistemic, probs, total, aleatoric, mean_nll: self.nlls.map(mean) })
    }
}

impl Gather for ClassDraws {
    /// Adds the logits of one draw.
    fn add(&mut self, logits: &Tensor) -> Result<()> {
        let log_p = logits.to_kind(Kind::Double).f_log_softmax(1, Kind::Double)?; // in f32 one of e⁻¹⁰⁴ is none
        self.add_draw(&log_p.exp(), &log_p)
    }

    fn error(&self) -> f64 {
        let (Some(sum), Some(squares)) = (&self.probs, &self.squares) else { return f64::INFINITY };
        let k = self.count;
        if k < 2.0 {
            return f64::INFINITY;
        }
        let variance = (squares / k - (sum / k).square()).clamp_min(0.0) * (k / (k - 1.0));
        (variance / k).sqrt().max().double_value(&[])
    }
}

/// Adds in place; the first term is copied, since it may be a view of what is overwritten.
fn add(sum: &mut Option<Tensor>, term: &Tensor) {
    match sum {
        Some(sum) => *sum += term,
        None => *sum = Some(term.copy()),
    }
}

/// `−Σ_c p log p` over the second axis. `[N, classes, ..]` → `[N, ..]`
fn entropy_of(p: &Tensor, log_p: &Tensor) -> Tensor {
    -(p * log_p).sum_dim_intlist(1, false, p.kind())
}

/// `log p` where p is at least the smallest normal number of its type; below, where `p log p` is nothing, the log of that.
fn log_of(p: &Tensor) -> Tensor {
    let floor = if p.kind() == Kind::Double { f64::MIN_POSITIVE } else { f64::from(f32::MIN_POSITIVE) };
    p.clamp_min(floor).log()
}
