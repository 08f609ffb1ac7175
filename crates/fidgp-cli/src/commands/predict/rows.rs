//! `fidgp predict` of the rows of tables.

use std::fmt::Write;
use std::path::Path;

use fidgp::predict::Effort;
use fidgp_data::Sheet;
use fidgp_lab::LabError;
use fidgp_lab::predict::{self, NumberPrediction, Predictor};
use fidgp_lab::source::TableView;
use serde_json::{Value, json};

use super::rules::{Rules, add};
use super::write::Writer;
use super::{Failed, Said};
use crate::args::Predict;

/// What standard input is called.
const STDIN: &str = "standard input";

pub fn run(
    predictor: &mut Predictor,
    (arguments, rules): (&Predict, &Rules),
    effort: Effort,
    writer: &mut Writer,
) -> Result<(Said, Vec<Failed>), LabError> {
    let (mut said, mut failed) = (Said { table: String::new(), json: Vec::new() }, Vec::new());
    let names = predictor.trained().feature_names()?;
    for file in &arguments.inputs {
        match regress(predictor, file, effort) {
            Ok(rows) => {
                let told = Told { file, names: &names, view: predictor.trained().table.as_ref(), rules };
                let json: Vec<_> = rows.iter().enumerate().map(|(row, said)| told.json(row, said)).collect();
                if writer.streams() {
                    writer.rows(&json)?;
                } else {
                    said.table += &told.table(&rows);
                    said.json.extend(json);
                }
            }
            Err(error @ (LabError::Data(_) | LabError::File { .. })) => failed.push((file.clone(), error)),
            Err(error) => return Err(error),
        }
    }
    if !said.table.is_empty() {
        let draws = effort.draws.unwrap_or_default();
        let _ = writeln!(said.table, "\n± is one deviation of a new observation; weight draws: {draws}");
    }
    Ok((said, failed))
}

fn regress(predictor: &mut Predictor, file: &Path, effort: Effort) -> Result<Vec<NumberPrediction>, LabError> {
    if file.as_os_str() != "-" {
        return predict::files::regress(predictor, file, effort);
    }
    let name = Path::new(STDIN);
    let sheet = Sheet::parse(name, &crate::commands::standard_input()?)?;
    predict::files::regress_sheet(predictor, (name, &sheet), effort)
}

/// What is told of the rows of a file.
struct Told<'a> {
    file: &'a Path,
    names: &'a [String],
    view: Option<&'a TableView>,
    rules: &'a Rules,
}

impl Told<'_> {
    fn json(&self, row: usize, said: &NumberPrediction) -> Value {
        let NumberPrediction { mean, sd, epistemic_sd, noise_sd, .. } = said;
        let features = self.names.iter().cloned().zip(said.features.iter().map(|&x| json!(x)));
        let mut json = json!({
            "input": self.file.display().to_string(), "row": row,
            "features": features.collect::<serde_json::Map<_, _>>(),
            "prediction": said, "mean": mean, "sd": sd, "aleatoric": noise_sd, "epistemic": epistemic_sd,
        });
        let evidence = said.evidence(self.view);
        json["out_of_range"] = json!(evidence.outside.said);
        if let Some(verdict) = self.rules.of_number(&evidence) {
            add(&mut json, verdict.fields);
        }
        json
    }

    fn table(&self, rows: &[NumberPrediction]) -> String {
        let features =
            |row: &NumberPrediction| row.features.iter().map(|x| format!("{x}")).collect::<Vec<_>>().join(", ");
        let width = rows.iter().map(|row| features(row).len()).max().unwrap_or(0).max(8);
        let mut text = format!(
            "{}\n{:>width$}  {:>10}  {:>8}  {:>9}  {:>9}\n",
            self.file.display(),
            "features",
            "mean",
            "±",
            "epistemic",
            "noise"
        );
        for row in rows {
            let NumberPrediction { mean, sd, epistemic_sd, noise_sd, .. } = row;
            let numbers = format!("{mean:>10.4}  {sd:>8.4}  {epistemic_sd:>9.4}  {noise_sd:>9.4}");
            let _ = writeln!(text, "{:>width$}  {numbers}", features(row));
            for line in self.remarks(row) {
                let _ = writeln!(text, "{:>width$}  {line}", "");
            }
        }
        text
    }

    /// The decision, and features outside the training data that it does not name.
    fn remarks(&self, row: &NumberPrediction) -> Vec<String> {
        let evidence = row.evidence(self.view);
        let lines = self.rules.of_number(&evidence).map_or_else(Vec::new, |verdict| verdict.lines);
        let unnamed =
            evidence.outside.said.into_iter().filter(|said| !lines.iter().any(|line| line.contains(said.as_str())));
        let unnamed: Vec<_> = unnamed.collect();
        lines.into_iter().chain(unnamed).collect()
    }
}
