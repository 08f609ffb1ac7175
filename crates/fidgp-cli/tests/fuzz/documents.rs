//! Rules for decisions and what was seen with them, read and made a page of.

use std::fs;
use std::path::Path;

use fidgp_decision::fit::{self, Asked, Named, Origin};
use fidgp_decision::trust::{About, Trust};
use fidgp_decision::{
    CALIBRATION_FILE, Calibration, ClassEvidence, NumberEvidence, Score, TRUST_FILE, evidence::Outside,
};
use fidgp_report::pages::trust::{Documents, write};

use crate::targets::Target;

const EXAMPLES: usize = 200;

fn origin() -> Origin {
    Origin { source: "made up".to_owned(), model_sha256: "0".repeat(64), draws: 8 }
}

/// Rules and what was seen of two classes, as texts.
fn classes() -> [Vec<u8>; 2] {
    let example = |i: usize| {
        let top = 0.99 - 0.4 * (i % 50) as f64 / 50.0;
        let probabilities = if i.is_multiple_of(2) { vec![top, 1.0 - top] } else { vec![1.0 - top, top] };
        let label = (i + usize::from(i % 50 > 40)) % 2;
        let total = 1.0 - top;
        (
            ClassEvidence {
                probabilities,
                total,
                aleatoric: 0.8 * total,
                epistemic: 0.2 * total,
                outside: Outside::default(),
            },
            label,
        )
    };
    let (said, labels): (Vec<_>, Vec<_>) = (0..EXAMPLES).map(example).unzip();
    let named = Named { classes: vec!["a".to_owned(), "b".to_owned()], ..Named::default() };
    let rules = fit::classes(&said, &labels, &named, &Asked::usual(Score::Total), origin()).expect("rules");
    let trust = Trust::of_classes(&rules, About::default(), &said, &labels).expect("what was seen");
    [serde_json::to_vec(&rules).expect("a text"), serde_json::to_vec(&trust).expect("a text")]
}

/// The same of a number.
fn numbers() -> [Vec<u8>; 2] {
    let example = |i: usize| {
        let (mean, off) = (i as f64, (i % 7) as f64 - 3.0);
        let said =
            NumberEvidence { mean, sd: 2.0, epistemic_sd: 0.5 + (i % 11) as f64 / 10.0, outside: Outside::default() };
        (said, mean + off)
    };
    let (said, targets): (Vec<_>, Vec<_>) = (0..EXAMPLES).map(example).unzip();
    let asked = Asked { wrong_beyond: Some(2.5), ..Asked::usual(Score::Epistemic) };
    let rules = fit::numbers(&said, &targets, &Named::default(), &asked, origin()).expect("rules");
    let trust = Trust::of_numbers(&rules, About::default(), &said, &targets).expect("what was seen");
    [serde_json::to_vec(&rules).expect("a text"), serde_json::to_vec(&trust).expect("a text")]
}

/// One of the two files changed, beside the other as it was made.
fn of_one(name: &'static str, changed: &'static str, beside: usize) -> Target {
    let made = [classes(), numbers()];
    let corpus = made.iter().map(|both| both[1 - beside].clone()).collect();
    let others = made.map(|both| both[beside].clone());
    let read = move |place: &Path, input: &[u8]| {
        let other = if changed == TRUST_FILE { CALIBRATION_FILE } else { TRUST_FILE };
        let mut said = Err(String::new());
        for text in &others {
            fs::write(place.join(other), text).expect("a file to write");
            fs::write(place.join(changed), input).expect("a file to write");
            said = page(place);
            if said.is_ok() {
                break;
            }
        }
        said
    };
    Target { name, weight: 3, corpus, read: Box::new(read), mend: |input| input }
}

fn page(place: &Path) -> Result<(), String> {
    let words = |error: fidgp_decision::DecisionError| error.to_string();
    let calibration = Calibration::read(place, None).map_err(words)?.ok_or("no rules")?;
    let trust = Trust::read(place).map_err(words)?.ok_or("nothing seen")?;
    if !trust.is_of(&calibration).map_err(words)? {
        return Err("of other rules".to_owned());
    }
    let found = Documents { trust, calibration, ood: None };
    write(&found, &place.join("page")).map(drop).map_err(|error| error.to_string())
}

pub fn of_decisions() -> [Target; 2] {
    [of_one("calibration", CALIBRATION_FILE, 1), of_one("trust", TRUST_FILE, 0)]
}
