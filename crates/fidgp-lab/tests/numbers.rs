//! A number that a config cannot mean is refused, with its key, before anything is trained.

mod fixture;

use std::sync::LazyLock;

use fidgp_lab::config::parse;
use fidgp_lab::model::{Model, Signature};
use tch::Device;

use fixture::changed;

static TABLE: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::CURVE,
        r#"
name = "a"
data = { train = 20, validation = 5, test = 5 }
network = { hidden = [5], activation = "relu" }
"#,
    )
});

static IMAGES: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "a"
data.validation_fraction = 0.1
network = { kind = "resnet-cifar", depth = 8 }
train = { epochs = 3, batch_size = 10, optimiser = { kind = "sgd", learning_rate = 0.01 } }
"#,
    )
});

static PIXELS: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::PIXELS,
        r#"
name = "a"
data = { set = "segmentation", layout = "segnet", path = "streets", crop = [32, 32] }
train = { epochs = 3, batch_size = 10, optimiser = { kind = "sgd", learning_rate = 0.01 } }
"#,
    )
});

/// What no number of a config may be.
const NO_NUMBER: [&str; 3] = ["nan", "inf", "-inf"];

/// Key, the text that holds it with `?` for its value, and values out of its range beside those that are no numbers.
type Row = (&'static str, &'static str, &'static [&'static str]);

const OF_TABLES: &[Row] = &[
    ("train.epochs", "train.epochs=?", &["0", "-1"]),
    ("train.batch_size", "train.batch_size=?", &["0", "-1"]),
    ("learning_rate", "train.optimiser.learning_rate=?", &["0.0", "-0.1"]),
    ("weight_decay", "train.optimiser.weight_decay=?", &["-5.0"]),
    ("betas", "train.optimiser.betas=[?, 0.9]", &["2.0", "1.0", "-0.1"]),
    ("betas", "train.optimiser.betas=[0.9, ?]", &["1.0"]),
    ("warmup_epochs", "train.schedule={kind=\"cosine\", warmup_epochs=?}", &["3.0", "-1.0"]),
    ("factor", "train.schedule={kind=\"milestones\", at=[1.0], factor=?}", &["0.0", "-0.1", "1.5", "1e300"]),
    ("schedule.at", "train.schedule={kind=\"milestones\", at=[?]}", &["4.0", "-1.0"]),
    ("power", "train.schedule={kind=\"poly\", power=?}", &["0.0", "-1.0"]),
    ("kl.ml_epochs", "train.kl.ml_epochs=?", &["4.0", "-1.0"]),
    ("kl.annealing_epochs", "train.kl.annealing_epochs=?", &["4.0", "-1.0"]),
    ("kl.weight", "train.kl.weight=?", &["-1.0"]),
    ("clip_norm", "train.clip_norm=?", &["0.0", "-1.0"]),
    ("sharpness", "train.sharpness=?", &["0.0", "-1.0"]),
    ("freeze_norm_epoch", "train.freeze_norm_epoch=?", &["-3.0"]),
    ("rate", "train.groups=[{parameters=[\"*\"], rate=?}]", &["-1.0"]),
    ("weight_decay", "train.groups=[{parameters=[\"*\"], weight_decay=?}]", &["-1.0"]),
    ("validate_every", "train.validate_every=?", &["-1"]),
    ("checkpoint_every", "train.checkpoint_every=?", &["-1"]),
    ("noise", "likelihood.noise={kind=\"fixed\", sd=?}", &["0.0", "-1.0"]),
    ("noise", "likelihood.noise={kind=\"learnt\", init_sd=?}", &["0.0", "-1.0"]),
    ("predict.draws", "predict.draws=?", &["0", "-1"]),
    ("predict", "predict.validation_draws=?", &["0", "-1"]),
    ("predict.batch_size", "predict.batch_size=?", &["0", "-1"]),
    ("hidden", "network.hidden=[?]", &["0", "-1", "10000000000"]),
    ("network", "network.hidden=[?]", &["99999, 99999"]),
    ("data.train", "data.train=?", &["0", "-1"]),
    ("data.test", "data.test=?", &["0", "-1"]),
    ("data.validation", "data.validation=?", &["-1"]),
    ("spectral_norm", "network.spectral_norm=?", &["0.0", "-1.0"]),
    ("train.precision", "train.precision=?", &["bf16"]),
];

const OF_INDUCING: &[Row] = &[
    ("inducing_rows", "inducing.inducing_rows=?", &["0", "-1", "10000000000"]),
    ("inducing_cols", "inducing.inducing_cols=?", &["0", "-1", "10000000000"]),
    ("init_sd_u", "inducing.init_sd_u=?", &["0.0", "-1.0", "0.1"]),
    ("init_sd_u", "inducing.max_sd_u=?", &["0.0", "-1.0"]),
    ("init_lamda", "inducing.init_lamda=?", &["0.0", "-1.0", "0.03"]),
    ("init_lamda", "inducing.max_lamda=?", &["0.0", "-1.0"]),
    ("lamda_penalty", "inducing.lamda_penalty=?", &["-1.0"]),
    ("prior_sd", "inducing.prior_sd=?", &["0.0", "-1.0"]),
    ("init_d", "inducing.init_d=?", &["0.0", "-1.0"]),
    ("jitter", "inducing.jitter=?", &["-1.0"]),
    ("members", "inducing.posterior={family=\"ensemble\", members=?}", &["0", "-1"]),
    ("slope", "inducing.posterior={family=\"flow\", flow={kind=\"diagonal\", slope=?}}", &["0.0", "1.0", "-1.0"]),
    ("dropout", "inducing.posterior={family=\"flow\", flow={kind=\"made\", dropout=?}}", &["1.0", "-1.0"]),
    ("hidden", "inducing.posterior={family=\"flow\", flow={kind=\"made\", hidden=?}}", &["0", "-1", "10000000000"]),
    ("network", "inducing.posterior={family=\"flow\", flow={kind=\"made\", hidden=?}}", &["99999"]),
    ("blocks", "inducing.posterior={family=\"flow\", flow={kind=\"made\", blocks=?}}", &["-1"]),
    ("depth", "inducing.posterior={family=\"flow\", flow={kind=\"iaf\", depth=?}}", &["0", "-1"]),
    ("layers", "inducing.posterior={family=\"flow\", flow={kind=\"lipschitz\", layers=?}}", &["0", "-1"]),
    ("layers", "inducing.posterior={family=\"flow\", flow={kind=\"coupling\", layers=?}}", &["0", "-1"]),
];

const OF_IMAGES: &[Row] = &[
    ("momentum", "train.optimiser.momentum=?", &["-1.0", "1.0", "1.5"]),
    ("smoothing", "likelihood.smoothing=?", &["-0.1", "1.0", "1.5"]),
    ("width", "network.width=?", &["0", "-1", "10000000000"]),
    ("network", "network.width=?", &["99999"]),
    ("data.limit", "data.limit=?", &["0", "1", "-1"]),
    ("validation_fraction", "data.validation_fraction=?", &["1.0", "-0.1"]),
    ("statistics_images", "predict.statistics_images=?", &["1", "-1"]),
    ("normalisation", "normalisation={mean=[?, 0.5, 0.5], sd=[1.0, 1.0, 1.0]}", &[]),
    ("normalisation", "normalisation={mean=[0.5, 0.5, 0.5], sd=[1.0, ?, 1.0]}", &["0.0", "-1.0"]),
];

const OF_PIXELS: &[Row] = &[
    ("aux_weight", "likelihood.aux_weight=?", &["-1.0"]),
    ("class_weights", "likelihood.class_weights=[?, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1]", &["-1.0"]),
    ("data.crop", "data.crop=[32, ?]", &["0", "-1"]),
    ("data.scale", "data.scale=[?, 2.0]", &["0.0", "-1.0", "3.0"]),
    ("data.scale", "data.scale=[0.5, ?]", &["0.0", "-1.0"]),
    ("data.jitter", "data.jitter=?", &["1.0", "-0.1"]),
    ("data.limit", "data.limit=?", &["0", "-1"]),
    ("predict.window", "predict.window=[?, 32]", &["0", "-1"]),
];

const OF_FOLDERS: &[Row] = &[
    ("data.crop", "data.crop=?", &["0", "-1", "300"]),
    ("data.resize", "data.resize=?", &["-1"]),
    ("data.classes", "data.classes=?", &["-1"]),
];

/// Methods with settings of their own, on images.
const OF_BASELINES: &[(&str, &[Row])] = &[
    ("mc-dropout", &[("rate", "baseline.rate=?", &["1.0", "-0.1"])]),
    (
        "mean-field",
        &[
            ("init_sd", "baseline.init_sd=?", &["0.0", "-1.0", "0.1"]),
            ("init_sd", "baseline.max_sd=?", &["0.0", "-1.0"]),
            ("prior_sd", "baseline.prior_sd=?", &["0.0", "-1.0"]),
        ],
    ),
    (
        "batch-ensemble",
        &[
            ("members", "baseline.members=?", &["0", "-1"]),
            ("init_sd", "baseline.init_sd=?", &["-1.0"]),
            ("fast_rate", "baseline.fast_rate=?", &["-1.0"]),
            ("weight_decay", "baseline.weight_decay=?", &["-1.0"]),
        ],
    ),
    ("ensemble", &[("members", "baseline.members=?", &["0", "-1"])]),
    (
        "sngp",
        &[
            ("features", "baseline.features=?", &["0", "-1", "10000000000"]),
            ("ridge", "baseline.ridge=?", &["0.0", "-1.0"]),
            ("mean_field_factor", "baseline.mean_field_factor=?", &["-1.0"]),
            ("lengthscale", "baseline.lengthscale=?", &["0.0", "-1.0"]),
        ],
    ),
    (
        "svgp",
        &[
            ("inducing_points", "baseline.inducing_points=?", &["0", "-1", "10000000000"]),
            ("samples", "baseline.samples=?", &["0", "-1"]),
        ],
    ),
    ("laplace", &[("prior_precision", "baseline.prior_precision=?", &["0.0", "-1.0"])]),
];

/// Every value of every row is refused as misuse, by a message that names the key.
fn refused(config: &str, method: &[&str], rows: &[Row]) {
    for (key, text, values) in rows {
        for value in NO_NUMBER.iter().chain(*values) {
            let change = text.replace('?', value);
            let changes: Vec<_> =
                method.iter().copied().chain([change.as_str()]).map(|one| one.parse().unwrap()).collect();
            let built = parse(config, &changes).and_then(|config| {
                Model::init(&config, &Signature::expected(&config, Some(10))?, Device::Cpu).map(|_| ())
            });
            let error = built.expect_err(&change);
            let said = error.to_string();
            let named = said.contains(key)
                || said.contains(text.split('=').next().unwrap_or(key))
                || said.contains("it takes a whole number"); // serde names the table only
            assert!(error.is_misuse() && named, "{change}: {said}");
        }
    }
}

#[test]
fn numbers_of_a_training_are_checked() {
    refused(&TABLE, &[], OF_TABLES);
    refused(&IMAGES, &[], OF_IMAGES);
    refused(&PIXELS, &[], OF_PIXELS);
    let folder = changed(&IMAGES, "data = { set = 'folder', path = 'photos', validation_fraction = 0.1 }");
    refused(&folder, &[], OF_FOLDERS);
    refused(
        &changed(&IMAGES, "start.weights = 'a.pt'"),
        &[],
        &[("statistics_images", "start.statistics_images=?", &["-1"])],
    );
}

#[test]
fn numbers_of_inducing_weights_are_checked() {
    refused(&TABLE, &["method=fidgp", "inducing.inducing_rows=4", "inducing.inducing_cols=4"], OF_INDUCING);
}

#[test]
fn numbers_of_other_methods_are_checked() {
    for (method, rows) in OF_BASELINES {
        refused(&IMAGES, &[&format!("method={method}")], rows);
    }
}
