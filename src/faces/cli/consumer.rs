//! `consumer ls`, `consumer rm`.

use super::args::{Consumer, ConsumerCommand, Json};
use super::context::Context;
use super::table::{self, NARROW_NAME, Narrowing};
use super::{ls, output};
use crate::clock;
use crate::model::{Error, Millis, text};
use crate::ops;
use crate::wire::{ConsumerList, ConsumerStatus};

const COLUMNS: [&str; 7] = [
    "NAME",
    "CURSOR",
    "LAG",
    "HOLDS",
    "AGE",
    "LAST USED",
    "READER",
];

/// On a narrow terminal, who is behind is shown longest.
const NARROW: Narrowing<'_> = Narrowing {
    cuts: &[(0, NARROW_NAME)],
    dispensable: &[4, 1, 3, 5, 6],
};

pub(super) async fn run(context: &Context, args: Consumer) -> Result<(), Error> {
    match args.command {
        ConsumerCommand::Ls(json) => list(context, json).await,
        ConsumerCommand::Rm { names } => remove(context, &names).await,
    }
}

async fn list(context: &Context, args: Json) -> Result<(), Error> {
    let session = context.session().await?;
    let list = ops::list_consumers(&session).await?;
    if args.json {
        return output::json(&list);
    }
    let table = table_of(&list, clock::now().wall, output::terminal_columns());
    output::lines(&table)
}

async fn remove(context: &Context, names: &[String]) -> Result<(), Error> {
    let session = context.session().await?;
    let mut removed = Ok(());
    // One that cannot be removed does not keep the others.
    for name in names {
        let outcome = ops::remove_consumer(&session, name).await;
        if let Err(failure) = outcome
            && let Err(earlier) = std::mem::replace(&mut removed, Err(failure))
        {
            context.complain(&earlier);
        }
    }
    removed
}

fn table_of(list: &ConsumerList, now: Millis, columns: Option<usize>) -> Vec<String> {
    let header = COLUMNS.map(String::from);
    let row = |consumer: &ConsumerStatus| {
        [
            consumer.name.clone(),
            consumer.cursor.to_string(),
            consumer.lag.to_string(),
            match consumer.held_bytes {
                0 => "-".to_owned(),
                n_bytes => text::size(n_bytes),
            },
            ls::age(now - consumer.created_at),
            format!("{} ago", ls::age(now - consumer.used_at)),
            consumer
                .reader
                .map_or_else(|| "-".to_owned(), |pid| format!("pid {pid}")),
        ]
    };
    let rows: Vec<_> = std::iter::once(header)
        .chain(list.consumers.iter().map(row))
        .collect();
    table::lines(&rows, columns, &NARROW)
}

/// Returns what `daemon status` says of a consumer.
pub(super) fn status_line(consumer: &ConsumerStatus) -> String {
    let ConsumerStatus {
        name, cursor, lag, ..
    } = consumer;
    let reader = match consumer.reader {
        Some(pid) => format!("read by pid {pid}"),
        None => {
            let ago = ls::age(clock::now().wall - consumer.used_at);
            format!("last used {ago} ago")
        }
    };
    let holds = match consumer.held_bytes {
        0 => String::new(),
        n_bytes => format!(", keeps {} from being removed", text::size(n_bytes)),
    };
    format!("consumer {name}: acknowledged up to {cursor}, {lag} behind, {reader}{holds}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::ConsumerAudience;

    #[test]
    fn the_table_shows_who_is_behind() {
        let consumer = |name: &str, cursor, reader| ConsumerStatus {
            name: name.to_owned(),
            cursor,
            lag: 120 - cursor,
            held_bytes: (120 - cursor) << 20,
            reader,
            created_at: 0,
            used_at: 60_000,
            audience: ConsumerAudience::default(),
        };
        let list = ConsumerList {
            epoch: Some("e".to_owned()),
            first_seq: 1,
            last_seq: 120,
            feed_bytes: 300 << 20,
            consumers: vec![
                consumer("pi", 120, Some(4711)),
                consumer("web-hook", 3, None),
            ],
        };
        assert_eq!(
            table_of(&list, 65_000, None),
            [
                "NAME      CURSOR  LAG  HOLDS      AGE  LAST USED  READER",
                "pi        120     0    -          1m   5s ago     pid 4711",
                "web-hook  3       117  117.0 MiB  1m   5s ago     -",
            ]
        );
        assert_eq!(
            table_of(&list, 65_000, Some(40)),
            [
                "NAME      LAG  LAST USED  READER",
                "pi        0    5s ago     pid 4711",
                "web-hook  117  5s ago     -",
            ]
        );
    }
}
