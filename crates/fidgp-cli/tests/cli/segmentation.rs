//! A class for every pixel: from pictures with masks to metrics, maps and a report, and what is said of files that are wrong.

use std::fs;
use std::sync::LazyLock;

use image::{GrayImage, Luma, Rgb, RgbImage};

use crate::configs::{self, changed};
use crate::{Place, json};

const WIDTH: u32 = 48;
const HEIGHT: u32 = 40;

/// Textured ground (0) with a red square (1) and a blue one (2); the first two columns have no class.
fn write_pair(place: &Place, part: &str, number: u32) {
    let red = (4 + number * 7 % 20, 3 + number * 5 % 18);
    let blue = (4 + number * 11 % 26, 3 + number * 13 % 20);
    let within =
        |(left, top): (u32, u32), x: u32, y: u32| (left..left + 16).contains(&x) && (top..top + 16).contains(&y);
    let class = |x: u32, y: u32| u8::from(within(red, x, y)) + if within(blue, x, y) { 2 } else { 0 };
    let class = |x: u32, y: u32| if x < 2 { 255 } else { class(x, y).min(2) };
    let picture = RgbImage::from_fn(WIDTH, HEIGHT, |x, y| {
        let texture = (70 + (x * 7 + y * 13 + number * 29) % 50) as u8;
        match class(x, y) {
            1 => Rgb([210, texture, texture]),
            2 => Rgb([texture, texture, 220]),
            _ => Rgb([texture; 3]),
        }
    });
    let mask = GrayImage::from_fn(WIDTH, HEIGHT, |x, y| Luma([class(x, y)]));
    for kind in ["images", "masks"] {
        fs::create_dir_all(place.path(&format!("data/shapes/{kind}/{part}"))).unwrap();
    }
    picture.save(place.path(&format!("data/shapes/images/{part}/{number:02}.png"))).unwrap();
    mask.save(place.path(&format!("data/shapes/masks/{part}/{number:02}.png"))).unwrap();
}

static CONFIG: LazyLock<String> = LazyLock::new(|| {
    changed(
        configs::PIXELS,
        r#"
method = "fidgp"
seed = 3
data = { scale = [0.9, 1.2], jitter = 0.1 }
network.width = 8
likelihood = { aux_weight = 0.4, class_weights = [1.0, 1.0, 1.5] }
train = { epochs = 14, schedule.kind = "poly", validate_every = 7, select = "best" }
predict = { draws = 3, window = [32, 40] }
[inducing]
layers = ["backbone.layer3.1.conv1", "backbone.layer4.1.conv2"]
inducing_rows = 16
inducing_cols = 16
"#,
    )
});

fn made() -> Place {
    let place = Place::new();
    for (part, count) in [("train", 24), ("val", 4), ("test", 5)] {
        (0..count).for_each(|number| write_pair(&place, part, number * 3 + part.len() as u32));
    }
    place.write("run.toml", &CONFIG);
    place
}

fn words<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let start = ["train", "run.toml", "--device", "cpu", "--threads", "1", "--data", "data", "--out", "run"];
    start.into_iter().chain(more.iter().copied()).collect()
}

#[test]
fn a_run_learns_and_leaves_metrics_maps_and_a_report() {
    let place = made();
    place.fidgp(&words(&[])).ends(0);
    let results = json(&place.path("run/results.json"));
    let metric = |name: &str| results["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name}"));
    // one class for every pixel would reach a quarter
    assert!(metric("seg/mIoU") > 0.5, "{}", metric("seg/mIoU"));
    assert!(metric("seg/pixAcc") > 0.85 && metric("seg/NLL") < 0.5, "{results}");
    assert!(metric("seg/BoundaryRatio") > 1.0, "doubt is greater at boundaries");
    assert!(metric("validation/seg/mIoU") > 0.4);
    let figure = &results["figures"][0];
    assert_eq!(figure["classes"].as_array().unwrap().len(), 3);
    let pixels: u64 = figure["classes"].as_array().unwrap().iter().map(|class| class["pixels"].as_u64().unwrap()).sum();
    assert_eq!(pixels, u64::from(5 * (WIDTH - 2) * HEIGHT), "void pixels are not counted");
    let examples = json(&place.path("run/examples.json"));
    assert_eq!(examples["seg/NLL"].as_array().unwrap().len(), 5);

    let map = image::open(place.path(&format!("run/maps/{}", figure["maps"][0].as_str().unwrap()))).unwrap();
    assert_eq!((map.width(), map.height()), (4 * WIDTH + 12, 2 * HEIGHT + 4));
    place.fidgp(&["report", "run"]).ends(0);
    let page = fs::read_to_string(place.path("run/report.html")).unwrap();
    for part in ["data:image/png;base64,", "Boundaries and insides", "seg/mIoU", "<th scope=\"row\">blue</th>"] {
        assert!(page.contains(part), "{part}");
    }

    // measured again it is the same
    let again = place.fidgp(&["eval", "run", "--data", "data", "--device", "cpu", "--json"]).ends(0);
    let again: serde_json::Value = serde_json::from_str(&again.out).unwrap();
    let gap = again["metrics"]["seg/NLL"].as_f64().unwrap() - metric("seg/NLL");
    assert!(gap.abs() < 1e-6, "with another number of threads only rounding differs: {gap}");

    // new pictures, one of them damaged
    fs::create_dir_all(place.path("new")).unwrap();
    fs::copy(place.path("data/shapes/images/test/04.png"), place.path("new/a.png")).unwrap();
    place.write("new/b.png", "no picture");
    let said = place.fidgp(&["predict", "run", "new", "--device", "cpu", "--maps", "seen"]).ends(1).says(&["b.png"]);
    assert!(said.out.contains("ground") && said.out.contains("epistemic"), "{}", said.out);
    let map = image::open(place.path("seen/a.png")).unwrap();
    assert_eq!((map.width(), map.height()), (5 * WIDTH + 16, HEIGHT));

    // pictures of one name have maps of their own
    fs::create_dir_all(place.path("newer")).unwrap();
    fs::copy(place.path("data/shapes/images/test/07.png"), place.path("newer/a.png")).unwrap();
    let both = ["predict", "run", "new/a.png", "newer/a.png", "--device", "cpu", "--maps", "both", "--json"];
    let said: serde_json::Value = serde_json::from_str(&place.fidgp(&both).ends(0).out).unwrap();
    assert_eq!((&said["inputs"][0]["map"], &said["inputs"][1]["map"]), (&"both/a.png".into(), &"both/a-2.png".into()));
    assert_ne!(fs::read(place.path("both/a.png")).unwrap(), fs::read(place.path("both/a-2.png")).unwrap());

    let onto_itself = ["predict", "run", "new/a.png", "--device", "cpu", "--maps", "new"];
    place.fidgp(&onto_itself).ends(2).says(&["--maps", "new/a.png", "written over"]);

    // whole pictures scored, with the controls of the bench
    let ood =
        ["ood", "run", "--ood", "night,blurred", "--data", "data", "--device", "cpu", "--draws", "0", "--out", "ood"];
    let said = place.fidgp(&ood).ends(0).says(&["fitted on"]);
    place.fidgp(&ood).ends(0).says(&["not fitted again"]);
    place.fidgp(&[&ood[..], &["--fit", "4"]].concat()).ends(0).says(&["fitted on 4"]); // no labels to count them by
    assert!(said.out.contains("subspace") && said.out.contains("blurred"), "{}", said.out);
    let document = json(&place.path("ood/ood.json"));
    assert!(document["controls"].as_array().unwrap().iter().all(|control| control["passed"] == true));
    assert!(!document["sets"][0]["trivial"].as_array().unwrap().is_empty(), "night is dark");

    // as a model folder
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    let said = place.fidgp(&["predict", "model", "new/a.png", "--device", "cpu", "--json"]).ends(0);
    let said: serde_json::Value = serde_json::from_str(&said.out).unwrap();
    assert_eq!(said["inputs"][0]["top"][0]["class"], "ground");

    // one picture more is another training
    let resume = ["train", "--resume", "run", "--device", "cpu", "--data", "data"];
    place.fidgp(&resume).ends(0);
    write_pair(&place, "train", 77);
    place.fidgp(&resume).ends(2).says(&["other training examples"]);
}

/// The auxiliary head has weights of its own and runs in training alone: scores leave it out.
#[test]
fn scores_of_all_layers_leave_out_the_auxiliary_head() {
    let place = made();
    let all =
        ["--set", "inducing.layers=all", "--set", "inducing.inducing_rows=4", "--set", "inducing.inducing_cols=4"];
    let short = ["--set", "train.epochs=1", "--set", "data.limit=8", "--set", "train.select=last"];
    place.fidgp(&words(&[&all[..], &short].concat())).ends(0);
    let ood = ["ood", "run", "--ood", "night,blurred", "--data", "data", "--device", "cpu", "--draws", "0"];
    place.fidgp(&ood).ends(0);
    let scores = json(&place.path("run/ood/ood.json"))["scores"].to_string();
    assert!(scores.contains("variance") && scores.contains("residual"), "{scores}");
}

/// A share of few pictures that is none is no validation part, and one that is needed is missed before anything is trained.
#[test]
fn a_validation_part_may_come_out_empty() {
    let place = made();
    let small = ["--set", "data.validation_fraction=0.001"];
    place.fidgp(&words(&small)).ends(2).says(&["data.validation_fraction", "leaves no validation picture"]);
    assert!(!place.path("run").exists());
    let short = ["--set", "train.select=last", "--set", "train.epochs=1", "--set", "data.limit=4"];
    place.fidgp(&words(&[&small[..], &short].concat())).ends(0);
}

#[test]
fn every_method_segments_but_those_with_a_head() {
    let place = made();
    let quick = ["--set", "train.epochs=1", "--set", "predict.draws=2", "--set", "train.select=last", "--force"];
    let quick = quick.into_iter().chain(["--set", "train.validate_every=0", "--set", "data.limit=8"]);
    for method in ["deterministic", "ffgu", "batch-ensemble", "mc-dropout", "mean-field", "ensemble"] {
        let method = format!("method={method}");
        let more: Vec<&str> = quick.clone().chain(["--set", &method]).collect();
        place.fidgp(&words(&more)).ends(0);
        let metrics = &json(&place.path("run/results.json"))["metrics"];
        let epistemic = metrics["test/ens_MI"].as_f64().unwrap();
        assert!(metrics["seg/NLL"].as_f64().is_some() && epistemic >= 0.0, "{method}");
        assert_eq!(epistemic > 1e-7, method != "method=deterministic", "{method} {epistemic}");
    }
    for method in ["sngp", "ddu", "due"] {
        let change = format!("method={method}");
        let said = place.fidgp(&words(&["--set", &change, "--force"])).ends(2);
        said.says(&[method, "has a head for whole pictures"]);
    }
}

#[test]
fn what_is_wrong_is_named() {
    let place = made();
    let mask = place.path("data/shapes/masks/train/05.png");
    let sound = fs::read(&mask).unwrap();
    GrayImage::from_pixel(WIDTH, HEIGHT, Luma([3])).save(&mask).unwrap();
    place.fidgp(&words(&[])).ends(1).says(&["masks/train/05.png", "class id 3"]);
    GrayImage::from_pixel(WIDTH, HEIGHT + 1, Luma([0])).save(&mask).unwrap();
    place.fidgp(&words(&[])).ends(1).says(&["masks/train/05.png", "48×41", "48×40"]);
    fs::remove_file(&mask).unwrap();
    place.fidgp(&words(&[])).ends(1).says(&["images/train/05.png", "masks/train/05.png", "missing"]);
    fs::write(&mask, sound).unwrap();
    assert!(!place.path("run").exists(), "a run that cannot begin changes nothing");

    for (change, said) in [
        ("network={kind=\"resnet\", depth=18, stem=\"cifar\"}", ["network.kind", "fcn"]),
        ("likelihood={kind=\"categorical\"}", ["likelihood.kind", "pixels"]),
        ("likelihood.class_weights=[1.0]", ["likelihood.class_weights", "3"]),
        ("data.crop=[0, 4]", ["data.crop", "at least"]),
        ("data.scale=[2.0, 1.0]", ["data.scale", "lesser first"]),
        ("data.jitter=1.5", ["data.jitter", "[0, 1)"]),
        ("network.outputs=2", ["network.outputs", "3 classes"]),
        ("network.aux_outputs=1", ["network.aux_outputs", "3 classes"]),
        ("predict.window=[0, 1]", ["predict.window", "at least"]),
        ("train.schedule={kind=\"poly\", power=0.0}", ["train.schedule.power", "0.9"]),
        ("data.classes=[]", ["data.classes", "name the classes"]),
    ] {
        place.fidgp(&words(&["--set", change])).ends(2).says(&said);
    }
}

/// A network of another framework for masks: its head for other classes starts afresh, the rest at its weights.
#[test]
fn an_imported_network_learns_masks() {
    let place = made();
    fs::copy(crate::onnx::graph("unet.dynamo.onnx"), place.path("unet.onnx")).unwrap();
    let imported = changed(
        &CONFIG,
        r#"
data = { crop = [16, 16] }
network = { kind = "onnx", path = "unet.onnx" }
start = { weights = "unet.onnx", statistics_images = 0 }
normalisation = "imagenet"
inducing = { layers = ["bottom.0", "head"] }
train = { epochs = 20, validate_every = 10, optimiser = { kind = "adam", learning_rate = 0.02 } }
predict = { window = [16, 16] }
"#,
    );
    place.write("run.toml", &imported);
    place.fidgp(&words(&["--set", "network.kind=fcn", "--set", "network.path=unet.onnx"])).ends(2);
    place.fidgp(&words(&[])).ends(0).says(&["head `head` is for other outputs"]);
    let results = json(&place.path("run/results.json"));
    let metric = |name: &str| results["metrics"][name].as_f64().unwrap_or_else(|| panic!("{name}"));
    assert!(metric("seg/mIoU") > 0.4 && metric("seg/pixAcc") > 0.7, "{results}");
    let picture = "data/shapes/images/test/04.png";
    let said = place.fidgp(&["predict", "run", picture, "--device", "cpu", "--maps", "seen"]).ends(0);
    assert!(said.out.contains("ground") && place.path("seen/04.png").exists(), "{}", said.out);
    place.fidgp(&["export", "run", "--out", "model", "--data", "data"]).ends(0);
    place.fidgp(&["predict", "model", picture, "--device", "cpu"]).ends(0);
    place.fidgp(&["export", "run", "--format", "torch", "--out", "mean.safetensors", "--data", "data"]).ends(0);
    assert_eq!(crate::onnx::numbers(&place.path("mean.safetensors"), "head.weight").len(), 6);
}

#[test]
fn pixels_get_sets_that_are_kept_and_used() {
    let place = made();
    (5..30).for_each(|number| write_pair(&place, "test", number * 3 + 4));
    place.fidgp(&words(&["--set", "train.epochs=4", "--set", "train.validate_every=4"])).ends(0);
    let calibrate = |more: &[&str]| {
        let start = ["calibrate", "run", "--data", "data", "--device", "cpu", "--examples", "test"];
        place.fidgp(&[&start[..], more].concat())
    };
    calibrate(&["--coverage", "0.8"]).ends(2).says(&["--coverage", "is not for a segmentation"]);
    place.fidgp(&["calibrate", "run", "--data", "data", "--device", "cpu"]).ends(2).says(&["are 4: too few"]);
    let said = calibrate(&["--levels", "0.8,0.9,0.99", "--by-class"]).ends(0).out;
    assert!(said.contains("pixels whose set holds their class at level 80 %"), "{said}");
    assert!(said.contains("pixels of the lowest class that are found at level 90 %"), "{said}");
    assert!(said.contains("level 0.99 needs 99 pictures, there are 24: nothing is ruled out at it"), "{said}");
    let rules = json(&place.path("run/calibration.json"))["rules"]["pixels"].as_array().unwrap().clone();
    assert_eq!(rules.len(), 3 * (1 + 3), "all pixels and each of three classes, at three levels");
    let threshold = |rule: &serde_json::Value| rule["threshold"].as_f64();
    assert!(threshold(&rules[0]) > threshold(&rules[4]) && threshold(&rules[8]).is_none(), "{rules:?}");
    let picture = "data/shapes/images/test/04.png";
    let predict = ["predict", "run", picture, "--device", "cpu", "--maps", "seen"];
    let said: serde_json::Value =
        serde_json::from_str(&place.fidgp(&[&predict[..], &["--json"]].concat()).ends(0).out).unwrap();
    let sets = said["inputs"][0]["sets"].as_array().unwrap();
    let size = |set: &serde_json::Value| set["mean_size"].as_f64().unwrap();
    assert!(
        1.0 <= size(&sets[0]) && size(&sets[0]) <= size(&sets[4]) && (size(&sets[8]) - 3.0).abs() < 1e-12,
        "{sets:?}"
    );
    assert_eq!((&sets[1]["class"], &sets[8]["single"]), (&"ground".into(), &0.0.into()));
    assert!(place.fidgp(&predict).ends(0).out.contains("80 %: one class for"));
    place.write("log.jsonl", "{}\n");
    place.fidgp(&["monitor", "run", "log.jsonl"]).ends(2).says(&["for the pixels of a segmentation"]);
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    let predict = ["predict", "model", picture, "--device", "cpu", "--maps", "seen", "--json"];
    let again: serde_json::Value = serde_json::from_str(&place.fidgp(&predict).ends(0).out).unwrap();
    assert_eq!(again["inputs"][0]["sets"][0]["level"], 0.8);
}
