//! Tables of one's own: trained on, used and refused.

use std::fmt::Write;
use std::fs;
use std::sync::LazyLock;

use serde_json::Value;

use crate::configs::{self, changed};
use crate::{Place, json};

pub static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        configs::CURVE,
        r#"
name = "houses"
method = "fidgp"
seed = 3
network = { kind = "mlp", hidden = [20], activation = "relu", batch_norm = false }
likelihood.noise = { kind = "learnt", init_sd = 0.3 }
train = { epochs = 60, batch_size = 32, select = "best" }
predict.draws = 4
[data]
set = "table"
path = "houses.csv"
target = "price"
ignore = ["street"]
test_fraction = 0.2
validation_fraction = 0.2
[inducing]
inducing_rows = 8
inducing_cols = 8
posterior = { family = "flow", flow = { kind = "diagonal" } }
"#,
    )
});

/// `price = 1000 + 300·size − 100·age`, and a part of it that no column explains, of deviation about 15.
pub fn houses(rows: usize) -> String {
    let mut text = "street,\"size, m2\",price,age\n".to_owned();
    for row in 0..rows {
        let part = |factor: usize| (row * factor % 101) as f64 / 101.0;
        let (size, age) = (part(37), part(59));
        let price = 1000.0 + 300.0 * size - 100.0 * age + 50.0 * (part(83) - 0.5);
        let _ = writeln!(text, "no {row},{size},{price},{age}");
    }
    text
}

pub fn place() -> Place {
    let place = Place::new();
    place.write("houses.toml", &CONFIG);
    place.write("data/houses.csv", &houses(200));
    place
}

pub const TRAIN: [&str; 7] = ["train", "houses.toml", "--device", "cpu", "--data", "data", "--out"];

fn means(text: &str) -> Vec<f64> {
    let said: Value = serde_json::from_str(text).unwrap();
    let of = |input: &Value| input["prediction"]["mean"].as_f64().unwrap();
    said["inputs"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn a_table_is_learnt_and_its_network_used() {
    let place = place();
    place.fidgp(&[&TRAIN[..], &["run"]].concat()).ends(0);
    let results = json(&place.path("run/results.json"));
    // The targets' deviation is about 90; what cannot be explained has one of 14.4.
    let rmse = results["metrics"]["reg/RMSE"].as_f64().unwrap();
    assert!(rmse < 30.0, "{rmse}");
    assert!(results["metrics"]["validation/reg/NLL"].is_f64());
    assert_eq!(results["figures"][0]["rows"], 40);
    let run = fs::read_to_string(place.path("run/run.toml")).unwrap();
    assert!(run.contains("\"size, m2\",") && run.contains("\"age\""), "{run}");

    // By name, in any order and beside other columns, or in the network's order without names.
    place.write("named.csv", "age;owner;size, m2\n0.5;A;0.1\n0.1;B;0.9\n");
    place.write("bare.csv", "0.1 0.5\n0.9 0.1\n");
    let predict = |model: &str, file: &str| {
        means(&place.fidgp(&["predict", model, file, "--json", "--device", "cpu"]).ends(0).out)
    };
    let named = predict("run", "named.csv");
    assert_eq!(named, predict("run", "bare.csv"));
    assert!((named[0] - 980.0).abs() < 60.0 && (named[1] - 1260.0).abs() < 60.0, "{named:?}");
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    assert_eq!(named, predict("model", "named.csv"));
    let again = place.fidgp(&["eval", "model", "--data", "data", "--device", "cpu", "--json"]).ends(0).out;
    let again = serde_json::from_str::<Value>(&again).unwrap()["metrics"]["reg/RMSE"].as_f64().unwrap();
    assert!((again / rmse - 1.0).abs() < 1e-5, "{again} and {rmse}"); // weights lie elsewhere in memory, sums differ
    place.fidgp(&["report", "run"]).ends(0);
    assert!(place.path("run/houses-forecasts.svg").exists() && place.path("run/houses-coverage.svg").exists());

    place.write("short.csv", "age\n0.5\n");
    place.fidgp(&["predict", "run", "short.csv"]).ends(1).says(&["short.csv", "has no column `size, m2`", "age"]);
    place.write("data/houses.csv", &houses(201));
    let resume = ["train", "--resume", "run", "--data", "data", "--device", "cpu"];
    place.fidgp(&resume).ends(2).says(&["other training examples", "129, were 128"]);
}

/// A folder from before columns were remembered: its columns are numbers, and must all be there.
#[test]
fn a_run_of_before_is_used_as_before() {
    let place = place();
    place.fidgp(&[&TRAIN[..], &["run", "--set", "train.epochs=2"]].concat()).ends(0);
    place.write("new.csv", "age,\"size, m2\"\n0.5,0.1\n");
    let predict = || means(&place.fidgp(&["predict", "run", "new.csv", "--json", "--device", "cpu"]).ends(0).out);
    let eval = || place.fidgp(&["eval", "run", "--data", "data", "--device", "cpu"]).ends(0).out;
    let now = (predict(), eval());
    let mut view = json(&place.path("run/table.json"));
    assert_eq!(view.as_object_mut().unwrap().remove("columns").unwrap()[0]["kind"], "number");
    place.write("run/table.json", &view.to_string());
    assert_eq!((predict(), eval()), now);
    place.fidgp(&["calibrate", "run", "--data", "data", "--device", "cpu"]).ends(0);
    place.write("new.csv", "age,\"size, m2\"\n0.5,NA\n");
    place.fidgp(&["predict", "run", "new.csv"]).ends(1).says(&["line 2: `NA` is no number: a value is missing"]);
}

#[test]
fn a_dry_run_says_what_would_be_trained_and_writes_nothing() {
    let place = place();
    let said = place.fidgp(&[&TRAIN[..], &["run", "--dry-run"]].concat()).ends(0).out;
    for line in
        ["data        128 training examples\n", "takes       2 numbers", "gives       a number", "60 epochs of 4 steps"]
    {
        assert!(said.contains(line), "{said}");
    }
    let time = said.lines().find(|line| line.starts_with("time ")).unwrap();
    let step = time.split("a step takes ").nth(1).unwrap();
    assert!(step.split(' ').next().unwrap().parse::<f64>().unwrap() > 0.0, "{time}");
    let mut several: toml::Table = CONFIG.parse().unwrap();
    several.remove("inducing");
    several.insert("method".to_owned(), "ensemble".into());
    place.write("several.toml", &several.to_string());
    let several = place.fidgp(&["train", "several.toml", "--data", "data", "--dry-run", "--device", "cpu"]).ends(0).out;
    assert!(several.contains(" networks one after another\n"), "{several}");
    assert!(!place.path("run").exists());
    let parameters: f64 = said.split("fidgp, ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    place.fidgp(&[&TRAIN[..], &["run", "--set", "train.epochs=1", "--set", "train.select=last"]].concat()).ends(0);
    let results = json(&place.path("run/results.json"));
    assert!(results.to_string().contains(&format!(":{parameters}")), "{parameters}: {results}");
    let words = ["--dry-run", "--set", "data.target=none"];
    place.fidgp(&[&TRAIN[..], &["run"], &words].concat()).ends(1).says(&["no column `none`"]);
}

#[test]
fn a_table_resumes_where_it_stopped() {
    let place = place();
    let with = |out: &'static str, more: &[&str]| {
        place.fidgp(&[&TRAIN[..], &[out, "--threads", "1", "--set", "train.select=last"], more].concat()).ends(0)
    };
    with("whole", &["--set", "train.epochs=4"]);
    with("half", &["--set", "train.epochs=2"]);
    let longer = fs::read_to_string(place.path("half/run.toml")).unwrap().replace("epochs = 2\n", "epochs = 4\n");
    fs::write(place.path("half/run.toml"), longer).unwrap();
    place.fidgp(&["train", "--resume", "half", "--data", "data", "--device", "cpu", "--threads", "1"]).ends(0);
    let metrics = |run: &str| json(&place.path(&format!("{run}/results.json")))["metrics"].clone();
    assert_eq!(metrics("whole"), metrics("half"));
}

#[test]
fn other_files_hold_tables_too() {
    let place = place();
    let (features, targets): (Vec<f64>, Vec<f64>) =
        ((0..60).map(|i| f64::from(i * 7 % 31)).collect(), (0..30).map(f64::from).collect());
    let bytes = |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
    let header = r#"{"features":{"dtype":"F64","shape":[30,2],"data_offsets":[0,480]},"targets":{"dtype":"F64","shape":[30],"data_offsets":[480,720]}}"#;
    let stored =
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &bytes(&features), &bytes(&targets)].concat();
    fs::write(place.path("data/stored.safetensors"), stored).unwrap();
    let set = |path: &str, out: &str, more: &[&str]| {
        let change = format!("data={{set=\"table\",path=\"{path}\"}}");
        let words = [out, "--set", &change, "--set", "train.epochs=1", "--set", "train.select=last"];
        place.fidgp(&[&TRAIN[..], &words, more].concat())
    };
    set("stored.safetensors", "stored", &[]).ends(0);
    let run = fs::read_to_string(place.path("stored/run.toml")).unwrap();
    assert!(run.contains("target = \"targets\""), "{run}");
    place.write("data/bare.txt", "1 2 3\n2 3 5\n3 5 8\n4 4 8\n");
    place.write("data/later.txt", "1 1 2\n");
    set("bare.txt", "bare", &["--set", "data.target=0", "--set", "data.test=later.txt"]).ends(0);
    assert_eq!(json(&place.path("bare/results.json"))["figures"][0]["observed"], serde_json::json!([1.0]));
}

#[test]
fn what_a_table_cannot_be_is_told() {
    let place = place();
    let said = |change: &str| place.fidgp(&[&TRAIN[..], &["run", "--set", change]].concat());
    said("data.target=prize").ends(1).says(&["houses.csv", "no column `prize`", "street, size, m2, price, age"]);
    said("data.ignore=[]").ends(1).says(&["column `street` has 128 texts, all different", "data.ignore"]);
    said("data.features=[\"price\"]").ends(2).says(&["data.features", "`price`, which is the target"]);
    said("data.features=[\"age\",\"age\"]").ends(2).says(&["`age`, which is named before"]);
    said("data.test_fraction=1").ends(2).says(&["data.test_fraction", "between 0 and 1"]);
    said("data.test=\"other.csv\"").ends(2).says(&["data.test_fraction", "leave one of them out"]);
    said("data.gap=\"size, m2\"").ends(2).says(&["data.gap", "leave out data.test"]);
    let gap = "data={set=\"table\",path=\"houses.csv\",target=\"price\",ignore=[\"street\"],gap=\"sise\",validation_fraction=0.2}";
    said(gap).ends(2).says(&["data.gap", "`sise` is no feature; there are size, m2, age"]);
    said("data.tagret=\"price\"").ends(2).says(&["tagret", "target"]);
    said("data.path=\"none.csv\"").ends(1).says(&["none.csv", "cannot be read"]);
    said("method=sngp").ends(2).says(&["sngp", "for classes"]);
    assert!(!place.path("run").exists());
    place.fidgp(&["cost", "houses.toml"]).ends(2).says(&["data.features", "name the columns"]);
    let check = place.fidgp(&["data", "check", "data/houses.csv"]).ends(0).out;
    assert!(
        check.contains("columns: street, size, m2, price, age") && check.contains("column `street` has 200 texts"),
        "{check}"
    );
}

#[test]
fn an_index_among_the_features_is_told() {
    let place = Place::new();
    place.write("houses.toml", &CONFIG.replace("ignore = [\"street\"]\n", "").replace("epochs = 60", "epochs = 1"));
    place.write("data/houses.csv", &houses(50).replace("no ", ""));
    place.fidgp(&[&TRAIN[..], &["run"]].concat()).ends(0).says(&["column `street` numbers the rows", "data.ignore"]);
}

#[test]
fn methods_are_compared_row_by_row() {
    let place = place();
    let compare = |methods: &str| {
        let words = ["compare", "houses.toml", "--methods", methods, "--seeds", "1", "--data", "data", "--out", "both"];
        place.fidgp(&[&words[..], &["--device", "cpu", "--set", "train.epochs=3"]].concat())
    };
    compare("deterministic,fidgp").ends(0);
    let differences = json(&place.path("both/comparison.json"))["differences"].clone();
    let nll = differences.as_array().unwrap().iter().find(|d| d["metric"] == "reg/NLL").unwrap().clone();
    assert_eq!((&nll["units"], &nll["pairs"]), (&"examples".into(), &40.into()));
    // rows that are no longer the same are not paired
    place.write("data/houses.csv", &houses(200).replace("no 7,", "no 7,1"));
    let said = compare("deterministic,ffgu").ends(2);
    said.says(&["houses-ffgu", "was measured on other test examples than `houses-deterministic`"]);
}
