//! Guo et al.: On Calibration of Modern Neural Networks (2017). One number that all logits are divided by, fitted on examples
//! that were not trained on; for a network with several draws or members, inside each of them.

use fidgp::layer::{Mode, Network, Pass};
use tch::{Kind, Tensor};

use crate::minimum::least;
use crate::{Error, Result};

/// A temperature is looked for between its inverse and this.
pub const HOTTEST: f64 = 20.0;

/// Whether a temperature is an end of the range it was looked for in: the NLL would fall further beyond it.
pub fn at_edge(temperature: f64) -> bool {
    temperature.ln().abs() > HOTTEST.ln() - 1e-9
}

/// A network whose logits are divided by a temperature in evaluation.
#[derive(Debug)]
pub struct Tempered {
    /// The network.
    pub network: Box<dyn Network>,
    /// T; 1 changes nothing.
    pub temperature: f64,
}

impl Tempered {
    /// # Errors
    /// When the temperature is not positive.
    pub fn check(temperature: f64) -> Result<()> {
        if temperature > 0.0 && temperature.is_finite() {
            return Ok(());
        }
        Err(Error::setting("temperature", temperature, "must be greater than 0; 1 changes nothing"))
    }

    fn cool(&self, logits: Tensor, pass: &Pass) -> Tensor {
        if pass.mode == Mode::Eval { logits / self.temperature } else { logits }
    }
}

fidgp::layers!(Tempered: network);

impl Network for Tempered {
    fn forward(&self, x: &Tensor, pass: &mut Pass) -> fidgp::Result<Tensor> {
        let logits = self.network.forward(x, pass)?;
        Ok(self.cool(logits, pass))
    }

    fn head(&self) -> Option<&str> {
        self.network.head()
    }

    fn takes_empty_batches(&self) -> bool {
        self.network.takes_empty_batches()
    }

    fn members(&self) -> i64 {
        self.network.members()
    }
}

/// `mean_k softmax(logits_k/T)`. `[K, N, C]` → `[N, C]`
pub fn probabilities(logits: &Tensor, temperature: f64) -> Tensor {
    let each = (logits.to_kind(Kind::Double) / temperature).softmax(-1, Kind::Double);
    each.mean_dim(0, false, Kind::Double)
}

/// Mean of `−ln p(label)`. `[K, N, C]`, `[N]` → a number
fn nll(logits: &Tensor, labels: &Tensor, temperature: f64) -> f64 {
    let log_p = (logits / temperature).log_softmax(-1, Kind::Double); // [K, N, C]
    let index = labels.view([1, -1, 1]).expand([logits.size()[0], -1, 1], false);
    let own = log_p.gather(-1, &index, false).squeeze_dim(-1); // [K, N]
    -(own.logsumexp(0, false).mean(Kind::Double).double_value(&[]) - (logits.size()[0] as f64).ln())
}

/// The temperature with the lowest NLL of the mean over draws.
///
/// # Shapes
/// logits `[K, N, C]`, labels `[N]`
///
/// # Errors
/// When there is no example, or the labels do not fit.
pub fn fit(logits: &Tensor, labels: &Tensor) -> Result<f64> {
    let [_, rows, classes] = logits.size()[..] else {
        return Err(fidgp::Error::shape("logits", &logits.size(), "[draws, N, classes]").into());
    };
    super::expect_shape("labels", labels, &[rows])?;
    let fits = rows > 0 && labels.min().int64_value(&[]) >= 0 && labels.max().int64_value(&[]) < classes;
    if !fits {
        return Err(Error::setting("labels", rows, format!("must be at least one, of {classes} classes")));
    }
    let logits = logits.to_kind(Kind::Double);
    Ok(least((-HOTTEST.ln(), HOTTEST.ln()), |log| nll(&logits, labels, log.exp())).exp())
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp::Key;
    use tch::Device;

    /// Labels drawn from softmax(logits): the best temperature of 3·logits is 3.
    fn overconfident(draws: i64) -> (Tensor, Tensor) {
        let logits = Key::new(2).normal(&[1, 4000, 5], Kind::Double, Device::Cpu) * 1.5;
        let gumbel = -(-Key::new(3).uniform(&[4000, 5], Kind::Double, Device::Cpu).log()).log();
        let labels = (logits.get(0) + gumbel).argmax(-1, false);
        (logits.repeat([draws, 1, 1]) * 3.0, labels)
    }

    #[test]
    fn a_fit_mends_overconfident_logits() {
        for draws in [1, 3] {
            let (logits, labels) = overconfident(draws);
            let temperature = fit(&logits, &labels).unwrap();
            assert!((temperature - 3.0).abs() < 0.3, "{temperature}"); // 4 standard errors of 4000 examples, roughly
            let at = |temperature: f64| nll(&logits, &labels, temperature);
            assert!(at(temperature) < at(1.0) - 0.3, "{} {}", at(temperature), at(1.0));
            let p = probabilities(&logits, temperature);
            assert!((p.sum_dim_intlist(-1, false, Kind::Double) - 1.0).abs().max().double_value(&[]) < 1e-12);
        }
    }

    #[test]
    fn a_fit_that_ends_at_an_edge_is_known() {
        let (logits, labels) = overconfident(1);
        assert!(!at_edge(fit(&logits, &labels).unwrap()));
        let right = labels.one_hot(5).unsqueeze(0).to_kind(Kind::Double); // never wrong: the colder the better
        for (logits, edge) in [(&right * 0.1, 1.0 / HOTTEST), (&right * 1e3, 1.0 / HOTTEST), (&right * -1.0, HOTTEST)] {
            let temperature = fit(&logits, &labels).unwrap();
            assert!(at_edge(temperature) && (temperature / edge - 1.0).abs() < 1e-9, "{temperature}");
        }
    }

    #[test]
    fn what_does_not_fit_is_an_error() {
        let (logits, labels) = overconfident(1);
        assert!(fit(&logits.get(0), &labels).is_err());
        assert!(fit(&logits, &labels.narrow(0, 0, 7)).is_err());
        assert!(fit(&logits, &(labels + 3)).is_err());
        assert!(Tempered::check(0.0).is_err() && Tempered::check(f64::NAN).is_err());
    }
}
