//! Tables: sizes, statistics, standardising, splits, the synthetic set.

use fidgp_data::{Sheet, Split, Standardiser, Table, epoch_order, split, synthetic};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * (1.0 + a.abs() + b.abs())
}

#[test]
fn a_table_refuses_wrong_sizes_and_missing_numbers() {
    let message = |features, columns, targets| Table::new("t", features, columns, targets).unwrap_err().to_string();
    assert!(message(vec![1.0; 3], 2, vec![0.0; 2]).contains("3 feature values do not make 2 rows of 2 columns"));
    assert!(message(vec![], 0, vec![0.0]).contains("hint"));
    assert!(message(vec![1.0; 3], usize::MAX, vec![0.0; 3]).contains("do not make"));
    assert!(message(vec![0.0, 0.0, 0.0, f64::NAN], 2, vec![0.0; 2]).contains("row 1, column 1 holds NaN"));
    assert!(message(vec![0.0; 2], 1, vec![0.0, f64::INFINITY]).contains("target of row 1 is inf"));
}

#[test]
fn select_keeps_the_order_and_refuses_strange_rows() {
    let table = Table::new("t", vec![1.0, 2.0, 3.0], 1, vec![4.0, 5.0, 6.0]).unwrap();
    let picked = table.select(&[2, 0, 2]).unwrap();
    assert_eq!((picked.features(), picked.targets()), (&[3.0, 1.0, 3.0][..], &[6.0, 4.0, 6.0][..]));
    assert!(table.select(&[3]).unwrap_err().to_string().contains("row 3 was asked for, there are 3"));
}

#[test]
fn standardising_gives_zero_mean_unit_sd_and_leaves_constants() {
    let table = Table::new("t", vec![1.0, 0.1, 3.0, 0.1, 5.0, 0.1], 2, vec![2.0, 4.0, 9.0]).unwrap();
    let scale = Standardiser::fit(&table).unwrap();
    assert_eq!(scale.feature_sd[1].to_bits(), 1.0_f64.to_bits());
    let standard = scale.transform(&table).unwrap();
    assert!(standard.column_means().iter().all(|&m| close(m, 0.0)));
    assert!(close(standard.column_sds()[0], 1.0) && close(standard.column_sds()[1], 0.0));
    assert!(close(scale.inverse_target(scale.target(7.0)), 7.0));
    assert!(close(scale.inverse_target_sd(1.0), scale.target_sd));
    assert!(scale.transform(&Table::new("u", vec![1.0], 1, vec![1.0]).unwrap()).is_err());
    assert!(Standardiser::fit(&table.select(&[]).unwrap()).unwrap_err().to_string().contains("no rows"));
}

#[test]
fn synthetic_points_lie_on_the_islands_with_the_right_noise() {
    let n = 20_000;
    let data = synthetic::draw(n, 3, 0, 1).unwrap();
    let x = data.train.features();
    assert!(x.iter().all(|&x| synthetic::is_covered(x)));
    assert_eq!(x.iter().filter(|&&x| x < 1.0).count(), n / 2);
    let squares = x.iter().zip(data.train.targets()).map(|(&x, y)| (y - synthetic::truth(x)).powi(2));
    let variance = squares.sum::<f64>() / n as f64;
    // Standard error of a variance: σ² √(2/n) = 1e-4; five of them.
    assert!((variance - synthetic::NOISE_VARIANCE).abs() < 5e-4, "{variance}");
    assert_eq!(data.validation.rows(), 3);
    assert_eq!(data.test.rows(), 0);
}

#[test]
fn synthetic_parts_do_not_depend_on_each_other() {
    let (short, long) = (synthetic::draw(4, 5, 6, 9).unwrap(), synthetic::draw(8, 5, 6, 9).unwrap());
    assert_eq!(short.train, long.train.select(&[0, 1, 2, 3]).unwrap());
    assert_eq!((&short.validation, &short.test), (&long.validation, &long.test));
    assert_ne!(short.train, synthetic::draw(4, 5, 6, 10).unwrap().train);
    assert_eq!(synthetic::grid(0.0, 1.0, 3), [0.0, 0.5, 1.0]);
}

#[test]
fn orders_are_pinned() {
    // From tests/fixtures/orders.py. A change here breaks the resuming of every run on disk.
    assert_eq!(epoch_order(8, 42, 0), [7, 4, 3, 0, 2, 5, 1, 6]);
    assert_eq!(epoch_order(8, 42, 1), [0, 2, 1, 4, 6, 7, 3, 5]);
    assert_eq!(split::holdout(10, 0.3, 42).unwrap().validation, [0, 1, 5]);
}

#[test]
fn the_middle_third_by_a_feature_is_the_gap() {
    let cut = split::gap(&[7.0, 1.0, 4.0, 4.0, 9.0, -2.0, 4.0, 8.0]).unwrap();
    assert_eq!((cut.train, cut.test), (vec![1, 4, 5, 7], vec![0, 2, 3, 6]));
    let same = split::gap(&[3.0; 6]).unwrap();
    assert_eq!((same.train, same.test), (vec![0, 1, 4, 5], vec![2, 3]), "rows of equal value stay in their order");
    assert!(split::gap(&[1.0, 2.0]).unwrap_err().to_string().contains("three rows"));
}

#[test]
fn bad_fractions_are_refused() {
    for fraction in [-0.1, 1.0, f64::NAN, f64::INFINITY] {
        assert!(split::holdout(10, fraction, 0).is_err());
        assert!(split::stratified(&[0, 1], fraction, 0).is_err());
    }
    assert!(split::holdout(1, 0.5, 0).is_err());
    assert!(split::holdout(0, 0.0, 0).unwrap().train.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..Default::default() })]

    #[test]
    fn splits_cover_every_row_once(n in 2_usize..300, fraction in 0.0..0.99_f64, seed: u64) {
        let labels: Vec<u32> = (0..n as u32).map(|i| i % 7).collect();
        let cuts = [split::holdout(n, fraction, seed).unwrap(), split::stratified(&labels, fraction, seed).unwrap()];
        for cut in cuts {
            let mut all = [cut.train, cut.validation].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..n).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_gap_lies_between_the_data(values in proptest::collection::vec(-9..9_i32, 3..200)) {
        let values: Vec<f64> = values.into_iter().map(f64::from).collect();
        let cut = split::gap(&values).unwrap();
        let mut all = [cut.train.clone(), cut.test.clone()].concat();
        all.sort_unstable();
        prop_assert_eq!(all, (0..values.len()).collect::<Vec<_>>());
        let (lowest, highest) = cut.test.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(lo, hi), &row| (lo.min(values[row]), hi.max(values[row])));
        let third = values.len() / 3;
        prop_assert!(cut.train.iter().filter(|&&row| values[row] <= lowest).count() >= third);
        prop_assert!(cut.train.iter().filter(|&&row| values[row] >= highest).count() >= third);
        prop_assert!(cut.train.iter().all(|&row| values[row] <= lowest || values[row] >= highest));
    }

    #[test]
    fn every_class_gives_its_share(n in 20_usize..400, fraction in 0.0..0.99_f64, seed: u64) {
        let labels: Vec<u32> = (0..n as u32).map(|i| i * i % 5).collect();
        let cut = split::stratified(&labels, fraction, seed).unwrap();
        for class in 0..5 {
            let total = labels.iter().filter(|&&l| l == class).count() as f64;
            let held = cut.validation.iter().filter(|&&row| labels[row] == class).count() as f64;
            prop_assert!((held - total * fraction).abs() <= 1.0 + 1e-9);
        }
    }

    #[test]
    fn validation_comes_out_of_train_alone(seed: u64) {
        let split = Split { train: (10..60).collect(), test: (0..10).collect() };
        let parts = split.with_validation(0.2, seed).unwrap();
        prop_assert_eq!((parts.train.len(), parts.validation.len(), &parts.test), (40, 10, &split.test));
        prop_assert!(parts.validation.iter().all(|row| split.train.contains(row) && !parts.train.contains(row)));
    }

    #[test]
    fn what_is_written_is_read(rows in proptest::collection::vec(proptest::collection::vec(-1e12..1e12_f64, 3), 1..20), mark in prop_oneof![Just(","), Just(";"), Just("\t"), Just("  ")]) {
        let line = |row: &Vec<f64>| row.iter().map(ToString::to_string).collect::<Vec<_>>().join(mark);
        let text = rows.iter().map(|row| line(row) + "\n").collect::<String>();
        prop_assert_eq!(sheet(&text).unwrap().0, rows.concat());
    }

    #[test]
    fn standardising_can_be_undone(values in proptest::collection::vec(-1e6..1e6_f64, 12)) {
        let table = Table::new("t", values[..8].to_vec(), 2, values[8..].to_vec()).unwrap();
        let scale = Standardiser::fit(&table).unwrap();
        let standard = scale.transform(&table).unwrap();
        let back = standard.targets().iter().map(|&z| scale.inverse_target(z));
        prop_assert!(table.targets().iter().zip(back).all(|(&a, b)| close(a, b)));
    }
}

/// The numbers of all columns of a text, and the columns' names.
fn sheet(text: &str) -> Result<(Vec<f64>, Vec<String>), String> {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.csv");
    std::fs::write(&file, text).unwrap();
    let sheet = Sheet::open(&file).map_err(|error| error.to_string())?;
    let columns: Vec<usize> = (0..sheet.names().len()).collect();
    Ok((sheet.numbers(&columns).map_err(|error| error.to_string())?, sheet.names().to_vec()))
}

#[test]
fn a_sheet_may_have_a_heading() {
    let four = vec![1.0, 2.0, 3.0, 4.0];
    let named = |names: &str| Ok((four.clone(), names.split('|').map(str::to_owned).collect()));
    assert_eq!(sheet("x,y\n1,2\n3,4\n"), named("x|y"));
    assert_eq!(sheet("\u{feff}x, y\r\n\r\n1,2\r\n3,4"), named("x|y"));
    assert_eq!(sheet("1,2\r\n3,4"), named("0|1"));
    assert_eq!(sheet("Id,1stFlrSF\n1,2\n3,4\n"), named("Id|1stFlrSF")); // begins as a number does
    assert_eq!(sheet("  1   2 \n 3 4\n"), named("0|1"));
    assert_eq!(sheet("# x y\n1 2\n3 4\n"), named("x|y"));
    assert_eq!(sheet("\"price, EUR\",\"a \"\"b\"\"\"\n1,2\n3,4\n"), named("price, EUR|a \"b\""));
    assert_eq!(sheet("price, EUR;size\n1;2\n3;4\n"), named("price, EUR|size"));
    assert_eq!(sheet("x\ty\n1\t2\n3\t4\n"), named("x|y"));
}

#[test]
fn a_cell_that_is_no_number_is_named() {
    let said = |text: &str| sheet(text).unwrap_err();
    for (text, wanted) in [
        ("x,y\n1,2\n3,?\n", "line 3: `?` is no number: a value is missing (column `y`)"),
        ("x,y\n1,2\n,4\n", "line 3: `` is no number: a value is missing (column `x`)"),
        ("x,y\n1,2\n3,four\n", "line 3: `four` is not a number (column `y`)"),
        ("x\n1\n1,2\n", "line 3: `1,2` is not a number (column `x`)"),
        ("x,y\n1,2\n1\n", "line 3: 1 cells, the first line has 2"),
        ("x\ninf\n", "line 2: `inf` is not finite"),
        ("x\n", "holds no numbers"),
        ("\n\n", "holds no numbers"),
    ] {
        assert!(said(text).contains(wanted), "{text:?}: {}", said(text));
    }
    for first in ["NA", "1.O", "-.5e", "?", "0.5,NA"] {
        let columns = first.split(',').count();
        let said = said(&format!("{first}\n{}\n", vec!["1"; columns].join(",")));
        assert!(said.contains("line 1"), "{said}"); // a row, not a heading
    }
}

#[test]
fn columns_are_found_by_their_names() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.csv");
    std::fs::write(&file, "house,size,price,size\nA,90,200,1\n").unwrap();
    let sheet = Sheet::open(&file).unwrap();
    assert_eq!(sheet.column("price").unwrap(), 2);
    assert_eq!(sheet.numbers(&[2, 1]).unwrap(), [200.0, 90.0]); // the words of another column do not matter
    let said = |name: &str| sheet.column(name).unwrap_err().to_string();
    assert!(said("prise").contains("has no column `prise`; its columns are house, size, price, size"));
    assert!(said("size").contains("two columns are called `size`"));
}

#[test]
fn class_names_come_from_the_sets_own_files() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    let names = |name: &str| fidgp_data::catalogue::class_names(&root, name).unwrap();
    assert_eq!(names("cifar10").unwrap()[9], "thing 9");
    assert_eq!(names("cifar100").unwrap().len(), 100);
    assert_eq!(names("svhn"), None);
    assert_eq!(fidgp_data::catalogue::class_names(std::path::Path::new("nowhere"), "cifar10").unwrap(), None);
}

fn fixture(name: &str) -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn parquet_cells_are_those_that_pyarrow_wrote() {
    for codec in ["none", "snappy", "gzip", "zstd", "lz4"] {
        let sheet = Sheet::open(&fixture(&format!("parquet/{codec}.parquet"))).unwrap();
        assert_eq!(sheet.names(), ["size", "rooms", "city", "sold", "day", "seen", "sent", "price"]);
        let cells = sheet.cells(&(0..8).collect::<Vec<_>>()).unwrap();
        let row = |row: usize| (0..8).map(|column| cells.text(row, column)).collect::<Vec<_>>();
        let first = ["90.5", "3", "Ulm", "true", "2024-01-31", "2024-01-31T12:30:00", "2024-01-31T12:30:00", "1.50"];
        assert_eq!(row(0), first, "{codec}");
        assert_eq!(row(1)[1..6], ["2", "Bad Ems", "false", "1969-12-31", "1969-12-31T23:59:59"]);
        assert_eq!(row(1)[7].parse::<f64>().unwrap().to_bits(), (-0.05_f64).to_bits());
        assert_eq!(row(2)[1..6], [""; 5]);
        assert_eq!((cells.rows(), row(3)[0], row(3)[2], row(5)[5]), (6, "", "A, B", "2000-01-01"));
        assert_eq!(
            (cells.number(4, 0), cells.number(5, 0), cells.number(5, 1)),
            (Some(1e-9), Some(3e20), Some(2_f64.powi(40)))
        );
        assert!(sheet.numbers(&[0]).unwrap_err().to_string().contains("row 1 holds no value (column `size`)"));
        assert_eq!(sheet.numbers(&[6]).unwrap_err().to_string().matches("no number").count(), 1);
    }
    let lists = Sheet::open(&fixture("parquet/lists.parquet")).unwrap_err().to_string();
    assert!(lists.contains("column `tags` holds lists or structures"), "{lists}");
}

#[test]
fn parquet_rows_are_bounded_before_they_are_read() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.parquet");
    std::fs::write(&file, b"PAR1, but then something else").unwrap();
    assert!(Sheet::open(&file).unwrap_err().to_string().contains("no sound Parquet file"));
    std::fs::write(&file, b"").unwrap();
    assert!(Sheet::open(&file).unwrap_err().to_string().contains("a.parquet"));
}

#[test]
fn text_may_be_utf16_and_other_encodings_are_told_how_to_be_saved() {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.csv");
    let text = "größe;ort\n1,5;Köln\n2;Ulm\n";
    for (mark, big) in [([0xff, 0xfe], false), ([0xfe, 0xff], true)] {
        let bytes = text.encode_utf16().flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() });
        let bytes: Vec<u8> = mark.into_iter().chain(bytes).collect();
        std::fs::write(&file, &bytes).unwrap();
        let sheet = Sheet::open(&file).unwrap();
        let cells = sheet.cells(&[0, 1]).unwrap();
        assert_eq!(
            (sheet.names(), cells.number(0, 0), cells.text(0, 1)),
            (&["größe".to_owned(), "ort".to_owned()][..], Some(1.5), "Köln")
        );
        std::fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
        assert!(Sheet::open(&file).unwrap_err().to_string().contains("not sound UTF-16 text"));
    }
    let latin: Vec<u8> = text.chars().map(|c| c as u32 as u8).collect();
    std::fs::write(&file, latin).unwrap();
    let said = Sheet::open(&file).unwrap_err().to_string();
    assert!(said.contains("line 1: not UTF-8 text") && said.contains("iconv -f WINDOWS-1252"), "{said}");
}
