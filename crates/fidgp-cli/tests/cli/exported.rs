//! Networks of every kind written as graphs: what a graph gives is what `predict` gives, uncertainty and decisions too.

use std::fs;
use std::path::Path;

use safetensors::SafeTensors;
use serde_json::Value;

use crate::onnx::write;
use crate::wrap::PLAIN;
use crate::{Place, fixture, json};

const CPU: [&str; 2] = ["--device", "cpu"];

/// What a graph gives, by name: numbers, or 0 and 1 for no and yes.
struct Outputs(Vec<(String, Vec<f64>)>);

impl Outputs {
    #[track_caller]
    fn of(&self, name: &str) -> &[f64] {
        let found = self.0.iter().find(|(own, _)| own == name);
        &found.unwrap_or_else(|| panic!("no output `{name}` in {:?}", self.0)).1
    }

    fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(own, _)| own == name)
    }
}

fn run(place: &Place, file: &str, shape: Vec<usize>, inputs: &[f32]) -> Outputs {
    write(&place.path("in.safetensors"), "input", shape, inputs);
    let words = ["onnx", "run", file, "--inputs", "in.safetensors", "--out", "out.safetensors"];
    place.fidgp(&words).ends(0);
    let bytes = fs::read(place.path("out.safetensors")).unwrap();
    let tensors = SafeTensors::deserialize(&bytes).unwrap();
    let numbers = |name: &str| {
        let tensor = tensors.tensor(name).unwrap();
        match tensor.data().len() / tensor.shape().iter().product::<usize>() {
            1 => tensor.data().iter().map(|byte| f64::from(*byte)).collect(),
            _ => tensor
                .data()
                .chunks_exact(4)
                .map(|four| f64::from(f32::from_le_bytes(four.try_into().unwrap())))
                .collect(),
        }
    };
    Outputs(tensors.names().into_iter().map(|name| (name.to_owned(), numbers(name))).collect())
}

#[track_caller]
fn close(name: &str, ours: f64, wanted: f64) {
    assert!((ours - wanted).abs() < 1e-4 * wanted.abs().max(1.0), "{name}: {ours} {wanted}");
}

/// The pictures of the tests, one after the other.
fn pixels() -> (Vec<usize>, Vec<f32>) {
    let mut files: Vec<_> =
        fs::read_dir(fixture("cifar100-pictures")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut all = Vec::new();
    for file in &files {
        let picture = image::open(file).unwrap().to_rgb8();
        for channel in 0..3 {
            all.extend(picture.pixels().map(|pixel| f32::from(pixel.0[channel])));
        }
    }
    (vec![files.len(), 3, 32, 32], all)
}

/// Compares a graph with `fidgp predict MODEL` on pictures.
fn agrees_on_pictures(place: &Place, model: &str, file: &str, more: &[&str]) -> (Outputs, Vec<Value>) {
    let (shape, pixels) = pixels();
    let outputs = run(place, file, shape, &pixels);
    let pictures = fixture("cifar100-pictures");
    let words = ["predict", model, pictures.to_str().unwrap(), "--json", "--top", "100"];
    let said = place.fidgp(&[&words[..], &CPU, more].concat()).ends(0);
    let said: Value = serde_json::from_str(&said.out).unwrap();
    let inputs = said["inputs"].as_array().unwrap().clone();
    for (row, input) in inputs.iter().enumerate() {
        let classes = input["top"].as_array().unwrap();
        for top in classes {
            let index = row * classes.len() + top["index"].as_u64().unwrap() as usize;
            close("probability", outputs.of("probabilities")[index], top["probability"].as_f64().unwrap());
        }
        for name in ["total", "aleatoric", "epistemic"] {
            close(name, outputs.of(name)[row], input[name].as_f64().unwrap());
        }
    }
    (outputs, inputs)
}

/// Trains a network on little pictures.
fn train(place: &Place, out: &str, more: &[&str]) {
    place.write(
        "bayes.toml",
        &(PLAIN.replace("deterministic", "fidgp") + "\n[inducing]\ninducing_rows = 8\ninducing_cols = 8\n"),
    );
    let data = fixture("cifar100-small");
    let words = ["train", "bayes.toml", "--data", data.to_str().unwrap(), "--out", out, "--threads", "1"];
    let more = more.iter().flat_map(|change| ["--set", change]).collect::<Vec<_>>();
    let usual = ["--set", "train.epochs=1", "--set", "predict.draws=3", "--set", "predict.statistics_images=24"];
    place.fidgp(&[&words[..], &CPU, &usual, &more].concat()).ends(0);
}

#[test]
fn residual_networks_go_out_as_graphs_with_statistics_of_each_draw() {
    let place = Place::new();
    let data = fixture("cifar100-small");
    let data = ["--data", data.to_str().unwrap()];
    let networks = [
        ("option-a", "network={kind=\"resnet-cifar\", depth=8}"),
        ("basic", "network={kind=\"resnet\", depth=18, stem=\"cifar\", width=4}"),
        ("bottleneck", "network={kind=\"resnet\", depth=50, stem=\"imagenet\", width=4}"),
    ];
    for (name, network) in networks {
        train(&place, name, &[network]);
        let file = format!("{name}.onnx");
        let export = ["export", name, "--format", "onnx", "--out", &file];
        let said = place.fidgp(&[&export[..], &data].concat()).ends(0);
        said.says(&["3 draws of the weights: about", "bytes; outputs: probabilities, total, aleatoric, epistemic"]);
        let (outputs, _) = agrees_on_pictures(&place, name, &file, &[]);
        assert!(outputs.of("epistemic")[0] > 1e-5, "draws differ: {:?}", outputs.of("epistemic"));
    }
    // a model folder, and draws without statistics
    place.fidgp(&[&["export", "option-a", "--out", "model"][..], &data].concat()).ends(0);
    place.fidgp(&["export", "model", "--format", "onnx", "--draws", "2", "--out", "two.onnx"]).ends(0);
    agrees_on_pictures(&place, "model", "two.onnx", &["--draws", "2"]);
    let many = place.fidgp(&["export", "model", "--format", "onnx", "--draws", "4", "--out", "four.onnx"]).ends(2);
    many.says(&["--draws", "statistics of 3 draws"]);
    let size = |file: &str| fs::metadata(place.path(file)).unwrap().len();
    place.fidgp(&["export", "model", "--format", "onnx", "--draws", "mean", "--out", "mean.onnx"]).ends(0);
    assert!(size("mean.onnx") < size("two.onnx") && size("two.onnx") < size("option-a.onnx"));
    let said = place.fidgp(&["onnx", "inspect", "option-a.onnx"]).ends(1).out;
    for words in ["fidgp.weights_sha256: ", "fidgp.weights: 3 posterior draws", "fidgp.inputs: pixels, 0 to 255"] {
        assert!(said.contains(words), "`{words}` is not in\n{said}");
    }

    // normalised outside
    place.fidgp(&["export", "model", "--format", "onnx", "--normalised", "--out", "bare.onnx"]).ends(0);
    let (shape, pixels) = pixels();
    let images = json(&place.path("model/preprocessor_config.json"));
    let of = |field: &str, channel: usize| images[field][channel].as_f64().unwrap();
    let normalised = |(i, x): (usize, &f32)| {
        let channel = i / 1024 % 3;
        ((f64::from(*x) / 255.0 - of("image_mean", channel)) / of("image_std", channel)) as f32
    };
    let bare: Vec<f32> = pixels.iter().enumerate().map(normalised).collect();
    let (bare, whole) = (run(&place, "bare.onnx", shape.clone(), &bare), run(&place, "option-a.onnx", shape, &pixels));
    for (bare, whole) in bare.of("probabilities").iter().zip(whole.of("probabilities")) {
        close("normalised", *bare, *whole);
    }
}

/// The weights of a draw, in a plain network, predict what that draw predicts.
#[test]
fn a_single_draw_goes_out_as_a_state_dict() {
    let place = Place::new();
    train(&place, "run", &["predict.statistics_images=24"]);
    let data = fixture("cifar100-small");
    let data = ["--data", data.to_str().unwrap()];
    let export = |more: &[&str]| place.fidgp(&[&["export", "run", "--format", "torch"][..], &data, more].concat());
    export(&["--draw", "0", "--out", "first.safetensors"]).ends(0).says(&["of draw 0"]);
    export(&["--draw", "2", "--out", "last.safetensors"]).ends(0);
    export(&["--draw", "3", "--out", "none.safetensors"]).ends(2).says(&["--draw", "3 draws are known"]);
    export(&["--draws", "3", "--out", "none.safetensors"]).ends(2).says(&["--draws", "--format onnx"]);
    let held = |name: &str| fs::read(place.path(name)).unwrap();
    assert!(held("first.safetensors") != held("last.safetensors"));
    place.write("plain.toml", &PLAIN);
    let words = ["train", "plain.toml", "--out", "plain", "--set", "train.epochs=0"];
    let start = ["--set", "start={weights=\"first.safetensors\", statistics_images=0}"];
    place.fidgp(&[&words[..], &start, &CPU, &data].concat()).ends(0);
    place
        .fidgp(&[&["export", "run", "--format", "onnx", "--draws", "1", "--out", "one.onnx"][..], &data].concat())
        .ends(0);
    agrees_on_pictures(&place, "plain", "one.onnx", &[]);
    agrees_on_pictures(&place, "run", "one.onnx", &["--draws", "1"]);
}

#[test]
fn sets_of_classes_are_those_of_predict() {
    let place = Place::new();
    train(&place, "run", &["train.epochs=4"]);
    let data = fixture("cifar100-small");
    let data = ["--data", data.to_str().unwrap()];
    for (kind, more) in [("lac", &["--error", "0.9"][..]), ("aps", &[]), ("raps", &["--coverage", "0.5"])] {
        let words = ["calibrate", "run", "--examples", "test", "--levels", "0.7,0.825", "--sets", kind];
        place.fidgp(&[&words[..], &CPU, &data, more].concat()).ends(0);
        place
            .fidgp(&[&["export", "run", "--format", "onnx", "--force", "--out", "out.onnx"][..], &data].concat())
            .ends(0);
        let (outputs, inputs) = agrees_on_pictures(&place, "run", "out.onnx", &[]);
        for (row, input) in inputs.iter().enumerate() {
            for (set, name) in input["sets"].as_array().unwrap().iter().zip(["set_70", "set_82_5"]) {
                let classes = outputs.of("probabilities").len() / inputs.len();
                let found = &outputs.of(name)[row * classes..(row + 1) * classes];
                let wanted = set["classes"].as_array().unwrap().len() as f64;
                assert!((found.iter().sum::<f64>() - wanted).abs() < 1.5, "{kind}, {name}: {found:?} {set}");
            }
            if let Some(p) = input["ood_p"].as_f64() {
                // these pictures are examples of the calibration: in f32 a tie may count one example more or less
                assert!((outputs.of("ood_p")[row] - p).abs() < 0.1, "{kind}, {row}: {input}");
                close("ood_score", outputs.of("ood_score")[row], input["ood_score"].as_f64().unwrap());
            }
        }
    }
    let said =
        place.fidgp(&[&["export", "run", "--format", "onnx", "--draws", "2", "--out", "two.onnx"][..], &data].concat());
    said.ends(0).says(&["calibration.json is not in it", "--draws 3"]);
    let (shape, pixels) = pixels();
    assert!(!run(&place, "two.onnx", shape, &pixels).has("accept"));
}

/// Whether p-value and acceptance are those of `predict`.
#[track_caller]
fn decided(outputs: &Outputs, row: usize, input: &Value) {
    if let Some(p) = input["ood_p"].as_f64() {
        close("ood_p", outputs.of("ood_p")[row], p);
        close("ood_score", outputs.of("ood_score")[row], input["ood_score"].as_f64().unwrap());
    }
    if let Some(decision) = input["decision"].as_str() {
        // where no rule refuses anything there is nothing to put out
        let accepted = !outputs.has("accept") || outputs.of("accept")[row] > 0.5;
        assert_eq!(accepted, decision == "accept", "row {row}: {input}");
    }
}

/// Compares a graph with `fidgp predict` on rows of a table.
fn agrees_on_rows(place: &Place, folder: &str, file: &str, rows: &[Vec<f32>], names: &str) {
    let text = rows.iter().map(|row| row.iter().map(f32::to_string).collect::<Vec<_>>().join(",") + "\n");
    place.write("rows.csv", &format!("{names}\n{}", text.collect::<String>()));
    let flat: Vec<f32> = rows.concat();
    let outputs = run(place, file, vec![rows.len(), rows[0].len()], &flat);
    let said = place.fidgp(&[&["predict", folder, "rows.csv", "--jsonl"][..], &CPU].concat()).ends(0);
    for (row, line) in said.out.lines().enumerate() {
        let line: Value = serde_json::from_str(line).unwrap();
        for name in ["mean", "sd", "epistemic", "aleatoric"] {
            let wanted = line[name].as_f64().unwrap_or_else(|| panic!("no {name} in {line}"));
            close(name, outputs.of(name)[row], wanted);
        }
        for (interval, level) in line["intervals"].as_array().into_iter().flatten().zip(["90", "95"]) {
            for end in ["lower", "upper"] {
                close(end, outputs.of(&format!("{end}_{level}"))[row], interval[end].as_f64().unwrap());
            }
        }
        decided(&outputs, row, &line);
    }
}

fn houses(scale: f32) -> Vec<Vec<f32>> {
    let part = |row: usize, factor: usize| (row * factor % 97) as f32 / 97.0 * scale;
    (0..60).map(|row| vec![part(row, 37), part(row, 59)]).collect()
}

#[test]
fn a_calibrated_table_goes_out_with_intervals_and_decisions() {
    let place = crate::decisions::place();
    let words = ["calibrate", "run", "--data", "data", "--wrong-beyond", "40", "--error", "0.1"];
    place.fidgp(&[&words[..], &CPU].concat()).ends(0);
    place.fidgp(&["export", "run", "--format", "onnx", "--out", "run.onnx"]).ends(0).says(&["lower_90", "accept"]);
    let names = "\"size, m2\",age";
    agrees_on_rows(&place, "run", "run.onnx", &houses(1.0), names);
    agrees_on_rows(&place, "run", "run.onnx", &houses(3.0), names); // many of them outside the training data
    let said = place.fidgp(&["onnx", "inspect", "run.onnx"]).ends(1).out;
    assert!(said.contains("fidgp.rules: ") && said.contains("fidgp.rules_sha256: "), "{said}");
    assert!(!said.contains(place.path("data").to_str().unwrap()), "{said}");

    place.fidgp(&["export", "run", "--format", "onnx", "--normalised", "--out", "bare.onnx"]).ends(0);
    let scale = json(&place.path("run/table.json"))["scale"].clone();
    let of = |field: &str, column: usize| scale[field][column].as_f64().unwrap();
    let standard =
        |(column, x): (usize, &f32)| ((f64::from(*x) - of("feature_mean", column)) / of("feature_sd", column)) as f32;
    let rows = houses(3.0);
    let bare: Vec<f32> = rows.iter().flat_map(|row| row.iter().enumerate().map(standard)).collect();
    let (bare, whole) =
        (run(&place, "bare.onnx", vec![60, 2], &bare), run(&place, "run.onnx", vec![60, 2], &rows.concat()));
    for name in ["mean", "sd", "upper_95", "ood_p"] {
        for (bare, whole) in bare.of(name).iter().zip(whole.of(name)) {
            close(name, *bare, *whole);
        }
    }
    place
        .fidgp(&["export", "run", "--format", "onnx", "--dtype", "f16", "--out", "half.onnx"])
        .ends(0)
        .says(&["--dtype f32"]);
    let fit = ["fit-posterior", "run", "--data", "data"];
    place.fidgp(&[&fit[..], &CPU].concat()).ends(0);
    place.fidgp(&[&words[..6], &CPU].concat()).ends(0);
    place.fidgp(&["export", "run", "--format", "onnx", "--draws", "linearised", "--out", "closed.onnx"]).ends(0);
    agrees_on_rows(&place, "run", "closed.onnx", &houses(3.0), names);
}

#[test]
fn every_activation_and_a_logarithm_go_out() {
    let place = Place::new();
    place.write("data/houses.csv", &crate::tables::houses(200));
    place.write(
        "houses.toml",
        &crate::tables::CONFIG.replace("ignore = [\"street\"]", "ignore = [\"street\"]\ntarget_transform = \"log\""),
    );
    let networks = [
        "network={kind=\"mlp\", hidden=[8, 8], activation=\"gelu\", batch_norm=true}",
        "network={kind=\"mlp\", hidden=[8], activation=\"silu\", batch_norm=false}",
        "network={kind=\"mlp\", hidden=[8, 8], activation=\"sine\", batch_norm=false, frequency=2.0}",
        "network={kind=\"mlp\", hidden=[8], activation=\"tanh\", batch_norm=false}",
    ];
    for (number, network) in networks.iter().enumerate() {
        let run = format!("run{number}");
        let small = ["--set", "train.epochs=8", "--set", network];
        place.fidgp(&[&crate::tables::TRAIN[..], &[run.as_str()], &small].concat()).ends(0);
        if number == 0 {
            place.fidgp(&[&["calibrate", &run, "--data", "data"][..], &CPU].concat()).ends(0);
        }
        let file = format!("{run}.onnx");
        place.fidgp(&["export", &run, "--format", "onnx", "--out", &file]).ends(0);
        let columns = json(&place.path(&format!("{run}/table.json")))["features"].clone();
        assert_eq!(columns[0], "size, m2");
        agrees_on_rows(&place, &run, &file, &houses(1.2), "\"size, m2\",age");
    }
    // the closed form of a logarithm
    place.fidgp(&[&["fit-posterior", "run2", "--data", "data"][..], &CPU].concat()).ends(0);
    place.fidgp(&["export", "run2", "--format", "onnx", "--draws", "linearised", "--out", "closed.onnx"]).ends(0);
    agrees_on_rows(&place, "run2", "closed.onnx", &houses(1.2), "\"size, m2\",age");
}

#[test]
fn what_has_no_graph_is_refused_with_the_reason() {
    let place = Place::new();
    let refused = |folder: &Path, words: &[&str]| {
        let folder = folder.to_str().unwrap();
        place.fidgp(&["export", folder, "--format", "onnx", "--out", "no.onnx"]).ends(2).says(words);
    };
    place.write("plain.toml", &PLAIN);
    let data = fixture("cifar100-small");
    let words =
        ["train", "plain.toml", "--data", data.to_str().unwrap(), "--set", "train.epochs=1", "--out", "dropout"];
    place.fidgp(&[&words[..], &CPU, &["--set", "method=mc-dropout"]].concat()).ends(0);
    refused(&place.path("dropout"), &["--format onnx", "mc-dropout"]);
    let both = ["export", "dropout", "--draw", "1", "--out", "folder"];
    place.fidgp(&both).ends(2).says(&["--draw", "formats onnx and torch"]);
}

/// A linearised posterior of classes: features of all layers, derivatives by the last one, with a temperature and without.
#[test]
fn a_linearised_posterior_of_classes_goes_out() {
    let place = Place::new();
    train(&place, "run", &[]);
    let data = fixture("cifar100-small");
    let data = ["--data", data.to_str().unwrap()];
    let export = ["export", "run", "--format", "onnx", "--draws", "linearised", "--out"];
    let small = "posterior.examples=40";
    let of_last = ["--set", "posterior.directions=gradients", "--set", "posterior.layers=[\"linear\"]"];
    for (name, settings) in [("features", &[][..]), ("last", &of_last[..])] {
        let fit = ["fit-posterior", "run", "--set", small];
        place.fidgp(&[&fit[..], &CPU, &data, settings].concat()).ends(0);
        let file = format!("{name}.onnx");
        place.fidgp(&[&export[..], &[&file], &data].concat()).ends(0).says(&["with the linearised posterior"]);
        let (outputs, _) = agrees_on_pictures(&place, "run", &file, &[]);
        assert!(outputs.of("epistemic")[0] > 1e-7, "{name}: {:?}", outputs.of("epistemic"));
    }
    let calibrate = ["calibrate", "run", "--examples", "test", "--levels", "0.7"];
    place.fidgp(&[&calibrate[..], &CPU, &data].concat()).ends(0);
    place.fidgp(&[&export[..], &["tempered.onnx"], &data].concat()).ends(0);
    let (outputs, inputs) = agrees_on_pictures(&place, "run", "tempered.onnx", &[]);
    assert!(outputs.has("set_70"), "the rules come along");
    assert_eq!(inputs.len() * 100, outputs.of("set_70").len());
}
