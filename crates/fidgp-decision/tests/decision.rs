//! From examples to rules, from rules to decisions, from decisions to a monitor.
#![allow(missing_docs)]

use fidgp_decision::calibration::Feature;
use fidgp_decision::decide::{Judge, Verdict};
use fidgp_decision::evidence::Outside;
use fidgp_decision::fit::{self, Asked, Named, Origin};
use fidgp_decision::monitor::{Labels, Reading, Watch, monitor};
use fidgp_decision::pixels::{PixelEvidence, SETTINGS, threshold};
use fidgp_decision::trust::{About, Foreign, Seen, Trust};
use fidgp_decision::{CALIBRATION_FILE, Calibration, ClassEvidence, NumberEvidence, Score, TRUST_FILE};
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

fn origin() -> Origin {
    Origin { source: "a test".to_owned(), model_sha256: "w".to_owned(), draws: 8 }
}

fn classes_named(classes: &[&str]) -> Named {
    Named { classes: classes.iter().map(|&name| name.to_owned()).collect(), ..Named::default() }
}

/// Three classes; how sure the model is says how often it is right. Of the surest share c, a share of 0.12 c⁴ is wrong.
fn class(rng: &mut ChaCha8Rng, harder: f64) -> (ClassEvidence, usize) {
    let top = (1.0 - harder * 0.6 * rng.random::<f64>().powi(4)).max(0.36);
    let first = rng.random_range(0..3);
    let mut probabilities = vec![(1.0 - top) / 2.0; 3];
    probabilities[first] = top;
    let label = if rng.random::<f64>() < top { first } else { (first + 1) % 3 };
    let total = -probabilities.iter().map(|p| if *p > 0.0 { p * p.ln() } else { 0.0 }).sum::<f64>();
    (
        ClassEvidence {
            probabilities,
            total,
            aleatoric: 0.9 * total,
            epistemic: 0.1 * total,
            outside: Outside::default(),
        },
        label,
    )
}

fn classes(seed: u64, n: usize, asked: &Asked) -> Calibration {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let (examples, labels): (Vec<_>, Vec<_>) = (0..n).map(|_| class(rng, 1.0)).unzip();
    fit::classes(&examples, &labels, &classes_named(&["c0", "c1", "c2"]), asked, origin()).unwrap()
}

#[test]
fn promises_are_kept_on_fresh_examples() {
    let asked = Asked::usual(Score::Total);
    let (mut broken, mut silent) = ([0; 2], 0);
    for seed in 0..200 {
        let found = classes(seed, 1000, &asked);
        let judge = Judge::new(&found).unwrap();
        let rng = &mut ChaCha8Rng::seed_from_u64(1_000_000 + seed);
        let (mut answered, mut wrong, mut alarms) = (0.0, 0.0, 0.0);
        for _ in 0..2000 {
            let (said, label) = class(rng, 1.0);
            let decision = judge.class(&said);
            alarms += f64::from(u8::from(decision.verdict == Verdict::OutOfDistribution));
            if decision.verdict == Verdict::Accept {
                answered += 1.0;
                wrong += f64::from(u8::from(said.class() != label));
            }
        }
        if answered == 0.0 {
            silent += 1; // no threshold could be promised
            continue;
        }
        // both shares are themselves seen on 2000 examples: three of their standard errors
        broken[0] += usize::from(wrong / answered > 0.05 + 3.0 * (0.05_f64 * 0.95 / answered).sqrt());
        broken[1] +=
            usize::from(alarms / 2000.0 > 0.05 + 3.0 * (0.05_f64 * 0.95 * (1.0 / 2000.0 + 1.0 / 800.0)).sqrt());
    }
    assert!(broken[0] <= 10 && broken[1] <= 2 && silent <= 20, "{broken:?}, {silent} of 200");
}

#[test]
fn what_is_written_is_read_back_to_the_last_bit_and_belongs_to_its_weights() {
    let folder = tempfile::tempdir().unwrap();
    let found = classes(1, 500, &Asked::usual(Score::Epistemic));
    found.write(folder.path()).unwrap();
    assert_eq!(Calibration::read(folder.path(), Some("w")).unwrap().as_ref(), Some(&found));
    let other = Calibration::read(folder.path(), Some("v")).unwrap_err().to_string();
    assert!(other.contains("calibration.json: belongs to other weights"), "{other}");
    std::fs::write(folder.path().join(CALIBRATION_FILE), "{\"schema\": 1}").unwrap();
    let broken = Calibration::read(folder.path(), None).unwrap_err().to_string();
    assert!(broken.contains("calibration.json"), "{broken}");
}

#[test]
fn verdicts_say_why() {
    let found = classes(2, 2000, &Asked::usual(Score::Epistemic));
    let judge = Judge::new(&found).unwrap();
    let say = |p: f64, epistemic: f64| {
        let probabilities = vec![p, (1.0 - p) / 2.0, (1.0 - p) / 2.0];
        judge.class(&ClassEvidence {
            probabilities,
            total: 0.5,
            aleatoric: 0.5 - epistemic,
            epistemic,
            outside: Outside::default(),
        })
    };
    let [sure, unsure, foreign] = [say(0.999, 0.01), say(0.41, 0.01), say(0.999, 0.4)];
    assert_eq!((sure.verdict, unsure.verdict), (Verdict::Accept, Verdict::Abstain));
    assert_eq!(foreign.verdict, Verdict::OutOfDistribution);
    assert!(sure.reason.ends_with("at most 5 % of such answers are wrong (95 % sure)"), "{}", sure.reason);
    assert!(unsure.reason.starts_with("1 − confidence 0.59 is not below"), "{}", unsure.reason);
    assert!(foreign.reason.contains("p = 0.0006, limit 0.05"), "{}", foreign.reason); // 1/1601
    assert_eq!(sure.sets[0].classes, [0]);
    assert_eq!(unsure.sets.len(), 2);
}

#[test]
fn few_examples_promise_less_and_say_so() {
    let found = classes(3, 16, &Asked::usual(Score::Total));
    assert_eq!((found.examples.fitted, found.examples.held_back), (13, 3));
    let notes = found.notes.join("\n");
    assert!(notes.contains("level 0.95 needs 19 examples, there are 13"), "{notes}");
    assert!(notes.contains("no threshold keeps errors at 5 %"), "{notes}");
    assert!(notes.contains("examples") && notes.contains("at best (--error)"), "{notes}");
    assert!(notes.contains("5 % false alarms need 19 examples"), "{notes}");
    let decision = Judge::new(&found).unwrap().class(&class(&mut ChaCha8Rng::seed_from_u64(0), 1.0).0);
    assert_eq!(decision.verdict, Verdict::Abstain);
    assert_eq!(decision.sets[1].classes.len(), 3);
    let rng = &mut ChaCha8Rng::seed_from_u64(0);
    let (examples, labels): (Vec<_>, Vec<_>) = (0..9).map(|_| class(rng, 1.0)).unzip();
    let none =
        fit::classes(&examples, &labels, &classes_named(&["c0", "c1", "c2"]), &Asked::usual(Score::Total), origin())
            .unwrap_err();
    assert!(none.to_string().starts_with("the examples are 9: too few"), "{none}");
}

/// Two p-values share the false alarms where there are features: the least is 2/(n + 1).
#[test]
fn few_rows_call_nothing_out_of_distribution_and_say_so() {
    let rng = &mut ChaCha8Rng::seed_from_u64(4);
    let features = vec![Feature { name: "area".to_owned(), levels: Vec::new() }];
    let mut fitted_to = |rows: usize| {
        let (examples, targets): (Vec<_>, Vec<_>) = (0..rows).map(|_| number(rng)).unzip();
        let columns = vec![examples.iter().map(|said: &NumberEvidence| said.mean).collect()];
        let named = Named { features: features.clone(), columns, ..Named::default() };
        fit::numbers(&examples, &targets, &named, &Asked::usual(Score::Epistemic), origin()).unwrap()
    };
    let few = fitted_to(38); // 30 to fit, 8 to check
    assert_eq!(few.examples.fitted, 30);
    assert!(few.rules.outlier.is_none());
    let note = "5 % false alarms need 39 examples (two tests share them: uncertainty and features), there are 30: nothing \
                is called out of distribution";
    assert!(few.notes.iter().any(|said| said == note), "{:?}", few.notes);
    let enough = fitted_to(49);
    assert_eq!(enough.examples.fitted, 39);
    let far = NumberEvidence { mean: 1.5, sd: 0.3, epistemic_sd: 0.012, outside: outside(30.0) };
    let far = Judge::new(&enough).unwrap().number(&far);
    assert_eq!((far.verdict, far.p_value), (Verdict::OutOfDistribution, Some(0.05)), "{}", far.reason);
}

#[test]
fn the_smallest_class_is_named() {
    let rng = &mut ChaCha8Rng::seed_from_u64(0);
    let (examples, _): (Vec<_>, Vec<usize>) = (0..100).map(|_| class(rng, 1.0)).unzip();
    let labels: Vec<usize> = (0..100).map(|i| if i < 4 { 2 } else { i % 2 }).collect();
    let asked = Asked { by_class: true, ..Asked::usual(Score::Total) };
    let found = fit::classes(&examples, &labels, &classes_named(&["ok", "fine", "rare"]), &asked, origin());
    let said = found.unwrap_err().to_string();
    assert!(said.contains("`rare`, the smallest class, has") && said.contains("needs 9"), "{said}");
}

#[test]
fn senseless_wishes_are_refused() {
    let bad = |change: fn(&mut Asked)| {
        let mut asked = Asked::usual(Score::Total);
        change(&mut asked);
        asked.check().unwrap_err().to_string()
    };
    assert!(bad(|asked| asked.levels = vec![95.0]).starts_with("--levels 95 must lie between 0 and 1"));
    assert!(bad(|asked| asked.risk = 0.0).starts_with("--error 0"));
    assert!(bad(|asked| asked.false_alarms = f64::NAN).starts_with("--false-alarms NaN"));
    assert!(bad(|asked| asked.wrong_beyond = Some(-1.0)).starts_with("--wrong-beyond -1"));
}

/// y = x + noise that grows with x; a few x lie a little outside the training data.
fn number(rng: &mut ChaCha8Rng) -> (NumberEvidence, f64) {
    let x = 1.0 + rng.random::<f64>();
    let y = x + x * (rng.random::<f64>() - 0.5);
    (NumberEvidence { mean: x, sd: 0.2 * x, epistemic_sd: 0.01 * x, outside: outside((x - 1.99).max(0.0)) }, y)
}

fn outside(by: f64) -> Outside {
    let said =
        if by > 0.0 { vec!["area = -500 lies outside 28 … 310 of the training data".to_owned()] } else { Vec::new() };
    Outside { by, said }
}

#[test]
fn numbers_have_intervals_and_features_that_lie_outside_are_named() {
    let rng = &mut ChaCha8Rng::seed_from_u64(5);
    let (examples, targets): (Vec<_>, Vec<_>) = (0..2000).map(|_| number(rng)).unzip();
    let asked = Asked { wrong_beyond: Some(0.7), ..Asked::usual(Score::Epistemic) };
    let columns = vec![examples.iter().map(|said| said.mean).collect()];
    let features = vec![Feature { name: "area".to_owned(), levels: Vec::new() }];
    let named = Named { features, columns, ..Named::default() };
    let found = fit::numbers(&examples, &targets, &named, &asked, origin()).unwrap();
    assert!(found.check.iter().all(|kept| kept.kept), "{:?}", found.check);
    let judge = Judge::new(&found).unwrap();
    let say = |by| judge.number(&NumberEvidence { mean: 1.5, sd: 0.3, epistemic_sd: 0.012, outside: outside(by) });
    let inside = say(0.0);
    assert_eq!(inside.verdict, Verdict::Accept);
    let width = inside.intervals[0].hi - inside.intervals[0].lo;
    assert!((width / (0.9 * 1.5) - 1.0).abs() < 0.05, "uniform noise: 90 % of 1.5, not {width}");
    let far = say(3.0);
    assert_eq!(far.verdict, Verdict::OutOfDistribution);
    assert!(far.reason.starts_with("area = -500 lies outside 28 … 310"), "{}", far.reason);
    assert!((far.p_value.unwrap() - 2.0 / 1601.0).abs() < 1e-12, "{far:?}");
    let number = |rng: &mut ChaCha8Rng| judge.number(&number(rng).0).verdict == Verdict::OutOfDistribution;
    let alarms = (0..4000).filter(|_| number(rng)).count() as f64 / 4000.0;
    assert!(alarms < 0.05 + 3.0 * (0.05_f64 * 0.95 * (1.0 / 4000.0 + 1.0 / 1600.0)).sqrt(), "{alarms}");
}

/// A line of `fidgp predict --jsonl`, with a label.
fn line(said: &ClassEvidence, label: usize, judge: &Judge) -> String {
    let decision = judge.class(said);
    let name = |class: &usize| format!("c{class}");
    let named = |classes: &[usize]| classes.iter().map(name).collect::<Vec<_>>();
    let sets = decision.sets.iter().map(|set| json!({"level": set.level, "classes": named(&set.classes)}));
    json!({
        "class": name(&said.class()), "probability": said.confidence(),
        "total": said.total, "epistemic": said.epistemic, "decision": decision.verdict,
        "sets": sets.collect::<Vec<_>>(), "label": name(&label),
    })
    .to_string()
}

fn month(found: &Calibration, seed: u64, days: [f64; 30]) -> fidgp_decision::monitor::Monitor {
    let judge = Judge::new(found).unwrap();
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let lines: Vec<String> = days
        .iter()
        .flat_map(|harder| {
            let day: Vec<_> = (0..40).map(|_| class(rng, *harder)).collect();
            day.into_iter().map(|(said, label)| line(&said, label, &judge)).collect::<Vec<_>>()
        })
        .collect();
    monitor(found, lines.iter().map(|line| (String::new(), line.as_str())), 0.05).unwrap()
}

#[test]
fn quiet_months_raise_no_alarm_and_a_change_does() {
    let quiet = (0..200).filter(|&seed| {
        let found = classes(seed, 1000, &Asked::usual(Score::Total));
        month(&found, 7_000 + seed, [1.0; 30]).alarm()
    });
    let quiet = quiet.count();
    assert!(quiet <= 10, "{quiet} of 200 quiet months with a false alarm");
    let found = classes(0, 1000, &Asked::usual(Score::Total));
    let mut days = [1.0; 30];
    days[15..].fill(2.5);
    let drifting = month(&found, 3, days);
    let alarm = drifting.series.iter().filter_map(|series| series.alarm_at).min();
    assert!(drifting.alarm() && alarm.is_some_and(|line| (600..900).contains(&line)), "{alarm:?}");
    let accuracy = drifting.accuracy.unwrap();
    assert!(accuracy.interval.hi < drifting.accuracy_before.unwrap(), "{accuracy:?}");
}

/// Watched for a month without change, and for the next with one: the evidence comes with the change. What comes after
/// 10,000 lines is tested anew, and what was seen before is not forgotten at once.
#[test]
fn a_watch_sees_what_a_monitor_sees() {
    let found = classes(0, 1000, &Asked::usual(Score::Total));
    let (judge, rng) = (Judge::new(&found).unwrap(), &mut ChaCha8Rng::seed_from_u64(3));
    let mut watch = Watch::new(found.clone()).unwrap();
    let mut see = |lines: usize, harder: f64| {
        for _ in 0..lines {
            let (said, label) = class(rng, harder);
            watch.add(&serde_json::from_str(&line(&said, label, &judge)).unwrap()).unwrap();
        }
        let names: Vec<_> = watch.evidence().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["class", "confidence", "epistemic", "total"]);
        watch.evidence().into_iter().map(|(_, evidence)| evidence).fold(f64::MIN, f64::max)
    };
    let quiet = see(600, 1.0);
    assert!(quiet < 3.0, "{quiet}");
    let changed = see(9_400, 2.5);
    assert!(changed > 10.0, "{changed}");
    assert!(see(100, 2.5) >= changed, "the evidence is forgotten with the 10,001st line");
}

#[test]
fn broken_logs_are_named() {
    let found = classes(0, 200, &Asked::usual(Score::Total));
    let read = |line: &'static str| monitor(&found, [("log.jsonl:7".to_owned(), line)], 0.05).unwrap_err().to_string();
    assert!(read("{").starts_with("log.jsonl:7 is no JSON"), "{}", read("{"));
    assert!(read("{}").contains("has none of the fields"), "{}", read("{}"));
    assert!(monitor(&found, [], 0.05).is_err());
}

#[test]
fn a_share_is_answered_and_the_rest_abstained_from() {
    let asked = Asked { coverage: Some(0.7), ..Asked::usual(Score::Epistemic) };
    let found = classes(11, 4000, &asked);
    assert!(found.rules.abstention.is_none());
    let kept = found.check.iter().find(|kept| kept.promise.contains("sure enough")).unwrap();
    assert!(kept.kept && (kept.seen - 0.7).abs() < 0.06, "{kept:?}");
    let judge = Judge::new(&found).unwrap();
    let rng = &mut ChaCha8Rng::seed_from_u64(12);
    let said: Vec<_> = (0..4000).map(|_| judge.class(&class(rng, 1.0).0)).collect();
    let abstained = said.iter().filter(|said| said.verdict == Verdict::Abstain).count() as f64 / 4000.0;
    assert!((0.2..0.34).contains(&abstained), "{abstained}"); // 30 % less those called out of distribution
    let reason = &said.iter().find(|said| said.verdict == Verdict::Abstain).unwrap().reason;
    assert!(reason.ends_with("the surest 70 % are answered") && reason.contains(" is above "), "{reason}");
    let accepted = &said.iter().find(|said| said.verdict == Verdict::Accept).unwrap().reason;
    assert_eq!(accepted, "among the surest 70 %; no error rate was asked for");
    let bad = Asked { coverage: Some(1.5), ..Asked::usual(Score::Total) };
    assert!(bad.check().unwrap_err().to_string().starts_with("--coverage 1.5"));
}

#[test]
fn what_was_seen_of_classes_is_counted() {
    let rng = &mut ChaCha8Rng::seed_from_u64(21);
    let (examples, labels): (Vec<_>, Vec<_>) = (0..500).map(|_| class(rng, 1.0)).unzip();
    let asked = Asked::usual(Score::Total);
    let found = fit::classes(&examples, &labels, &classes_named(&["c0", "c1", "c2"]), &asked, origin()).unwrap();
    let trust = Trust::of_classes(&found, About::default(), &examples, &labels).unwrap();
    let Seen::Classes(seen) = &trust.seen else { panic!("classes") };
    let right = examples.iter().zip(&labels).filter(|(said, label)| said.class() == **label).count();
    assert_eq!(seen.right, right);
    assert_eq!(seen.confusion.iter().map(|[_, _, count]| count).sum::<usize>(), 500);
    let on_diagonal: usize = seen.confusion.iter().filter(|[truth, said, _]| truth == said).map(|one| one[2]).sum();
    assert_eq!(on_diagonal, right);
    assert_eq!(seen.by_class.iter().map(|row| row.held_back).sum::<usize>(), found.examples.held_back);
    for (place, sizes) in seen.sizes.iter().enumerate() {
        let covered: usize = seen.by_class.iter().map(|row| row.covered[place]).sum();
        assert!((covered as f64 / found.examples.held_back as f64 - found.check[place].seen).abs() < 1e-12);
        assert_eq!(sizes.counts.iter().sum::<usize>(), found.examples.held_back);
        let sum: usize = sizes.counts.iter().enumerate().map(|(size, count)| size * count).sum();
        assert!((sum as f64 / 100.0 - found.check[place].mean_size.unwrap()).abs() < 1e-12);
    }
    let decided = trust.decisions;
    assert_eq!(decided.accept + decided.abstain + decided.foreign, found.examples.held_back);
    let histogram = &trust.epistemic;
    assert_eq!(histogram.right.iter().sum::<usize>(), right);
    assert_eq!(histogram.wrong.iter().sum::<usize>(), 500 - right);
    assert_eq!(trust.mistakes.len(), 12);
    assert!(trust.mistakes.windows(2).all(|pair| pair[0].confidence >= pair[1].confidence));
    assert!(
        trust.mistakes.iter().all(|one| one.said != one.truth && examples[one.example].class() != labels[one.example])
    );
    let last = trust.curves[0].points.last().unwrap();
    assert!((last[0] - 1.0).abs() < 1e-12 && (last[1] - (1.0 - right as f64 / 500.0)).abs() < 1e-12, "{last:?}");

    let folder = tempfile::tempdir().unwrap();
    let trust =
        Trust { foreign: vec![Foreign::of("a".to_owned(), &[Verdict::Accept, Verdict::OutOfDistribution])], ..trust };
    assert_eq!((trust.foreign[0].inputs, trust.foreign[0].found, trust.foreign[0].accepted), (2, 1, 1));
    assert_eq!(Trust::read(folder.path()).unwrap(), None);
    trust.write(folder.path()).unwrap();
    assert_eq!(Trust::read(folder.path()).unwrap(), Some(trust));
    std::fs::write(folder.path().join(TRUST_FILE), "{}").unwrap();
    assert!(Trust::read(folder.path()).unwrap_err().to_string().contains("trust.json"));
    let other = Trust::of_classes(&found, About::default(), &examples[1..], &labels[1..]).unwrap_err();
    assert!(other.to_string().starts_with("the examples are 499, the rules are of 500 others"), "{other}");
}

#[test]
fn what_was_seen_of_numbers_is_counted() {
    let rng = &mut ChaCha8Rng::seed_from_u64(22);
    let (examples, targets): (Vec<_>, Vec<_>) = (0..600).map(|_| number(rng)).unzip();
    let asked = Asked { wrong_beyond: Some(0.7), ..Asked::usual(Score::Epistemic) };
    let found = fit::numbers(&examples, &targets, &Named::default(), &asked, origin()).unwrap();
    let trust = Trust::of_numbers(&found, About::default(), &examples, &targets).unwrap();
    let Seen::Numbers(seen) = &trust.seen else { panic!("numbers") };
    assert_eq!(seen.thirds.iter().map(|third| third.examples).sum::<usize>(), 120);
    assert!(seen.thirds.windows(2).all(|pair| pair[0].to <= pair[1].from));
    let covered: usize = seen.thirds.iter().map(|third| third.covered[0]).sum();
    assert!((covered as f64 / 120.0 - found.check[0].seen).abs() < 1e-12);
    assert!(seen.widths.iter().all(|one| one.quantiles.windows(2).all(|pair| pair[0] <= pair[1])));
    assert!(seen.rmse >= seen.mae && seen.target_sd > seen.mae && seen.forecasts.len() == 500);
    let wrong = examples.iter().zip(&targets).filter(|(said, y)| (said.mean - **y).abs() > 0.7).count();
    assert_eq!(trust.epistemic.wrong.iter().sum::<usize>(), wrong);
    assert_eq!(trust.epistemic.wrong_is, "off by more than 0.7");
    assert!(trust.mistakes.windows(2).all(|pair| pair[0].deviations >= pair[1].deviations));
}

/// A month of customers: a city, a size that is missing in a third of the rows, a day.
fn customers(rng: &mut ChaCha8Rng, n: usize) -> Vec<Value> {
    let mut row = || {
        let city = ["Bonn", "Kiel", "Ulm"][rng.random_range(0..3)];
        let day = format!("2024-01-{:02}", rng.random_range(1..29));
        let mut row = json!({"city": city, "since": day, "member": rng.random::<bool>(), "size": null});
        if rng.random::<f64>() > 0.3 {
            row["size"] = rng.random_range(1.0..50.0).into();
        }
        row
    };
    (0..n).map(|_| row()).collect()
}

fn features() -> Vec<Feature> {
    let levels = |name: &str| {
        if name == "city" { vec!["Bonn".to_owned(), "Kiel".to_owned(), "Ulm".to_owned()] } else { Vec::new() }
    };
    ["city", "since", "member", "size"].map(|name| Feature { name: name.to_owned(), levels: levels(name) }).to_vec()
}

/// Rules for a table with gaps, and the lines of a month of such rows.
fn table_month(seed: u64, change: impl Fn(&mut Value)) -> fidgp_decision::monitor::Monitor {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let (examples, labels): (Vec<_>, Vec<_>) = (0..400).map(|_| class(rng, 1.0)).unzip();
    let rows = customers(rng, 400);
    let column =
        |feature: &Feature| rows.iter().map(|row| feature.number(&row[&feature.name]).unwrap_or(f64::NAN)).collect();
    let columns = features().iter().map(column).collect();
    let named = Named { features: features(), columns, ..classes_named(&["c0", "c1", "c2"]) };
    let found = fit::classes(&examples, &labels, &named, &Asked::usual(Score::Total), origin()).unwrap();
    let judge = Judge::new(&found).unwrap();
    let lines: Vec<String> = customers(rng, 900)
        .into_iter()
        .map(|mut row| {
            let (said, label) = class(rng, 1.0);
            let mut line: Value = serde_json::from_str(&line(&said, label, &judge)).unwrap();
            change(&mut row);
            line["features"] = row;
            line.to_string()
        })
        .collect();
    monitor(&found, lines.iter().map(|line| (String::new(), line.as_str())), 0.05).unwrap()
}

#[test]
fn a_table_with_gaps_dates_and_texts_is_quiet_until_it_changes() {
    let quiet = (0..40).filter(|&seed| table_month(seed, |_| ()).alarm()).count();
    assert!(quiet <= 5, "{quiet} of 40 quiet months with a false alarm"); // P(Bin(40, .05) > 5) = 1.4 %
    let seen = table_month(0, |_| ());
    assert!(seen.series.iter().filter(|one| one.name.starts_with("feature:")).all(|one| one.seen > 500), "{seen:?}");
    let alarms = |change: fn(&mut Value), series: &str| {
        let found = table_month(1, change).series;
        found.into_iter().find(|one| one.name == series).unwrap().alarm_at.is_some()
    };
    assert!(alarms(|row| row["since"] = "2024-02-20".into(), "feature:since"));
    assert!(alarms(|row| row["city"] = "Atlantis".into(), "feature:city"));
    assert!(alarms(|row| row["member"] = true.into(), "feature:member"));
    assert!(!alarms(|row| row["member"] = if row["member"] == true { "yes" } else { "no" }.into(), "feature:member"));
}

/// A model that errs more often than it did, as sure as ever: only labels tell. Errors have a series, and so has the promise
/// that accepted predictions are right.
#[test]
fn labels_tell_of_errors_that_nothing_else_shows() {
    let found = classes(0, 4000, &Asked::usual(Score::Total));
    assert!(found.rules.abstention.as_ref().unwrap().rule.is_some());
    let (judge, rng) = (Judge::new(&found).unwrap(), &mut ChaCha8Rng::seed_from_u64(9));
    let mut lines = Vec::new();
    for i in 0..1500 {
        let (said, label) = class(rng, 1.0);
        let label = if i >= 500 && rng.random::<f64>() < 0.25 { (said.class() + 1) % 3 } else { label };
        lines.push(line(&said, label, &judge));
    }
    let read =
        |lines: &[String]| monitor(&found, lines.iter().map(|line| (String::new(), line.as_str())), 0.05).unwrap();
    let quiet = read(&lines[..500]);
    assert!(!quiet.alarm(), "{quiet:?}");
    let seen = read(&lines);
    let errors = seen.series.iter().find(|series| series.name == "error").unwrap();
    assert!(errors.alarm_at.is_some_and(|line| (500..900).contains(&line)), "{errors:?}");
    assert!(seen.series.iter().all(|series| series.name == "error" || series.alarm_at.is_none()), "{:?}", seen.series);
    let accepted = seen.watched.iter().find(|one| one.what == "accepted predictions that are wrong").unwrap();
    assert_eq!(accepted.promised, Some(0.05));
    assert!(accepted.broken && accepted.alarm_at.is_some_and(|line| (500..1000).contains(&line)), "{accepted:?}");
    let bare: Vec<String> = lines.iter().map(|line| line.replace("\"label\"", "\"truth\"")).collect();
    assert!(!read(&bare).alarm(), "without labels nothing can be seen");
}

/// Numbers that are off by more than before.
#[test]
fn errors_of_numbers_are_watched() {
    let rng = &mut ChaCha8Rng::seed_from_u64(5);
    let (examples, targets): (Vec<_>, Vec<_>) = (0..2000).map(|_| number(rng)).unzip();
    let asked = Asked { wrong_beyond: Some(0.7), ..Asked::usual(Score::Epistemic) };
    let found = fit::numbers(&examples, &targets, &Named::default(), &asked, origin()).unwrap();
    let judge = Judge::new(&found).unwrap();
    let mut month = |more: f64| {
        let lines: Vec<String> = (0..600)
            .map(|_| {
                let (said, y) = number(rng);
                let decision = judge.number(&said).verdict;
                json!({"mean": said.mean, "sd": said.sd, "epistemic": said.epistemic_sd, "decision": decision,
                    "label": said.mean + more * (y - said.mean)})
                .to_string()
            })
            .collect();
        monitor(&found, lines.iter().map(|line| (String::new(), line.as_str())), 0.05).unwrap()
    };
    assert!(!month(1.0).alarm());
    let worse = month(1.6);
    assert!(worse.series.iter().any(|one| one.name == "error" && one.alarm_at.is_some()), "{:?}", worse.series);
    let accepted = worse.watched.iter().find(|one| one.what == "accepted predictions that are wrong").unwrap();
    assert!(accepted.broken, "{accepted:?}");
}

/// Labels from a file of their own say what labels in the lines say.
#[test]
fn labels_may_come_later() {
    let found = classes(5, 1000, &Asked::usual(Score::Total));
    let (judge, rng) = (Judge::new(&found).unwrap(), &mut ChaCha8Rng::seed_from_u64(6));
    let (mut with, mut without, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for row in 0..300 {
        let (said, label) = class(rng, 1.0);
        let mut line: Value = serde_json::from_str(&line(&said, label, &judge)).unwrap();
        line["input"] = "day.csv".into();
        line["row"] = row.into();
        with.push(line.to_string());
        line["label"] = Value::Null;
        without.push(line.to_string());
        rows.push(vec!["day.csv".to_owned(), format!("c{label}"), row.to_string()]);
    }
    let names = ["input", "label", "row"].map(str::to_owned);
    let read = |lines: &[String], labels: Labels| {
        let mut reading = Reading::new(&found, 0.05, None).unwrap().with_labels(labels);
        for line in lines {
            reading.line(&"log", line).unwrap();
        }
        reading.finish()
    };
    let later = read(&without, Labels::new(&names, rows.clone()).unwrap()).unwrap();
    assert_eq!(later, read(&with, Labels::default()).unwrap());
    assert_eq!(later.watched[0].seen, 300);
    let some = read(&without[..200], Labels::new(&names, rows.clone()).unwrap()).unwrap();
    assert_eq!((some.watched[0].seen, some.unused_labels), (200, 100));
    let none = read(&without[..200], Labels::new(&names, rows[200..].to_vec()).unwrap()).unwrap_err().to_string();
    assert_eq!(none, "the labels belong to no line of the logs: none has the same `input`, `row`");
    rows.push(vec!["day.csv".to_owned(), "c9".to_owned(), "0".to_owned()]);
    let twice = Labels::new(&names, rows).unwrap_err().to_string();
    assert!(twice.starts_with("the labels say of day.csv, 0 both `c") && twice.ends_with("and `c9`"), "{twice}");
    assert!(Labels::new(&names[..1], Vec::new()).unwrap_err().to_string().contains("need a column `label`"));
}

/// Labels are the truth whether they are names or numbers, and sets are found by their level, not by their place.
#[test]
fn labels_by_index_and_sets_of_other_levels_are_read_right() {
    let found = classes(5, 1000, &Asked::usual(Score::Total));
    let (judge, rng) = (Judge::new(&found).unwrap(), &mut ChaCha8Rng::seed_from_u64(6));
    let pairs: Vec<_> = (0..600).map(|_| class(rng, 1.0)).collect();
    let read = |change: fn(&mut Value, usize)| {
        let lines = pairs.iter().map(|(said, label)| {
            let mut line: Value = serde_json::from_str(&line(said, *label, &judge)).unwrap();
            change(&mut line, *label);
            line.to_string()
        });
        let lines: Vec<String> = lines.collect();
        monitor(&found, lines.iter().map(|line| (String::new(), line.as_str())), 0.05).unwrap().watched
    };
    let named = read(|_, _| ());
    assert_eq!(read(|line, label| line["label"] = label.into()), named);
    let turned = |line: &mut Value, _: usize| line["sets"].as_array_mut().unwrap().reverse();
    assert_eq!(read(turned), named);
    assert!(named.iter().all(|one| !one.broken), "{named:?}");
    assert!(named[..3].iter().all(|one| one.seen == 600) && named[3].seen < 600, "{named:?}"); // the last: of those accepted
    let other = |line: &mut Value, _: usize| line["sets"][0]["level"] = 0.5.into(); // logged with rules of before
    assert_eq!(read(other)[0].promised, Some(0.95), "a set of another level says nothing of this one");
}

#[test]
fn logs_of_several_models_and_labels_of_another_kind_are_refused() {
    let found = classes(0, 200, &Asked::usual(Score::Total));
    let line = |model: &str| json!({"model": model, "class": "c1", "probability": 0.8, "total": 0.4}).to_string();
    let (a, b) = (line("a"), line("b"));
    let read = |model| {
        let lines = [&a, &b, &a].map(|line| (String::new(), line.as_str()));
        let mut reading = Reading::new(&found, 0.05, model)?;
        lines.into_iter().try_for_each(|(place, line): (String, &str)| reading.line(&place, line))?;
        reading.finish()
    };
    assert_eq!(read(Some("a")).unwrap().lines, 2);
    let said = read(None).unwrap_err().to_string();
    assert_eq!(said, "the logs are of several models, `a`, `b`: choose one with --name");
    let said = read(Some("c")).unwrap_err().to_string();
    assert_eq!(said, "the logs have no line of the model `c`; there are `a`, `b`");

    let rng = &mut ChaCha8Rng::seed_from_u64(5);
    let (examples, targets): (Vec<_>, Vec<_>) = (0..200).map(|_| number(rng)).unzip();
    let found = fit::numbers(&examples, &targets, &Named::default(), &Asked::usual(Score::Total), origin()).unwrap();
    let read = |label: Value| {
        let line = json!({"mean": 1.5, "sd": 0.3, "epistemic": 0.01, "label": label,
            "intervals": [{"level": 0.9, "lower": 1.0, "upper": 2.0}]})
        .to_string();
        monitor(&found, [("log:1".to_owned(), line.as_str())], 0.05)
    };
    assert_eq!(read("1.7".into()).unwrap().watched[0].seen, 1);
    let said = read("wide".into()).unwrap_err().to_string();
    assert_eq!(said, "log:1 has the label \"wide\", which is no number");
}

/// What is called foreign is not answered; so it must not help to keep the risk of what is.
#[test]
fn the_promised_risk_is_that_of_the_answers() {
    let rng = &mut ChaCha8Rng::seed_from_u64(8);
    let mut example = || {
        let strange = rng.random::<f64>() < 0.2; // never wrong, and sure
        let wrong = !strange && rng.random::<f64>() < 0.055;
        let said = ClassEvidence {
            probabilities: vec![0.9, 0.1],
            total: if strange { 0.0 } else { 0.1 * rng.random::<f64>() },
            aleatoric: 0.0,
            epistemic: if strange { 1.0 + rng.random::<f64>() } else { 0.1 * rng.random::<f64>() },
            outside: Outside::default(),
        };
        (said, usize::from(wrong))
    };
    let (examples, labels): (Vec<_>, Vec<_>) = (0..20_000).map(|_| example()).unzip();
    let asked = Asked { false_alarms: 0.2, ..Asked::usual(Score::Epistemic) };
    let found = fit::classes(&examples, &labels, &classes_named(&["a", "b"]), &asked, origin()).unwrap();
    // 4.4 % of all are wrong, and 5.5 % of those that are no outliers: no threshold on noise keeps 5 %
    let abstention = found.rules.abstention.as_ref().unwrap();
    assert!(abstention.rule.is_none_or(|rule| rule.answered < 0.5), "{abstention:?}");
    assert!(found.check.iter().all(|kept| kept.kept), "{:?}", found.check);
}

#[test]
fn a_promise_for_each_class_is_checked_class_by_class() {
    let asked = Asked { by_class: true, ..Asked::usual(Score::Total) };
    let kept = (0..100).filter(|&seed| classes(seed, 1500, &asked).check.iter().take(4).all(|kept| kept.kept)).count();
    assert!(kept >= 90, "{kept} of 100 sound promises are called kept");
    let found = classes(1, 1500, &asked);
    let lowest =
        found.check.iter().find(|kept| kept.promise.starts_with("the lowest class at level 90 %, `c")).unwrap();
    assert!(lowest.examples > 50 && lowest.examples < 300, "{lowest:?}");
}

/// A price whose errors grow with it: the interval is of the logarithm, so it is never below 0.
#[test]
fn intervals_of_a_logarithm_lie_above_zero() {
    let rng = &mut ChaCha8Rng::seed_from_u64(9);
    let mut example = || {
        let (m, s) = (6.0 * rng.random::<f64>(), 0.8_f64);
        let mean = (m + s * s / 2.0).exp();
        let off: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
        let said = NumberEvidence {
            mean,
            sd: mean * (s * s).exp_m1().sqrt(),
            epistemic_sd: 0.1 * mean,
            outside: Outside::default(),
        };
        (said, (m + s * off).exp())
    };
    let (examples, targets): (Vec<_>, Vec<_>) = (0..3000).map(|_| example()).unzip();
    let [centre, spread] = examples[0].of_logarithm();
    assert!((spread - 0.8).abs() < 1e-9 && (centre.exp() / examples[0].mean).ln() + 0.32 < 1e-9);
    let named = Named { logarithm: true, ..Named::default() };
    let asked = Asked::usual(Score::Epistemic);
    let found = fit::numbers(&examples, &targets, &named, &asked, origin()).unwrap();
    assert!(found.check.iter().all(|kept| kept.kept), "{:?}", found.check);
    let interval = Judge::new(&found).unwrap().number(&examples[0]).intervals[0];
    let ratio = (interval.hi / interval.lo).ln() / (2.0 * 1.645 * 0.8);
    assert!(interval.lo > 0.0 && (ratio - 1.0).abs() < 0.08, "{interval:?}, {ratio}");
    let refused = fit::numbers(&examples, &vec![0.0; 3000], &named, &asked, origin()).unwrap_err().to_string();
    assert!(refused.contains("have the target 0, which has no logarithm"), "{refused}");
}

#[test]
fn files_whose_parts_do_not_fit_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let rng = &mut ChaCha8Rng::seed_from_u64(21);
    let (examples, labels): (Vec<_>, Vec<_>) = (0..500).map(|_| class(rng, 1.0)).unzip();
    let asked = Asked { by_class: true, ..Asked::usual(Score::Total) };
    let found = fit::classes(&examples, &labels, &classes_named(&["c0", "c1", "c2"]), &asked, origin()).unwrap();
    let trust = Trust::of_classes(&found, About::default(), &examples, &labels).unwrap();
    assert!(trust.is_of(&found).unwrap());
    let mut others = found.clone();
    others.notes.push("fitted anew".to_owned());
    assert!(!trust.is_of(&others).unwrap());
    let with = |document: &Value, change: &dyn Fn(&mut Value)| {
        let mut document = document.clone();
        change(&mut document);
        document.to_string()
    };
    let rules = serde_json::to_value(&found).unwrap();
    for (change, said) in [
        (
            &(|d: &mut Value| drop(d["rules"]["sets_by_class"][0]["thresholds"].as_array_mut().unwrap().pop()))
                as &dyn Fn(&mut Value),
            "has 2 thresholds and 3 counts for 3 classes",
        ),
        (&|d| d["rules"]["sets_by_class"][1]["level"] = 1.5.into(), "1.5 does not lie between 0 and 1"),
        (&|d| d["classes"] = json!([]), "classes"),
        (&|d| d["reference"]["total"] = json!([]), "calibration.json"),
        (&|d| d["reference"]["right"] = json!([1.0]), "says of 1 whether they are right"),
    ] {
        std::fs::write(folder.path().join(CALIBRATION_FILE), with(&rules, change)).unwrap();
        let error = Calibration::read(folder.path(), None).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("calibration.json"), "{error}");
    }
    let seen = serde_json::to_value(&trust).unwrap();
    for (change, said) in [
        (
            &(|d: &mut Value| d["seen"]["confusion"][0][1] = 7.into()) as &dyn Fn(&mut Value),
            "names classes 0 and 7 of 3",
        ),
        (&|d| drop(d["seen"]["by_class"].as_array_mut().unwrap().pop()), "has 2 rows, there are 3 classes"),
        (&|d| d["seen"]["by_class"][1]["set_sizes"] = json!([]), "row 1 of `by_class` is not of 2 levels"),
        (&|d| d["seen"]["by_class"][1]["covered"] = json!([1]), "row 1 of `by_class` is not of 2 levels"),
        (&|d| d["epistemic"]["edges"] = json!([]), "epistemic"),
    ] {
        std::fs::write(folder.path().join(TRUST_FILE), with(&seen, change)).unwrap();
        let error = Trust::read(folder.path()).unwrap_err().to_string();
        assert!(error.contains(said) && error.contains("trust.json"), "{error}");
    }
}

/// Pictures of some hundred pixels of two classes, the second rare and hard; in some pictures everything is harder.
fn pictures(count: usize, seed: u64) -> Vec<PixelEvidence> {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let mut picture = |_| {
        let (hard, mut counts) = (rng.random_range(0.5..2.0), vec![vec![0; SETTINGS + 1]; 2]);
        let rare = rng.random_range(0..40);
        for pixel in 0..300 {
            let class = usize::from(pixel < rare);
            let p = rng.random::<f64>().powf(hard * if class == 1 { 1.0 } else { 0.3 });
            counts[class][(0..=SETTINGS).find(|&setting| threshold(setting) <= p).unwrap()] += 1;
        }
        PixelEvidence { counts }
    };
    (0..count).map(&mut picture).collect()
}

#[test]
fn sets_of_pixels_miss_no_more_than_they_may() {
    let named = Named { classes: vec!["road".to_owned(), "child".to_owned()], ..Named::default() };
    let asked = Asked { levels: vec![0.9], by_class: true, ..Asked::usual(Score::Total) };
    let fitted = |pictures: &[PixelEvidence], seed: u64| {
        fit::pixels(pictures, &named, &Asked { seed, ..asked.clone() }, origin()).unwrap()
    };
    let fresh = pictures(300, 99);
    let fresh: Vec<&PixelEvidence> = fresh.iter().collect();
    let mut missed = [Vec::new(), Vec::new(), Vec::new()];
    for seed in 0..20 {
        let found = fitted(&pictures(60, seed), seed);
        assert_eq!(found.rules.pixels.iter().map(|sets| sets.class).collect::<Vec<_>>(), [None, Some(0), Some(1)]);
        for (place, sets) in found.rules.pixels.iter().enumerate() {
            let all = sets.missed_in(&fresh);
            missed[place].push(all.iter().sum::<f64>() / all.len() as f64);
        }
        assert!(found.check.iter().filter(|kept| !kept.kept).count() <= 1, "{:?}", found.check);
    }
    for of in missed {
        let mean = of.iter().sum::<f64>() / of.len() as f64;
        assert!((0.06..=0.102).contains(&mean), "{mean}: at most a tenth, and not far below");
    }
    let few = fitted(&pictures(12, 1), 0);
    assert_eq!((few.rules.pixels[0].pictures, few.examples.held_back), (10, 2));
    let none = fit::pixels(&pictures(12, 1), &named, &Asked { levels: vec![0.95], ..asked.clone() }, origin()).unwrap();
    assert!(
        none.rules.pixels.iter().all(|sets| sets.threshold.is_none()) && none.notes[0].contains("needs 19 pictures")
    );
    assert!(fit::pixels(&pictures(9, 1), &named, &asked, origin()).unwrap_err().to_string().contains("are 9: too few"));
    let place = tempfile::tempdir().unwrap();
    none.write(place.path()).unwrap();
    assert_eq!(Calibration::read(place.path(), None).unwrap(), Some(none.clone()));
    let broken = serde_json::to_string(&none).unwrap().replace("\"class\":1", "\"class\":7");
    std::fs::write(place.path().join(CALIBRATION_FILE), broken).unwrap();
    assert!(Calibration::read(place.path(), None).unwrap_err().to_string().contains("`pixels` hold sets"));
}
