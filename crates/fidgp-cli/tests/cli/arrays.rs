//! Images as arrays: trained on, used and refused as images of the other layouts are.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use serde_json::Value;

use crate::configs::{self, changed};
use crate::{Place, Said, fixture, json};

static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        configs::IMAGES,
        r#"
name = "small"
method = "fidgp"
seed = 5
data = { set = "arrays", path = "mine", validation_fraction = 0.25, limit = 50 }
network = { kind = "resnet-cifar", depth = 8 }
inducing = { inducing_rows = 8, inducing_cols = 8 }
train.epochs = 3
predict.draws = 2
"#,
    )
});

/// The records of CIFAR-100 (coarse label, fine label, pixels) as pixels and fine labels.
fn cifar(part: &str) -> (Vec<u8>, Vec<u8>) {
    let content = fs::read(fixture("cifar100-small").join(format!("cifar-100-binary/{part}.bin"))).unwrap();
    let records = content.chunks_exact(3074);
    (records.clone().flat_map(|record| record[2..].to_vec()).collect(), records.map(|record| record[1]).collect())
}

fn write(file: &Path, parts: &[&[u8]]) {
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(file, parts.concat()).unwrap();
}

/// As `safetensors.numpy.save_file` writes them: labels are bytes, images squares of this side.
fn write_stored(file: &Path, side: usize, pixels: &[u8], labels: &[u8]) {
    let (n, end) = (labels.len(), labels.len() + pixels.len());
    let rows = pixels.len() / (3 * side * side);
    let header = format!(
        r#"{{"labels":{{"dtype":"U8","shape":[{n}],"data_offsets":[0,{n}]}},"images":{{"dtype":"U8","shape":[{rows},3,{side},{side}],"data_offsets":[{n},{end}]}}}}"#
    );
    write(file, &[&(header.len() as u64).to_le_bytes(), header.as_bytes(), labels, pixels]);
}

/// As `numpy.save` writes an array.
fn write_npy(file: &Path, kind: &str, shape: &str, content: &[u8]) {
    let header = format!("{{'descr': '{kind}', 'fortran_order': False, 'shape': ({shape}), }}\n");
    write(file, &[b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes(), header.as_bytes(), content]);
}

/// The images of `cifar100-small`: as `.safetensors` in `data/mine`, as `.npy` with int64 labels in `data/npy`.
fn place() -> Place {
    let place = Place::new();
    place.write("small.toml", &CONFIG);
    for part in ["train", "test"] {
        let (pixels, labels) = cifar(part);
        write_stored(&place.path(&format!("data/mine/{part}.safetensors")), 32, &pixels, &labels);
        let npy = |name: &str| place.path(&format!("data/npy/{part}/{name}.npy"));
        write_npy(&npy("images"), "|u1", &format!("{}, 3, 32, 32", labels.len()), &pixels);
        let wide: Vec<u8> = labels.iter().flat_map(|&label| i64::from(label).to_le_bytes()).collect();
        write_npy(&npy("labels"), "<i8", &format!("{},", labels.len()), &wide);
    }
    place
}

fn train(place: &Place, out: &str, more: &[&str]) -> Said {
    let start = ["train", "small.toml", "--device", "cpu", "--threads", "1", "--data", "data", "--out", out];
    place.fidgp(&[&start, more].concat())
}

/// The same pixels, labels and number of classes are the same run, to the last bit, wherever they are read from.
#[test]
fn arrays_train_as_the_same_images_of_the_catalogue_do() {
    let place = place();
    let metrics = |run: &str| json(&place.path(run).join("results.json"))["metrics"].clone();
    let binary = "data={set=\"images\", name=\"cifar100\", validation_fraction=0.25, limit=50}";
    let small = fixture("cifar100-small");
    fs::create_dir(place.path("data/cifar-100-binary")).unwrap();
    for file in ["train.bin", "test.bin"] {
        fs::copy(small.join("cifar-100-binary").join(file), place.path("data/cifar-100-binary").join(file)).unwrap();
    }
    train(&place, "binary", &["--set", binary]).ends(0);
    train(&place, "stored", &["--set", "data.classes=100"]).ends(0);
    train(&place, "npy", &["--set", "data.classes=100", "--set", "data.path=npy"]).ends(0);
    assert!(metrics("binary")["validation/cls/NLL"].is_number(), "{}", metrics("binary"));
    assert_eq!(metrics("stored"), metrics("binary"));
    assert_eq!(metrics("npy"), metrics("binary"));
    assert_eq!(json(&place.path("stored/classes.json"))[99], "99");

    let said = place.fidgp(&["eval", "stored", "--device", "cpu", "--data", "data", "--json"]).ends(0);
    let again: Value = serde_json::from_str(&said.out).unwrap();
    let nll = |metrics: &Value| metrics["cls/NLL"].as_f64().unwrap();
    assert!((nll(&again["metrics"]) - nll(&metrics("stored"))).abs() < 1e-3, "{again}");

    // a run that stops after an epoch, and whose resolved config is then that of the whole one
    train(&place, "part", &["--set", "data.classes=100", "--set", "train.epochs=1"]).ends(0);
    fs::copy(place.path("stored/run.toml"), place.path("part/run.toml")).unwrap();
    let resume = ["train", "--resume", "part", "--device", "cpu", "--threads", "1", "--data", "data"];
    place.fidgp(&resume).ends(0);
    assert_eq!(metrics("part"), metrics("binary"));
    // other arrays than it was trained on
    let (pixels, labels) = cifar("train");
    for part in ["train", "test"] {
        write_stored(&place.path(&format!("data/mine/{part}.safetensors")), 16, &pixels[..4 * 768], &labels[..4]);
    }
    place.fidgp(&resume).ends(2).says(&["data.image", "[3, 32, 32]", "has [3, 16, 16]"]);
}

/// Features for images, or the gradients of the last layer: fitted to a run, used, passed on, checked, removed.
#[test]
fn classes_get_a_linearised_posterior() {
    let place = place();
    train(&place, "run", &["--set", "data.classes=100"]).ends(0);
    let pictures = fixture("cifar100-pictures");
    let said = |model: &str| -> Value {
        let pictures = pictures.to_str().unwrap();
        let said = place.fidgp(&["predict", model, pictures, "--device", "cpu", "--json"]).ends(0);
        serde_json::from_str::<Value>(&said.out).unwrap()["inputs"].clone()
    };
    let fit = |more: &[&str]| {
        place.fidgp(&[&["fit-posterior", "run", "--device", "cpu", "--data", "data"], more].concat()).ends(0);
        json(&place.path("run/posterior.json"))
    };
    let before = said("run");
    // a temperature is of what predicted when it was fitted: after another fit it is refused until it is fitted again
    let calibrate = ["calibrate", "run", "--device", "cpu", "--data", "data", "--json"];
    place.fidgp(&calibrate).ends(0);
    let of_last_layer = fit(&["--set", "posterior.directions=gradients", "--set", "posterior.layers=[\"linear\"]"]);
    assert_eq!((&of_last_layer["features"], &of_last_layer["layers"]), (&false.into(), &serde_json::json!(["linear"])));
    let predict = ["predict", "run", pictures.to_str().unwrap(), "--device", "cpu"];
    place.fidgp(&predict).ends(1).says(&["temperature.json", "calibrate"]);
    let fitted: Value = serde_json::from_str(&place.fidgp(&calibrate).ends(0).out).unwrap();
    assert!(fitted["temperature"].is_number() && fitted["calibration"]["rules"].is_object(), "{fitted}");
    assert_ne!(said("run"), before);
    fs::remove_file(place.path("run/temperature.json")).unwrap();
    fs::remove_file(place.path("run/calibration.json")).unwrap();
    let features = fit(&["--set", "posterior.examples=30"]);
    assert_eq!((&features["features"], &features["structure"]), (&true.into(), &"classes".into()));
    let after = said("run");
    assert!(after[0]["epistemic"].as_f64().unwrap() > 0.0 && after != before, "{after}");
    let eval = place.fidgp(&["eval", "run", "--device", "cpu", "--data", "data", "--json"]).ends(0);
    let eval: Value = serde_json::from_str(&eval.out).unwrap();
    assert!(eval["uncertainty"]["share"].as_f64().unwrap() > 0.0 && eval["metrics"]["cls/NLL"].is_f64(), "{eval}");
    assert!(eval["metrics"].get("cls/NLL_per_draw").is_none(), "there are no draws that would have an NLL each");
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    let passed_on = said("model");
    for field in ["epistemic", "total"] {
        let (mine, theirs) = (after[0][field].as_f64().unwrap(), passed_on[0][field].as_f64().unwrap());
        assert!((mine - theirs).abs() < 1e-5, "{field}: {mine} {theirs}");
    }
    let tensors = place.path("run/posterior.safetensors");
    let mut bytes = fs::read(&tensors).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&tensors, bytes).unwrap();
    place.fidgp(&predict).ends(1).says(&["posterior.safetensors", "SHA-256"]);
}

/// Nobody says how many classes there are and how large images are: the run remembers it for whoever uses the network.
#[test]
fn a_network_of_arrays_is_used_without_them() {
    let place = place();
    let long_enough = [
        "train.epochs=15",
        "train.schedule={kind=\"cosine\", warmup_epochs=1.0}",
        "train.kl.weight=0.001",
        "inducing.inducing_rows=24",
        "inducing.inducing_cols=24",
    ];
    train(&place, "run", &long_enough.map(|change| ["--set", change]).concat()).ends(0);
    let written = fs::read_to_string(place.path("run/run.toml")).unwrap().parse::<toml::Table>().unwrap();
    assert_eq!(written["data"]["image"], toml::Value::from(vec![3, 32, 32]));
    assert_eq!(written["data"]["classes"], 83.into()); // 82 is the highest label: sunflower
    let pictures = fixture("cifar100-pictures");
    let pictures = pictures.to_str().unwrap();

    place.fidgp(&["calibrate", "run", "--device", "cpu", "--data", "data"]).ends(0);
    let ood =
        ["ood", "run", "--device", "cpu", "--data", "data", "--out", "ood", "--batch", "16", "--draws", "0", "--ood"];
    place.fidgp(&[&ood[..], &[&format!("{pictures},data/npy"), "--choose-on", "heldout"]].concat()).ends(0);
    let document = json(&place.path("ood/ood.json"));
    let msp = document["scores"].as_array().unwrap().iter().find(|score| score["name"] == "msp").unwrap();
    assert!(msp["sets"]["cifar100-pictures"]["AUROC"].is_number(), "{msp}");
    // data/npy holds the ID test images once more, of which a few served for choosing and are not in the table
    assert!((msp["sets"]["npy"]["AUROC"].as_f64().unwrap() - 0.5).abs() < 0.1, "{msp}");
    place.fidgp(&[&ood[..], &["data/mine"]].concat()).ends(2).says(&["is the ID set itself"]);

    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    fs::remove_dir_all(place.path("data/mine")).unwrap();
    let predict = |model: &str| -> Value {
        let said = place.fidgp(&["predict", model, pictures, "--json", "--device", "cpu"]).ends(0);
        serde_json::from_str::<Value>(&said.out).unwrap()["inputs"].clone()
    };
    let said = predict("run");
    assert_eq!(said, predict("model"));
    assert!(said[0]["top"][0]["class"].as_str().unwrap().parse::<u8>().unwrap() < 83, "{said}");

    place.fidgp(&["cost", "run/run.toml"]).ends(0);
    place.fidgp(&["cost", "small.toml"]).ends(2).says(&["data.image", "is missing", "image = [3, 32, 32]"]);
    let image = ["cost", "small.toml", "--set", "data.image=[3, 32, 32]"];
    place.fidgp(&image).ends(2).says(&["data.classes", "say how many"]);
    place.fidgp(&[&image[..], &["--set", "data.classes=83"]].concat()).ends(0);
    let bench = ["bench", "run/run.toml", "--batch", "2", "--draws", "2", "--rounds", "1", "--device", "cpu"];
    place.fidgp(&bench).ends(0);
}

#[test]
fn arrays_are_wrapped_compared_and_shared_by_members() {
    let place = place();
    train(&place, "plain", &["--set", "method=deterministic", "--set", "train.epochs=1"]).ends(0);
    let weights = "plain/checkpoint/last.safetensors";
    let wrap = ["wrap", "small.toml", "--weights", weights, "--device", "cpu", "--data", "data", "--out", "wrapped"];
    place.fidgp(&wrap).ends(0);
    place.fidgp(&["train", "--resume", "wrapped", "--device", "cpu", "--data", "data"]).ends(0);

    // a run whose config the data have completed is still one of the config that began it
    let compare =
        ["compare", "small.toml", "--methods", "deterministic,mc-dropout", "--device", "cpu", "--data", "data"];
    let compare = [&compare[..], &["--out", "compared", "--set", "train.epochs=1"]].concat();
    let first = place.fidgp(&compare).ends(0).out;
    assert_eq!(place.fidgp(&compare).ends(0).out, first);
    let ensemble = ["--set", "method=ensemble", "--set", "baseline.members=2", "--set", "train.epochs=1", "--member"];
    train(&place, "members", &[&ensemble[..], &["0"]].concat()).ends(0);
    train(&place, "members", &[&ensemble[..], &["1"]].concat()).ends(0);
    place.fidgp(&["train", "--resume", "members", "--device", "cpu", "--data", "data"]).ends(0);
    assert!(place.path("members/results.json").exists());
}

#[test]
fn what_is_wrong_with_arrays_is_named() {
    let place = place();
    let says = |changes: &[&str], code: i32, texts: &[&str]| {
        let changes: Vec<_> = changes.iter().flat_map(|change| ["--set", change]).collect();
        train(&place, "run", &changes).ends(code).says(texts);
        assert!(!place.path("run").exists());
    };
    says(&["data.path=nowhere"], 1, &["data/nowhere: cannot be read"]);
    says(&["data.classes=80"], 2, &["data.classes", "= 80, but data/mine/train.safetensors has labels up to 82"]);
    says(&["data.classes=0"], 2, &["data.classes", "at least 1"]);
    says(&["data.image=[3, 16, 16]"], 2, &["data.image", "train.safetensors has [3, 32, 32]"]);
    says(&["data.image=[3, 16, 32]"], 2, &["data.image", "only squares of 1 or 3 channels"]);
    says(&["data.image=[32, 32, 3]"], 2, &["data.image", "put channels first"]);
    says(&["data.limit=1"], 2, &["data.limit", "at least 2"]);
    says(&["data.pth=x"], 2, &["data.pth", "is not known"]);
    let stored = |part: &str| place.path(&format!("data/odd/{part}.safetensors"));
    let (pixels, labels) = ((0..144).collect::<Vec<u8>>(), [0, 1, 0]);
    let write = |side: usize, pixels: &[u8]| {
        for part in ["train", "test"] {
            write_stored(&stored(part), side, pixels, &labels);
        }
    };
    write(4, &pixels);
    says(&["data.path=odd"], 2, &["data.augment", "sides of at least 5, the images have 4", "\"none\""]);
    write(4, &[9; 144]);
    says(&["data.path=odd", "data.augment=none"], 2, &["normalisation", "channel 0 is the same everywhere"]);
    write_npy(&place.path("data/npy/test/images.npy"), "<f4", "1, 3, 2, 1", &pixels[..24]);
    says(&["data.path=npy"], 1, &["data/npy/test: `images` is float32", "store pixels as uint8"]);
    fs::remove_file(stored("test")).unwrap();
    says(&["data.path=odd"], 1, &["data/odd: no `test.safetensors` and no `test/images.npy`: it holds 1: train.safe"]);
    write_npy(&place.path("data/odd/train/images.npy"), "|u1", "3, 2, 2", &pixels[..12]);
    says(&["data.path=odd"], 1, &["odd/train.safetensors: stands beside", "remove one of them"]);
}
