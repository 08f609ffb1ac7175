//! What is seen of a batch of rows, which scores are made from.

use tch::{Device, Kind, Tensor};

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
    /// Batches one after the other.
    pub fn join(parts: &[Self]) -> Self {
        let cat = |of: &dyn Fn(&Self) -> Tensor| Tensor::cat(&parts.iter().map(of).collect::<Vec<_>>(), 0);
        let named = |of: fn(&Self) -> &Vec<(String, Tensor)>| -> Vec<(String, Tensor)> {
            let names = parts.first().map(|part| of(part).iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
            let names = names.unwrap_or_default().into_iter().enumerate();
            names.map(|(i, name)| (name, cat(&|part| of(part)[i].1.shallow_clone()))).collect()
        };
        let all = |has: fn(&Self) -> bool| !parts.is_empty() && parts.iter().all(has);
        let none = || Tensor::zeros([0], (Kind::Double, Device::Cpu));
        let share = |t: Option<&Tensor>| t.map_or_else(none, Tensor::shallow_clone);
        Self {
            logits: cat(&|part| part.logits.shallow_clone()),
            features: all(|part| part.features.is_some()).then(|| cat(&|part| share(part.features.as_ref()))),
            perturbed: all(|part| part.perturbed.is_some()).then(|| cat(&|part| share(part.perturbed.as_ref()))),
            draws: all(|part| part.draws.is_some()).then(|| {
                let of = |part: &Self| part.draws.as_ref().map(|(a, b)| (a.shallow_clone(), b.shallow_clone()));
                (cat(&|part| share(of(part).map(|d| d.0).as_ref())), cat(&|part| share(of(part).map(|d| d.1).as_ref())))
            }),
            linearised: all(|part| part.linearised.is_some()).then(|| cat(&|part| share(part.linearised.as_ref()))),
            log_density: all(|part| part.log_density.is_some()).then(|| cat(&|part| share(part.log_density.as_ref()))),
            pooled: named(|part| &part.pooled),
            unexplained: named(|part| &part.unexplained),
            rows: named(|part| &part.rows),
            products: named(|part| &part.products),
        }
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
