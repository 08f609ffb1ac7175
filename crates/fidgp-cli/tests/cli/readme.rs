//! The README's story as it is typed, with a short training.

use std::fs;
use std::path::Path;

use crate::Place;
use crate::serve::Serving;

const README: &str = include_str!("../../../../README.md");

/// The words of a line of shell: quotes keep words together, what follows a `#` is a comment.
fn words(line: &str) -> Vec<String> {
    let line = line.split(" #").next().unwrap_or_default();
    let parts = line.split('\'').enumerate();
    parts.fold(vec![String::new()], |mut words, (number, part)| {
        for (place, piece) in part.split(' ').enumerate() {
            if number % 2 == 1 {
                let sign = if place > 0 { " " } else { "" };
                words.last_mut().expect("never empty").extend([sign, piece]);
            } else if place > 0 {
                words.push(piece.to_owned());
            } else {
                words.last_mut().expect("never empty").push_str(piece);
            }
        }
        words
    })
}

#[test]
fn the_commands_of_the_readme_work() {
    let place = Place::new();
    fs::create_dir(place.path("examples")).unwrap();
    for name in ["energy.csv", "energy.onnx", "new-buildings.csv"] {
        fs::copy(
            Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples")).join(name),
            place.path("examples").join(name),
        )
        .unwrap();
    }
    let story = README.split("```sh\n").find(|block| block.starts_with("fidgp init")).expect("the story");
    let lines = story.split("```").next().unwrap().lines();
    let mut told = Vec::new();
    for line in lines {
        let words: Vec<_> = words(line).into_iter().filter(|word| !word.is_empty()).collect();
        let mut words: Vec<_> = words.iter().map(String::as_str).collect();
        assert_eq!(words.remove(0), "fidgp");
        told.push(words[0].to_owned());
        match words[0] {
            "serve" => drop(Serving::start(&place, &words[1..])),
            "train" => {
                words.extend([
                    "--set",
                    "train.epochs=4",
                    "--set",
                    "train.kl.annealing_epochs=0",
                    "--device",
                    "cpu",
                    "--threads",
                    "1",
                ]);
                place.fidgp(&words).ends(0);
            }
            "predict" => {
                let said = place.fidgp(&words).ends(0).out;
                assert!(said.contains("new-buildings.csv") && said.lines().count() >= 4, "{said}");
            }
            _ => drop(place.fidgp(&words).ends(0)),
        }
    }
    assert_eq!(told, ["init", "train", "calibrate", "predict", "report", "serve"]);
    assert!(place.path("runs/energy/report.html").exists());
}

#[test]
fn the_readme_is_short() {
    let prose = README.lines().filter(|line| !line.starts_with(['|', '<']));
    let words: usize = prose.map(|line| line.split_whitespace().count()).sum();
    assert!(words <= 700, "{words} words outside tables; 700 is the limit");
}
