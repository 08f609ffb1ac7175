//! `fidgp serve`: the real program over real sockets.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use serde_json::{Value, json};

use crate::deploy::trained;
use crate::{Place, fixture};

/// A server that is ended with its test.
struct Serving {
    child: Child,
    port: u16,
}

impl Serving {
    fn start(place: &Place, words: &[&str]) -> Self {
        let mut command = place.command(&["serve", "--port", "0", "--device", "cpu", "--threads", "1"]);
        let child = command.args(words).stderr(Stdio::piped()).spawn().expect("the program starts");
        let mut serving = Self { child, port: 0 }; // ended also where nothing is served
        let (say, heard) = mpsc::channel();
        let lines = BufReader::new(serving.child.stderr.take().expect("a pipe")).lines();
        std::thread::spawn(move || lines.map_while(Result::ok).for_each(|line| drop(say.send(line))));
        let mut said = Vec::new();
        loop {
            let line =
                heard.recv_timeout(Duration::from_secs(120)).unwrap_or_else(|_| panic!("it does not serve: {said:?}"));
            if let Some((_, address)) = line.split_once("http://127.0.0.1:") {
                serving.port = address.split(' ').next().and_then(|port| port.parse().ok()).expect("a port");
                return serving;
            }
            said.push(line);
        }
    }

    fn ask(&self, method: &str, path: &str, kind: &str, body: &[u8]) -> (u16, Value) {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("headers") + 4;
        let status = String::from_utf8_lossy(&answer[9..12]).parse().unwrap();
        (status, serde_json::from_slice(&answer[end..]).unwrap_or(Value::Null))
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

/// A picture sent as a file, and its pixels sent as a tensor, are answered as `fidgp predict` answers.
#[test]
fn a_picture_is_answered_as_predict_answers() {
    let place = Place::new();
    let picture = picture(&place);
    let model = trained().to_str().unwrap();
    let said = place
        .fidgp(&["predict", model, picture.to_str().unwrap(), "--json", "--device", "cpu", "--threads", "1"])
        .ends(0);
    let expected: Value = serde_json::from_str(&said.out).unwrap();
    let serving = Serving::start(&place, &[&format!("small={model}"), "--log", "log.jsonl"]);
    let (status, said) = serving.ask("POST", "/predict", "image/png", &fs::read(&picture).unwrap());
    assert_eq!(status, 200, "{said}");
    let (served, predicted) = (&said["inputs"][0], &expected["inputs"][0]);
    assert_eq!(served["class"], predicted["top"][0]["class"]);
    for name in ["total", "aleatoric", "epistemic"] {
        let gap = served[name].as_f64().unwrap() - predicted[name].as_f64().unwrap();
        assert!(gap.abs() < 1e-9, "{name}: {served} {predicted}");
    }
    let request = json!({"inputs": [{"name": "picture", "shape": [0], "datatype": "BYTES", "data": []}]});
    let (status, said) =
        serving.ask("POST", "/v2/models/small/infer", "application/json", request.to_string().as_bytes());
    assert!(status == 400 && said["error"].as_str().unwrap().contains("input `picture`"), "{said}");
    let request = json!({"inputs": [{"name": "image", "shape": [1, 3, 32, 32], "datatype": "UINT8", "data": vec![128; 3072]}], "outputs": [{"name": "probabilities"}]});
    let (status, said) =
        serving.ask("POST", "/v2/models/small/infer", "application/json", request.to_string().as_bytes());
    assert_eq!(status, 200, "{said}");
    let sum: f64 = numbers(&said["outputs"][0]["data"]).iter().sum();
    assert!((sum - 1.0).abs() < 1e-6, "{sum}");
    let (status, said) = serving.ask("POST", "/predict", "image/png", b"no picture at all");
    assert!(status == 400 && said["failed"][0]["error"].as_str().unwrap().contains("JPEG, PNG or WebP"), "{said}");
    let log = fs::read_to_string(place.path("log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 2, "{log}");
}

/// SIGTERM ends it well; two folders of one name are misuse, as is a folder that holds no model.
#[test]
fn it_ends_when_asked_and_refuses_what_cannot_be_served() {
    let place = Place::new();
    let model = trained().to_str().unwrap();
    let mut serving = Serving::start(&place, &[model]);
    assert_eq!(serving.ask("GET", "/v2/health/ready", "text/plain", b"").0, 200);
    assert!(Command::new("kill").args(["-TERM", &serving.child.id().to_string()]).status().unwrap().success());
    let ended = (0..300).find_map(|_| {
        std::thread::sleep(Duration::from_millis(100));
        serving.child.try_wait().unwrap()
    });
    assert_eq!(ended.expect("it ends within 30 s").code(), Some(0));
    place.fidgp(&["serve", model, model, "--port", "0"]).ends(2).says(&["two models are called", "NAME=FOLDER"]);
    fs::create_dir(place.path("empty")).unwrap();
    place.fidgp(&["serve", "empty", "--port", "0"]).ends(2).says(&["neither a run folder"]);
    place.fidgp(&["serve", "nowhere", "--port", "0"]).ends(2).says(&["nowhere"]);
}

/// One image of the fixture as a PNG.
fn picture(place: &Place) -> std::path::PathBuf {
    let bytes = fs::read(fixture("cifar100-small").join("cifar-100-binary/train.bin")).unwrap();
    let planar = &bytes[2..3074];
    let rgb = (0..1024).flat_map(|pixel| (0..3).map(move |channel| planar[channel * 1024 + pixel])).collect();
    let path = place.path("picture.png");
    image::RgbImage::from_raw(32, 32, rgb).unwrap().save(Path::new(&path)).unwrap();
    path
}
