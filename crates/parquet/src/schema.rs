//! The columns of the files.

use std::sync::Arc;

use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use parquet::schema::types::{ColumnPath, Type};

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Text,
    Int16,
    Int32,
    /// 32 bits, as in Common Crawl's table, or 64 if files are larger than 2 GiB.
    Place,
    Time,
}

/// Name, kind, and whether it may be null.
pub(crate) const COLUMNS: [(&str, Kind, bool); 30] = [
    ("url_surtkey", Kind::Text, false),
    ("url", Kind::Text, false),
    ("url_host_name", Kind::Text, false),
    ("url_host_tld", Kind::Text, true),
    ("url_host_2nd_last_part", Kind::Text, true),
    ("url_host_3rd_last_part", Kind::Text, true),
    ("url_host_4th_last_part", Kind::Text, true),
    ("url_host_5th_last_part", Kind::Text, true),
    ("url_host_registry_suffix", Kind::Text, true),
    ("url_host_registered_domain", Kind::Text, true),
    ("url_host_private_suffix", Kind::Text, true),
    ("url_host_private_domain", Kind::Text, true),
    ("url_host_name_reversed", Kind::Text, true),
    ("url_protocol", Kind::Text, false),
    ("url_port", Kind::Int32, true),
    ("url_path", Kind::Text, false),
    ("url_query", Kind::Text, true),
    ("fetch_time", Kind::Time, false),
    ("fetch_status", Kind::Int16, false),
    ("fetch_redirect", Kind::Text, true),
    ("content_digest", Kind::Text, true),
    ("content_mime_type", Kind::Text, true),
    ("content_mime_detected", Kind::Text, true),
    ("content_charset", Kind::Text, true),
    ("content_languages", Kind::Text, true),
    ("content_truncated", Kind::Text, true),
    ("warc_filename", Kind::Text, false),
    ("warc_record_offset", Kind::Place, false),
    ("warc_record_length", Kind::Place, false),
    ("warc_segment", Kind::Text, false),
];

/// The schema of a file.
pub(crate) fn schema(wide: bool) -> parquet::errors::Result<Arc<Type>> {
    let mut fields = Vec::new();
    for (name, kind, nullable) in COLUMNS {
        let repetition = match nullable {
            true => Repetition::OPTIONAL,
            false => Repetition::REQUIRED,
        };
        let (physical, logical) = match kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Int16 => {
                let integer = LogicalType::integer(16, true);
                (Physical::INT32, Some(integer))
            }
            Kind::Int32 => (Physical::INT32, None),
            Kind::Place if wide => (Physical::INT64, None),
            Kind::Place => (Physical::INT32, None),
            Kind::Time => {
                let time = LogicalType::timestamp(true, TimeUnit::MILLIS);
                (Physical::INT64, Some(time))
            }
        };
        let field = Type::primitive_type_builder(name, physical)
            .with_repetition(repetition)
            .with_logical_type(logical)
            .build()?;
        fields.push(Arc::new(field));
    }
    let schema = Type::group_type_builder("index")
        .with_fields(fields)
        .build()?;
    Ok(Arc::new(schema))
}

/// How files are written.
pub(crate) fn properties(rows: u64) -> parquet::errors::Result<WriterProperties> {
    let key = ColumnPath::from("url_surtkey");
    Ok(WriterProperties::builder()
        .set_created_by(format!("waypost {}", env!("CARGO_PKG_VERSION")))
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_statistics_enabled(EnabledStatistics::Page)
        // A page is what a range request gets: small for keys, which are read first.
        .set_data_page_row_count_limit(10_000)
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]))
        .set_column_dictionary_enabled(key.clone(), false)
        .set_column_dictionary_enabled(ColumnPath::from("url"), false)
        .set_column_dictionary_enabled(ColumnPath::from("content_digest"), false)
        .set_column_bloom_filter_enabled(key.clone(), true)
        .set_column_bloom_filter_fpp(key.clone(), 0.01)
        .set_column_bloom_filter_max_ndv(key, rows.max(1))
        .build())
}
