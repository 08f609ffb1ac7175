//! Every method from its config to its results: parsed, printed, trained on something small, measured again.

mod fixture;

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;

use fidgp::predict::{Effort, WeightDraws};
use fidgp_lab::config::GroupConfig;
use fidgp_lab::config::{Override, RunConfig, parse};
use fidgp_lab::experiment;
use fidgp_lab::predict::{Predictor, Trained, files};
use fidgp_lab::record::Results;
use fidgp_lab::run_folder::RunContext;
use fidgp_zoo::methods::{self, METHODS, Method};
use tch::{Device, Tensor};

use fixture::{changed, config};

static CURVE: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::CURVE,
        r#"
method = "fidgp"
seed = 3
data = { train = 100, validation = 0, test = 100 }
network.hidden = [30, 30]
train = { epochs = 100, batch_size = 50, kl = { ml_epochs = 0, annealing_epochs = 20 } }
[inducing]
inducing_rows = 16
inducing_cols = 16
posterior = { family = "flow", flow = { kind = "diagonal" } }
"#,
    )
});

/// Real images: 20 of each of four classes to train on, 8 to test on.
static IMAGES: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
method = "fidgp"
seed = 3
data = { name = "cifar100", augment = "none" }
train = { epochs = 8, checkpoint_every = 0, kl = { ml_epochs = 8, annealing_epochs = 0 } }
[inducing]
inducing_rows = 4
inducing_cols = 16
posterior = { family = "flow", flow = { kind = "diagonal" } }
"#,
    )
});

fn with(text: &str, method: &str) -> RunConfig {
    config(text, &[&format!("method={method}")])
}

fn run_in(config: &RunConfig, folder: &Path, resume: bool) -> Results {
    let stop = AtomicBool::new(false);
    let context = RunContext { resume, ..fixture::context(folder, &stop) };
    let results = experiment::run(config, &context, &mut ());
    results.unwrap_or_else(|error| panic!("{}: {error}", config.method.name())).unwrap()
}

fn run(config: &RunConfig) -> Results {
    run_in(config, &tempfile::tempdir().unwrap().path().join("run"), false)
}

fn metric(results: &Results, name: &str) -> f64 {
    results.metrics[name].unwrap_or(f64::NAN)
}

#[test]
fn the_config_of_every_method_goes_through_toml() {
    for text in [CURVE.as_str(), IMAGES.as_str()] {
        let fits = |method: &&dyn Method| text == *IMAGES || method.about().predicts_numbers;
        for method in METHODS.iter().copied().filter(fits) {
            let config = with(text, method.name());
            let printed = config.to_toml().unwrap();
            assert_eq!(parse(&printed, &[]).unwrap(), config, "{printed}");
            assert!(methods::named(method.name()) == Some(method));
            assert_eq!(printed.contains("[baseline]"), method.about().section.is_some(), "{printed}");
            // a resolved config of one method serves every other one
            for other in METHODS.iter().copied().filter(|other| !other.about().is_inducing && fits(other)) {
                assert_eq!(with(&printed, other.name()).method, other);
            }
        }
    }
}

#[test]
fn what_does_not_belong_to_a_method_is_refused() {
    let refused = |changes: &[&str], words: &str| {
        let overrides: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
        let error = parse(&CURVE, &overrides).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    };
    refused(&["method=deterministic", "baseline.kind=dropout"], "does not belong to method = \"deterministic\"");
    refused(&["method=mc-dropout", "baseline.rate=1.5"], "[0, 1)");
    refused(&["method=mc-dropout", "baseline.members=3"], "baseline.members");
    refused(&["method=mc-dropuot"], "did you mean `mc-dropout`");
    refused(&["method=mean-field", "train.sharpness=0.1"], "f-sgvb-lrt");
    refused(&["method=mean-field", "baseline.init_sd=0.5"], "init_sd");
    refused(&["method=ensemble", "baseline.members=0"], "at least 1");
    refused(&["method=batch-ensemble", "baseline.fast_rate=-1"], "at least 0");
    refused(&["method=sngp"], "is for classes");
    refused(&["method=ddu"], "is for classes");
    refused(&["method=svgp", "network.spectral_norm=3.0"], "call it so");
    refused(&["method=due", "baseline.inducing_points=0"], "inducing_points");
    refused(&["method=laplace", "baseline.prior_precision=-1.0"], "prior_precision");
    refused(&["method=mean-field", "network.spectral_norm=3.0"], "network.spectral_norm");
    refused(&["method=deterministic", "network.spectral_norm=0.0"], "network.spectral_norm");
}

#[test]
fn every_method_learns_the_curve() {
    for method in METHODS.iter().copied().filter(|method| method.about().predicts_numbers) {
        let results = run(&with(&CURVE, method.name()));
        let (rmse, epistemic) = (metric(&results, "reg/RMSE_truth"), metric(&results, "reg/EpistemicSD"));
        // well below the deviation of cos over the covered inputs; a bound for learning at all, not for learning well
        assert!(rmse < 0.3, "{}: {rmse}", method.name());
        assert_eq!(epistemic > 0.0, method.name() != "deterministic", "{}: {epistemic}", method.name());
    }
}

#[test]
fn every_method_learns_real_images() {
    for method in METHODS {
        // dropout learns more slowly, and so do small inducing matrices and an SVGP head, whose logits are noisy
        let epochs = match method.name() {
            "mc-dropout" | "laplace" => 16,
            "svgp" | "due" | "ffgu" | "fidgp" => 30,
            _ => 8,
        };
        let changes = [("method", method.name().to_owned()), ("train.epochs", epochs.to_string())];
        let changes = changes.into_iter().chain([("train.kl.ml_epochs", epochs.to_string())]);
        let larger = method.about().is_inducing.then(|| ("inducing.inducing_rows", "16".to_owned()));
        // 96 of the 100 classes have no image here: nothing but the prior holds their weights, and at the precision of the
        // evidence, 0.3, draws of them win every image; at 10 they stay below what the four classes have learnt
        let narrow = (method.name() == "laplace").then(|| ("baseline.prior_precision", "10.0".to_owned()));
        let changes = changes.chain(larger).chain(narrow);
        let changes: Vec<String> = changes.map(|(key, value)| format!("{key}={value}")).collect();
        let results = run(&config(&IMAGES, &changes.iter().map(String::as_str).collect::<Vec<_>>()));
        let accuracy = metric(&results, "cls/Acc");
        // four classes: 0.25 by chance, deviation of 32 guesses 0.08
        assert!(accuracy >= 0.45, "{}: {accuracy}", method.name());
    }
}

/// Under SGD a head learns at the speed of a plain layer only where its parameters are in the unit of one.
#[test]
fn processes_as_last_layers_learn_under_sgd_as_a_plain_layer_does() {
    let sgd = "train.optimiser={kind=\"sgd\",learning_rate=0.1,momentum=0.9,weight_decay=0.0005}";
    let loss = |method: &str| {
        let changes = [&format!("method={method}"), sgd, "train.epochs=12", "train.kl.ml_epochs=12"];
        let folder = tempfile::tempdir().unwrap();
        let run = folder.path().join("run");
        run_in(&config(&IMAGES, &changes), &run, false);
        let log = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
        let last: serde_json::Value = serde_json::from_str(log.lines().last().unwrap()).unwrap();
        last["nll"].as_f64().unwrap()
    };
    let plain = loss("deterministic");
    for method in ["svgp", "due", "sngp"] {
        let own = loss(method);
        // from ln 100 = 4.6; with m, L and β as the parameters themselves it stays 0.5 (SNGP) and 1.1 (SVGP, DUE) above
        assert!(own < plain + 0.3, "{method}: {own}, plain {plain}");
    }
}

#[test]
fn parameters_are_counted_as_they_are_stored() {
    for method in METHODS.iter().copied().filter(|method| method.about().predicts_numbers) {
        let config = config(&CURVE, &[&format!("method={}", method.name()), "train.epochs=1", "train.kl={}"]);
        let results = run(&config);
        let counted = fidgp_lab::model::cost(&config, fidgp_lab::model::Counting::Ours).unwrap();
        assert_eq!(results.cost.parameters as i64, counted.parameters, "{}", method.name());
    }
}

#[test]
fn a_sharpness_aware_step_of_length_nought_is_a_plain_step() {
    let few = ["train.epochs=5", "train.kl={}"];
    let plain = run(&config(&CURVE, &[&["method=mean-field"], &few[..]].concat()));
    let sharp = run(&config(&CURVE, &[&["method=f-sgvb-lrt", "train.sharpness=1e-9"], &few[..]].concat()));
    let far = run(&config(&CURVE, &[&["method=f-sgvb-lrt", "train.sharpness=1.0"], &few[..]].concat()));
    let gap = |other: &Results| (metric(&plain, "reg/RMSE") - metric(other, "reg/RMSE")).abs();
    assert!(gap(&sharp) < 1e-3, "{}", gap(&sharp)); // BatchNorm's statistics are moved once a step, not twice
    assert!(gap(&far) > gap(&sharp));
}

/// As the guide has it: kernels and BatchNorm's scales are decayed, what is a member's own is not.
#[test]
fn a_batch_ensemble_decays_what_its_members_share() {
    let config = with(&IMAGES, "batch-ensemble");
    let decay = |name: &str| {
        let groups = config.training().groups;
        let fits = |group: &&GroupConfig| group.parameters.iter().any(|pattern| fidgp_zoo::plan::glob(pattern, name));
        groups.iter().rev().find(fits).and_then(|group| group.weight_decay)
    };
    let signature = fidgp_lab::model::Signature::expected(&config, None).unwrap();
    let model = fidgp_lab::model::Model::init(&config, &signature, Device::Cpu).unwrap();
    let names = ["layer1.0.conv1.weight", "fc.weight", "bn1.weight", "layer1.0.conv1.input_scale", "fc.output_scale"];
    for (name, expected) in names.into_iter().zip([Some(3e-4), Some(3e-4), Some(3e-4), Some(0.0), Some(0.0)]) {
        assert!(model.store.variables().contains_key(name), "{name}");
        assert_eq!(decay(name), expected, "{name}");
    }
    assert_eq!(decay("bn1.bias"), None); // that of the optimiser
}

#[test]
fn the_usual_sharpness_is_that_of_the_data() {
    let sharpness = |text: &str, changes: &[&str]| config(text, changes).train.sharpness;
    assert_eq!(sharpness(&IMAGES, &["method=f-sgvb-lrt"]), Some(0.1)); // CIFAR-100
    assert_eq!(sharpness(&IMAGES, &["method=f-sgvb-lrt", "data.name=cifar10"]), Some(0.05));
    assert_eq!(sharpness(&CURVE, &["method=f-sgvb-lrt"]), Some(0.05));
    assert_eq!(sharpness(&IMAGES, &["method=f-sgvb-lrt", "train.sharpness=0.02"]), Some(0.02));
    assert_eq!(sharpness(&IMAGES, &["method=mean-field"]), None);
}

#[test]
fn an_ensemble_goes_on_member_by_member_and_is_measured_again() {
    let small = ["method=ensemble", "baseline.members=3", "train.epochs=4", "train.kl={}"];
    let config = config(&CURVE, &small);
    let folder = tempfile::tempdir().unwrap();
    let run = folder.path().join("run");
    let whole = run_in(&config, &run, false);
    for part in ["results.json", "checkpoint/last.safetensors", "members/2/checkpoint/last.safetensors"] {
        std::fs::remove_file(run.join(part)).unwrap(); // as if it had stopped in its last member
    }
    let untouched = std::fs::metadata(run.join("members/0/checkpoint/last.safetensors")).unwrap().modified().unwrap();
    assert_eq!(run_in(&config, &run, true).metrics, whole.metrics);
    let now = std::fs::metadata(run.join("members/0/checkpoint/last.safetensors")).unwrap().modified().unwrap();
    assert_eq!(now, untouched);
    let trained = Trained::open(&run, Device::Cpu).unwrap();
    let mut predictor = Predictor::new(trained, None, WeightDraws::MEMORY).unwrap();
    let rows = folder.path().join("rows.csv");
    std::fs::write(&rows, "0.6\n1.0\n1.4\n").unwrap();
    let said = files::regress(&mut predictor, &rows, Effort::default()).unwrap();
    assert_eq!(said.len(), 3);
    assert!(said.iter().all(|row| row.epistemic_sd > 0.0));
}

#[test]
#[expect(clippy::disallowed_methods, reason = "the file is ours")]
fn members_of_an_ensemble_keep_the_noise_that_each_has_learnt() {
    let learnt = "likelihood.noise={kind=\"learnt\",init_sd=0.3}";
    let small = ["method=ensemble", "baseline.members=3", "train.epochs=4", "train.kl={}", learnt];
    let folder = tempfile::tempdir().unwrap();
    run_in(&config(&CURVE, &small), folder.path(), false);
    let noise = |part: &str| {
        let saved = Tensor::read_safetensors(folder.path().join(part).join("checkpoint/last.safetensors")).unwrap();
        saved.into_iter().find(|(name, _)| name.ends_with("likelihood._noise")).unwrap().1
    };
    let own = ["members/0", "members/1", "members/2"].map(noise);
    assert!(own[0] != own[1] && own[1] != own[2]);
    assert_eq!(noise(""), Tensor::stack(&own, 0));
}

#[test]
fn a_prediction_computes_once_what_is_not_random() {
    let macs = |changes: &[&str]| {
        let config = config(&IMAGES, changes);
        let one = fidgp_lab::model::cost(&config, fidgp_lab::model::Counting::Ours).unwrap();
        (fidgp_lab::model::prediction_macs(&config, 1).unwrap(), one)
    };
    let (plain, one) = macs(&["method=deterministic"]);
    assert_eq!(plain, one.macs);
    let head = one.layers.last().unwrap().macs;
    // a draw of Laplace turns noise of 100 classes by 32 features and a 1 by both bases
    let turned = 100 * 100 * 33 + 100 * 33 * 33;
    let (laplace, cost) = macs(&["method=laplace", "predict.draws=30"]);
    assert_eq!(laplace, one.macs + 29 * head + 30 * turned);
    assert_eq!((cost.flops_ours, cost.flops_paper), (2 * (one.macs + turned), 2 * (one.macs + turned)));
    assert_eq!(macs(&["method=mean-field", "predict.draws=4"]).0, 4 * one.macs);
    assert_eq!(macs(&["method=ensemble", "baseline.members=3"]).0, 3 * one.macs);
    let late = macs(&["method=mc-dropout", "predict.draws=2", "baseline.layers=[\"layer4.1.*\", \"fc\"]"]).0;
    let last: i64 =
        one.layers.iter().filter(|l| l.name.starts_with("layer4.1.") || l.name == "fc").map(|l| l.macs).sum();
    assert_eq!(late, one.macs + last);
    let fcn =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/camvid-fidgp-four.toml")).unwrap();
    let fcn = config(&fcn, &[]);
    let cost = fidgp_lab::model::cost(&fcn, fidgp_lab::model::Counting::Ours).unwrap();
    let runs = |layer: &&fidgp_zoo::LayerCost| !layer.name.starts_with("aux_classifier");
    let macs_of = |layer: &fidgp_zoo::LayerCost| layer.macs_ours + layer.draw_ours();
    let drawn = |layer: &&fidgp_zoo::LayerCost| {
        ["layer3.5.", "layer4.", "classifier."].iter().any(|part| layer.name.contains(part))
    };
    let all: i64 = cost.layers.iter().filter(runs).map(macs_of).sum();
    let again: i64 = cost.layers.iter().filter(runs).filter(drawn).map(macs_of).sum();
    assert_eq!(fidgp_lab::model::prediction_macs(&fcn, 1).unwrap(), all + 7 * again);
    let (sngp, cost) = macs(&["method=sngp"]);
    assert!(sngp == cost.macs && sngp > plain);
}

#[test]
fn dropout_spares_the_networks_own_inputs_unless_told() {
    let random = |changes: &[&str]| {
        let config = config(&CURVE, &[&["method=mc-dropout"], changes].concat());
        let signature = fidgp_lab::model::Signature::Regression { features: 1 };
        let model = fidgp_lab::model::Model::init(&config, &signature, Device::Cpu).unwrap();
        model.network.slots().into_iter().map(fidgp::layer::Slot::is_random).collect::<Vec<_>>()
    };
    assert_eq!(random(&[]), [false, true, true]);
    assert_eq!(random(&["baseline.inputs=true"]), [true, true, true]);
}

/// Every config that is shipped is read, printed whole, read again as the same one, and can be counted.
#[test]
fn shipped_configs_parse_print_and_round_trip() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../configs");
    let mut methods = std::collections::BTreeSet::new();
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let config = fidgp_lab::config::read(&path, &[]).unwrap_or_else(|error| panic!("{error}"));
        config.check().unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let printed = config.to_toml().unwrap();
        assert_eq!(parse(&printed, &[]).unwrap(), config, "{}", path.display());
        // a folder's classes and a table's columns are not known before they are read
        if !printed.contains("set = \"folder\"") && !printed.contains("set = \"table\"") {
            let cost = fidgp_lab::model::cost(&config, fidgp_lab::model::Counting::Ours);
            assert!(cost.unwrap_or_else(|error| panic!("{}: {error}", path.display())).parameters > 0);
        }
        methods.insert(config.method.name());
    }
    assert_eq!(methods, METHODS.iter().map(|method| method.name()).collect(), "a config for every method");
}
