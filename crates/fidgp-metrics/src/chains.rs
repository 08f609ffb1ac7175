use crate::check;
use crate::error::{MetricError, Result};

/// Whether several Markov chains of one quantity agree, and how many independent draws they are worth.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Convergence {
    /// Split R̂ (Gelman et al. 2013): 1 for chains of one law; above 1.05 they have not met.
    pub r_hat: f64,
    /// Effective number of draws (Geyer's initial monotone sequence, over all chains).
    pub effective: f64,
}

/// Fewest draws of a chain whose halves have a variance worth comparing.
const LEAST: usize = 8;

/// Compares the halves of all chains.
///
/// ```
/// use fidgp_metrics::chains::converged;
///
/// let draws = |shift: f64| (0..50_u64).map(|i| (i * i * 7919 % 1009) as f64 / 1009.0 + shift).collect::<Vec<_>>();
/// assert!(converged(&[draws(0.0), draws(0.0)])?.r_hat < 1.1);
/// assert!(converged(&[draws(0.0), draws(5.0)])?.r_hat > 2.0);
/// # Ok::<(), fidgp_metrics::MetricError>(())
/// ```
///
/// # Errors
/// When there is no chain, chains differ in length, are shorter than 8 draws, or hold a number that is not finite.
pub fn converged(chains: &[Vec<f64>]) -> Result<Convergence> {
    check::non_empty("chains", chains)?;
    let length = chains[0].len();
    if length < LEAST {
        return Err(MetricError::TooFew { what: "draws of a chain", need: LEAST, got: length });
    }
    for chain in chains {
        check::length("draws of a chain", chain, length)?;
        check::finite("draws", chain)?;
    }
    let half = length / 2;
    let halves: Vec<&[f64]> = chains.iter().flat_map(|chain| [&chain[..half], &chain[length - half..]]).collect();
    Ok(of_halves(&halves))
}

fn of_halves(halves: &[&[f64]]) -> Convergence {
    let (n, m) = (halves[0].len() as f64, halves.len() as f64);
    let means: Vec<f64> = halves.iter().map(|half| half.iter().sum::<f64>() / n).collect();
    let grand = means.iter().sum::<f64>() / m;
    let between = means.iter().map(|mean| (mean - grand).powi(2)).sum::<f64>() / (m - 1.0);
    let autocovariances = |lag: usize| -> f64 {
        let own = |(half, mean): (&&[f64], &f64)| {
            half.iter().zip(&half[lag..]).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / n
        };
        halves.iter().zip(&means).map(own).sum::<f64>() / m
    };
    let within = autocovariances(0) * n / (n - 1.0);
    let pooled = within * (n - 1.0) / n + between;
    if pooled <= 0.0 {
        return Convergence { r_hat: 1.0, effective: n * m }; // all draws are one number
    }
    let correlation = |lag: usize| 1.0 - (within - autocovariances(lag) * n / (n - 1.0)) / pooled;
    let (mut time, mut least) = (-1.0, f64::INFINITY);
    for lag in (0..halves[0].len() - 1).step_by(2) {
        let pair = correlation(lag) + correlation(lag + 1);
        if pair <= 0.0 {
            break;
        }
        least = pair.min(least);
        time += 2.0 * least;
    }
    // Chains that alternate may be worth more draws than they have, but not without bound.
    Convergence { r_hat: (pooled / within).sqrt(), effective: n * m / time.max(1.0 / (n * m).log10()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, StandardNormal};

    /// `x_t = ρ x_{t−1} + √(1 − ρ²) ε`: N draws are worth N(1 − ρ)/(1 + ρ).
    fn autoregressive(rho: f64, length: usize, seed: u64) -> Vec<f64> {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut x: f64 = StandardNormal.sample(&mut rng);
        let step = |_| {
            let noise: f64 = StandardNormal.sample(&mut rng);
            x = rho * x + (1.0 - rho * rho).sqrt() * noise;
            x
        };
        (0..length).map(step).collect()
    }

    #[test]
    fn the_worth_of_autoregressive_chains_is_known() {
        for (rho, tolerance) in [(0.0, 0.15), (0.5, 0.15), (0.9, 0.25)] {
            let chains: Vec<_> = (0..4).map(|seed| autoregressive(rho, 5000, seed)).collect();
            let found = converged(&chains).unwrap();
            let expected = 20_000.0 * (1.0 - rho) / (1.0 + rho);
            assert!((found.effective / expected - 1.0).abs() < tolerance, "ρ {rho}: {found:?}, expected {expected}");
            assert!((1.0 - 1e-3..1.02).contains(&found.r_hat), "{found:?}");
        }
    }

    #[test]
    fn chains_apart_or_on_their_way_have_not_converged() {
        let mut chains: Vec<_> = (0..4).map(|seed| autoregressive(0.5, 1000, seed)).collect();
        chains[3].iter_mut().for_each(|x| *x += 3.0);
        let apart = converged(&chains).unwrap();
        assert!(apart.r_hat > 1.3 && apart.effective < 40.0, "{apart:?}");
        let drifting: Vec<f64> =
            autoregressive(0.5, 1000, 9).iter().zip(0..).map(|(x, t)| x + f64::from(t) / 200.0).collect();
        assert!(converged(&[drifting]).unwrap().r_hat > 1.3, "the halves of a chain are compared");
    }

    #[test]
    fn short_and_broken_chains_are_refused() {
        assert!(converged(&[]).is_err());
        assert!(converged(&[vec![0.0; 7]]).unwrap_err().to_string().contains('8'));
        assert!(converged(&[vec![0.0; 9], vec![0.0; 8]]).is_err());
        assert!(converged(&[[vec![0.0; 8], vec![f64::NAN]].concat()]).is_err());
        assert!((converged(&[vec![2.0; 8]]).unwrap().r_hat - 1.0).abs() < 1e-12);
    }
}
