//! What is seen of a batch of rows, which scores are made from.

use tch::Tensor;

use crate::error::{LabError, Result};
use crate::model::OwnPart;

/// What is known about each row of a batch. In f64 on the CPU, but for the products.
#[derive(Debug, Default)]
pub struct Observed {
    /// `[N, K]`
    pub logits: Tensor,
    /// Penultimate features, where there are any. `[N, n]`
    pub features: Option<Tensor>,
    /// Logits of ODIN's perturbed input. `[N, K]`
    pub perturbed: Option<Tensor>,
    /// Total entropy and mutual information over K draws. `[N]`, `[N]`
    pub draws: Option<(Tensor, Tensor)>,
    /// ln of the variance that the linearised posterior gives the logits, where the model has one. `[N]`
    pub linearised: Option<Tensor>,
    /// Density of the features by the model's own Gaussians, where it has them (DDU). `[N]`
    pub log_density: Option<Tensor>,
    /// Spatial mean of the input of every 3×3 convolution. `[N, C]` each
    pub pooled: Vec<(String, Tensor)>,
    /// `ln` of the share of each Bayesian layer's mean patch that its inducing columns leave. `[N]` each
    pub unexplained: Vec<(String, Tensor)>,
    /// `q = T_rowᵀ Σ_hw h·g` of each Bayesian layer. `[N, R]` each
    pub rows: Vec<(String, Tensor)>,
    /// `h ⊙ g` of each Bayesian layer, flattened, for the released code's score. `[N, ..]` each
    pub products: Vec<(String, Tensor)>,
}

impl Observed {
    /// Batches one after the other. Each field of the batches is freed once it is joined: there are never two of everything.
    pub fn join(mut parts: Vec<Self>) -> Self {
        type Named = Vec<(String, Tensor)>;
        fn cat(parts: &mut [Observed], of: impl Fn(&mut Observed) -> Option<Tensor>) -> Option<Tensor> {
            let own: Option<Vec<_>> = parts.iter_mut().map(of).collect();
            own.filter(|own| !own.is_empty()).map(|own| Tensor::cat(&own, 0))
        }
        fn named(parts: &mut [Observed], of: fn(&mut Observed) -> &mut Named) -> Named {
            let names = parts.first_mut().map(|part| of(part).iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
            let one = |(i, name): (usize, String)| {
                Some((name, cat(parts, |part| of(part).get_mut(i).map(|(_, tensor)| std::mem::take(tensor)))?))
            };
            names.unwrap_or_default().into_iter().enumerate().filter_map(one).collect()
        }
        let parts = parts.as_mut_slice();
        let draws = parts.iter_mut().map(|part| part.draws.take()).collect::<Option<(Vec<_>, Vec<_>)>>();
        let draws = draws.filter(|(total, _)| !total.is_empty());
        Self {
            logits: cat(parts, |part| Some(std::mem::take(&mut part.logits))).unwrap_or_default(),
            features: cat(parts, |part| part.features.take()),
            perturbed: cat(parts, |part| part.perturbed.take()),
            draws: draws.map(|(total, mutual)| (Tensor::cat(&total, 0), Tensor::cat(&mutual, 0))),
            linearised: cat(parts, |part| part.linearised.take()),
            log_density: cat(parts, |part| part.log_density.take()),
            pooled: named(parts, |part| &mut part.pooled),
            unexplained: named(parts, |part| &mut part.unexplained),
            rows: named(parts, |part| &mut part.rows),
            products: named(parts, |part| &mut part.products),
        }
    }

    /// What all processes have seen, in the order of the rows; without products, which no fit needs.
    pub(super) fn of_all(self, part: &OwnPart) -> Result<Self> {
        let all = |own: Tensor| {
            let (kind, is_vector) = (own.kind(), own.dim() == 1);
            let all = part.gathered(&if is_vector { own.unsqueeze(1) } else { own }, "what examples look like")?;
            Ok::<_, LabError>(if is_vector { all.squeeze_dim(1) } else { all }.to_kind(kind))
        };
        let one = |own: Option<Tensor>| own.map(all).transpose();
        let each = |named: Vec<(String, Tensor)>| {
            named.into_iter().map(|(name, own)| Ok((name, all(own)?))).collect::<Result<Vec<_>>>()
        };
        Ok(Self {
            logits: all(self.logits)?,
            features: one(self.features)?,
            perturbed: one(self.perturbed)?,
            draws: self.draws.map(|(total, mutual)| Ok::<_, LabError>((all(total)?, all(mutual)?))).transpose()?,
            linearised: one(self.linearised)?,
            log_density: one(self.log_density)?,
            pooled: each(self.pooled)?,
            unexplained: each(self.unexplained)?,
            rows: each(self.rows)?,
            products: Vec::new(),
        })
    }

    /// Bytes of what is kept of it for a fit.
    pub fn bytes(&self) -> usize {
        let single = [&self.features, &self.perturbed, &self.linearised, &self.log_density].into_iter().flatten();
        let pairs = self.draws.iter().flat_map(|(total, mutual)| [total, mutual]);
        let named = [&self.pooled, &self.unexplained, &self.rows].into_iter().flatten().map(|(_, tensor)| tensor);
        let all = std::iter::once(&self.logits).chain(single).chain(pairs).chain(named);
        all.map(|tensor| tensor.numel() * tensor.kind().elt_size_in_bytes()).sum()
    }

    /// The first so many rows.
    pub(super) fn first(self, count: i64) -> Self {
        let cut = |tensor: Tensor| tensor.narrow(0, 0, count);
        let each = |named: Vec<(String, Tensor)>| named.into_iter().map(|(name, tensor)| (name, cut(tensor))).collect();
        Self {
            logits: cut(self.logits),
            features: self.features.map(cut),
            perturbed: self.perturbed.map(cut),
            draws: self.draws.map(|(total, mutual)| (cut(total), cut(mutual))),
            linearised: self.linearised.map(cut),
            log_density: self.log_density.map(cut),
            pooled: each(self.pooled),
            unexplained: each(self.unexplained),
            rows: each(self.rows),
            products: each(self.products),
        }
    }
}
