//! Requests that are broken in every way: each is answered or closed, none ends the server. The long form, against the real
//! program, is `scripts/serve/fuzz`.

use std::time::Duration;

use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::json;

use crate::running::{INFER, Running, rows};

/// Requests in the short form.
const REQUESTS: usize = 3000;
const CLIENTS: usize = 10;
/// How a broken request may be answered; the first is none at all.
const FINE: [&str; 16] =
    ["", "200", "400", "401", "403", "404", "405", "408", "411", "413", "414", "415", "417", "422", "431", "505"];

fn request(method: &str, path: &str, headers: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// Sound requests to begin with.
fn seeds() -> Vec<Vec<u8>> {
    let json = "Content-Type: application/json\r\n";
    let infer = rows(&[[1.0, 2.0], [3.0, 4.0]]).to_string();
    let binary = json!({"inputs": [{"name": "row", "shape": [1, 2], "datatype": "FP64", "parameters": {"binary_data_size": 16}}], "parameters": {"binary_data_output": true}}).to_string();
    let bytes = [binary.as_bytes(), &1f64.to_le_bytes(), &2f64.to_le_bytes()].concat();
    let form = "--b\r\nContent-Disposition: form-data; name=\"a\"; filename=\"a.png\"\r\n\r\nbytes\r\n--b--\r\n";
    let chunked = "POST /predict HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nd\r\n{\"row\": [1,2]}\r\n0\r\n\r\n";
    vec![
        request("POST", INFER, json, infer.as_bytes()),
        request("POST", INFER, &format!("Inference-Header-Content-Length: {}\r\n", binary.len()), &bytes),
        request("POST", "/predict?draws=3&level=0.9", json, br#"{"row": {"a": 1, "b": 2}}"#),
        request("POST", "/predict", "Content-Type: multipart/form-data; boundary=b\r\n", form.as_bytes()),
        request("GET", "/v2/models/adder/versions/1", "X-Request-Id: 7\r\nTraceparent: 00-1-2-01\r\n", b""),
        request("POST", "/v2/repository/index", json, br#"{"ready": true}"#),
        request("GET", "/metrics", "Authorization: Bearer x\r\n", b""),
        chunked.as_bytes().to_vec(),
    ]
}

/// Words that parsers stumble over.
const WORDS: [&str; 24] = [
    "\0",
    "\r\n",
    "\r\n\r\n",
    "-1",
    "1e999",
    "NaN",
    "null",
    "[[[[[[[[[[[[",
    "{\"a\":",
    "18446744073709551616",
    "\u{202e}",
    "%00",
    "../../",
    "%2e%2e%2f",
    "Content-Length: 99999999999999999999\r\n",
    "Transfer-Encoding: chunked\r\n",
    "\"shape\": [4294967296, 4294967296]",
    "\"datatype\": \"BYTES\"",
    "binary_data_size",
    "Expect: 100-continue\r\n",
    "Upgrade: websocket\r\n",
    "HTTP/9.9",
    "é",
    "ffffffff\r\n",
];

fn broken(rng: &mut ChaCha8Rng, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds.choose(rng).unwrap().clone();
    for _ in 0..rng.random_range(1..6) {
        let place = rng.random_range(0..=bytes.len());
        match rng.random_range(0..6) {
            0 if place < bytes.len() => bytes[place] ^= 1 << rng.random_range(0..8),
            1 => bytes.truncate(place),
            2 => drop(bytes.splice(place..place, WORDS.choose(rng).unwrap().bytes())),
            3 => {
                let end = rng.random_range(place..=bytes.len());
                bytes.drain(place..end);
            }
            4 => {
                let end = rng.random_range(place..=bytes.len());
                let piece = bytes[place..end].to_vec();
                let at = rng.random_range(0..=bytes.len());
                drop(bytes.splice(at..at, piece));
            }
            _ => {
                let other = seeds.choose(rng).unwrap();
                bytes.truncate(place);
                bytes.extend(&other[rng.random_range(0..other.len())..]);
            }
        }
    }
    bytes
}

#[test]
fn broken_requests_are_refused_and_the_server_lives() {
    let server = Running::plain();
    let seeds = seeds();
    for seed in &seeds {
        let said = server.send_any(seed, Duration::from_secs(20));
        assert!(said.starts_with(b"HTTP/1.1 "), "a sound request is not answered: {}", String::from_utf8_lossy(seed));
    }
    let (server, seeds) = (&server, &seeds);
    let client = |number: u64| {
        let (rng, mut refused, mut answered) = (&mut ChaCha8Rng::seed_from_u64(number), 0, 0);
        for _ in 0..REQUESTS / CLIENTS {
            let bytes = broken(rng, seeds);
            let said = server.send_any(&bytes, Duration::from_millis(100));
            let status = String::from_utf8_lossy(said.get(9..12).unwrap_or_default()).into_owned();
            assert!(FINE.contains(&status.as_str()), "{status}\n{}", String::from_utf8_lossy(&bytes));
            answered += usize::from(status == "200");
            refused += usize::from(status.starts_with('4'));
        }
        [refused, answered]
    };
    let counts: Vec<_> = std::thread::scope(|scope| {
        let clients: Vec<_> = (0..CLIENTS).map(|number| scope.spawn(move || client(number as u64))).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    let [refused, answered] = [0, 1].map(|kind| counts.iter().map(|count| count[kind]).sum::<usize>());
    assert!(refused > REQUESTS / 4 && answered > 10, "{refused} refused, {answered} answered");
    assert_eq!(server.post(INFER, &rows(&[[1.0, 2.0]])).0, 200);
    let (_, _, metrics) = server.ask("GET", "/metrics", "", b"");
    assert!(
        String::from_utf8(metrics).unwrap().contains("fidgp_queue_inputs{model=\"adder\"} 0"),
        "inputs are waiting"
    );
}
