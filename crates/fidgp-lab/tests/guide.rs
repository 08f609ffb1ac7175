//! The guide names every key a config can have, and one of its pages is made here: all keys with the defaults of the code.

mod fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::LazyLock;

use fidgp_lab::config::{Override, parse};
use toml::{Table, Value};

use fixture::changed;

/// The pages with tables of keys.
const GUIDE: &str = concat!(
    include_str!("../../../docs/guide.md"),
    include_str!("../../../docs/config/data.md"),
    include_str!("../../../docs/config/network.md"),
    include_str!("../../../docs/config/start.md"),
    include_str!("../../../docs/config/inducing.md"),
    include_str!("../../../docs/config/posterior.md"),
    include_str!("../../../docs/config/baseline.md"),
    include_str!("../../../docs/config/likelihood.md"),
    include_str!("../../../docs/config/train.md"),
    include_str!("../../../docs/config/predict.md"),
);

/// Configs that between them have every section: what is optional is written out, defaults are filled in by reading.
static REGRESSION: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::CURVE,
        r#"
name = "a"
method = "fidgp"
data = { train = 10, validation = 10, test = 10 }
network.hidden = [4]
network.frequency = 2.0
inducing = { rules = [{ layers = ["fc1"] }] }
posterior.kind = "linearised"
likelihood.noise = { kind = "learnt", init_sd = 0.3 }
train = { epochs = 1, optimiser.learning_rate = 0.1, clip_norm = 1.0, freeze_norm_epoch = 1.0, sync_norm = true }
"#,
    )
});
static IMAGES: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "b"
method = "fidgp"
data.limit = 100
network = { kind = "resnet", depth = 18, stem = "cifar" }
start.weights = "trained.safetensors"
inducing.posterior = { family = "ensemble", members = 3 }
train.epochs = 2
train.batch_size = 10
train.optimiser = { kind = "sgd", learning_rate = 0.1 }
train.schedule = { kind = "milestones", at = [1] }
"#,
    )
});

static FOLDER: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "c"
method = "ffgu"
normalisation = "imagenet"
data = { set = "folder", path = "imagenet", classes = 1000 }
network = { kind = "resnet", depth = 18, stem = "imagenet" }
inducing.bayesianize = '{"inference": "inducing", "inducing_rows": 4, "inducing_cols": 4}'
train.epochs = 2
train.batch_size = 10
train.optimiser = { kind = "sgd", learning_rate = 0.1 }
train.groups = [{ parameters = ["fc.*"], weight_decay = 0.0 }]
"#,
    )
});

static ARRAYS: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "f"
data = { set = "arrays", path = "my-data", classes = 4, image = [3, 32, 32], limit = 100 }
network = { kind = "resnet-cifar", depth = 20 }
train = { epochs = 2, batch_size = 10, optimiser = { kind = "sgd", learning_rate = 0.1 } }
"#,
    )
});

static TABLE: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::CURVE,
        r#"
name = "g"
network.hidden = [4]
train = { epochs = 1, optimiser.learning_rate = 0.1 }
[data]
set = "table"
path = "houses.csv"
target = "price"
features = ["size", 3]
categorical = ["size"]
ignore = ["street"]
test_fraction = 0.2
"#,
    )
});

static BOUNDED: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::IMAGES,
        r#"
name = "d"
method = "sngp"
network = { kind = "resnet-cifar", depth = 20, spectral_norm = 3.0 }
train = { epochs = 2, batch_size = 10, optimiser = { kind = "sgd", learning_rate = 0.1 } }
"#,
    )
});

static PIXELS: LazyLock<String> = LazyLock::new(|| {
    changed(
        fixture::PIXELS,
        r#"
name = "e"
data = { limit = 3, images = "images/{part}", masks = "masks/{part}", classes = ["a", "b"], void = [255] }
network = { kind = "fcn", depth = 50, outputs = 3, aux_outputs = 0 }
start = { weights = "resnet50.pth", backbone = true }
likelihood.class_weights = [1.0, 2.0]
train.epochs = 2
train.batch_size = 10
train.optimiser = { kind = "sgd", learning_rate = 0.1 }
train.schedule.kind = "poly"
predict.window = [64, 64]
"#,
    )
});

/// Methods, flows and noises that the other configs do not have.
const OTHERS: [&str; 21] = [
    "method=svgp + baseline.inducing_points=3",
    "method=laplace + baseline.prior_precision=1.0 + baseline.structure=full",
    "method=mc-dropout",
    "method=f-sgvb-lrt",
    "method=batch-ensemble",
    "method=ensemble",
    "inducing.posterior={family=\"flow\", flow={kind=\"made\", hidden=4}}",
    "inducing.posterior={family=\"flow\", flow={kind=\"iaf\"}}",
    "inducing.posterior={family=\"flow\", flow={kind=\"lipschitz\"}}",
    "inducing.posterior={family=\"flow\", flow={kind=\"diagonal\"}}",
    "inducing.posterior={family=\"flow\", flow={kind=\"coupling\", hidden=4}}",
    "likelihood.noise={kind=\"fixed\", sd=0.1}",
    "likelihood.noise={kind=\"predicted\"} + likelihood.beta_nll=0.5",
    "data={set=\"uci\", name=\"yacht\", splits=\"gap\"}",
    "data={set=\"table\", path=\"houses.csv\", target=\"price\", gap=\"size\"}",
    "data={set=\"table\", path=\"houses.csv\", group=\"street\", inputs=3, classes=2}",
    "data={set=\"table\", path=\"houses.csv\", time=\"sold\", target_transform=\"log\"}",
    "train.schedule={kind=\"cosine\"}",
    "train.alignment=0.1",
    "train.accumulate=2",
    "train.weight_draws=\"own\"",
];

/// All keys of a table that have a value, with the section they stand in: (whole path, own name).
fn keys(table: &Table, within: &str) -> Vec<(String, String)> {
    let mut all = Vec::new();
    for (key, value) in table {
        let path = if within.is_empty() { key.clone() } else { format!("{within}.{key}") };
        match value {
            Value::Table(inner) => all.extend(keys(inner, &path)),
            Value::Array(items) if items.iter().any(Value::is_table) => {
                all.extend(items.iter().filter_map(Value::as_table).flat_map(|inner| keys(inner, &path)));
            }
            _ => all.push((path, key.clone())),
        }
    }
    all
}

/// The changes of a line of `OTHERS`.
fn overrides(change: Option<&str>) -> Vec<Override> {
    change.into_iter().flat_map(|all| all.split(" + ")).map(|one| one.parse().expect("an override")).collect()
}

/// Another method has no linearised posterior.
fn without_posterior(text: &str, change: Option<&str>) -> String {
    match change {
        Some(change) if change.contains("method=") => text.replace("[posterior]\nkind = \"linearised\"\n", ""),
        _ => text.to_owned(),
    }
}

fn resolved(text: &str, change: Option<&str>) -> Table {
    let config = parse(&without_posterior(text, change), &overrides(change));
    let config = config.unwrap_or_else(|error| panic!("{change:?}: {error}"));
    config.to_toml().and_then(|text| text.parse().map_err(|_| unreachable!("it was just written"))).expect("TOML")
}

/// A key stands there with its whole path; one inside a value, such as a flow's, may stand there with its own name.
fn is_in_guide(path: &str, key: &str) -> bool {
    let own_name = [format!("`{key}`"), format!(" {key} = "), format!("\n{key} = "), format!(", {key},")];
    let inside_a_value = path.matches('.').count() >= 2;
    GUIDE.contains(&format!("`{path}`")) || inside_a_value && own_name.iter().any(|name| GUIDE.contains(name))
}

#[test]
fn every_key_is_in_the_guide() {
    let tables = [&REGRESSION, &IMAGES, &FOLDER, &ARRAYS, &TABLE, &BOUNDED, &PIXELS]
        .map(|text| resolved(text, None))
        .into_iter();
    let tables = tables.chain(OTHERS.map(|change| resolved(&REGRESSION, Some(change))));
    let missing: BTreeSet<_> = tables
        .flat_map(|table| keys(&table, ""))
        .filter(|(path, key)| !is_in_guide(path, key))
        .map(|(path, _)| path)
        .collect();
    assert!(missing.is_empty(), "not in docs/guide.md or docs/config: {missing:#?}");
}

/// The other way round: a dotted key that the guide has is one that a config has.
#[test]
fn the_guide_has_no_key_too_many() {
    let tables = [&REGRESSION, &IMAGES, &FOLDER, &ARRAYS, &TABLE, &BOUNDED, &PIXELS]
        .map(|text| resolved(text, None))
        .into_iter();
    let tables = tables.chain(OTHERS.map(|change| resolved(&REGRESSION, Some(change))));
    let graph = "network={kind=\"onnx\", path=\"a.onnx\", input=\"x\", output=\"y\", sha256=\"0\"}";
    let tables = tables.chain([resolved(&IMAGES, Some(graph))]);
    let known: BTreeSet<_> = tables.flat_map(|table| keys(&table, "")).map(|(path, _)| path).collect();
    let sections =
        ["data.", "network.", "start.", "inducing.", "posterior.", "baseline.", "likelihood.", "train.", "predict."];
    let rows = GUIDE.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.flat_map(|line| line.split('|').nth(1).unwrap_or_default().split('`').skip(1).step_by(2));
    let is_known = |key: &str| known.iter().any(|path| path == key || path.starts_with(&format!("{key}.")));
    let dotted = cells.filter(|key| sections.iter().any(|section| key.starts_with(section)));
    let unknown: Vec<_> = dotted.filter(|key| !is_known(key)).collect();
    assert!(unknown.is_empty(), "in docs/config, but no config has it: {unknown:#?}");
}

/// The value at a path, or nothing.
fn at<'a>(table: &'a Table, path: &str) -> Option<&'a Value> {
    let mut steps = path.split('.');
    let first = table.get(steps.next()?)?;
    steps.try_fold(first, |value, step| value.get(step))
}

/// What stands for a key that a config leaves out: its default, or why there is none.
#[derive(Default)]
struct Found {
    defaults: BTreeSet<String>,
    needed: bool,
}

/// Whether a config is refused without a key that it has.
fn is_required(text: &str, path: &str) -> bool {
    let mut table: Table = text.parse().expect("TOML");
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    let mut within = above.split('.').filter(|step| !step.is_empty());
    let holder = within.try_fold(&mut table, |table, step| table.get_mut(step)?.as_table_mut());
    holder.is_some_and(|holder| holder.remove(name).is_some()) && parse(&table.to_string(), &[]).is_err()
}

/// Every key of every config here, with what the code takes for it.
fn all_keys() -> BTreeMap<String, Found> {
    let mut all: BTreeMap<String, Found> = BTreeMap::new();
    let texts = [&REGRESSION, &IMAGES, &FOLDER, &ARRAYS, &TABLE, &BOUNDED, &PIXELS].map(|text| (text.as_str(), None));
    let others = OTHERS.map(|change| (REGRESSION.as_str(), Some(change)));
    for (text, change) in texts.into_iter().chain(others) {
        let written: Table = text.parse().expect("TOML");
        let changed = |path: &str| {
            let mut names = change.into_iter().flat_map(|all| all.split(" + ")).filter_map(|one| one.split('=').next());
            names.any(|name| path == name || path.starts_with(&format!("{name}.")))
        };
        let table = resolved(text, change);
        for (path, _) in keys(&table, "") {
            let found = all.entry(path.clone()).or_default();
            match (at(&table, &path), at(&written, &path)) {
                (Some(value), None) if !changed(&path) => _ = found.defaults.insert(value.to_string()),
                (_, Some(_)) if change.is_none() => found.needed |= is_required(text, &path),
                _ => {}
            }
        }
    }
    all
}

/// The tables of a config, in the order of the guide; `run` is what stands above them.
const SECTIONS: [&str; 10] =
    ["run", "data", "network", "start", "inducing", "posterior", "baseline", "likelihood", "train", "predict"];

/// The page of all keys.
fn page() -> String {
    let mut text = String::from(
        "# All keys and defaults\n\nA test makes this page from the code (`FIDGP_WRITE_PAGES=1 cargo test --release -p fidgp-lab --test guide`). \
         The default is what the code takes when a config leaves the key out; several stand where it depends on the data or the method. \
         *Required*: a config of this kind is refused without it. *Optional*: it may be left out; the page of its table says what then holds.\n",
    );
    let section_of = |path: &str| path.split_once('.').map_or("run", |(section, _)| section).to_owned();
    let mut all: Vec<_> = all_keys().into_iter().collect();
    all.sort_by_key(|(path, _)| SECTIONS.iter().position(|section| *section == section_of(path)));
    let mut section = None;
    for (path, found) in all {
        let own = section_of(&path);
        if section.as_ref() != Some(&own) {
            let (title, link) = match own.as_str() {
                "run" => ("The run".to_owned(), "../guide.md".to_owned()),
                own => (format!("`[{own}]`"), format!("{own}.md")),
            };
            let _ = write!(text, "\n## {title}\n\nExplained in [{title}]({link}).\n\n| key | default |\n|---|---|\n");
            section = Some(own);
        }
        let defaults: Vec<_> = found.defaults.iter().map(|value| format!("`{}`", value.replace('|', "\\|"))).collect();
        let default = match (defaults.is_empty(), found.needed) {
            (false, true) => format!("required, or {}", defaults.join(", ")),
            (false, false) => defaults.join(", "),
            (true, true) => "required".to_owned(),
            (true, false) => "optional".to_owned(),
        };
        let _ = writeln!(text, "| `{path}` | {default} |");
    }
    text
}

#[test]
fn the_page_of_all_keys_is_what_the_code_says() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/config/all.md");
    let wanted = page();
    if std::env::var_os("FIDGP_WRITE_PAGES").is_some() {
        std::fs::write(&path, &wanted).expect("a page");
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == wanted, "docs/config/all.md is not what the code says; run this test with FIDGP_WRITE_PAGES=1");
}
