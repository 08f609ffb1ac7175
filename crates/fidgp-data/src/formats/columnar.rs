//! Parquet files with a number, a text, a date, or yes and no in each column, read row by row into cells as a text file has them.

use std::path::Path;

use fidgp_files::limits::{COLUMNS, FILE_BYTES, ROWS};
use parquet::basic::{LogicalType, Repetition, TimeUnit};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::schema::types::Type;

use super::inflate::Budget;
use crate::{Error, Result};

const SAVE_AGAIN: &str =
    "the file is damaged or of a kind that is not known: save it again, with snappy or no compression";
const LEAVE_OUT: &str = "save the table without this column, or as columns of numbers and texts";
/// Rows between two looks at what was made of them.
const STEP: usize = 1024;
/// A cell's place in the text.
const PLACE: u64 = size_of::<usize>() as u64;

/// Cells as they would be written.
#[derive(Debug, Clone, Default)]
pub struct Written {
    /// Of the columns.
    pub names: Vec<String>,
    /// All cells, row by row.
    pub text: String,
    /// Where each ends.
    pub ends: Vec<usize>,
}

impl Written {
    /// How many rows there are.
    pub fn rows(&self) -> usize {
        self.ends.len() / self.names.len().max(1)
    }

    /// A cell.
    pub fn cell(&self, row: usize, column: usize) -> &str {
        let place = row * self.names.len() + column;
        let start = if place == 0 { 0 } else { self.ends[place - 1] };
        &self.text[start..self.ends[place]]
    }
}

/// Reads a whole file, decoder panics included.
///
/// # Errors
/// When it cannot be read, asks for more than it may, or has columns of lists or structures.
pub fn read(file: &Path) -> Result<Written> {
    fidgp_files::guarded(|| rows(file)).unwrap_or_else(|panic| Err(Error::file(file, panic, SAVE_AGAIN)))
}

fn rows(file: &Path) -> Result<Written> {
    let opened = fidgp_files::open(file).map_err(|error| Error::io(file, error))?;
    let bytes = opened.metadata().map_err(|error| Error::io(file, error))?.len();
    FILE_BYTES.check(bytes).map_err(|exceeded| Error::beyond(file, &exceeded))?;
    let unsound = |error: ParquetError| Error::file(file, format!("no sound Parquet file: {error}"), SAVE_AGAIN);
    let reader = SerializedFileReader::new(opened).map_err(unsound)?;
    let metadata = reader.metadata().file_metadata();
    let columns = columns(file, metadata.schema_descr().root_schema())?;
    let promised = u64::try_from(metadata.num_rows()).unwrap_or(u64::MAX);
    ROWS.check(promised).map_err(|exceeded| Error::beyond(file, &exceeded))?;
    let mut budget = Budget::new(file, bytes as usize);
    let mut found = Written { names: columns.iter().map(|one| one.name.clone()).collect(), ..Written::default() };
    let (mut count, mut counted) = (0, 0);
    for row in reader.get_row_iter(None).map_err(unsound)? {
        let cells = row.map_err(unsound)?.into_columns();
        if cells.len() != columns.len() || count >= promised as usize {
            let problem = format!("row {count} is not one of {promised} rows of {} cells", columns.len());
            return Err(Error::file(file, problem, SAVE_AGAIN));
        }
        for (column, (_, cell)) in columns.iter().zip(&cells) {
            column.write(cell, &mut found.text).map_err(|what| column.fault(file, what))?;
            found.ends.push(found.text.len());
        }
        count += 1;
        if count % STEP == 0 {
            let held = found.text.len() as u64 + found.ends.len() as u64 * PLACE;
            budget.take(held - counted)?;
            counted = held;
        }
    }
    Ok(found)
}

/// A column of the file.
struct Column {
    name: String,
    /// Whole numbers are nanoseconds since 1970.
    nanoseconds: bool,
}

fn columns(file: &Path, schema: &Type) -> Result<Vec<Column>> {
    let fields = schema.get_fields();
    COLUMNS.check(fields.len() as u64).map_err(|exceeded| Error::beyond(file, &exceeded))?;
    let column = |field: &Type| {
        let about = field.get_basic_info();
        let nanoseconds =
            matches!(about.logical_type_ref(), Some(LogicalType::Timestamp(time)) if time.unit == TimeUnit::NANOS);
        let column = Column { name: field.name().to_owned(), nanoseconds };
        let repeats = about.has_repetition() && about.repetition() == Repetition::REPEATED;
        if field.is_primitive() && !repeats { Ok(column) } else { Err(column.fault(file, "lists or structures")) }
    };
    fields.iter().map(|field| column(field)).collect()
}

impl Column {
    fn fault(&self, file: &Path, what: &str) -> Error {
        Error::file(file, format!("column `{}` holds {what}", self.name), LEAVE_OUT)
    }

    /// Adds a cell; nothing where there is no value.
    fn write(&self, cell: &Field, text: &mut String) -> std::result::Result<(), &'static str> {
        use std::fmt::Write;
        let _ = match cell {
            Field::Null => Ok(()),
            Field::Str(own) => {
                text.push_str(own.trim());
                Ok(())
            }
            Field::Float(number) if number.is_nan() => Ok(()),
            Field::Double(number) if number.is_nan() => Ok(()),
            Field::Float(number) => write!(text, "{number}"),
            Field::Double(number) => write!(text, "{number}"),
            Field::Float16(number) => write!(text, "{}", number.to_f64()),
            Field::Date(days) => write!(text, "{}", date(i64::from(*days))),
            Field::Long(time) if self.nanoseconds => write!(text, "{}", moment(time.div_euclid(1_000_000_000))),
            Field::TimestampMillis(time) => write!(text, "{}", moment(time.div_euclid(1_000))),
            Field::TimestampMicros(time) => write!(text, "{}", moment(time.div_euclid(1_000_000))),
            Field::TimeMillis(time) => write!(text, "{}", f64::from(*time) / 1e3),
            Field::TimeMicros(time) => write!(text, "{}", *time as f64 / 1e6),
            Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => return Err("lists or structures"),
            Field::Bytes(_) => return Err("bytes that are no text"),
            number => write!(text, "{number}"), // whole numbers, decimals, true and false
        };
        Ok(())
    }
}

/// Seconds since 1970 as `2024-01-31T12:30:00`.
fn moment(seconds: i64) -> String {
    let (days, rest) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (hours, minutes) = (rest / 3600, rest / 60 % 60);
    if rest == 0 { date(days) } else { format!("{}T{hours:02}:{minutes:02}:{:02}", date(days), rest % 60) }
}

/// Days since 1970 as `2024-01-31`, by the Gregorian calendar: years begin in March, 400 of them repeat.
fn date(days: i64) -> String {
    let since = days + 719_468; // 0000-03-01
    let (era, day) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let of_year = day - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let (day, month) = (of_year - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    format!("{:04}-{month:02}-{day:02}", era * 400 + year + i64::from(month <= 2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fidgp_files::written;

    #[test]
    fn days_are_those_of_the_calendar() {
        let known = [
            (0, "1970-01-01"),
            (-1, "1969-12-31"),
            (11_016, "2000-02-29"),
            (11_017, "2000-03-01"),
            (19_753, "2024-01-31"),
        ];
        for (days, text) in known {
            assert_eq!(date(days), text);
        }
        for days in (-100_000..100_000).step_by(97) {
            assert_eq!(written::date(&date(days)), Some(days as f64), "{}", date(days));
        }
        assert_eq!(moment(19_753 * 86_400 + 45_000), "2024-01-31T12:30:00");
    }
}
