//! The report: snapshots of a made-up run, and what must never happen whatever the numbers are.

mod made_up;

use std::{fs, path::Path};

use fidgp_report::charts::{Axis, Chart, Extent, Layer, Marker, Scale, Shape, scale::Kind};
use fidgp_report::pages::run::regression;
use fidgp_report::record::{
    EPOCHS_FILE, EpochRecord, EpochWriter, Figure, Grid, Points, RESULTS_FILE, Regression1d, Results,
};
use fidgp_report::{Run, write_report};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn html_of(runs: &[Run]) -> String {
    let folder = folder();
    let report = write_report(runs, folder.path()).expect("writable");
    assert!(!report.figures.is_empty() || runs.iter().all(|run| run.results.figures.is_empty()));
    report.figures.iter().for_each(|path| assert_well_formed(&fs::read_to_string(path).expect("written")));
    let html = fs::read_to_string(report.html).expect("written");
    assert_sound(&html);
    html
}

/// No NaN reaches the page, nothing is fetched from elsewhere, and every tag is closed.
fn assert_sound(html: &str) {
    for bad in ["NaN", "\"inf", "http://", "https://", "<script", "@import", "url(h"] {
        let text = html.replace("http://www.w3.org/2000/svg", "");
        assert!(!text.contains(bad), "the page contains {bad}");
    }
    let inside = html.split("<main>").nth(1).expect("a main part").split("</main>").next().expect("closed");
    assert_well_formed(&format!("<main>{inside}</main>"));
}

/// A strict reading of tags: each is closed, in the right order.
fn assert_well_formed(markup: &str) {
    let mut open: Vec<&str> = Vec::new();
    for piece in markup.split('<').skip(1) {
        let tag = piece.split('>').next().expect("split gives one");
        assert!(piece.contains('>'), "a tag is not closed: {tag}");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closed out of order");
        } else if !tag.ends_with('/') && !tag.starts_with('!') {
            open.push(tag.split_whitespace().next().unwrap_or(tag));
        }
    }
    assert!(open.is_empty(), "never closed: {open:?}");
}

#[test]
fn the_page_of_a_made_up_run() {
    let html = html_of(&[Run { results: made_up::full(), epochs: made_up::epochs(), maps: Vec::new() }]);
    assert!(!html.contains("<run>") && html.contains("made-up &lt;run&gt; &amp; &quot;friends&quot;"));
    let body = html.split("<body>").nth(1).expect("a body");
    insta::assert_snapshot!("page", without_drawings(body));
}

/// A stranger's name is text wherever it stands: in content, in attributes, and where it holds what no text has.
#[test]
fn a_name_is_never_markup() {
    let name = "x\"><img src=y onerror=z>\u{1b}[31m";
    let results = Results { data: name.to_owned(), command: Some(name.to_owned()), ..made_up::bare(name, name) };
    let html = html_of(&[Run { results, epochs: Vec::new(), maps: Vec::new() }]);
    assert!(!html.contains("<img") && !html.contains('\u{1b}'), "{html}");
    assert!(html.contains("x&quot;&gt;&lt;img src=y onerror=z&gt;\u{fffd}[31m"));
}

/// The page with a line for each element; the figures have a snapshot of their own.
fn without_drawings(html: &str) -> String {
    let mut pieces = html.split("<svg");
    let first = pieces.next().unwrap_or_default().to_owned();
    let text =
        pieces.fold(first, |text, piece| text + "[drawing]" + piece.split_once("</svg>").map_or("", |(_, rest)| rest));
    text.replace("><", ">\n<")
}

#[test]
fn the_regression_figure() {
    insta::assert_snapshot!(
        "regression",
        regression::figure("made-up", &made_up::regression(), Some(3.0)).standalone()
    );
}

#[test]
fn a_tempered_posterior_is_named_in_the_title() {
    let title = |kl_weight| regression::figure("id", &Regression1d { kl_weight, ..made_up::regression() }, None).title;
    assert_eq!(title(1.0), "Mean and ±3σ of the prediction, KL weight 1");
    assert_eq!(title(0.1), "Mean and ±3σ of the prediction, KL weight 0.1 (a tempered posterior, not the full one)");
}

#[test]
fn several_runs_are_compared() {
    let run = |name: &str, seed, rmse| {
        let metrics = made_up::metrics(&[("reg/RMSE", rmse), ("reg/Coverage", 0.9)]);
        Run {
            results: Results { seed, metrics, ..made_up::bare(name, "fidgp") },
            epochs: made_up::epochs(),
            maps: Vec::new(),
        }
    };
    let html = html_of(&[run("a", 1, 0.1), run("a", 2, 0.3), run("b", 1, 0.4), run("b", 2, 0.4)]);
    assert!(html.contains("<td class=\"number best\">0.1000</td>"), "the best run is bold");
    assert!(html.contains("a, seed 2") && html.contains("2 seeds, mean ± s.d.") && html.contains("0.20 ± 0.14"));
    assert!(html.contains("reg/RMSE, lower is better") && !html.contains("reg/Coverage, "), "bars need a direction");
    let turned = html_of(&(0..9).map(|seed| run("many", seed, 0.1)).collect::<Vec<_>>());
    assert!(turned.contains("<dl class=\"meanings\">"), "many runs are rows, not columns");
}

#[test]
fn a_run_is_read_from_its_folder_or_its_file() {
    let folder = folder();
    made_up::full().write(&folder.path().join(RESULTS_FILE)).expect("writable");
    let mut writer = EpochWriter::create(&folder.path().join(EPOCHS_FILE)).expect("creatable");
    for epoch in made_up::epochs() {
        writer.append(&epoch).expect("appendable");
    }
    assert_eq!(Run::read(folder.path()).expect("a run folder").epochs, made_up::epochs());
    assert!(Run::read(&folder.path().join(RESULTS_FILE)).expect("a file").epochs.is_empty());
    let said = Run::read(Path::new("/no/such/run")).expect_err("no such run").to_string();
    assert!(said.contains("pass a run folder"), "{said}");
    let said = write_report(&[], folder.path()).expect_err("nothing to report").to_string();
    assert!(said.contains("pass at least one run"), "{said}");
    let named = write_report(&[Run::read(folder.path()).expect("readable")], &folder.path().join("x.html"));
    assert!(named.expect("writable").html.ends_with("x.html"));
}

/// A results file may be a stranger's: its maps are files of its own folder, or there is no page.
#[test]
fn a_name_in_the_results_does_not_lead_out_of_the_run() {
    let place = folder();
    let run = place.path().join("run");
    let maps = run.join("maps");
    fs::create_dir_all(&maps).expect("creatable");
    fs::write(place.path().join("secret"), "secret").expect("writable");
    fs::write(maps.join("own.png"), "own").expect("writable");
    let read = |name: &str| {
        let mut results = made_up::bare("stranger", "fidgp");
        results.figures = vec![Figure::Segmentation(Box::new(made_up::segmentation(&[name])))];
        results.write(&run.join(RESULTS_FILE)).expect("writable");
        Run::read(&run)
    };
    assert_eq!(read("own.png").expect("its own file").maps.len(), 1);
    assert!(read("gone.png").expect("a map that is no longer there").maps.is_empty());
    let outside = place.path().join("secret").display().to_string();
    for name in ["../../secret", &outside, "..", ".", "", "sub/own.png", "./own.png", "own.png/"] {
        let said = read(name).expect_err(name).to_string();
        assert!(said.contains("results.json") && said.contains(&format!("`{name}`")), "{said}");
    }
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(&outside, maps.join("link.png")).expect("linkable");
        assert!(read("link.png").is_err(), "a link leads out as well");
    }
}

#[test]
fn a_run_that_diverged_still_has_a_report() {
    let mut figure = made_up::regression();
    figure.grid.mean[5] = f64::NAN;
    figure.train.y[0] = f64::INFINITY;
    let results = Results { figures: vec![Figure::Regression1d(figure)], ..made_up::bare("diverged", "fidgp") };
    let broken = EpochRecord { epoch: 6, loss: f64::NAN, kl_inducing: f64::INFINITY, ..EpochRecord::default() };
    let html = html_of(&[Run { results, epochs: [made_up::epochs(), vec![broken]].concat(), maps: Vec::new() }]);
    assert!(html.contains("points are not finite numbers and are not drawn"));
    assert!(html.contains("<td class=\"number warn\">not finite</td>"));
}

/// Numbers as they come: ordinary, tiny, huge, equal, not finite.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        4 => -10.0..10.0_f64,
        1 => any::<f64>(),
        1 => Just(0.25),
        1 => prop::sample::select(vec![0.0, f64::NAN, f64::INFINITY, 1e-310, 1e300, -1e299, f64::MAX, f64::MIN]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..Default::default() })]

    #[test]
    fn ticks_are_finite_distinct_and_inside(a in number(), b in number(), count in 0_usize..20, log: bool) {
        let Some(extent) = Extent::of([a, b]) else { return Ok(()) };
        prop_assert!(extent.lo < extent.hi && extent.lo.is_finite() && extent.hi.is_finite());
        let scale = Scale::new(if log { Kind::Log } else { Kind::Linear }, extent, (0.0, 400.0));
        let ticks = scale.ticks(count);
        prop_assert!(ticks.len() <= 60, "{} ticks", ticks.len());
        for pair in ticks.windows(2) {
            prop_assert!(pair[0].value < pair[1].value && pair[0].label != pair[1].label, "{pair:?}");
        }
        for tick in ticks {
            let pixel = scale.at(tick.value);
            prop_assert!(pixel.is_some_and(|pixel| (-0.5..=400.5).contains(&pixel)), "{tick:?} at {pixel:?} of {extent:?}");
        }
    }

    #[test]
    fn an_ordinary_axis_has_ticks(lo in -1e6..1e6_f64, width in 1e-3..1e6_f64) {
        let scale = Scale::new(Kind::Linear, Extent::between(lo, lo + width), (0.0, 400.0));
        prop_assert!((2..=6).contains(&scale.ticks(5).len()));
    }

    #[test]
    fn charts_take_any_numbers(points in prop::collection::vec((number(), number()), 0..12), log: bool, bins in 0_usize..9) {
        let axis = |label: &str| if log { Axis::new(label).log() } else { Axis::new(label) };
        let series = || vec![("<a>".to_owned(), points.clone()), ("b".to_owned(), points.iter().take(1).copied().collect())];
        let triples: Vec<_> = points.iter().map(|&(x, y)| (x, y, y)).collect();
        let values: Vec<f64> = points.iter().map(|point| point.0).collect();
        let charts = [
            Chart::line_chart("lines", axis("x"), axis("y"), series()),
            Chart::scatter("points", axis("x"), axis("y"), series()),
            Chart::histogram("bins", Axis::new("x"), bins, &[("v".to_owned(), values.clone())]),
            Chart::new("areas", axis("x"), axis("y"))
                .with(Layer::new("s0", Shape::Band(triples.clone())))
                .with(Layer::new("s1", Shape::ErrorBars(triples)))
                .with(Layer::new("", Shape::Span(f64::NAN, 1.0))),
        ];
        for chart in charts {
            let svg = chart.figure("id").standalone();
            prop_assert!(!svg.contains("NaN") && !svg.contains("inf") && !svg.contains("<a>"), "{svg}");
            assert_well_formed(&svg);
        }
        let bad = values.iter().filter(|value| value.is_nan() || value.abs() >= 1e300).count();
        let histogram = Chart::histogram("bins", Axis::new("x"), bins, &[("v".to_owned(), values)]).figure("id");
        prop_assert_eq!(histogram.skipped, bad);
    }

    #[test]
    fn the_regression_figure_takes_any_numbers(rows in prop::collection::vec((number(), number(), number()), 0..9), kl_weight in number()) {
        let column = |pick: fn(&(f64, f64, f64)) -> f64| rows.iter().map(pick).collect::<Vec<f64>>();
        let points = Points { x: column(|row| row.0), y: column(|row| row.1) };
        let figure = Regression1d {
            grid: Grid {
                x: column(|row| row.0),
                truth: column(|row| row.1),
                mean: column(|row| row.2),
                epistemic_sd: column(|row| row.1),
                noise_sd: column(|row| row.2),
            },
            train: points.clone(),
            validation: points.clone(),
            test: points,
            gaps: rows.iter().map(|row| [row.0, row.1]).collect(),
            kl_weight,
        };
        let drawn = regression::figure("id", &figure, None);
        let picture = drawn.standalone();
        let picture = picture.split_once("</title>").map_or("", |(_, rest)| rest).replace(&drawn.title, "");
        prop_assert!(!picture.contains("NaN"), "{picture}");
    }
}

/// A density over a range next to nothing would be beyond any picture.
#[test]
fn a_histogram_of_almost_equal_numbers_leaves_none_out() {
    let values = vec![-2.85e-307, 1e-310];
    let drawn = Chart::histogram("bins", Axis::new("x"), 0, &[("v".to_owned(), values)]).figure("id");
    assert_eq!(drawn.skipped, 0);
}

#[test]
fn one_point_and_constant_data_are_drawn() {
    for points in [vec![(1.0, 2.0)], vec![(0.0, 5.0), (1.0, 5.0), (2.0, 5.0)]] {
        let chart = Chart::line_chart("x", Axis::new("x"), Axis::new("y"), vec![("a".to_owned(), points.clone())]);
        let chart = chart.with(Layer::new("s1", Shape::Points(points.clone(), Marker::Cross)));
        let figure = chart.figure("id");
        assert_eq!(figure.skipped, 0);
        assert_eq!(figure.inline().matches("class=\"ring s1\"").count(), points.len());
    }
}
