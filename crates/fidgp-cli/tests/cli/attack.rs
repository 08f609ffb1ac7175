//! The files that broke earlier versions (`fixtures/attack/`), each with its command, and variants of them.
//!
//! Every command runs with bounded memory (`ulimit -v`) and processor time (`ulimit -t`): who asks for more ends with a
//! signal, and no signal is an answer. Refused means: exit code 1 or 2, and a message that names the file.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::child::Running;
use crate::{Place, Said, attack_bytes as bytes, configs, contents, deploy, fixture, json, tables};

/// Address space of a command in KiB, of which libtorch takes one or two millions, and its processor time in seconds.
const MEMORY: u64 = 4 << 20;
const SECONDS: u64 = 60;

/// `fidgp` with these words, within the bounds.
#[track_caller]
fn bounded(place: &Place, words: &[&str]) -> Said {
    let command = place.command(words);
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(format!("ulimit -v {MEMORY}; ulimit -t {SECONDS}; exec \"$@\"")).arg("sh");
    shell.arg(command.get_program()).args(command.get_args()).current_dir(place.path("."));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    shell.env("CUDA_VISIBLE_DEVICES", "").env("OMP_NUM_THREADS", "1").env("RAYON_NUM_THREADS", "2");
    Running::start(shell).said()
}

/// It is refused, in few words, with these among them.
#[track_caller]
fn refused(place: &Place, words: &[&str], says: &[&str]) {
    let said = bounded(place, words);
    assert!(matches!(said.code, Some(1 | 2)), "{words:?}: {said:?}");
    assert!(said.err.len() < 4000 && !said.err.contains("frame #"), "{words:?}: {said:?}");
    said.says(says);
}

/// It ends with a result or is refused: no signal.
#[track_caller]
fn survived(place: &Place, words: &[&str]) -> Said {
    let said = bounded(place, words);
    assert!(matches!(said.code, Some(0..=2)), "{words:?}: {said:?}");
    said
}

fn attack(name: &str) -> String {
    fixture("attack").join(name).display().to_string()
}

fn put(place: &Place, name: &str, bytes: &[u8]) {
    let path = place.path(name);
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder to write to");
    fs::write(path, bytes).expect("a file to write");
}

/// `laughs.pt`, `deep.pt`, `stride0.pt`: each made a start of a network.
#[test]
fn weights_that_ask_for_too_much() {
    let place = Place::new();
    fs::copy(attack("bayes.toml"), place.path("bayes.toml")).unwrap();
    let data = fixture("cifar100-small");
    let wrap = |weights: &str, says: &[&str]| {
        let words = ["wrap", "bayes.toml", "--device", "cpu", "--threads", "1", "--data", data.to_str().unwrap()];
        refused(&place, &[&words[..], &["--weights", weights]].concat(), says);
    };
    wrap(&attack("laughs.pt"), &["laughs.pt"]);
    wrap(&attack("stride0.pt"), &["stride0.pt", "FIDGP_LIMIT_REPEATED_BYTES"]);
    for depth in [100_000, 2_000_000] {
        for (kind, file) in bytes::deep(depth) {
            if depth == 100_000 || kind == "pairs" {
                put(&place, "deep.pt", &file);
                wrap("deep.pt", &["deep.pt"]);
            }
        }
    }
    for (kind, file) in bytes::laughs().into_iter().chain(bytes::broken()) {
        let name = format!("{kind}.pt");
        put(&place, &name, &file);
        wrap(&name, &[&name]);
    }
    let most = i64::MAX;
    for (count, offset, size, stride) in [
        (1, 0, vec![1 << 34], vec![0]),
        (400, 0, vec![1 << 20, 8], vec![0, 0]),
        (1, 0, vec![1 << 31, 1 << 31, 4], vec![0, 0, 0]),
        (1, 0, vec![most], vec![0]),
        (1, 0, vec![2], vec![most]),
        (1, 0, vec![2], vec![-1]),
        (1, 0, vec![-2], vec![1]),
        (1, most, vec![1], vec![1]),
        (1, -1, vec![1], vec![1]),
        (1, 0, vec![2, 2], vec![1]),
    ] {
        put(&place, "strided.pt", &bytes::strided(count, offset, &size, &stride));
        wrap("strided.pt", &["strided.pt"]);
    }
    for (offset, size, stride) in [(0, vec![0, most], vec![most, most]), (most, vec![0], vec![1])] {
        put(&place, "none.pt", &bytes::strided(1, offset, &size, &stride)); // tensors of nothing fit into nothing
        wrap("none.pt", &["do not fit the network"]);
    }
    put(&place, "l.pt", &bytes::laughs()[0].1);
    let train = ["train", "bayes.toml", "--device", "cpu", "--data", data.to_str().unwrap(), "--out", "run"];
    refused(&place, &[&train[..], &["--set", "start.weights=l.pt"]].concat(), &["l.pt"]);
    assert!(!place.path("run").exists());
}

/// `plte1-min.png`, `png50000.png`, `slow-picture.webp`: predicted, checked and trained on.
#[test]
fn pictures_that_break_their_decoders_or_ask_for_too_much() {
    let place = Place::new();
    let run = deploy::trained().display().to_string();
    let predict = |picture: &str, says: &[&str]| {
        refused(&place, &["predict", &run, picture, "--device", "cpu", "--threads", "1"], says);
    };
    predict(&attack("plte1-min.png"), &["plte1-min.png"]);
    predict(&attack("png50000.png"), &["png50000.png", "FIDGP_LIMIT_PIXELS"]);
    predict(&attack("slow-picture.webp"), &["slow-picture.webp", "FIDGP_LIMIT_PIXELS"]);
    for size in [(0, 1), (1, 0), (u32::MAX, u32::MAX), (i32::MAX as u32, 2), (1 << 14, 1 << 14)] {
        put(&place, "size.png", &bytes::png(size, 8, 2, &[]));
        predict("size.png", &["size.png"]);
    }
    // one folder of many: those that cannot be read are named, the others predicted
    for (name, file) in bytes::palettes() {
        put(&place, &format!("palettes/{name}"), &file);
    }
    fs::copy(fixture("cifar100-pictures/apple.png"), place.path("palettes/whole.png")).unwrap();
    let said = survived(&place, &["predict", &run, "palettes", "--device", "cpu", "--threads", "1"]);
    assert!(said.out.contains("whole.png"), "{said:?}");

    // among the pictures of a class
    for part in ["train", "val"] {
        for class in ["a", "b"] {
            for number in 0..3 {
                let own = format!("data/odd/{part}/{class}/{number}.png");
                put(&place, &own, &fs::read(fixture("cifar100-pictures/apple.png")).unwrap());
            }
        }
    }
    fs::copy(attack("plte1-min.png"), place.path("data/odd/train/a/plte1-min.png")).unwrap();
    refused(&place, &["data", "check", "data/odd"], &["plte1-min.png"]);
    let (before, after) = configs::IMAGES.split_once("[data]").unwrap();
    let after = after.split_once("[network]").unwrap().1;
    place.write("pictures.toml", &format!("{before}{FOLDER}[network]{after}"));
    let train = ["train", "pictures.toml", "--device", "cpu", "--threads", "1", "--data", "data", "--out", "run"];
    refused(&place, &train, &["plte1-min.png"]);
    fs::copy(attack("png50000.png"), place.path("data/odd/train/a/plte1-min.png")).unwrap();
    let again = [&train[..], &["--force"]].concat();
    refused(&place, &again, &["plte1-min.png", "FIDGP_LIMIT_PIXELS"]);
}

/// A folder of pictures by class.
const FOLDER: &str = r#"
[data]
set = "folder"
path = "odd"
classes = 2
resize = 32
crop = 32
"#;

/// `mask-huge-set/`, `mask-huge.png`.
#[test]
fn masks_that_ask_for_too_much() {
    let place = Place::new();
    refused(&place, &["data", "check", &attack("mask-huge-set")], &["0001TP_008550.png"]);
    let set = fixture("attack/mask-huge-set");
    for (path, file) in contents(&set) {
        let name = path.strip_prefix(&set).unwrap().display().to_string();
        let file = if name.starts_with("testannot") { contents(&set.join("valannot"))[0].1.clone() } else { file };
        put(&place, &format!("set/{name}"), &file);
    }
    for size in [(48, i32::MAX as u32), (u32::MAX, 1), (0, 36), (20_000, 20_000)] {
        for (part, name) in [("trainannot", "0001TP_006690.png"), ("testannot", "0001TP_008580.png")] {
            let path = format!("set/{part}/{name}");
            let before = fs::read(place.path(&path)).unwrap();
            put(&place, &path, &bytes::png(size, 8, 0, &[]));
            refused(&place, &["data", "check", "set"], &[name]);
            put(&place, &path, &before);
        }
    }
}

/// `report-leak/`: no file from outside the run's folder stands in a page.
#[test]
fn a_report_holds_nothing_from_outside() {
    let place = Place::new();
    let secret = fs::read_to_string(fixture("attack/report-leak/secret.txt")).unwrap();
    let text = fs::read_to_string(fixture("attack/report-leak/run/results.json")).unwrap();
    let maps = r#""maps": ["../../secret.txt", "/etc/hostname"]"#;
    assert!(text.contains(maps));
    put(&place, "secret.txt", secret.as_bytes());
    put(&place, "run/maps/own.png", b"own");
    symlink(place.path("secret.txt"), place.path("run/maps/link.png")).unwrap();
    let outside = place.path("secret.txt").display().to_string();
    for name in [&*outside, "../../secret.txt", "../../../run/../secret.txt", "x/../../../secret.txt", "..", "link.png"]
    {
        put(&place, "run/results.json", text.replace(maps, &format!("\"maps\": [\"{name}\"]")).as_bytes());
        refused(&place, &["report", "run", "--out", "r.html"], &["results.json"]);
        assert!(!place.path("r.html").exists(), "{name}");
    }
    // a name that no file can have is a map that is not there
    put(&place, "run/results.json", text.replace(maps, "\"maps\": [\"own.png\\u0000\"]").as_bytes());
    place.fidgp(&["report", "run", "--out", "r.html"]).ends(0);
    assert!(!fs::read_to_string(place.path("r.html")).unwrap().contains(&base64(b"own")));
    // nor where the folder of the maps leads out
    fs::remove_dir_all(place.path("run/maps")).unwrap();
    symlink(place.path("."), place.path("run/maps")).unwrap();
    put(&place, "run/results.json", text.replace(maps, r#""maps": ["secret.txt"]"#).as_bytes());
    survived(&place, &["report", "run", "--out", "r.html"]);
    let page = fs::read_to_string(place.path("r.html")).unwrap_or_default();
    let start = secret.trim().as_bytes().iter().take(3).copied().collect::<Vec<_>>();
    assert!(!page.contains(secret.trim()) && !page.contains(&base64(&start)), "the folder of maps is a link");
    let words = ["report", &attack("report-leak/run"), "--out", "r.html"];
    refused(&place, &words, &["results.json"]);
}

/// Three bytes as four letters, as pages hold pictures.
fn base64(three: &[u8]) -> String {
    let letters = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bits = three.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte));
    format!("base64,{}", (0..4).map(|i| letters[(bits >> (18 - 6 * i) & 63) as usize] as char).collect::<String>())
}

/// A run folder whose files are links: nothing outside is emptied, written or removed.
#[test]
fn links_in_folders_lead_nowhere() {
    let place = Place::new();
    place.train(&[]).ends(0);
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    put(&place, "outside/precious", b"mine\n");
    let resume = ["train", "--resume", "run", "--device", "cpu"];
    let force = crate::words_of_training(&["--force"]);
    let export = ["export", "run", "--out", "model", "--force"];
    let page = ["report", "run", "--out", "page.html"];
    for (name, words) in [
        ("run/.lock", &resume[..]),
        ("run/metrics.jsonl", &resume),
        ("run/checkpoint/last.safetensors", &force),
        ("run/checkpoint", &force),
        ("run/metrics.jsonl", &force),
        ("run/results.json", &force),
        ("model/config.json", &export),
        ("model/model.safetensors", &export),
        ("page.html", &page),
    ] {
        for target in ["outside/precious", "outside", "outside/new"] {
            let (own, aside) = (place.path(name), place.path("aside"));
            let there = own.symlink_metadata().is_ok();
            if there {
                fs::rename(&own, &aside).unwrap();
            }
            symlink(place.path(target), &own).unwrap();
            survived(&place, words);
            let outside = contents(&place.path("outside"));
            assert!(outside.len() == 1 && outside[0].1 == b"mine\n", "{name} → {target}: {outside:?}");
            if own.symlink_metadata().is_ok_and(|own| own.is_symlink()) {
                fs::remove_file(&own).unwrap();
                if there {
                    fs::rename(&aside, &own).unwrap();
                }
            }
            let gone = |path: &Path| if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            let _ = gone(&aside);
        }
        place.train(&["--force"]).ends(0);
    }
}

/// `ood-first-*`, `ood-head-nan-F`, `ood-label-L`, beside the good one of the other kind.
#[test]
fn arrays_for_ood() {
    let place = Place::new();
    let ood = |logits: &str, features: &str| {
        ["ood", "--logits", logits, "--features", features, "--ood", "svhn"].map(str::to_owned)
    };
    let [good_l, good_f] = ["ood-good-L", "ood-good-F"].map(|name| attack(&format!("{name}.safetensors")));
    let strs = |words: &'_ [String; 7]| words.iter().map(String::as_str).collect::<Vec<_>>().join("\u{1}");
    let refused_pair = |logits: &str, features: &str, says: &[&str]| {
        let words = strs(&ood(logits, features));
        refused(&place, &words.split('\u{1}').collect::<Vec<_>>(), says);
    };
    for (kind, says) in [("ood-first", "row"), ("ood-head-nan", "head")] {
        let name = format!("{kind}-F.safetensors");
        refused_pair(&good_l, &attack(&name), &[&name, says]);
    }
    let name = "ood-label-L.safetensors";
    refused_pair(&attack(name), &good_f, &[name, "label"]);
    let words = strs(&ood(&attack("ood-first-L.safetensors"), &good_f)); // with its own features there is a NaN
    survived(&place, &words.split('\u{1}').collect::<Vec<_>>()).ends(0);
    // numbers of the good files, changed where they stand: f32 of `fit` in both, labels in the logits
    let good = |file: &str| fs::read(file).unwrap();
    let data = |bytes: &[u8]| 8 + usize::try_from(u64::from_le_bytes(bytes[..8].try_into().unwrap())).unwrap();
    for (name, source, at, numbers) in [
        ("L.safetensors", &good_l, 0, vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN]),
        ("F.safetensors", &good_f, 180, vec![f32::INFINITY, f32::NEG_INFINITY, f32::NAN]),
        ("F.safetensors", &good_f, 0, vec![f32::INFINITY, f32::NAN]),
        ("F.safetensors", &good_f, 160, vec![f32::INFINITY, f32::NAN]),
    ] {
        for number in numbers {
            let mut bytes = good(source);
            let start = data(&bytes) + at;
            bytes[start..start + 4].copy_from_slice(&number.to_le_bytes());
            put(&place, name, &bytes);
            let pair = if name.starts_with('L') { (name, &*good_f) } else { (&*good_l, name) };
            refused_pair(pair.0, pair.1, &[name]);
        }
    }
    for label in [-1, 5, 1 << 31, i64::MAX, i64::MIN] {
        let mut bytes = good(&good_l);
        let start = data(&bytes) + 3600 + 8 * 7;
        bytes[start..start + 8].copy_from_slice(&label.to_le_bytes());
        put(&place, "L.safetensors", &bytes);
        refused_pair("L.safetensors", &good_f, &["L.safetensors", &label.to_string(), "row 7"]);
    }
    // numbers whose squares f32 does not hold, and rows that are all alike: a result or a refusal
    for number in [3e38_f32, -3e38, 1e-45] {
        let mut bytes = good(&good_f);
        let start = data(&bytes) + 180;
        bytes[start..].chunks_exact_mut(4).for_each(|four| four.copy_from_slice(&number.to_le_bytes()));
        put(&place, "F.safetensors", &bytes);
        let words = strs(&ood(&good_l, "F.safetensors"));
        survived(&place, &words.split('\u{1}').collect::<Vec<_>>());
    }
}

/// `cell_1e308_0.csv`: what is trained on can be used, or is refused.
#[test]
fn cells_that_no_network_can_use() {
    let place = Place::new();
    let table = concat!(env!("CARGO_MANIFEST_DIR"), "/../../configs/table.toml");
    let base = fs::read_to_string(attack("cell_1e308_0.csv")).unwrap();
    let train = |file: &str| {
        let small = ["train.epochs=2", "network.hidden=[6]", "inducing.inducing_rows=4", "inducing.inducing_cols=4"];
        let path = format!("data.path={file}");
        let start = ["train", table, "--device", "cpu", "--data", ".", "--out", "run", "--force"];
        let sets = [&path[..], "data.target=y", "train.kl={}"].into_iter().chain(small);
        let words: Vec<_> = start.into_iter().chain(sets.flat_map(|change| ["--set", change])).collect();
        survived(&place, &words)
    };
    put(&place, "cell_1e308_0.csv", base.as_bytes());
    let said = train("cell_1e308_0.csv");
    assert!(said.code == Some(1) && said.err.contains("cell_1e308_0.csv"), "{said:?}");
    let rows: Vec<_> = base.lines().filter(|line| !line.contains("1e308") && !line.contains("1e+308")).collect();
    for (column, cell) in
        [(0, "1e39"), (0, "-1e308"), (1, "3e38"), (2, "1e300"), (2, "1e39"), (0, "1e-320"), (1, "1e400")]
    {
        let mut cells: Vec<Vec<&str>> = rows.iter().map(|row| row.split(',').collect()).collect();
        cells[5][column] = cell;
        let text: Vec<_> = cells.iter().map(|row| row.join(",")).collect();
        place.write("t.csv", &text.join("\n"));
        let said = train("t.csv");
        if said.code == Some(0) {
            place.write("new.csv", "a,b\n0.3,0.4\n");
            let predicted = bounded(&place, &["predict", "run", "new.csv", "--device", "cpu", "--json"]).ends(0);
            assert!(!predicted.out.contains("null"), "{cell} in column {column}: {predicted:?}");
            assert!(!fs::read_to_string(place.path("run/run.toml")).unwrap().contains("inf"));
        } else {
            assert!(said.err.contains("t.csv"), "{cell} in column {column}: {said:?}");
        }
    }
}

/// `synthetic-test-max.toml`, `data.train = 1e10`, and numbers that f32 cannot hold.
#[test]
fn numbers_of_configs() {
    let place = Place::new();
    refused(&place, &["train", &attack("synthetic-test-max.toml"), "--device", "cpu"], &["FIDGP_LIMIT_ROWS"]);
    let config = fs::read_to_string(attack("synthetic-test-max.toml")).unwrap();
    place.write("c.toml", &config.replace("9223372036854775807", "20"));
    let train = |change: &str| {
        let key = change.split(['=', '.']).nth(1).unwrap();
        refused(&place, &["train", "c.toml", "--device", "cpu", "--out", "run", "--set", change], &[key]);
        assert!(!place.path("run").exists(), "{change}");
    };
    for key in ["data.train", "data.validation", "data.test"] {
        for number in ["1e10", "10000000000", "9223372036854775807", "-1", "nan", "1.5", "\"many\""] {
            train(&format!("{key}={number}"));
        }
    }
    for change in [
        "train.kl={weight=1e39}",
        "train.kl={weight=-1}",
        "train.kl={weight=nan}",
        "train.kl={annealing_epochs=1e300}",
        "likelihood.noise={kind=\"fixed\", sd=1e30}",
        "likelihood.noise={kind=\"fixed\", sd=inf}",
        "likelihood.noise={kind=\"fixed\", sd=0}",
        "train.groups=[{parameters=[\"*\"], rate=1e39}]",
        "train.groups=[{parameters=[\"*\"], rate=-1}]",
        "train.optimiser={kind=\"adam\", learning_rate=1e39}",
        "train.optimiser={kind=\"adam\", learning_rate=nan}",
        "train.batch_size=0",
        "predict.draws=4611686018427387904",
        "inducing.inducing_rows=4611686018427387904",
        "inducing.prior_sd=1e39",
        "inducing.max_sd_u=1e39",
        "inducing.max_lamda=1e39",
        "inducing.jitter=1e39",
        "inducing.init_d=1e39",
        "network.hidden=[4611686018427387904]",
        "network.hidden=[-1]",
    ] {
        train(change);
    }
    let deep = vec!["a"; 20_000].join(".") + "=1";
    let said = survived(&place, &["train", "c.toml", "--set", &deep]); // the message repeats what was typed
    said.ends(2).says(&["names in one key"]);
    for text in ["[".repeat(200_000), "{a=".repeat(100_000)] {
        place.write("deep.toml", &format!("a={text}"));
        refused(&place, &["train", "deep.toml"], &["deep.toml"]);
    }
    // no check knows how much memory there is: it is refused, and said
    for change in ["network.hidden=[30000, 30000]", "network.hidden=[90000, 90000, 90000]"] {
        refused(
            &place,
            &["train", "c.toml", "--device", "cpu", "--out", "run", "--set", change],
            &["not enough memory"],
        );
        let _ = fs::remove_dir_all(place.path("run"));
    }
}

/// A model folder whose `config.json` asks for sizes that no machine has.
#[test]
fn sizes_of_a_model_folder() {
    let place = tables::place();
    place.fidgp(&[&tables::TRAIN[..], &["run", "--set", "train.epochs=1"]].concat()).ends(0);
    place.fidgp(&["export", "run", "--out", "model"]).ends(0);
    place.write("rows.csv", "\"size, m2\",age\n0.5,0.5\n");
    let path = place.path("model/config.json");
    let whole = json(&path);
    let huge = serde_json::json!(1_u64 << 62);
    let many = serde_json::json!(vec![1; 100_000]);
    for (pointer, value) in [
        ("/run/network/hidden", serde_json::json!([1_u64 << 62])),
        ("/run/network/hidden", serde_json::json!([99_999, 99_999, 99_999])),
        ("/run/network/hidden", many.clone()),
        ("/run/network/hidden", serde_json::json!(null)),
        ("/run/network/features", huge.clone()),
        ("/run/network/outputs", huge.clone()),
        ("/run/data/inputs", huge.clone()),
        ("/run/data/features", many),
        ("/run/inducing/inducing_rows", huge.clone()),
        ("/run/inducing/inducing_cols", huge.clone()),
        ("/run/predict/draws", huge.clone()),
        ("/run/likelihood", serde_json::json!({"kind": "categorical"})),
        ("/run", serde_json::json!({})),
        ("/format", huge),
    ] {
        let mut config = whole.clone();
        let (parent, key) = pointer.rsplit_once('/').unwrap();
        config.pointer_mut(parent).unwrap()[key] = value;
        fs::write(&path, config.to_string()).unwrap();
        let says = if pointer == "/run/likelihood" { "likelihood.kind" } else { "model/" };
        refused(&place, &["predict", "model", "rows.csv", "--device", "cpu"], &[says]);
    }
    for text in ["", "{", "[]", "null", &"[".repeat(1_000_000), &"{\"a\":".repeat(1_000_000)] {
        fs::write(&path, text).unwrap();
        refused(&place, &["predict", "model", "rows.csv", "--device", "cpu"], &["config.json"]);
    }
}

/// Small files that inflate to gigabytes.
#[test]
fn files_that_inflate() {
    let place = Place::new();
    let idx = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fidgp-data/tests/fixtures/idx");
    for (path, file) in contents(&idx) {
        put(&place, &format!("idx/{}", path.file_name().unwrap().display()), &file);
    }
    bounded(&place, &["data", "check", "idx"]).ends(0);
    fs::remove_file(place.path("idx/t10k-images-idx3-ubyte")).unwrap();
    for dims in [[4096, 1024, 1024], [6000, 1024, 1024], [1, 1, 1], [u32::MAX; 3]] {
        put(&place, "idx/t10k-images-idx3-ubyte.gz", &bytes::gzipped_idx(dims, 6000));
        refused(&place, &["data", "check", "idx"], &["t10k-images-idx3-ubyte.gz"]);
    }
    put(&place, "svhn/train_32x32.mat", &bytes::mat(2500));
    refused(&place, &["data", "check", "svhn"], &["train_32x32.mat"]);
}
