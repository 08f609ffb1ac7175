//! The verdict in words.

use fidgp_decision::decide::{number, percent};
use fidgp_decision::trust::{ClassesSeen, NumbersSeen, Seen, share};

use super::Documents;
use crate::words::format::grouped;

/// How good and how calibrated; what is guaranteed and when it abstains; what is foreign to it and what was not tested.
pub fn sentences(found: &Documents) -> [String; 3] {
    [quality(found), guaranteed(found), boundaries(found)].map(|sentence| sentence.replace(" %", "\u{a0}%"))
}

fn quality(found: &Documents) -> String {
    let examples = &found.trust.examples;
    let n = examples.fitted + examples.held_back;
    let of = format!("{} examples it was not trained on ({})", grouped(n as u64), examples.source);
    match &found.trust.seen {
        Seen::Classes(seen) => of_classes(seen, n, &of),
        Seen::Numbers(seen) => of_numbers(seen, &of),
    }
}

fn of_classes(seen: &ClassesSeen, n: usize, of: &str) -> String {
    let Ok((accuracy, interval)) = share(seen.right, n) else { return String::new() };
    let confidence: f64 = seen.reliability.bins().iter().map(|bin| bin.confidence_sum).sum::<f64>() / n.max(1) as f64;
    let gap = 100.0 * (confidence - accuracy);
    let sure = match gap {
        gap if gap.abs() < 0.05 => "well calibrated on average".to_owned(),
        gap if gap > 0.0 => format!("overconfident by {gap:.1} points on average"),
        gap => format!("underconfident by {:.1} points on average", -gap),
    };
    format!(
        "It is right on {} (95 % interval {} … {}) of {of}, and {sure} (ECE {}).",
        percent(accuracy),
        percent(interval.lo),
        percent(interval.hi),
        percent(seen.reliability.ece().value)
    )
}

fn of_numbers(seen: &NumbersSeen, of: &str) -> String {
    let inside = seen.coverage.last().map_or(String::new(), |[level, inside]| {
        format!(
            "; its own {} intervals contain {} of the targets, before calibration",
            percent(*level),
            percent(*inside)
        )
    });
    let explained = 1.0 - (seen.rmse / seen.target_sd.max(f64::MIN_POSITIVE)).powi(2);
    format!(
        "Its predictions are off by {} (RMSE; mean absolute error {}) on {of}; predicting their mean every time would be off by {} (R² = {explained:.3}){inside}.",
        number(seen.rmse),
        number(seen.mae),
        number(seen.target_sd)
    )
}

fn guaranteed(found: &Documents) -> String {
    let (rules, check) = (&found.calibration.rules, &found.calibration.check);
    let broken = check.iter().filter(|kept| !kept.kept).count();
    let what =
        if rules.intervals.is_empty() { ("a set of classes", "the class") } else { ("an interval", "the number") };
    let coverage = check.iter().rfind(|kept| kept.mean_size.is_some()).map(|kept| {
        format!(
            "{} holds {} at level {} ({} seen on {} examples held back, mean size {})",
            what.0,
            what.1,
            percent(kept.promised),
            percent(kept.seen),
            kept.examples,
            kept.mean_size.map_or_else(|| "–".to_owned(), number)
        )
    });
    let decided = found.trust.decisions;
    let all = (decided.accept + decided.abstain + decided.foreign).max(1) as f64;
    let [answered, abstained] = [decided.accept, decided.abstain].map(|count| percent(count as f64 / all));
    let abstention = match &rules.abstention {
        Some(abstention) if abstention.rule.is_some() => {
            let seen =
                check.iter().find(|kept| kept.promise.starts_with("answers that are wrong") && kept.examples > 0);
            let seen = seen.map_or(String::new(), |kept| format!("; {} seen", percent(kept.seen)));
            format!(
                "at most {} of its answers are wrong ({} sure{seen}) where it answers {answered} and abstains from {abstained}",
                percent(abstention.risk),
                percent(abstention.confidence)
            )
        }
        Some(abstention) => format!(
            "no threshold keeps errors at {} ({} sure), so it abstains from all",
            percent(abstention.risk),
            percent(abstention.confidence)
        ),
        None => match &rules.answering {
            Some(answering) => format!(
                "it answers the surest {} of inputs ({answered} of those held back, {abstained} abstained from), without a guarantee on errors",
                percent(answering.rule.share)
            ),
            None => format!("no error rate was asked for, so it answers {answered}"),
        },
    };
    let parts: Vec<_> = coverage.into_iter().chain([abstention]).collect();
    let first = match broken {
        0 => "Guaranteed for inputs like these".to_owned(),
        1 => "Guaranteed, but one guarantee was NOT KEPT on the examples held back".to_owned(),
        count => format!("Guaranteed, but {count} guarantees were NOT KEPT on the examples held back"),
    };
    format!("{first}: {}.", parts.join("; "))
}

fn boundaries(found: &Documents) -> String {
    let alarms = found.calibration.rules.outlier.map_or_else(
        || "It calls nothing out of distribution".to_owned(),
        |outlier| {
            format!("It calls {} of inputs like these out of distribution by mistake", percent(outlier.rule.alarms))
        },
    );
    let sets = found
        .trust
        .foreign
        .iter()
        .map(|set| format!("{} of {}", percent(set.found as f64 / set.inputs.max(1) as f64), set.source));
    let sets: Vec<_> = sets.collect();
    let recognised = if sets.is_empty() { String::new() } else { format!(" and recognises {}", sets.join(", ")) };
    let untested = untested(found).into_iter().map(|what| what.split(':').next().unwrap_or_default().to_lowercase());
    format!("{alarms}{recognised}; not tested: {}.", untested.collect::<Vec<_>>().join("; "))
}

/// Fewest examples held back of a class for its coverage to say anything.
const FEW: usize = 20;

/// What nothing on the page speaks for; the words before a colon are the short form.
pub fn untested(found: &Documents) -> Vec<String> {
    let mut all = vec![
        "Inputs that differ from the examples: the guarantees do not hold for another device, place or time; \
         `fidgp monitor` watches for such a change"
            .to_owned(),
        "Corrupted inputs: noise, blur, missing parts".to_owned(),
    ];
    if found.trust.foreign.is_empty() && found.ood.is_none() {
        all.push("Out-of-distribution inputs: none were given, so it is not known how many are recognised".to_owned());
    }
    let rules = &found.calibration.rules;
    if let Seen::Classes(seen) = &found.trust.seen {
        let few = seen.by_class.iter().filter(|row| row.held_back < FEW).count();
        if few > 0 {
            let classes = seen.by_class.len();
            all.push(format!(
                "{few} of {classes} classes by themselves: fewer than {FEW} examples of each were held back"
            ));
        }
        if rules.sets_by_class.is_empty() {
            all.push(
                "Guarantees class by class: the guarantee is for all classes together; `--by-class` gives one for each"
                    .to_owned(),
            );
        }
    }
    if rules.abstention.is_none() {
        all.push("An error rate: none was asked for (`--error`, for numbers with `--wrong-beyond`)".to_owned());
    }
    all
}
