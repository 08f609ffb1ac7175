//! The paper's lemma, measured: whether the residual of OoD inputs exceeds twice the noise of the weights, layer by layer.
//!
//! | here | what it is |
//! |---|---|
//! | x | a layer's mean patch, scaled to length one as the lemma asks |
//! | M, E | `σ_p E[W|U]` at the one U, and one draw of the noise around it |
//! | P | the projection on the leading left singular vectors of M that hold 90 % of the energy of `Mx` on ID training images. With the paper's P a square U of full rank leaves nothing, and its dimensions fit only where `d_out = C` |
//! | s(x), d(x) | `‖(I − P)Mx‖`, `‖(I − P)(M + E)x‖`; the flow acts on U and not on outputs, so g is the identity |
//! | S | the least s(x) of a set |

use fidgp::Key;
use fidgp::conditional;
use fidgp::layer::Factors;
use fidgp::linalg::Check;
use fidgp::ood::{LeadingRows, WeightSpread};
use fidgp_metrics::OodScores;
use tch::{Device, Kind, Tensor};

use super::observe::ModelObserver;
use crate::error::Result;
use crate::predict::Trained;
use crate::record::ood::{LayerSpectrum, Residuals, SetSpectrum, Spectral};

/// Most images of a set.
pub const IMAGES: usize = 500;
/// Share of the ID-train energy inside the projection.
const ENERGY: f64 = 0.9;
/// The quantiles of d that are recorded.
pub const QUANTILES: [f64; 5] = [0.0, 0.05, 0.5, 0.95, 1.0];

/// Measures it; none for a network without Bayesian layers. Sets are pixels, at most [`IMAGES`] of each are used.
///
/// # Errors
/// When a factorisation or a forward pass fails.
pub fn measure(
    predictor: &Trained,
    observer: &ModelObserver,
    (fit, id): (&Tensor, &Tensor),
    sets: &[(String, Tensor)],
    batch: usize,
) -> Result<Option<Spectral>> {
    if observer.inducing.is_empty() {
        return Ok(None);
    }
    let patches = |pixels: &Tensor| unit_patches(observer, pixels, batch);
    let (fit, id) = (patches(fit)?, patches(id)?);
    let sets = sets.iter().map(|(name, pixels)| Ok((name.as_str(), patches(pixels)?))).collect::<Result<Vec<_>>>()?;
    let weights = predictor.model.network.inducing();
    let key = Key::new(predictor.config.seed).fold("spectral");
    tch::no_grad(|| {
        let factors = Factors::of(&weights, Check::Now)?;
        let mut layers = Vec::new();
        for (place, inducing) in observer.inducing.iter().enumerate() {
            let Some(weight) = weights.iter().find(|weight| weight.name == inducing.name) else { continue };
            let prior = factors.get(&weight.name)?;
            let v = prior.whiten(&inducing.u);
            let mean = conditional::mean(&prior, &v) * weight.prior_scale();
            let spread = WeightSpread::draw(weight, &prior, key)?;
            let of_sets: Vec<_> = sets.iter().map(|(name, x)| (*name, &x[place])).collect();
            let weights = [mean, spread.noise.shallow_clone()].map(|w| w.to_device(Device::Cpu).to_kind(Kind::Double));
            let (rank, id, sets) = lemma(weights, spread.measured, (&fit[place], &id[place]), &of_sets)?;
            let (noise_bound, noise_measured) = (spread.bound, spread.measured);
            layers.push(LayerSpectrum { name: weight.name.clone(), noise_bound, noise_measured, rank, id, sets });
        }
        let says = meaning(&layers);
        Ok(Some(Spectral { images: IMAGES, layers, says }))
    })
}

/// The lemma for one layer: M and E `[d_out, d_in]`, ‖E‖, and rows of length one `[N, d_in]`.
fn lemma(
    [mean, noise]: [Tensor; 2],
    norm: f64,
    (fit, id): (&Tensor, &Tensor),
    sets: &[(&str, &Tensor)],
) -> Result<(i64, Residuals, Vec<SetSpectrum>)> {
    let leading = LeadingRows::fit(&mean, &fit.matmul(&mean.mt()), ENERGY)?;
    let distances = |weight: &Tensor, x: &Tensor| -> Result<Vec<f64>> {
        Ok(Vec::try_from(leading.distance(&x.matmul(&weight.mt()))?)?)
    };
    let noisy = &mean + &noise;
    let of = |x: &Tensor| -> Result<(Residuals, Vec<f64>)> {
        let (s, d) = (distances(&mean, x)?, distances(&noisy, x)?);
        let fold = |of: fn(f64, f64) -> f64, start| s.iter().copied().fold(start, of);
        let residuals =
            Residuals { s_least: fold(f64::min, f64::INFINITY), s_largest: fold(f64::max, 0.0), d: quantiles(&d) };
        Ok((residuals, d))
    };
    let (id, d_id) = of(id)?;
    let one = |(name, x): &(&str, &Tensor)| -> Result<SetSpectrum> {
        let (residuals, d) = of(x)?;
        Ok(SetSpectrum {
            name: (*name).to_owned(),
            inequality: residuals.s_least > 2.0 * norm,
            separated: residuals.d[0] > id.d[4],
            margin: residuals.d[0] - id.d[4],
            quantile_margin: residuals.d[1] - id.d[3],
            auroc: OodScores::new(&d_id, &d)?.auroc(),
            residuals,
        })
    };
    Ok((leading.rank(), id.clone(), sets.iter().map(one).collect::<Result<_>>()?))
}

/// For each Bayesian layer the mean patches of images, at length one. `[N, d_in]` each
fn unit_patches(observer: &ModelObserver, pixels: &Tensor, batch: usize) -> Result<Vec<Tensor>> {
    let pixels = pixels.narrow(0, 0, pixels.size()[0].min(IMAGES as i64));
    let mut parts: Vec<Vec<Tensor>> = observer.inducing.iter().map(|_| Vec::new()).collect();
    for part in pixels.split(batch as i64, 0) {
        for (layer, x) in parts.iter_mut().zip(observer.patches(&part)?) {
            layer.push(x.to_device(Device::Cpu));
        }
    }
    let unit = |x: Tensor| &x / x.linalg_norm(2, [-1_i64].as_slice(), true, None::<Kind>).clamp_min(1e-12);
    Ok(parts.iter().map(|layer| unit(Tensor::cat(layer, 0))).collect())
}

fn quantiles(values: &[f64]) -> [f64; 5] {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    QUANTILES.map(|q| sorted[(q * (sorted.len() - 1) as f64).round() as usize])
}

/// One honest paragraph.
fn meaning(layers: &[LayerSpectrum]) -> String {
    let pairs = || layers.iter().flat_map(|layer| &layer.sets);
    let count = |of: fn(&SetSpectrum) -> bool| pairs().filter(|set| of(set)).count();
    let zero = layers.iter().filter(|layer| layer.id.s_largest <= 1e-6).count();
    format!(
        "The paper's lemma says that S > 2‖E‖ makes every OoD residual larger than every ID residual. S as written there is an \
         infimum over all unit inputs, ID ones among them, so that one S serves both and the premise contradicts the proof's other \
         assumption, residuals of zero on ID inputs. What can be measured is S on each set. Here the inequality S(OoD) > 2‖E‖ held in \
         {} of {} pairs of layer and set, residuals of zero on ID inputs in {zero} of {} layers, and the conclusion, no overlap at \
         all, in {} pairs. A pair where the inequality holds and the sets overlap shows that the inequality alone guarantees nothing: \
         read the quantile margins and the AUROC of d instead.",
        count(|set| set.inequality),
        pairs().count(),
        layers.len(),
        count(|set| set.separated),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(values: &[f64]) -> Tensor {
        Tensor::from_slice(values).reshape([-1, 2])
    }

    /// M = diag(2, 1), all ID energy on the first axis: P keeps that axis, s is |x₂|, and E adds 0.1 on the second.
    #[test]
    fn the_lemma_by_hand() {
        let mean = rows(&[2.0, 0.0, 0.0, 1.0]);
        let noise = rows(&[0.0, 0.0, 0.0, 0.1]);
        let (id, far, mixed) = (rows(&[1.0, 0.0, 0.8, 0.6]), rows(&[0.0, 1.0, 0.6, 0.8]), rows(&[0.8, 0.6, 0.0, 1.0]));
        let fit = rows(&[1.0, 0.0]);
        let sets = [("far", &far), ("mixed", &mixed)];
        let (rank, id, sets) = lemma([mean, noise], 0.1, (&fit, &id), &sets).unwrap();
        let close = |found: f64, expected: f64| assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        assert_eq!(rank, 1);
        close(id.s_least, 0.0);
        close(id.s_largest, 0.6);
        close(id.d[4], 0.66);
        assert!(sets[0].inequality && sets[0].separated && sets[0].auroc.total_cmp(&1.0).is_eq(), "{sets:?}");
        close(sets[0].margin, 0.88 - 0.66);
        // the inequality holds, and the sets still touch
        assert!(sets[1].inequality && !sets[1].separated, "{sets:?}");
        close(sets[1].auroc, 0.875);
        let layer = LayerSpectrum { name: "a".into(), noise_bound: 0.2, noise_measured: 0.1, rank, id, sets };
        let says = meaning(&[layer]);
        assert!(
            says.contains("2 of 2 pairs") && says.contains("0 of 1 layers") && says.contains("in 1 pairs"),
            "{says}"
        );
    }
}
