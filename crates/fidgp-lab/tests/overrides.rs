//! Values changed on the command line: entries of lists, sizes that cannot be, configs of bayesianize.

mod fixture;

use std::sync::LazyLock;

use fidgp_lab::config::{Override, RunConfig, parse};

use fixture::changed;

static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "overrides"
method = "fidgp"
network = { kind = "resnet-cifar", depth = 20 }
inducing = { inducing_rows = 16, rules = [{ layers = ["fc"], inducing_rows = 4 }] }
train.batch_size = 8
train.optimiser.learning_rate = 0.001
train.groups = [{ parameters = ["*.z_row"], rate = 0.5 }]
"#,
    )
});

fn with(changes: &[&str]) -> Result<RunConfig, String> {
    let overrides: Vec<Override> = changes.iter().map(|change| change.parse().unwrap()).collect();
    parse(&CONFIG, &overrides).map_err(|error| error.to_string())
}

#[test]
fn a_number_is_an_entry_of_a_list() {
    let config = with(&["inducing.rules.0.inducing_rows=8", "train.groups.0.rate=0.25"]).unwrap();
    assert!((config.train.groups[0].rate - 0.25).abs() < 1e-12);
    let section = toml::Table::try_from(&config).unwrap();
    assert_eq!(section["inducing"]["rules"][0]["inducing_rows"].as_integer(), Some(8));
    let pattern = with(&["inducing.rules.0.layers.0=conv1"]).unwrap();
    assert_eq!(toml::Table::try_from(&pattern).unwrap()["inducing"]["rules"][0]["layers"][0].as_str(), Some("conv1"));
    for change in ["inducing.rules.1.inducing_rows=8", "inducing.rules.first.inducing_rows=8"] {
        let error = with(&[change]).unwrap_err();
        assert!(error.contains("is no entry of `rules`, which has 1, counted from 0"), "{error}");
    }
    assert!(with(&["train.groups.0.rate.more=1"]).unwrap_err().contains("`rate` is a value, not a section"));
}

/// Naming the method that the file has changes nothing; naming another leaves what belongs to the first.
#[test]
fn the_method_of_the_file_keeps_its_settings() {
    let diagonal = "inducing.posterior={family=\"flow\",flow={kind=\"diagonal\"}}";
    let text = toml::to_string(&with(&[diagonal]).unwrap()).unwrap();
    let again = |method: &str| parse(&text, &[format!("method={method}").parse().unwrap()]).unwrap();
    assert_eq!(again("fidgp"), with(&[diagonal]).unwrap());
    assert_eq!(again("ffgu"), with(&["method=ffgu"]).unwrap());
    let mean_field =
        parse(&text, &["method=mean-field".parse().unwrap(), "baseline.max_sd=0.3".parse().unwrap()]).unwrap();
    let text = toml::to_string(&mean_field).unwrap();
    assert_eq!(parse(&text, &["method=mean-field".parse().unwrap()]).unwrap(), mean_field);
}

/// A bound that a method brings goes with it; one that the file gives a plain network stays.
#[test]
fn the_spectral_bound_of_a_method_goes_with_it() {
    let bound = |config: &RunConfig| {
        let table = toml::Table::try_from(config).unwrap();
        table["network"].get("spectral_norm").and_then(toml::Value::as_float)
    };
    let text = |method: &str, more: &[&str]| {
        let method = format!("method={method}");
        toml::to_string(&with(&[&[method.as_str()], more].concat()).unwrap()).unwrap()
    };
    let then = |text: &str, method: &str| bound(&parse(text, &[format!("method={method}").parse().unwrap()]).unwrap());
    let sngp = text("sngp", &[]);
    assert_eq!(then(&sngp, "sngp"), Some(6.0));
    assert_eq!(then(&sngp, "ddu"), Some(3.0));
    assert_eq!(then(&sngp, "deterministic"), None);
    let plain = text("deterministic", &["network.spectral_norm=2.0"]);
    assert_eq!(then(&plain, "laplace"), Some(2.0));
    assert_eq!(then(&plain, "mean-field"), None);
}

#[test]
fn all_is_a_word_for_every_layer() {
    let layers = |config: &RunConfig| toml::Table::try_from(config).unwrap()["inducing"]["layers"].clone();
    assert_eq!(layers(&with(&["inducing.layers=\"all\""]).unwrap()), layers(&with(&[]).unwrap()));
    assert!(with(&["inducing.layers=\"most\""]).unwrap_err().contains("must be \"all\", or a list"));
}

#[test]
fn a_value_of_the_wrong_kind_is_told_in_words_what_it_should_be() {
    for (change, words) in [
        ("seed=-1", "`seed` was given integer `-1` where it takes a whole number, 0 or more"),
        ("train.epochs=many", "`train.epochs` was given string \"many\" where it takes a whole number"),
        ("train.optimiser=adam", "`train.optimiser` was given string \"adam\" where it takes a table, { key = value"),
        ("train.optimiser={}", "`train.optimiser` lacks `kind`"),
        ("train.groups=3", "`train.groups` was given integer `3` where it takes a list"),
        ("inducing.inducing_rows=big", "`inducing.inducing_rows` must be a whole number, or \"sqrt\", not \"big\""),
    ] {
        let error = with(&[change]).unwrap_err();
        assert!(error.contains(words), "{error}");
    }
}

/// Tables with a `kind` are read as a whole: the key in them is found all the same.
#[test]
fn a_wrong_value_in_a_table_with_a_kind_is_named_by_its_key() {
    for (change, key) in [
        ("data.augment=flip", "`data.augment` = `flip` is not known"),
        ("data.limit=-1", "`data.limit` was given"),
        ("network.depth=deep", "`network.depth` was given"),
        ("train.optimiser.learning_rate=fast", "`train.optimiser.learning_rate` was given"),
        ("train.optimiser.betas=0.9", "`train.optimiser.betas` was given"),
        ("likelihood.smoothing=some", "`likelihood.smoothing` was given"),
    ] {
        let said = with(&[change]).unwrap_err();
        assert!(said.starts_with(key), "{change}: {said}");
    }
    // what is missing is nobody's fault among those that are there
    let said = with(&["network={kind=\"mlp\", hidden=[5]}"]).unwrap_err();
    assert!(said.starts_with("`network` lacks `activation`"), "{said}");
}

#[test]
fn inducing_sizes_that_cannot_be_are_refused_before_anything_is_built() {
    for size in ["-3", "0", "20000"] {
        for key in ["inducing.inducing_rows", "inducing.inducing_cols", "inducing.rules.0.inducing_rows"] {
            let error = with(&[&format!("{key}={size}")]).unwrap_err();
            assert!(error.contains("must be 1 to 16384 each"), "{error}");
        }
    }
}

#[test]
fn mean_field_takes_a_config_of_bayesianize() {
    let json = r#"inducing.bayesianize='{"inference": "ffg", "max_sd": 0.2, "key_layers": ["fc"]}'"#;
    let config = with(&["method=mean-field", "inducing={}", json]).unwrap();
    let expected = r#"kind = "mean-field"
init_sd = 0.0001
layers = ["fc"]
max_sd = 0.2
prior_sd = 1.0
sqrt_width_scaling = false
"#;
    assert_eq!(toml::to_string(&config.baseline.unwrap()).unwrap(), expected);
    assert!(config.inducing.is_none());
    let error = with(&["inducing={}", json]).unwrap_err();
    assert!(error.contains("method = \"mean-field\""), "{error}");
}
