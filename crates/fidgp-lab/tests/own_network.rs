//! A network that none of ours knows, in the file of the example alone: read from a config, trained, resumed, scored, exported and
//! opened again.

#[path = "../examples/own_network.rs"]
mod example;
mod fixture;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use example::{FEW, config};
use fidgp::layer::blocks_before_randomness;
use fidgp_lab::config::{NetworkConfig, RunConfig, parse};
use fidgp_lab::experiment;
use fidgp_lab::model::{Counting, Model, Signature, cost, prediction_macs};
use fidgp_lab::predict::Trained;
use fidgp_lab::record::EpochRecord;
use fidgp_lab::run_folder::RunContext;
use fidgp_lab::train::Watch;
use fidgp_zoo::MlpConfig;
use tch::Device;

fn said(result: fidgp_lab::Result<RunConfig>) -> String {
    result.unwrap_err().to_string()
}

struct StopAfterTwo<'a>(&'a AtomicBool);

impl Watch for StopAfterTwo<'_> {
    fn epoch(&mut self, record: &EpochRecord) {
        self.0.store(record.epoch >= 1, Ordering::Relaxed);
    }
}

#[test]
fn a_network_of_ones_own_is_named_trained_resumed_scored_exported_and_opened() {
    assert!(said(config(&[])).contains("`vit` is not known"), "{}", said(config(&[])));
    let unregistered = NetworkConfig::own(MlpConfig::default()).unwrap_err().to_string();
    assert!(unregistered.contains("`NetworkConfig::register`"), "{unregistered}");
    example::register().unwrap(); // the line
    for name in ["vit", "resnet-cifar"] {
        let again = NetworkConfig::register::<MlpConfig>(name).unwrap_err().to_string();
        assert!(again.contains("is there already"), "{again}");
    }

    let whole = config(&["train.epochs=4"]).unwrap();
    let printed = whole.to_toml().unwrap();
    assert!(printed.contains("[network]\nkind = \"vit\"\ndepth = 2\n"), "{printed}");
    assert_eq!(parse(&printed, &[]).unwrap(), whole);
    let typed: example::VitConfig = serde_json::from_str("{\"depth\": 2}").unwrap();
    assert_eq!(NetworkConfig::own(typed).unwrap(), whole.network, "from Rust as from a file");
    assert_ne!(config(&["network.depth=3"]).unwrap(), whole);
    for (change, words) in [
        ("network.dept=3", "`network.dept` is not known; did you mean `depth`?"),
        ("network.depth=deep", "`network.depth` was given string \"deep\" where it takes a whole number, 0 or more"),
        ("network.kind=vitt", "`vitt` is not known; did you mean `vit`?"),
    ] {
        let said = said(config(&[change]));
        assert!(said.contains(words), "{change}: {said}");
    }

    let (folder, data) = (tempfile::tempdir().unwrap(), Path::new(FEW));
    tch::set_num_threads(1);
    let found = example::run(&whole, data, folder.path()).unwrap();
    assert!(found.entropy[0] > 0.0 && found.entropy[1] > 0.0, "{:?}", found.entropy);
    assert!(found.change < f64::EPSILON, "{}", found.change);
    for score in ["energy", "residual", "variance"] {
        assert!(found.scores.iter().any(|(name, auroc)| name.starts_with(score) && auroc.is_finite()), "{score}");
    }

    // stopped after two epochs and resumed: the same weights
    let run = |name: &str| folder.path().join(name);
    let (place, stop) = (run("resumed"), AtomicBool::new(false));
    let context = || RunContext { data_root: data.to_owned(), ..fixture::context(&place, &stop) };
    experiment::run(&whole, &context(), &mut StopAfterTwo(&stop)).unwrap_err();
    stop.store(false, Ordering::Relaxed);
    experiment::run(&whole, &RunContext { resume: true, ..context() }, &mut ()).unwrap().unwrap();
    let [once, resumed] = ["run", "resumed"].map(|name| Trained::open(&run(name), Device::Cpu).unwrap());
    for (name, tensor) in once.model.store.variables() {
        assert_eq!(tensor, resumed.model.store.variables()[&name], "{name}");
    }
    assert_eq!(once.model.network.inducing().len(), 10, "the patches, four layers of each block, the head");
    assert_eq!(blocks_before_randomness(&once.model.geometry), 0);

    let head = config(&["inducing.layers=[\"head\"]"]).unwrap();
    let signature = Signature::expected(&head, None).unwrap();
    let geometry = Model::init(&head, &signature, Device::Cpu).unwrap().geometry;
    assert_eq!(blocks_before_randomness(&geometry), 3, "patches and both blocks run once for all draws");
    assert!(geometry.iter().any(|layer| layer.name == "patches" && layer.in_block && layer.blocks_before == 0));
    let counted = cost(&head, Counting::Ours).unwrap();
    assert!(prediction_macs(&head, 1).unwrap() < 8 * counted.macs);
}
