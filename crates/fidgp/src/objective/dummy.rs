//! A likelihood as somebody else would add it: this file, and its line in `likelihoods!`.

use serde::{Deserialize, Serialize};
use tch::nn::{Path, VarStore};
use tch::{Device, Kind, Tensor};

use super::{
    GaussianOutput, Given, Likelihood, LikelihoodConfig, LikelihoodSettings, NumberLikelihood, Reading, Targets,
};
use crate::layer::Curvature;
use crate::{Error, Result};

/// Numbers with Laplace noise of a known width b: p(y) = exp(−|y − f| / b) / 2b.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DummySettings {
    width: f64,
}

impl LikelihoodSettings for DummySettings {
    fn targets(&self) -> Targets {
        Targets::Numbers
    }

    fn check(&self, _: Option<usize>) -> Result<()> {
        let fits = self.width > 0.0 && self.width.is_finite();
        if fits { Ok(()) } else { Err(Error::setting("likelihood.width", self.width, "must be greater than 0")) }
    }

    fn outputs(&self, _: i64) -> i64 {
        1
    }

    fn init(&self, _: &Path, _: &Given) -> Result<Box<dyn Likelihood>> {
        self.check(None)?;
        Ok(Box::new(Dummy(self.width)))
    }
}

#[derive(Debug)]
struct Dummy(f64);

impl Likelihood for Dummy {
    fn nll(&self, outputs: &Tensor, targets: &Tensor) -> Tensor {
        (outputs.squeeze_dim(1) - targets).abs().mean(None::<Kind>) / self.0 + (2.0 * self.0).ln()
    }

    fn curvature(&self, outputs: &Tensor) -> Curvature {
        Curvature { diagonal: outputs.ones_like() / self.0.powi(2), outer: None }
    }

    fn reading(&self) -> Reading<'_> {
        Reading::Numbers(self)
    }
}

impl NumberLikelihood for Dummy {
    fn output(&self, outputs: &Tensor) -> GaussianOutput {
        let mean = outputs.squeeze_dim(1);
        GaussianOutput { variance: mean.full_like(2.0 * self.0.powi(2)), mean }
    }
}

#[test]
fn one_file_and_one_line_make_a_likelihood() {
    let config: LikelihoodConfig = serde_json::from_str(r#"{"kind":"dummy","width":0.5}"#).unwrap();
    assert_eq!((config.kind().as_str(), config.targets(), config.outputs(0)), ("dummy", Targets::Numbers, 1));
    let store = VarStore::new(Device::Cpu);
    let given = Given { members: 1, classes: 0, head: 1 };
    let likelihood = config.init(&store.root(), &given).unwrap();
    let outputs = Tensor::from_slice(&[1.0, 2.0]).unsqueeze(1);
    let nll = likelihood.nll(&outputs, &Tensor::from_slice(&[1.5, 2.0])).double_value(&[]);
    assert!((nll - 0.5).abs() < 1e-12, "{nll}"); // (0.5 + 0) / 2 / 0.5 + ln 1
    let said = likelihood.reading().numbers().unwrap().output(&outputs);
    assert_eq!(said.variance, Tensor::from_slice(&[0.5, 0.5]));
    let refused: LikelihoodConfig = serde_json::from_str(r#"{"kind":"dummy","width":0.0}"#).unwrap();
    assert!(refused.init(&store.root(), &given).is_err());
}
