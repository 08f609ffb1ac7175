//! A method that none of ours knows, in this file alone: a plain weight that is multiplied by noise around 1. The one line that
//! makes it a method a config can name is `register`.

mod fixture;

use std::sync::atomic::AtomicBool;

use fidgp::Key;
use fidgp::layer::{Apply, CustomWeight, DenseWeight, LayerGeometry, MakeWeight, Pass, PlannedWeight, Role};
use fidgp_lab::config::{RunConfig, parse};
use fidgp_lab::experiment;
use fidgp_lab::model::{Counting, cost, prediction_macs, training_macs};
use fidgp_lab::predict::Trained;
use fidgp_zoo::methods::{self, About, Method, Passes, Section, Settings};
use fidgp_zoo::plan::HEAD;
use fidgp_zoo::{LayerPlan, Result};
use serde::{Deserialize, Serialize};
use tch::nn::{Init, Path};
use tch::{Device, Tensor};

struct Shaken;

impl Method for Shaken {
    fn about(&self) -> About {
        About {
            section: Some(Section::of::<Shaking>("shaken")),
            passes: Passes::Draws,
            usual: |_| vec![("predict", "draws", 7.into())],
            predicts_pixels: false,
            ..About::new("shaken", "A network whose last layer is shaken")
        }
    }
}

/// `[baseline]`
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct Shaking {
    sd: f64,
}

impl Default for Shaking {
    fn default() -> Self {
        Self { sd: 0.1 }
    }
}

impl Settings for Shaking {
    fn check(&self) -> Result<()> {
        let (setting, value, advice) = ("sd".to_owned(), self.sd.to_string(), "must be at least 0".to_owned());
        if self.sd >= 0.0 { Ok(()) } else { Err(fidgp_zoo::Error::Setting { setting, value, advice }) }
    }

    fn plan(&self, plan: LayerPlan) -> LayerPlan {
        plan.custom(HEAD, self.clone())
    }
}

impl MakeWeight for Shaking {
    fn make(&self, planned: &PlannedWeight, path: &Path, key: Key) -> fidgp::Result<Box<dyn CustomWeight>> {
        let dense = planned.dense(&Role::Decayed.of(path), planned.bias, key);
        Ok(Box::new(ShakenWeight { sd: path.var("own_sd", &[1], Init::Const(self.sd)), dense }))
    }

    fn is_random(&self) -> bool {
        true
    }

    fn parameters(&self, layer: &LayerGeometry) -> i64 {
        layer.dense_parameters() + 1
    }
}

#[derive(Debug)]
struct ShakenWeight {
    dense: DenseWeight,
    sd: Tensor,
}

impl CustomWeight for ShakenWeight {
    fn name(&self) -> &str {
        &self.dense.name
    }

    fn forward(&self, x: &Tensor, pass: &mut Pass, apply: &Apply) -> fidgp::Result<Tensor> {
        let DenseWeight { name, weight, bias } = &self.dense;
        let drawn = match pass.noise.of_weight(name, weight) {
            Some(noise) => weight * (noise * &self.sd + 1.0),
            None => weight.shallow_clone(),
        };
        apply(x, &drawn, bias.as_ref(), pass)
    }

    fn is_random(&self) -> bool {
        true
    }
}

fn config(changes: &[&str]) -> fidgp_lab::Result<RunConfig> {
    let overrides: Vec<_> =
        ["method=shaken"].iter().chain(changes).map(|change| change.parse()).collect::<fidgp_lab::Result<_>>()?;
    parse(&fixture::CURVE.replace("[predict]\ndraws = 3\n", ""), &overrides)
}

#[test]
fn a_method_of_ones_own_is_named_trained_counted_recorded_and_opened() {
    let unknown = config(&[]).unwrap_err().to_string();
    assert!(unknown.contains("`method` = `shaken` is not known"), "{unknown}");
    methods::register(&Shaken).unwrap(); // the line
    assert!(methods::register(&Shaken).unwrap_err().to_string().contains("is there already"));

    let config = |changes: &[&str]| config(changes).map_err(|error| error.to_string());
    let shaken = config(&["predict.draws=5"]).unwrap();
    let printed = shaken.to_toml().unwrap();
    assert!(printed.contains("[baseline]\nkind = \"shaken\"\nsd = 0.1\n"), "{printed}");
    assert_eq!(parse(&printed, &[]).unwrap(), shaken);
    assert_eq!(parse(&printed, &["method=mean-field".parse().unwrap()]).unwrap().method.name(), "mean-field");
    for (change, words) in [
        ("baseline.sd=-1.0", "`baseline.sd` = -1 does not fit: must be at least 0"),
        ("baseline.sd=much", "`baseline.sd` was given string \"much\" where it takes a number"),
        ("baseline.ds=0.1", "`baseline.ds` is not known; did you mean `sd`?"),
        ("baseline.kind=dropout", "does not belong to method = \"shaken\""),
        ("baseline.kind=shake", "`baseline.kind` = `shake` is not known; did you mean `shaken`?"),
    ] {
        let said = config(&[change]).unwrap_err();
        assert!(said.contains(words), "{change}: {said}");
    }

    let (folder, stop) = (tempfile::tempdir().unwrap(), AtomicBool::new(false));
    let run = folder.path().join("run");
    let shaken = config(&[]).unwrap();
    let results = experiment::run(&shaken, &fixture::context(&run, &stop), &mut ()).unwrap().unwrap();
    assert_eq!((shaken.passes(), results.method.as_str()), (7, "shaken"));
    assert!(results.metrics["reg/EpistemicSD"].unwrap() > 0.0);
    let counted = cost(&shaken, Counting::Ours).unwrap();
    assert_eq!(results.cost.parameters as i64, counted.parameters);
    assert!(prediction_macs(&shaken, 1).unwrap() > counted.macs, "the head is computed for every draw");
    assert_eq!(training_macs(&shaken, 1).unwrap(), None);
    let opened = Trained::open(&run, Device::Cpu).unwrap();
    assert_eq!(opened.config, shaken);
    assert!(opened.model.store.variables().contains_key("fc2.own_sd"));
}
