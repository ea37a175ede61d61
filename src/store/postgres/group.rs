//! Group: appends of several runs as one statement, and what became of each. It makes columns of them and reads the
//! rows that come back; when a group is sent, and what is done when nobody answers, is the committer's.

use tokio_postgres::types::Type;
use tokio_postgres::{Client, Row};

use crate::kernel::evidence::{Hash, chain};
use crate::ports::{AppendError, Appended, Fault, Guard, Hold, Incarnation};
use crate::store::codec;
use crate::store::postgres::connections::Param;
use crate::store::postgres::faults::unread;
use crate::store::postgres::links::Links;
use crate::store::postgres::prepared::{Linked, Prepared, int, time, uint};

/// What is written leaves a mark (`marks`) with it.
const APPEND: &str = "with m as (update holdpoint.marks set mark = greatest(mark, $41) where incarnation = $1 and lane = 0) \
    select * from holdpoint.append($1,$2,$3,$4,$5,$6,$7,$8,$9,$10,$11,$12,$13,$14,$15,$16,$17,$18,\
    $19,$20,$21,$22,$23,$24,$25,$26,$27,$28,$29,$30,$31,$32,$33,$34,$35,$36,$37,$38,$39,$40)";

/// What became of one append.
#[derive(Debug)]
pub(super) enum Outcome {
    /// It is decided.
    Done(Result<Appended, AppendError>),
    /// Something was otherwise than remembered: it is to be submitted again.
    Again,
}

impl Outcome {
    /// Whether it stands in the database.
    pub(super) fn is_written(&self) -> bool {
        matches!(self, Self::Done(Ok(_)))
    }
}

/// The columns of a group.
#[derive(Default)]
struct Columns {
    run: Vec<Vec<u8>>,
    expected: Vec<i64>,
    version: Vec<i64>,
    prev: Vec<Vec<u8>>,
    link: Vec<Vec<u8>>,
    token_by: Vec<Option<i64>>,
    token_no: Vec<Option<i64>>,
    fence: Vec<Option<i64>>,
    hold: Vec<i16>,
    from: Vec<Option<i64>>,
    hooks: Vec<Option<i64>>,
    session: Vec<Vec<u8>>,
    owner: Vec<Vec<u8>>,
    workflow: Vec<Vec<u8>>,
    status: Vec<String>,
    updated: Vec<i64>,
    wake: Vec<Option<i64>>,
    deadline: Vec<Option<i64>>,
    since: Vec<Option<i64>>,
    family: Vec<Option<Vec<u8>>>,
    desks: Vec<Option<Vec<u8>>>,
    head: Vec<Vec<u8>>,
    body: Vec<Vec<u8>>,
    leaf_place: Vec<Option<Vec<u8>>>,
    leaf: Vec<Option<Vec<u8>>>,
    session_body: Vec<Option<Vec<u8>>>,
    key_id: Vec<Option<Vec<u8>>>,
    key_said: Vec<Option<Vec<u8>>>,
    key_body: Vec<Option<Vec<u8>>>,
    guards: (Vec<i32>, Vec<String>, Vec<i64>, Vec<bool>),
    channels: (Vec<i32>, Vec<Vec<u8>>, Vec<i64>),
    listeners: (Vec<i32>, Vec<Vec<u8>>, Vec<Vec<u8>>),
}

impl Columns {
    fn push(&mut self, item: i32, one: &Prepared, prev: Hash, linked: &Linked) {
        self.run.push(one.packed.to_vec());
        self.expected.push(int(one.expected));
        self.version.push(int(one.version));
        self.prev.push(prev.0.to_vec());
        self.link.push(linked.link.0.to_vec());
        self.token_by.push(one.token.map(|token| int(token.by.0)));
        self.token_no.push(one.token.map(|token| int(token.number)));
        self.fence.push(one.fence.map(int));
        let (hold, from) = match one.hold {
            Hold::Keep => (0, None),
            Hold::Take { from } => (1, from.map(|who| int(who.0))),
            Hold::Leave => (2, None),
        };
        self.hold.push(hold);
        self.from.push(from);
        let columns = &one.columns;
        self.session.push(columns.session.clone());
        self.owner.push(columns.owner.clone());
        self.workflow.push(columns.workflow.clone());
        self.status.push(columns.status.clone());
        self.updated.push(columns.updated);
        self.wake.push(columns.wake);
        self.deadline.push(columns.deadline);
        self.since.push(columns.since);
        self.family.push(columns.family.clone());
        self.desks.push(columns.desks.clone());
        self.head.push(linked.head.clone());
        self.body.push(linked.body.clone());
        self.leaf_place.push(linked.leaf.as_ref().map(|(place, _)| place.clone()));
        self.leaf.push(linked.leaf.as_ref().map(|(_, record)| record.clone()));
        self.session_body.push(one.session.clone());
        self.key_id.push(one.key.as_ref().map(|(id, _, _)| id.clone()));
        self.key_said.push(one.key.as_ref().map(|(_, said, _)| said.as_bytes().to_vec()));
        self.key_body.push(one.key.as_ref().map(|(_, _, body)| body.clone()));
        // Who listens is a number of the run's own: every append looks at it, and its row is locked anyway.
        let own = Guard::hooks(&one.run);
        let hooks = one.guards.iter().find(|guard| guard.name == own);
        self.hooks.push(hooks.map(|guard| int(guard.number)));
        for guard in one.guards.iter().filter(|guard| guard.name != own) {
            self.guards.0.push(item);
            self.guards.1.push(guard.name.clone());
            self.guards.2.push(int(guard.number));
            self.guards.3.push(guard.raises);
        }
        for channel in &one.channels {
            self.channels.0.push(item);
            self.channels.1.push(channel.as_bytes().to_vec());
            self.channels.2.push(time(one.at));
        }
        for (id, body) in &one.hooks {
            self.listeners.0.push(item);
            self.listeners.1.push(id.as_bytes().to_vec());
            self.listeners.2.push(body.clone());
        }
    }

    fn params<'a>(&'a self, me: &'a i64, mark: &'a i64) -> Vec<Param<'a>> {
        const BYTES: Type = Type::BYTEA_ARRAY;
        const LONGS: Type = Type::INT8_ARRAY;
        vec![
            (me, Type::INT8),
            (&self.run, BYTES),
            (&self.expected, LONGS),
            (&self.version, LONGS),
            (&self.prev, BYTES),
            (&self.link, BYTES),
            (&self.token_by, LONGS),
            (&self.token_no, LONGS),
            (&self.fence, LONGS),
            (&self.hold, Type::INT2_ARRAY),
            (&self.from, LONGS),
            (&self.hooks, LONGS),
            (&self.session, BYTES),
            (&self.owner, BYTES),
            (&self.workflow, BYTES),
            (&self.status, Type::TEXT_ARRAY),
            (&self.updated, LONGS),
            (&self.wake, LONGS),
            (&self.deadline, LONGS),
            (&self.since, LONGS),
            (&self.family, BYTES),
            (&self.head, BYTES),
            (&self.body, BYTES),
            (&self.leaf_place, BYTES),
            (&self.leaf, BYTES),
            (&self.session_body, BYTES),
            (&self.key_id, BYTES),
            (&self.key_said, BYTES),
            (&self.key_body, BYTES),
            (&self.guards.0, Type::INT4_ARRAY),
            (&self.guards.1, Type::TEXT_ARRAY),
            (&self.guards.2, LONGS),
            (&self.guards.3, Type::BOOL_ARRAY),
            (&self.channels.0, Type::INT4_ARRAY),
            (&self.channels.1, BYTES),
            (&self.channels.2, LONGS),
            (&self.listeners.0, Type::INT4_ARRAY),
            (&self.listeners.1, BYTES),
            (&self.listeners.2, BYTES),
            (&self.desks, BYTES),
            (mark, Type::INT8),
        ]
    }
}

/// Asks for the links that appends go on from, and that nobody remembers.
async fn recall(
    client: &Client,
    group: &[&Prepared],
    links: &Links,
) -> Result<(), tokio_postgres::Error> {
    let unknown = group.iter().filter(|one| one.expected > 0);
    let unknown = unknown.filter(|one| links.at(&one.packed, one.expected).is_none());
    let runs: Vec<_> = unknown.map(|one| one.packed.to_vec()).collect();
    if runs.is_empty() {
        return Ok(());
    }
    let sql = "select run, version, link from holdpoint.runs where run = any($1)";
    for row in client.query_typed(sql, &[(&runs, Type::BYTEA_ARRAY)]).await? {
        let (run, version): (Vec<u8>, i64) = (row.try_get(0)?, row.try_get(1)?);
        let link: Vec<u8> = row.try_get(2)?;
        if let (Ok(run), Some(link)) = (run.try_into(), Hash::read(&link)) {
            links.put(run, uint(version), link);
        }
    }
    Ok(())
}

/// Submits a group; what became of each of them, in their order.
pub(super) async fn submit(
    client: &Client,
    (me, mark): (Incarnation, i64),
    group: &[&Prepared],
    links: &Links,
) -> Result<Vec<Outcome>, Refused> {
    let is_known =
        |one: &&Prepared| one.expected > 0 && links.at(&one.packed, one.expected).is_some();
    let known: Vec<_> = group.iter().map(is_known).collect();
    recall(client, group, links).await?;
    let mut columns = Columns::default();
    let mut linked = Vec::with_capacity(group.len());
    for (one, item) in group.iter().zip(1..) {
        // Of one that is elsewhere the version is told before anybody looks at the link.
        let prev = match one.expected {
            0 => Some(chain::GENESIS),
            expected => links.at(&one.packed, expected),
        };
        let from = prev.unwrap_or(chain::GENESIS);
        let rows = one.linked(from).map_err(Refused::Fault)?;
        columns.push(item, one, from, &rows);
        linked.push((rows, prev.is_some()));
    }
    let rows = client.query_typed(APPEND, &columns.params(&int(me.0), &mark)).await?;
    let mut outcomes: Vec<_> = group.iter().map(|_| Outcome::Again).collect();
    for row in rows {
        let item = row.try_get::<_, i32>(0).map_err(|error| Refused::Fault(unread(&error)))?;
        let Some(at) = usize::try_from(item - 1).ok() else { continue };
        let (Some(one), Some((rows, is_linked))) = (group.get(at), linked.get(at)) else {
            continue;
        };
        let mut outcome = read(&row, one).map_err(|error| Refused::Fault(unread(&error)))?;
        if known[at] && matches!(outcome, Outcome::Again) {
            // It goes on from what the database had at that version, and has no more.
            links.diverge(one.expected);
            outcomes[at] = Outcome::Done(Err(Fault::Rewound.into()));
            continue;
        }
        match &mut outcome {
            // One that was there already, by its token, may have been linked here to nothing.
            Outcome::Done(Ok(appended)) if appended.version == one.version && *is_linked => {
                links.put(one.packed, one.version, rows.link);
                appended.link = Some(rows.link);
            }
            Outcome::Done(_) | Outcome::Again => links.forget(&one.packed),
        }
        outcomes[at] = outcome;
    }
    Ok(outcomes)
}

/// Why a group has no outcomes.
#[derive(Debug)]
pub(super) enum Refused {
    /// The database says so, or cannot be heard.
    Error(tokio_postgres::Error),
    /// Something of ours cannot be made or read.
    Fault(Fault),
}

impl From<tokio_postgres::Error> for Refused {
    fn from(error: tokio_postgres::Error) -> Self {
        Self::Error(error)
    }
}

/// What a row says of an append.
fn read(row: &Row, one: &Prepared) -> Result<Outcome, tokio_postgres::Error> {
    let said: String = row.try_get(1)?;
    let number = row.try_get::<_, Option<i64>>(2)?;
    let version = uint(number.unwrap_or(0));
    let about = || row.try_get::<_, Option<Vec<u8>>>(4).map(Option::unwrap_or_default);
    Ok(Outcome::Done(Err(match said.as_str() {
        "ok" => {
            let fence = uint(row.try_get(3)?);
            return Ok(Outcome::Done(Ok(Appended { version, fence, link: None })));
        }
        "again" => return Ok(Outcome::Again),
        "superseded" => AppendError::Superseded,
        "held" => AppendError::Held { by: number.map(|by| Incarnation(uint(by))) },
        "moved" => AppendError::Moved { at: version },
        "hooks" => AppendError::GuardMoved(Guard::hooks(&one.run)),
        "guard" => AppendError::GuardMoved(String::from_utf8_lossy(&about()?).into_owned()),
        "session" => AppendError::SessionTaken,
        "key" => {
            let id = one.key.as_ref().map(|(id, _, _)| id.as_slice()).unwrap_or_default();
            match codec::unseal_json(id, &about()?) {
                Ok(row) => AppendError::KeyTaken(row),
                Err(bad) => Fault::from(bad).into(),
            }
        }
        other => Fault::Permanent(format!("the database says `{other}` of an append")).into(),
    })))
}
