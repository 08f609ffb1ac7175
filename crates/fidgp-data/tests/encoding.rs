//! Columns of texts, dates, yes and no, with gaps, as numbers.

use fidgp_data::{Cells, Encoding, Sheet, split, targets};
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

fn sheet(text: &str) -> Sheet {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("a.csv");
    std::fs::write(&file, text).unwrap();
    Sheet::open(&file).unwrap()
}

fn cells(text: &str) -> Cells {
    let sheet = sheet(text);
    sheet.cells(&(0..sheet.names().len()).collect::<Vec<_>>()).unwrap()
}

fn learnt(text: &str) -> Result<Encoding, String> {
    let cells = cells(text);
    Encoding::learn(&cells, &(0..cells.rows()).collect::<Vec<_>>()).map_err(|error| error.to_string())
}

const MIXED: &str = "\u{feff}city;area;garden;built;beds\r\nBonn;90,5;yes;1990-01-01;2\r\n\"Kiel; Süd\";NA;no;1990-01-03;3\r\n\
                     Bonn;120;?;;1\r\n;100;TRUE;1990-01-02T12:00;\r\n";

#[test]
fn a_comma_may_be_decimal_where_it_separates_nothing() {
    let number = |text: &str| cells(text).number(0, 0);
    assert_eq!(number("a\tb\n1,5\t2\n"), Some(1.5));
    assert_eq!(number("a;b\n1,234;2\n"), Some(1.234));
    assert_eq!(number("a,b\n\"1,5\",2\n"), Some(1.5));
    assert_eq!(number("a,b\n\"-0,25\",2\n"), Some(-0.25));
    assert_eq!(number("a,b\n\"1,234\",2\n"), None, "a thousand, or one and a bit");
    assert_eq!(number("a,b\n\"1,234,5\",2\n"), None);
    assert_eq!(number("a;b\n1.000,5;2\n"), None);
    let learnt = learnt("member,since,size\nt,31/01/2024,\"1,5\"\nf,1/2/2024,\"2,5\"\nt,02/02/2024,3\n").unwrap();
    assert_eq!(learnt.features(), ["member", "since", "size"]);
}

#[test]
fn every_kind_of_column_becomes_numbers() {
    let encoding = learnt(MIXED).unwrap();
    let features = [
        "city = Bonn",
        "city = Kiel; Süd",
        "city = (other)",
        "city is missing",
        "area",
        "area is missing",
        "garden",
        "garden is missing",
        "built",
        "built is missing",
        "beds",
        "beds is missing",
    ];
    assert_eq!(encoding.features(), features);
    let found = encoding.encode(&cells(MIXED)).unwrap();
    let rows: Vec<&[f64]> = found.numbers.chunks(12).collect();
    assert_eq!(rows[0], [1., 0., 0., 0., 90.5, 0., 1., 0., 7305., 0., 2., 0.]);
    assert_eq!(rows[1], [0., 1., 0., 0., 100., 1., 0., 0., 7307., 0., 3., 0.]); // 100 is the median of 90.5, 100 and 120
    assert_eq!(rows[2], [1., 0., 0., 0., 120., 0., 1., 1., 7306.5, 1., 1., 0.]);
    assert_eq!(rows[3], [0., 0., 0., 1., 100., 0., 1., 0., 7306.5, 0., 2., 1.]);
    assert_eq!(found.flags[0], Vec::<String>::new());
    assert_eq!(found.flags[3].len(), 2, "{:?}", found.flags[3]);
    // texts that are new, and gaps where the training rows have none
    let later = encoding.encode(&cells("city,area,garden,built,beds\nUlm,1,no,2000-01-01,1\n")).unwrap();
    assert_eq!(later.numbers[..4], [0., 0., 1., 0.]);
    assert_eq!(later.flags[0], ["city = Ulm is none of the 2 texts of the training data"]);
    let whole = learnt("a,b\nx,1\ny,2\nx,3\n").unwrap().encode(&cells("a,b\n,null\n")).unwrap();
    assert_eq!(whole.numbers, [0., 0., 1., 2.]);
    assert_eq!(whole.flags[0].len(), 2);
    let two = encoding.encode_rows(&cells(MIXED), [3, 0]).unwrap();
    assert_eq!((&two.numbers[..12], &two.given[..2]), (rows[3], &found.given[15..17]));
}

#[test]
fn what_is_learnt_is_written_and_read_again() {
    let encoding = learnt(MIXED).unwrap();
    let text = serde_json::to_string(&encoding).unwrap();
    assert_eq!(serde_json::from_str::<Encoding>(&text).unwrap(), encoding);
    assert!(text.starts_with(r#"[{"kind":"text","name":"city","levels":["Bonn","Kiel; Süd"],"gaps":true}"#), "{text}");
    encoding.check().unwrap();
    let unsorted: Encoding =
        serde_json::from_str(r#"[{"kind":"text","name":"a","levels":["b","a"],"gaps":true}]"#).unwrap();
    assert!(unsorted.check().unwrap_err().contains("`a`"));
    assert!(
        serde_json::from_str::<Encoding>(r#"[{"kind":"text","name":"a","levels":[],"gaps":true,"more":1}]"#).is_err()
    );
}

#[test]
fn columns_of_numbers_stay_what_they_are() {
    let encoding = learnt("a,b\n1,2.5\n-3e2,4\n").unwrap();
    assert!(encoding.is_plain());
    assert_eq!(encoding.encode(&cells("a,b\n1,2.5\n-3e2,4\n")).unwrap().numbers, [1., 2.5, -300., 4.]);
    assert!(!learnt("a\n1\nNA\n2\n").unwrap().is_plain());
    assert!(learnt("a,b\n1,2\n2,none\n3,1\n").unwrap().features().contains(&"b is missing".to_owned()));
    assert!(learnt("a,b\n1,x\n2,none\n3,x\n").unwrap().features().contains(&"b = none".to_owned()));
}

#[test]
fn what_cannot_be_encoded_is_told_with_line_column_and_count() {
    for (text, wanted) in [
        (
            "a,b\n1,2\n2,x\n3,4\n4,5\n".to_owned(),
            "line 3: `x` is not a number (column `b`; the only such cell beside 3 numbers)",
        ),
        (
            "a\n1\nx\n2\ny\n3\n".to_owned(),
            "line 3: `x` is not a number (column `a`; the first of 2 such cells beside 3 numbers)",
        ),
        ("a\n1\ninf\n".to_owned(), "line 3: `inf` is not finite (column `a`"),
        ("a,b\nx,1\ny,2\nz,3\n".to_owned(), "column `a` has 3 texts, all different"),
        ("a,b\n1,\n2,NA\n".to_owned(), "column `b` has no value in any of 2 rows"),
    ] {
        let said = learnt(&text).unwrap_err();
        assert!(said.contains(wanted) && said.contains("data.ignore"), "{said}");
    }
    let windows = learnt("a,b\r\n1,2\r\n\r\n2,x\r\n3,4\r\n4,5\r\n").unwrap_err();
    assert!(windows.contains("line 4: `x` is not a number"), "{windows}");
    let encoding = learnt("a,b,c\n1,yes,2020-01-01\n2,no,2020-01-02\n").unwrap();
    let refused = |text: &str| encoding.encode(&cells(text)).unwrap_err().to_string();
    assert!(
        refused("a,b,c\n1,no,2020-01-01\nq,no,2020-01-01\n")
            .contains("line 3: `q` is not a finite number (column `a`)")
    );
    assert!(refused("a,b,c\n1,maybe,2020-01-01\n").contains("`maybe` is neither yes nor no (column `b`)"));
    assert!(refused("a,b,c\n1,1,yesterday\n").contains("`yesterday` is not a date such as 2024-01-31 (column `c`)"));
}

#[test]
fn targets_are_numbers_or_classes() {
    let said = |text: &str| targets::numbers(&cells(text), 0).unwrap_err().to_string();
    assert!(said("y\n1\nNA\n\"\"\n2\n").contains("line 3: the target `y` is missing"), "{}", said("y\n1\nNA\n2\n"));
    assert!(
        said("y\n1\nred\nblue\n")
            .contains("line 3: `red` is not a number (column `y`, the target; 2 of 3 cells are not)")
    );
    assert!(said("y\nred\n").contains("kind = \"categorical\""));
    let known = targets::classes(&cells("y\n10\n9.0\n9\n"), 0).unwrap();
    assert_eq!(known, ["9", "10"]);
    assert_eq!(targets::labels(&cells("y\n9\n10.0\n"), 0, &known).unwrap(), [0, 1]);
    assert!(
        targets::labels(&cells("y\n9\n11\n"), 0, &known)
            .unwrap_err()
            .to_string()
            .contains("line 3: `11` is none of the 2")
    );
    assert!(targets::classes(&cells("y\na\na\n"), 0).unwrap_err().to_string().contains("1 different values in 2 rows"));
    assert_eq!(targets::groups(&cells("g\nb\na\nb\n"), 0), [1, 0, 1]);
    assert_eq!(targets::times(&cells("t\n1970-01-03\n1970-01-02\n"), 0).unwrap(), [2.0, 1.0]);
    assert!(
        targets::times(&cells("t\n1970-01-03\nsoon\n"), 0)
            .unwrap_err()
            .to_string()
            .contains("line 3: `soon` is not a date")
    );
}

#[test]
fn groups_and_times_are_not_torn_apart() {
    let groups: Vec<usize> = (0..60).map(|row| row % 7).collect();
    let cut = split::grouped(&groups, 0.2, 3).unwrap();
    assert!(cut.validation.len() >= 12 && !cut.train.is_empty());
    assert!(cut.validation.iter().all(|&row| cut.train.iter().all(|&other| groups[row] != groups[other])));
    assert!(split::grouped(&[4, 4, 4], 0.5, 0).unwrap_err().to_string().contains("1 group"));
    assert_eq!(split::grouped(&[0, 1], 0.9, 0).unwrap().train.len(), 1);
    let times = [5.0, 1.0, 4.0, 4.0, 2.0];
    assert_eq!(split::latest(&times, 0.4).unwrap().validation, [0, 2, 3], "rows of one time stay together");
    assert!(split::latest(&[1.0, 1.0, 2.0], 0.6).unwrap_err().to_string().contains("earliest"));
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(42), failure_persistence: None, ..Default::default() })]

    /// A file with its columns in another order is the same file to a model, which asks for them by name.
    #[test]
    fn numbers_do_not_depend_on_the_order_of_columns(
        rows in proptest::collection::vec((0..4_usize, proptest::option::of(-9..9_i32), any::<bool>()), 8..40),
        order in Just(vec![0_usize, 1, 2]).prop_shuffle(),
    ) {
        let names = ["city", "area", "garden"].map(str::to_owned);
        let cells = |(city, area, garden): &(usize, Option<i32>, bool)| {
            let area = area.map_or("NA".to_owned(), |area| area.to_string());
            [["Bonn", "Kiel", "Ulm", ""][*city].to_owned(), area, garden.to_string()]
        };
        let written = |order: &[usize]| {
            let line = |cells: &[String; 3]| order.iter().map(|&i| &cells[i][..]).collect::<Vec<_>>().join(",") + "\n";
            rows.iter().fold(line(&names), |text, row| text + &line(&cells(row)))
        };
        let (straight, shuffled) = (sheet(&written(&[0, 1, 2])), sheet(&written(&order)));
        let by_name = |sheet: &Sheet| {
            let places: Vec<usize> = names.iter().map(|name| sheet.column(name).unwrap()).collect();
            sheet.cells(&places).unwrap()
        };
        let all: Vec<usize> = (0..rows.len()).collect();
        let learnt = Encoding::learn(&by_name(&straight), &all);
        prop_assume!(learnt.is_ok()); // a column without any value
        let learnt = learnt.unwrap();
        prop_assert_eq!(&learnt, &Encoding::learn(&by_name(&shuffled), &all).unwrap());
        prop_assert_eq!(learnt.encode(&by_name(&straight)).unwrap(), learnt.encode(&by_name(&shuffled)).unwrap());
    }

    /// Every text is either refused with a reason or encoded without a number that is not finite.
    #[test]
    fn any_text_is_encoded_or_refused(text in "[a-c0-9,;. \n\"?-]{0,60}") {
        let place = tempfile::tempdir().unwrap();
        let file = place.path().join("a.csv");
        std::fs::write(&file, text).unwrap();
        let Ok(sheet) = Sheet::open(&file) else { return Ok(()) };
        let Ok(cells) = sheet.cells(&(0..sheet.names().len()).collect::<Vec<_>>()) else { return Ok(()) };
        let rows: Vec<usize> = (0..cells.rows()).collect();
        if let Ok(encoding) = Encoding::learn(&cells, &rows) {
            let found = encoding.encode(&cells).unwrap();
            prop_assert_eq!(found.numbers.len(), rows.len() * encoding.width());
            prop_assert!(found.numbers.iter().all(|number| number.is_finite()));
        }
    }
}

/// More texts than can each have a number: the frequent ones have, the others are one, which training rows then have too.
#[test]
fn of_many_texts_the_most_frequent_are_told_apart() {
    let rows = (0..1000).map(|row: usize| format!("t{:03},{row}\n", if row < 700 { row % 90 } else { row }));
    let text = format!("city,x\n{}", rows.collect::<String>());
    let encoding = learnt(&text).unwrap();
    let city = &encoding.columns()[0];
    assert_eq!((city.levels().len(), city.rare(), city.levels()[89].as_str()), (90, 300, "t089"));
    let found = encoding.encode(&cells("city,x\nt003,1\nt800,1\nnowhere,1\n")).unwrap();
    let other = |row: usize| found.numbers[row * encoding.width() + 90] > 0.5;
    assert_eq!([other(0), other(1), other(2)], [false, true, true]);
    assert_eq!(found.flags[1], ["city = t800 is none of the 90 most frequent texts of the training data"]);
    let written = serde_json::to_string(&encoding).unwrap();
    assert!(written.contains(r#""rare":300"#));
    assert_eq!(serde_json::from_str::<Encoding>(&written).unwrap(), encoding);
    let even: String = (0..404).map(|row| format!("t{:03},1\n", row % 101)).collect();
    assert_eq!(learnt(&format!("a,b\n{even}")).unwrap().columns()[0].levels().len(), 99);
}

#[test]
fn numbers_can_be_names() {
    let table = cells("zip,x\n53111,1\n1067,2\n53111,3\n,4\n");
    let names = ["zip".to_owned()];
    let encoding = Encoding::learn_with(&table, &[0, 1, 2, 3], &names).unwrap();
    assert_eq!(encoding.features(), ["zip = 1067", "zip = 53111", "zip = (other)", "zip is missing", "x"]);
    let alone = Encoding::learn_with(&cells("zip,x\n1,1\n2,2\n"), &[0, 1], &names).unwrap_err().to_string();
    assert!(alone.contains("column `zip` has 2 texts, all different"), "{alone}");
}
