//! The page that says how far a model can be trusted, from made-up documents.
#![allow(missing_docs)]

use std::fs;

use fidgp_decision::fit::{self, Asked, Named, Origin};
use fidgp_decision::trust::{About, Foreign, Trust};
use fidgp_decision::{Calibration, ClassEvidence, NumberEvidence, Score};
use fidgp_report::pages::trust::{Documents, FIGURES, sections, write};

fn origin() -> Origin {
    Origin { source: "the <test> part".to_owned(), model_sha256: "0123456789abcdef0123".to_owned(), draws: 8 }
}

fn about() -> About {
    About { name: "a <b>model</b>".to_owned(), method: "fidgp".to_owned(), ..About::default() }
}

/// Three classes; every seventh answer is wrong, with less confidence the later.
fn classes(asked: &Asked) -> Documents {
    let example = |i: usize| {
        let top = 0.99 - 0.5 * (i % 100) as f64 / 100.0;
        let mut probabilities = vec![(1.0 - top) / 2.0; 3];
        probabilities[i % 3] = top;
        let wrong = i.is_multiple_of(7) && i % 100 > 40;
        let said = ClassEvidence {
            total: 1.0 - top,
            aleatoric: 0.8 * (1.0 - top),
            epistemic: 0.2 * (1.0 - top),
            outside: fidgp_decision::evidence::Outside::default(),
            probabilities,
        };
        (said, if wrong { (i + 1) % 3 } else { i % 3 })
    };
    let (said, labels): (Vec<_>, Vec<_>) = (0..900).map(example).unzip();
    let classes = ["cat", "<dog>", "eel"].map(str::to_owned).to_vec();
    let named = Named { classes, ..Named::default() };
    let calibration = fit::classes(&said, &labels, &named, asked, origin()).unwrap();
    let trust = Trust::of_classes(&calibration, about(), &said, &labels).unwrap();
    Documents { trust, calibration, ood: None }
}

fn html(found: &Documents) -> String {
    let folder = tempfile::tempdir().unwrap();
    let report = write(found, folder.path()).unwrap();
    for figure in &report.figures {
        let name = figure.file_stem().unwrap().to_string_lossy().into_owned();
        assert!(FIGURES.contains(&name.as_str()) && figure.is_file(), "{name}");
    }
    let page = fs::read_to_string(report.html).unwrap();
    for bad in ["NaN", "https://", "<script", "@import", "<b>model", "<dog>", "<test>"] {
        assert!(!page.contains(bad), "the page contains {bad}");
    }
    page
}

#[test]
fn the_verdict_says_how_good_what_is_promised_and_what_was_not_tested() {
    let mut found = classes(&Asked::usual(Score::Total));
    for kept in &mut found.calibration.check {
        kept.kept = true;
    }
    let page = html(&found);
    let verdict = page.split("class=\"verdict\"").nth(1).unwrap().split("</div>").next().unwrap();
    let wrong = (0..900).filter(|i: &i32| i % 7 == 0 && i % 100 > 40).count();
    let right = fidgp_decision::decide::percent(1.0 - wrong as f64 / 900.0).replace(' ', "\u{a0}");
    assert!(verdict.contains(&format!("It is right on {right}")), "{verdict}");
    assert!(verdict.contains("of 900 examples it was not trained on (the &lt;test&gt; part)"), "{verdict}");
    for said in [
        "Guaranteed for inputs like these: a set of classes holds the class at level 95\u{a0}%",
        "at most 5\u{a0}% of its answers are wrong (95\u{a0}% sure; ",
        "It calls 5\u{a0}% of inputs like these out of distribution by mistake",
        "not tested: inputs that differ from the examples; corrupted inputs; out-of-distribution inputs; guarantees class by class",
    ] {
        assert!(verdict.contains(said), "{said} is not in {verdict}");
    }
    assert!(!page.contains("NOT KEPT"));
}

#[test]
fn foreign_inputs_broken_promises_and_shares_are_named() {
    let mut found = classes(&Asked { coverage: Some(0.8), ..Asked::usual(Score::Total) });
    found.trust.foreign.push(Foreign { source: "svhn".to_owned(), inputs: 200, found: 90, accepted: 10 });
    for (place, kept) in found.calibration.check.iter_mut().enumerate() {
        kept.kept = place != 0;
    }
    let page = html(&found);
    assert!(page.contains("recognises 45\u{a0}% of svhn") && page.contains("5 % (2.42 % … 9 %)"), "{page:.0}");
    assert!(!page.contains("Guaranteed for inputs like these"), "a promise that was not kept is no guarantee");
    assert!(page.contains("one guarantee was NOT KEPT") && page.contains("it answers the surest 80\u{a0}% of inputs"));
    assert!(!page.contains("none were given"));
}

#[test]
fn a_picture_that_is_no_base64_is_left_out() {
    let mut found = classes(&Asked::usual(Score::Total));
    found.trust.mistakes[0].picture = Some("iVBORw0KGgo=".to_owned());
    found.trust.mistakes[1].picture = Some("\" onerror=\"alert(1)".to_owned());
    let page = html(&found);
    assert_eq!(page.matches("data:image/png;base64,").count(), 1);
    assert!(!page.contains("alert(1)"));
}

#[test]
fn numbers_have_their_own_sections() {
    let example = |i: usize| {
        let x = 1.0 + (i % 50) as f64 / 50.0;
        let off = x * ((i * 37 % 101) as f64 / 101.0 - 0.5);
        let said = NumberEvidence {
            mean: x,
            sd: 0.3 * x,
            epistemic_sd: 0.1 * x,
            outside: fidgp_decision::evidence::Outside::default(),
        };
        (said, x + off)
    };
    let (said, targets): (Vec<_>, Vec<_>) = (0..600).map(example).unzip();
    let asked = Asked::usual(Score::Epistemic);
    let calibration: Calibration = fit::numbers(&said, &targets, &Named::default(), &asked, origin()).unwrap();
    let trust = Trust::of_numbers(&calibration, about(), &said, &targets).unwrap();
    let found = Documents { trust, calibration, ood: None };
    let page = html(&found);
    assert!(
        page.contains("Its predictions are off by ")
            && page.contains("an interval holds the number at level 95\u{a0}%")
    );
    assert!(page.contains("Where it is sure, and where it is not") && page.contains("an error rate"));
    let headings: Vec<_> = sections(&found).into_iter().map(|part| part.heading).collect();
    assert_eq!(headings[0], "May I act on its predictions?");
    assert_eq!(headings.last().unwrap(), "What was not tested");
}
