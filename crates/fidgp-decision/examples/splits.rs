//! Promises over many random divisions of the same predictions, for `scripts/decisions`.
//!
//! `cargo run --release -p fidgp-decision --example splits FOLDER`: the folder holds `classes.json` (names in order), and lines of
//! `fidgp predict --top ALL --jsonl` with a field `label`: `cifar100.jsonl`, and without one the foreign sets; numbers stand in
//! `table-NAME.jsonl` for every name in `tables.json` (with the risk to keep), with `ranges-NAME.json`. One JSON document comes out: what was seen in each division.

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::Path;

use fidgp_decision::calibration::Feature;
use fidgp_decision::decide::Judge;
use fidgp_decision::evidence::{Outside, beyond};
use fidgp_decision::fit::{self, Asked, Named, Origin};
use fidgp_decision::monitor::monitor;
use fidgp_decision::{Calibration, ClassEvidence, NumberEvidence, Score};
use fidgp_metrics::Predictions;
use fidgp_metrics::conformal::{ClassSets, LastLabel, SetScore, SetsByClass};
use fidgp_metrics::outlier::Reference;
use rand::{Rng, SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde_json::{Value, json};

type Any<T> = Result<T, Box<dyn Error>>;

const SPLITS: u64 = 200;
const LEVELS: [f64; 2] = [0.9, 0.95];
/// Of 10 000 pictures 2 000 are for the rules.
const HELD: f64 = 0.8;
/// And of the others so many are counted on, where sets are compared.
const COUNTED: usize = 4000;
const DAYS: usize = 30;
const LINES: usize = 40;
/// Months with a change, and the day it begins.
const CHANGED: u64 = 20;
const FROM: usize = 15;

/// Predicted classes with the truth.
struct Pool {
    names: Vec<String>,
    said: Vec<ClassEvidence>,
    labels: Vec<usize>,
}

fn main() -> Any<()> {
    let folder = std::env::args().nth(1).ok_or("FOLDER")?;
    let folder = Path::new(&folder);
    let names: Vec<String> = serde_json::from_str(&fs::read_to_string(folder.join("classes.json"))?)?;
    let (said, labels) = labelled(&folder.join("cifar100.jsonl"), &names)?;
    let pool = Pool { names, said, labels };
    let foreign = ["cifar10", "svhn", "noise"].map(|name| Ok((name, unlabelled(folder, name, pool.names.len())?)));
    let foreign = foreign.into_iter().collect::<Any<Vec<_>>>()?;
    let fitted = (0..SPLITS).map(|seed| rules(&pool, seed)).collect::<Any<Vec<_>>>()?;
    eprintln!("{} examples, {} divisions: rules fitted", pool.labels.len(), fitted.len());
    let mut document = json!({
        "examples": pool.labels.len(), "splits": SPLITS,
        "sets": { "lac": pair(&pool, SetScore::Lac)?, "aps": pair(&pool, SetScore::Aps)?,
                  "raps": pair(&pool, SetScore::Raps { penalty: 0.01, free: 5 })? },
        "shipped": { "lac": shipped(&pool, SetScore::Lac)?, "aps": shipped(&pool, SetScore::Aps)?,
                     "raps": shipped(&pool, SetScore::Raps { penalty: 0.01, free: 5 })? },
        "by_class": by_class(&pool)?,
        "rules": checks(&fitted),
        "p_values": p_values(&pool)?,
        "foreign": found(&fitted, &foreign)?,
        "monitor": months(&pool, &fitted, &foreign)?,
    });
    let tables = json(folder, "tables.json")?;
    for (table, risk) in tables.as_object().ok_or("tables.json is no object")? {
        document["tables"][table] = numbers(folder, table, risk.as_f64().ok_or("no risk")?)?;
    }
    println!("{document}");
    Ok(())
}

fn lines(path: &Path) -> Any<Vec<Value>> {
    fs::read_to_string(path)?.lines().map(|line| Ok(serde_json::from_str(line)?)).collect()
}

fn json(folder: &Path, name: &str) -> Any<Value> {
    Ok(serde_json::from_str(&fs::read_to_string(folder.join(name))?)?)
}

fn number(value: &Value, name: &str) -> Any<f64> {
    value[name].as_f64().ok_or_else(|| format!("{name} is no number in {value:.80}").into())
}

fn evidence(line: &Value, classes: usize) -> Any<ClassEvidence> {
    let mut probabilities = vec![0.0; classes];
    for one in line["top"].as_array().ok_or("no top")? {
        let index = one["index"].as_u64().ok_or("no index")? as usize;
        *probabilities.get_mut(index).ok_or("an unknown class")? = number(one, "probability")?;
    }
    let sum: f64 = probabilities.iter().sum();
    for p in &mut probabilities {
        *p /= sum;
    }
    let [total, aleatoric, epistemic] =
        [number(line, "total")?, number(line, "aleatoric")?, number(line, "epistemic")?];
    Ok(ClassEvidence { probabilities, total, aleatoric, epistemic, outside: Outside::default() })
}

fn labelled(path: &Path, names: &[String]) -> Any<(Vec<ClassEvidence>, Vec<usize>)> {
    let label = |line: &Value| names.iter().position(|name| line["label"] == name.as_str()).ok_or("no such label");
    lines(path)?.iter().map(|line| Ok((evidence(line, names.len())?, label(line)?))).collect()
}

fn unlabelled(folder: &Path, name: &str, classes: usize) -> Any<Vec<ClassEvidence>> {
    lines(&folder.join(format!("{name}.jsonl")))?.iter().map(|line| evidence(line, classes)).collect()
}

fn asked(seed: u64) -> Asked {
    Asked { held_back: HELD, seed, levels: LEVELS.to_vec(), ..Asked::usual(Score::Total) }
}

fn origin() -> Origin {
    Origin { source: String::new(), model_sha256: String::new(), draws: 8 }
}

/// What `fidgp calibrate` makes of a division.
fn rules(pool: &Pool, seed: u64) -> Any<Calibration> {
    let named = Named { classes: pool.names.clone(), ..Named::default() };
    Ok(fit::classes(&pool.said, &pool.labels, &named, &asked(seed), origin())?)
}

/// The same division as the rules make, the part for the rules first.
fn divided(n: usize, seed: u64, held: f64) -> (Vec<usize>, Vec<usize>) {
    let mut rows: Vec<usize> = (0..n).collect();
    rows.shuffle(&mut ChaCha8Rng::seed_from_u64(seed));
    let fitted = rows.split_off((n as f64 * held).round() as usize);
    (fitted, rows)
}

fn table(pool: &Pool, rows: &[usize]) -> (Vec<f64>, Vec<usize>) {
    let probs = rows.iter().flat_map(|&i| pool.said[i].probabilities.iter().copied()).collect();
    (probs, rows.iter().map(|&i| pool.labels[i]).collect())
}

/// Coverage and mean size in each division, level by level. The last class of a set is randomised, so that the law is exact.
fn pair(pool: &Pool, score: SetScore) -> Any<Vec<Value>> {
    LEVELS.iter().map(|&level| sets(pool, (score, LastLabel::Random), level)).collect()
}

/// The same with the last class kept, as `fidgp calibrate` does: a prediction has the same set every time.
fn shipped(pool: &Pool, score: SetScore) -> Any<Vec<Value>> {
    LEVELS.iter().map(|&level| sets(pool, (score, LastLabel::Keep), level)).collect()
}

fn sets(pool: &Pool, (score, last): (SetScore, LastLabel), level: f64) -> Any<Value> {
    let (mut hits, mut sizes, mut parts) = (Vec::new(), Vec::new(), (0, 0));
    for seed in 0..SPLITS {
        let (fitted, mut held) = divided(pool.labels.len(), seed, HELD);
        held.truncate(COUNTED);
        let rng = &mut ChaCha8Rng::seed_from_u64(1000 + seed);
        let (probs, labels) = table(pool, &fitted);
        let u: Vec<f64> = fitted.iter().map(|_| rng.random()).collect();
        let predictions = Predictions::new(&probs, pool.names.len(), &labels)?;
        let sets = ClassSets::calibrate(score, last, &predictions, &u, level)?;
        let (mut hit, mut size) = (0, 0);
        for &i in &held {
            let set = sets.set(&pool.said[i].probabilities, rng.random());
            hit += usize::from(set.contains(&pool.labels[i]));
            size += set.len();
        }
        hits.push(hit);
        sizes.push(size as f64 / held.len() as f64);
        parts = (fitted.len(), held.len());
    }
    Ok(json!({"level": level, "fitted": parts.0, "held_back": parts.1, "hits": hits, "mean_size": sizes}))
}

/// Class-conditional sets at 90 % from half of the pictures: coverage of each class over all divisions.
fn by_class(pool: &Pool) -> Any<Value> {
    let classes = pool.names.len();
    let (mut hits, mut counts, mut sizes, mut fewest) = (vec![0; classes], vec![0; classes], 0, usize::MAX);
    let (mut plain, mut divisions) = (vec![0; classes], Vec::new());
    for seed in 0..SPLITS {
        let (fitted, held) = divided(pool.labels.len(), seed, 0.5);
        let mut own = vec![[0; 2]; classes]; // hits and inputs of this division
        let rng = &mut ChaCha8Rng::seed_from_u64(2000 + seed);
        let (probs, labels) = table(pool, &fitted);
        let u: Vec<f64> = fitted.iter().map(|_| rng.random()).collect();
        let predictions = Predictions::new(&probs, classes, &labels)?;
        let sets = SetsByClass::calibrate(SetScore::Lac, LastLabel::Keep, &predictions, &u, 0.9)?;
        let together = ClassSets::calibrate(SetScore::Lac, LastLabel::Keep, &predictions, &u, 0.9)?;
        fewest = fewest.min(sets.examples.iter().copied().min().unwrap_or(0));
        for &i in &held {
            let (set, label) = (sets.set(&pool.said[i].probabilities, 0.0), pool.labels[i]);
            counts[label] += 1;
            hits[label] += usize::from(set.contains(&label));
            own[label][0] += usize::from(set.contains(&label));
            own[label][1] += 1;
            plain[label] += usize::from(together.set(&pool.said[i].probabilities, 0.0).contains(&label));
            sizes += set.len();
        }
        let counted = own.iter().zip(&sets.examples).map(|([hits, of], fitted)| [*fitted, *of, *hits]);
        divisions.push(counted.collect::<Vec<_>>());
    }
    let share = |hits: &[usize]| hits.iter().zip(&counts).map(|(hit, n)| *hit as f64 / *n as f64).collect::<Vec<_>>();
    let mean_size = sizes as f64 / counts.iter().sum::<usize>() as f64;
    Ok(
        json!({"level": 0.9, "fewest": fewest, "coverage": share(&hits), "coverage_of_plain_sets": share(&plain), "mean_size": mean_size,
            "fitted, held back, hits": divisions}),
    )
}

/// Everything that was checked, division by division.
fn checks(found: &[Calibration]) -> Value {
    let mut all: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for one in found {
        for kept in &one.check {
            let name = kept.promise.split(',').next().unwrap_or_default().to_owned();
            all.entry(name).or_default().push(
                json!({"promised": kept.promised, "seen": kept.seen, "examples": kept.examples, "kept": kept.kept}),
            );
        }
    }
    let answered: Vec<_> = found
        .iter()
        .map(|one| one.rules.abstention.as_ref().and_then(|rule| rule.rule).map_or(0.0, |rule| rule.answered))
        .collect();
    json!({"checks": all, "answered": answered})
}

/// A p-value of one example that was held back for each of many divisions: independent, so that they can be tested.
fn p_values(pool: &Pool) -> Any<Value> {
    let mut all = BTreeMap::new();
    for score in Score::OF_CLASSES {
        let values: Vec<f64> = pool.said.iter().map(|said| score.of_class(said)).collect();
        let mut found = Vec::new();
        for seed in 0..10 * SPLITS {
            let rng = &mut ChaCha8Rng::seed_from_u64(3000 + seed);
            let mut rows: Vec<usize> = (0..values.len()).collect();
            let (chosen, _) = rows.partial_shuffle(rng, 2001);
            let reference: Vec<f64> = chosen[1..].iter().map(|&i| values[i]).collect();
            found.push(Reference::new(&reference)?.smoothed_p_value(values[chosen[0]], rng.random()));
        }
        all.insert(score.name(), found);
    }
    Ok(json!(all))
}

/// Of foreign pictures the share with p ≤ 5 %, by each uncertainty, and what the rules say of them.
fn found(fitted: &[Calibration], foreign: &[(&str, Vec<ClassEvidence>)]) -> Any<Value> {
    let mut all = json!({});
    for (name, said) in foreign {
        for score in Score::OF_CLASSES {
            let mut shares = Vec::new();
            for one in fitted {
                let reference = Reference::new(&one.reference[score.name()])?;
                let low = said.iter().filter(|said| reference.p_value(score.of_class(said)) <= 0.05).count();
                shares.push(low as f64 / said.len() as f64);
            }
            all[name][score.name()] = json!(shares.iter().sum::<f64>() / shares.len() as f64);
        }
        let mut verdicts = [0.0; 3];
        for rules in fitted {
            let judge = Judge::new(rules)?;
            for one in said {
                verdicts[judge.class(one).verdict as usize] += 1.0 / (said.len() * fitted.len()) as f64;
            }
        }
        all[name]["accept, abstain, out-of-distribution"] = json!(verdicts);
        all[name]["inputs"] = json!(said.len());
    }
    Ok(all)
}

/// A line of a log as `fidgp predict` writes it, with a label where there is one.
fn line(pool: &Pool, said: &ClassEvidence, label: Option<usize>, judge: &Judge) -> String {
    let decision = judge.class(said);
    let named = |classes: &[usize]| classes.iter().map(|&class| pool.names[class].as_str()).collect::<Vec<_>>();
    let sets = decision.sets.iter().map(|set| json!({"level": set.level, "classes": named(&set.classes)}));
    let mut line = json!({
        "class": pool.names[said.class()], "probability": said.confidence(), "total": said.total,
        "epistemic": said.epistemic, "decision": decision.verdict, "sets": sets.collect::<Vec<_>>(),
    });
    if let Some(label) = label {
        line["label"] = pool.names[label].as_str().into();
    }
    line.to_string()
}

/// Quiet months of 40 lines a day, with labels; and months in which something is mixed in from the middle on, without labels.
fn months(pool: &Pool, fitted: &[Calibration], foreign: &[(&str, Vec<ClassEvidence>)]) -> Any<Value> {
    let mut quiet = 0;
    for (seed, found) in (0..).zip(fitted) {
        quiet += usize::from(month(pool, (seed, found), None, true)?.is_some());
    }
    let mut changes = json!({});
    for (name, said) in foreign {
        for share in [0.1, 0.3, 1.0] {
            let seen =
                (0..CHANGED).zip(fitted).map(|(seed, found)| month(pool, (seed, found), Some((said, share)), false));
            let alarms = seen.collect::<Any<Vec<_>>>()?;
            let before = alarms.iter().flatten().filter(|&&line| line <= FROM * LINES).count();
            let delays: Vec<_> =
                alarms.iter().flatten().filter(|&&line| line > FROM * LINES).map(|line| line - FROM * LINES).collect();
            changes[format!("{name} {share}")] = json!({"months": CHANGED, "before": before, "delays": delays});
        }
    }
    Ok(json!({"months": SPLITS, "lines": DAYS * LINES, "false_alarms": quiet, "changes": changes}))
}

/// The line of the first alarm, of a series or of a promise.
fn month(
    pool: &Pool,
    (seed, found): (u64, &Calibration),
    change: Option<(&[ClassEvidence], f64)>,
    with_labels: bool,
) -> Any<Option<usize>> {
    let (_, mut held) = divided(pool.labels.len(), seed, HELD);
    let rng = &mut ChaCha8Rng::seed_from_u64(4000 + seed);
    held.shuffle(rng);
    let judge = Judge::new(found)?;
    let text: Vec<String> = (0..DAYS * LINES)
        .map(|i| match change {
            Some((foreign, share)) if i >= FROM * LINES && rng.random::<f64>() < share => {
                line(pool, &foreign[rng.random_range(0..foreign.len())], None, &judge)
            }
            _ => line(pool, &pool.said[held[i]], with_labels.then(|| pool.labels[held[i]]), &judge),
        })
        .collect();
    let seen = monitor(found, text.iter().map(|line| (String::new(), line.as_str())), 0.05)?;
    let promises = seen.watched.iter().filter_map(|one| one.alarm_at);
    Ok(seen.series.iter().filter_map(|series| series.alarm_at).chain(promises).min())
}

/// Intervals, abstention and false alarms of numbers: half of the rows for the rules, half to check them. Features count as
/// they do for `fidgp calibrate`: how far a row lies outside the ranges that the run keeps of its training rows.
fn numbers(folder: &Path, table: &str, risk: f64) -> Any<Value> {
    let lines = lines(&folder.join(format!("table-{table}.jsonl")))?;
    let view = json(folder, &format!("ranges-{table}.json"))?;
    let names = view["features"].as_array().ok_or("no features")?;
    let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
    let ranges: Vec<[f64; 2]> = serde_json::from_value(view["ranges"].clone())?;
    let cells = |line: &Value| names.iter().map(|name| number(&line["features"], name)).collect::<Any<Vec<_>>>();
    let outside = |cells: &[f64]| cells.iter().zip(&ranges).map(|(x, range)| beyond(*x, *range)).fold(0.0, f64::max);
    let of = |line: &Value| {
        let cells = cells(line)?;
        let said: Vec<String> = serde_json::from_value(line["out_of_range"].clone())?;
        let by = outside(&cells);
        if (by > 0.0) == said.is_empty() {
            return Err(format!("{by} outside, but the model says {said:?}").into());
        }
        let outside = Outside { by, said };
        let [mean, sd, epistemic_sd] = [number(line, "mean")?, number(line, "sd")?, number(line, "epistemic")?];
        Ok((NumberEvidence { mean, sd, epistemic_sd, outside }, cells))
    };
    let read = lines.iter().map(of).collect::<Any<Vec<_>>>()?;
    let (said, rows): (Vec<_>, Vec<_>) = read.into_iter().unzip();
    let column = |place: usize| rows.iter().map(|row: &Vec<f64>| row[place]).collect();
    let columns: Vec<Vec<f64>> = (0..names.len()).map(column).collect();
    let feature = |name: &&str| Feature { name: (*name).to_owned(), levels: Vec::new() };
    let named = Named { features: names.iter().map(feature).collect(), columns, ..Named::default() };
    let targets = lines.iter().map(|line| number(line, "label")).collect::<Any<Vec<_>>>()?;
    let mut off: Vec<f64> = said.iter().zip(&targets).map(|(said, y)| (said.mean - y).abs()).collect();
    off.sort_by(f64::total_cmp);
    let bound = off[off.len() * 4 / 5]; // a fifth of all predictions is wrong by this
    let outside = said.iter().filter(|said| said.outside.by > 0.0).count();
    let (mut found, mut quiet) = (Vec::new(), 0);
    for seed in 0..SPLITS {
        let asked = Asked { held_back: 0.5, wrong_beyond: Some(bound), risk, seed, ..Asked::usual(Score::Epistemic) };
        let rules = fit::numbers(&said, &targets, &named, &asked, origin())?;
        quiet += usize::from(quiet_month(&rules, &said, &targets, seed)?);
        found.push(rules);
    }
    let (fitted, held_back) = (found[0].examples.fitted, found[0].examples.held_back);
    Ok(json!({
        "rows": targets.len(), "fitted": fitted, "held_back": held_back, "wrong_beyond": bound, "outside": outside,
        "rules": checks(&found), "false_alarms_of_monitor": quiet,
        "widths": found.iter().map(|one| one.check.iter().filter_map(|kept| kept.mean_size).collect::<Vec<_>>()).collect::<Vec<_>>(),
    }))
}

/// Whether the monitor takes the rows that were held back, with their labels, for changed.
fn quiet_month(found: &Calibration, said: &[NumberEvidence], targets: &[f64], seed: u64) -> Any<bool> {
    let (_, held) = divided(targets.len(), seed, 0.5);
    let judge = Judge::new(found)?;
    let line = |row: usize| {
        let (one, decision) = (&said[row], judge.number(&said[row]));
        let intervals = decision.intervals.iter();
        let intervals = intervals.map(|one| json!({"level": one.level, "lower": one.lo, "upper": one.hi}));
        json!({"mean": one.mean, "sd": one.sd, "epistemic": one.epistemic_sd, "decision": decision.verdict,
            "intervals": intervals.collect::<Vec<_>>(), "label": targets[row]})
        .to_string()
    };
    let lines: Vec<String> = held.into_iter().map(line).collect();
    Ok(monitor(found, lines.iter().map(|line| (String::new(), line.as_str())), 0.05)?.alarm())
}
