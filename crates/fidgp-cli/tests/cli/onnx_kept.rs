//! Networks of other frameworks keep all their weights, whatever their layers are called, and their graph.

use std::fs;

use safetensors::tensor::{Dtype, TensorView};

use crate::onnx::{CONFIG, graph, numbers, picture, write};
use crate::{Place, fixture, json};

fn place(file: &str) -> Place {
    let place = Place::new();
    place.write("small.toml", CONFIG);
    fs::copy(graph(file), place.path("pictures.onnx")).unwrap();
    place
}

fn words<'a>(words: &[&'a str], data: &'a str) -> Vec<&'a str> {
    [words, &["--device", "cpu", "--data", data]].concat()
}

/// Layers may be called `input` and `likelihood`, as the variables of normalisation and likelihood begin.
#[test]
fn no_weight_is_lost_for_its_layers_name() {
    let data = fixture("cifar100-small");
    let data = data.to_str().unwrap();
    for method in ["fidgp", "deterministic"] {
        let place = place("named.dynamo.onnx");
        let method = format!("method={method}");
        let train =
            ["train", "small.toml", "--out", "run", "--threads", "1", "--set", "train.epochs=1", "--set", &method];
        place.fidgp(&words(&train, data)).ends(0);
        let floats = picture(&place);
        let predicted = |model: &str| {
            let words = ["predict", model, "picture.png", "--device", "cpu", "--json", "--top", "100"];
            serde_json::from_str::<serde_json::Value>(&place.fidgp(&words).ends(0).out).unwrap()["inputs"][0].clone()
        };
        let before = predicted("run");
        place.fidgp(&["export", "run", "--out", "model", "--data", data]).ends(0);
        assert_eq!(predicted("model"), before, "{method}");

        for (format, out) in [("onnx", "out.onnx"), ("torch", "out.safetensors")] {
            place.fidgp(&["export", "run", "--format", format, "--out", out, "--data", data]).ends(0);
        }
        for (name, count) in
            [("input.weight", 108), ("input.bias", 4), ("likelihood.weight", 400), ("likelihood.bias", 100)]
        {
            let kept = numbers(&place.path("out.safetensors"), name);
            assert!(kept.len() == count && kept.iter().any(|number| number.abs() > 1e-6), "{method}, {name}");
        }
        write(&place.path("in.safetensors"), "input", vec![1, 3, 32, 32], &floats);
        place.fidgp(&["onnx", "run", "out.onnx", "--inputs", "in.safetensors", "--out", "seen.safetensors"]).ends(0);
        let probabilities = numbers(&place.path("seen.safetensors"), "probabilities");
        for top in before["top"].as_array().unwrap() {
            let (index, wanted) = (top["index"].as_u64().unwrap() as usize, top["probability"].as_f64().unwrap());
            assert!((f64::from(probabilities[index]) - wanted).abs() < 1e-4, "{method}, class {index}: {before}");
        }
    }
}

/// A run needs no file but its own, and knows when that is another one.
#[test]
fn a_run_keeps_its_graph() {
    let place = place("pictures.dynamo.onnx");
    let data = fixture("cifar100-small");
    let data = data.to_str().unwrap();
    let wrap = ["wrap", "small.toml", "--set", "train.epochs=1", "--out", "run"];
    place.fidgp(&words(&wrap, data)).ends(0);
    let original = fs::read(place.path("pictures.onnx")).unwrap();
    assert_eq!(fs::read(place.path("run/network.onnx")).unwrap(), original);
    let config: toml::Table = fs::read_to_string(place.path("run/run.toml")).unwrap().parse().unwrap();
    assert_eq!(config["network"]["path"].as_str(), Some("pictures.onnx"), "what was asked for");
    assert_eq!(config["network"]["sha256"].as_str().map(str::len), Some(64));

    // what lies at the place later is another network
    fs::copy(graph("named.dynamo.onnx"), place.path("pictures.onnx")).unwrap();
    place.fidgp(&words(&["train", "--resume", "run"], data)).ends(0);
    fs::remove_file(place.path("pictures.onnx")).unwrap();
    picture(&place);
    place.fidgp(&["predict", "run", "picture.png", "--device", "cpu"]).ends(0);
    place.fidgp(&["export", "run", "--out", "model", "--data", data]).ends(0);
    assert_eq!(fs::read(place.path("model/network.onnx")).unwrap(), original);
    place.fidgp(&["export", "run", "--format", "onnx", "--draws", "mean", "--out", "out.onnx", "--data", data]).ends(0);
    fs::copy(graph("named.dynamo.onnx"), place.path("run/network.onnx")).unwrap();
    let predict = ["predict", "run", "picture.png", "--device", "cpu"];
    place.fidgp(&predict).ends(2).says(&["run/network.onnx", "SHA-256", "was replaced since"]);
    assert!(json(&place.path("model/config.json"))["run"]["network"]["sha256"].is_string());
    place.fidgp(&["predict", "model", "picture.png", "--device", "cpu"]).ends(0);
}

/// A map of pixels is no answer to which class a picture has.
#[test]
fn outputs_that_do_not_fit_the_data_are_refused() {
    let place = place("unet.dynamo.onnx");
    fs::create_dir_all(place.path("mine")).unwrap();
    for part in ["train", "test"] {
        let (labels, pixels): (Vec<u8>, Vec<u8>) = ((0..20).map(|k| k % 2).collect(), vec![7; 20 * 3 * 16 * 16]);
        let view = |shape: Vec<usize>, bytes| TensorView::new(Dtype::U8, shape, bytes).unwrap();
        let all = [("labels", view(vec![20], &labels)), ("images", view(vec![20, 3, 16, 16], &pixels))];
        fs::write(place.path(&format!("mine/{part}.safetensors")), safetensors::serialize(all, None).unwrap()).unwrap();
    }
    let mine = "data={set=\"arrays\", path=\"mine\", classes=2, image=[3,16,16]}";
    let train = ["train", "small.toml", "--out", "run", "--set", mine];
    let said = place.fidgp(&words(&train, ".")).ends(2);
    said.says(&["network.path", "pictures.onnx", "have the shape [N, 2, 16, 16], the data need [N, 2]"]);
    assert!(!place.path("run").exists());
}

/// Three rows of six columns.
const ROWS: [[f32; 6]; 3] =
    [[1.0, 2.0, 3.0, 1.0, 2.0, 0.5], [4.0, 0.2, 1.3, 2.5, 3.0, 1.0], [0.3, -2.0, 0.9, 3.0, 2.0, -5.0]];

fn lines(columns: &str, rows: impl IntoIterator<Item = Vec<f32>>) -> String {
    let line = |row: Vec<f32>| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",") + "\n";
    format!("{columns}\n") + &rows.into_iter().map(line).collect::<String>()
}

/// A table's network that was trained elsewhere predicts here what it predicted there, in the target's own unit: columns as
/// they are, or scaled by the numbers that it was trained with.
#[test]
fn a_table_starts_from_the_weights_of_a_graph() {
    let place = Place::new();
    fs::copy(graph("mlp_batch_norm.dynamo.onnx"), place.path("six.onnx")).unwrap();
    let table =
        |row: i32| (0..7).map(|column: i32| ((row * 7 + column) * 37 % 101) as f32 / 20.0).collect::<Vec<f32>>();
    place.write("data/six.csv", &lines("a,b,c,d,e,f,y", (0..60).map(table)));
    place.write(
        "six.toml",
        "name = \"six\"\nmethod = \"deterministic\"\nseed = 2\n[data]\nset = \"table\"\npath = \"six.csv\"\ntarget = \"y\"\n\
         test_fraction = 0.2\nvalidation_fraction = 0.2\n[network]\nkind = \"onnx\"\npath = \"six.onnx\"\n[start]\n\
         weights = \"six.onnx\"\nstatistics_images = 0\n[likelihood]\nkind = \"gaussian\"\nnoise = { kind = \"fixed\", sd = 0.3 }\n\
         [train]\nepochs = 0\nbatch_size = 32\noptimiser = { kind = \"adam\", learning_rate = 0.01 }\n",
    );
    let train = |run: &str, normalisation: &str| {
        let set = format!("normalisation={normalisation}");
        let words = ["train", "six.toml", "--device", "cpu", "--data", "data", "--out", run, "--set", &set];
        place.fidgp(if normalisation.is_empty() { &words[..8] } else { &words })
    };
    train("run", "").ends(2).says(&["normalisation", "columns of a table", "\"none\""]);
    train("run", "imagenet").ends(2).says(&["normalisation", "is for pictures"]);
    train("run", "{mean=[0.0], sd=[1.0]}").ends(2).says(&["has 1 means, the network takes 6 columns"]);
    let (mean, sd) = ([1.0, 0.5, -2.0, 0.0, 3.0, 1.0], [2.0, 0.5, 1.0, 3.0, 0.25, 1.0]);
    train("plain", "none").ends(0);
    train("scaled", &format!("{{mean={mean:?}, sd={sd:?}}}")).ends(0);

    write(&place.path("in.safetensors"), "input", vec![3, 6], &ROWS.concat());
    place.fidgp(&["onnx", "run", "six.onnx", "--inputs", "in.safetensors", "--out", "out.safetensors"]).ends(0);
    let wanted = numbers(&place.path("out.safetensors"), "output");
    let own = |row: [f32; 6]| (0..6).map(|k| row[k] * sd[k] as f32 + mean[k] as f32).collect::<Vec<f32>>();
    place.write("plain.csv", &lines("a,b,c,d,e,f", ROWS.map(Vec::from)));
    place.write("scaled.csv", &lines("a,b,c,d,e,f", ROWS.map(own)));
    for run in ["plain", "scaled"] {
        let rows = format!("{run}.csv");
        let said = place.fidgp(&["predict", run, &rows, "--device", "cpu", "--json"]).ends(0);
        let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
        for (row, wanted) in wanted.iter().enumerate() {
            let mean = said["inputs"][row]["prediction"]["mean"].as_f64().unwrap();
            assert!((mean - f64::from(*wanted)).abs() < 1e-4, "{run}, row {row}: {mean} {wanted}");
        }
    }
}
