//! Fork: a new run from a checkpoint of another, or from where another failed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::json;

use crate::engine::cell::{Cell, State};
use crate::engine::commands::check::{check_key, shortened};
use crate::engine::commands::{Begun, ForkRequest};
use crate::engine::drive::{Batch, DECIDE_TRIES, Extras};
use crate::engine::family::{Kinship, refuse_if_large};
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Act, Admission, Command, Decision, Descent, Event, Excluded, Millis, No, Past, Principal,
    Question, Recorded, Refusal, Run, RunId, SessionId, Stage, Status, Verb, Version, Workflow,
    apply, carried_out, digest, evolve, parse_checkpoint, replay, retry_point, unkeyed, unspent,
    waits_for, wants,
};
use crate::ports::{Fault, Guard, Note, trace};

impl Engine {
    /// Starts a new run from a checkpoint of another. What was done up to there is copied as
    /// facts, not done again (E3); its questions are open again, under ids of the new run.
    pub async fn fork(&self, request: ForkRequest, who: &Principal) -> Result<Begun, EngineError> {
        self.refuse_if_unknown(who).await?;
        // Where others decide in the family meanwhile it is looked at again.
        for _ in 1..DECIDE_TRIES {
            match self.fork_once(request.clone(), who).await {
                Err(EngineError::Moved) => {}
                outcome => return outcome,
            }
        }
        self.fork_once(request, who).await
    }

    async fn fork_once(&self, request: ForkRequest, who: &Principal) -> Result<Begun, EngineError> {
        check_key(&request.key)?;
        let digest = digest::of(&json!(["fork", request.run, request.checkpoint, request.session]));
        if let Some(begun) = self.begun_before(&request.key, &digest, who).await? {
            return Ok(begun);
        }
        let (id, cell) = self.seen_run(&request.run, who).await?;
        let (session, marks, failed, requesters, pinned, kinship) = {
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            let Run { session, checkpoints, requesters, .. } = &*hot.run;
            who.may(Act::Fork, &hot.run.owner)?;
            refuse_if_confided(&hot.run, who)?;
            let (session, marks) = (session.clone(), checkpoints.clone());
            let pinned = Arc::clone(&hot.run.workflow);
            let (requesters, kinship) = (requesters.clone(), Kinship::of(&hot.run));
            (session, marks, Failed::of(&hot.run), requesters, pinned, kinship)
        };
        self.has_kin_now(&cell).await?;
        let (family, noes, guard) = self.family_guarded(&kinship, &id).await?;
        let mut retry = None;
        if let Some(failed) = failed {
            retry = failed.retry_point(&id, &self.read_all(&id, failed.version).await?, self);
        }
        let version = checkpoint_of(&marks, retry, &id, &request.checkpoint)?;
        let session = self.session_of_fork(&request.session, session, who).await?;
        let mut old = self.read_all(&id, version).await?;
        // What is tried again is asked about where it may have happened.
        let version = match retry {
            Some(retry) if retry == version => version,
            Some(_) | None => {
                let found = spendable(&marks, &pinned, (&id, &request.checkpoint), &old);
                self.unless_unspent(&id, found).await?
            }
        };
        let done = self.done_since(&cell, version).await?;
        old.truncate(usize::try_from(version).unwrap_or(usize::MAX));
        let may_fork = self.refuse_after_no(&id, (&old, &noes), who).await;
        self.unless_refused(may_fork, who).await?;
        let now = self.inner.clock.now();
        let (from, family) = ((&id, version), (&family, &*noes));
        let seed = self.fresh_seed();
        let (epoch, session) = (self.epoch(), &session);
        let founding = Founding { session, who, from, family, requesters, done, seed, epoch, now };
        let forked = founding.taken_over(old);
        let Some(Event::Started(started)) = forked.first().map(|first| &first.event) else {
            return Err(Fault::Corrupt(format!("the journal of `{id}` has no beginning")).into());
        };
        let workflow = self.inner.library.kept(&*self.inner.journal, &started.definition).await?;
        let run = replay(&RunId::fresh(&self.inner.clock.fresh_stem()), workflow, &forked)?;
        // It goes on from what its original went on from.
        let mut run = self.recalling(run).await?;
        let mut events: Vec<Event> = forked.into_iter().map(|recorded| recorded.event).collect();
        let is_retry = retry == Some(version);
        // What is told of a retry begins after the pauses that were over before it.
        let told = if is_retry { pauses_end(&events) } else { 0 };
        events.extend(grants_ended(&mut run, now)?);
        run.operator = self.operator();
        events.extend(ruled(&mut run, now)?);
        if is_retry && let Decision::Events(more) = apply(&mut run, &Command::Retry, now)? {
            events.extend(more);
        }
        let extras = Extras { guards: guard.into_iter().collect(), ..Extras::default() };
        let batch = Batch::new(0, events, now, extras);
        let forked = run.id.clone();
        let begun = self.begin(Box::new(run), batch, (request.key, digest), (who, None)).await?;
        // Again: it may have left memory and come back meanwhile.
        self.has_kin_now(&cell).await?;
        // The same call twice at once makes one fork.
        if begun.run == forked {
            self.note_fork((id, version - 1), forked, who).await;
        }
        Ok(Begun { watch: begun.watch.past(told), ..begun })
    }
}

/// Whoever forks a run is asked in its owner's place, and would be shown what was given to those who were asked there.
fn refuse_if_confided(run: &Run, who: &Principal) -> Result<(), Refusal> {
    if run.veil.is_nothing() || run.owner == who.id {
        return Ok(());
    }
    let why = "something was given in this run that is marked as secret, and a fork would ask you in its owner's place: \
               its owner forks it";
    Err(Refusal::Forbidden(why))
}

/// What the operator says of a fork, and of whoever forks it, is in force from its beginning.
fn ruled(run: &mut Run, now: Millis) -> Result<Vec<Event>, EngineError> {
    match apply(run, &Command::Rule, now)? {
        Decision::Events(events) => Ok(events),
        Decision::Repeat { .. } => Ok(Vec::new()),
    }
}

/// A fork inherits history, not permission: what was granted is asked again (K11).
fn grants_ended(run: &mut Run, now: Millis) -> Result<Vec<Event>, EngineError> {
    let tools: BTreeSet<String> = run.grants.iter().map(|grant| grant.tool.clone()).collect();
    let mut events = Vec::with_capacity(tools.len());
    for tool in tools {
        let event = Event::Revoked {
            tool,
            by: FORK.into(),
            door: String::new(),
            known: None,
            key: String::new(),
        };
        evolve(run, &event, now)?;
        events.push(event);
    }
    Ok(events)
}

impl Engine {
    /// The session of a fork: the one that was asked for, or its original's, or one of whoever forks.
    async fn session_of_fork(
        &self,
        given: &str,
        own: SessionId,
        who: &Principal,
    ) -> Result<SessionId, EngineError> {
        if given.is_empty() {
            // Whoever operates forks what others began, and into a session of their own.
            let row = self.inner.journal.session(&own).await?;
            let is_theirs = row.is_none_or(|row| row.owner == who.id);
            let fresh = || SessionId::fresh(&self.inner.clock.fresh_stem());
            return Ok(if is_theirs { own } else { fresh() });
        }
        self.session_for(given, who).await
    }

    /// The same, and what holds a fork to it where others write to the store as well.
    async fn family_guarded(
        &self,
        kinship: &Kinship,
        id: &RunId,
    ) -> Result<(RunId, Vec<No>, Option<Guard>), EngineError> {
        let (mut family, mut noes) = self.family(kinship, id).await?;
        let number = self.family_number(&family).await?;
        if number.is_some() {
            // As of that number, or later.
            (family, noes) = self.family(kinship, id).await?;
        }
        let name = Guard::family(&family);
        let guard = number.map(|number| Guard { name, number, raises: true });
        Ok((family, noes, guard))
    }

    /// The first run of the family that a fork joins, and what was refused in it.
    async fn family(&self, kinship: &Kinship, id: &RunId) -> Result<(RunId, Vec<No>), EngineError> {
        let (family, mut kin) = self.kin(kinship).await?;
        kin.insert(id.clone());
        refuse_if_large(&kin)?;
        Ok((family, self.noes(&kin).await?))
    }

    /// What was done in a run after that version, as its journal has it, and before the run where it is a fork; without what
    /// the run knows to be secret.
    async fn done_since(&self, cell: &Arc<Cell>, version: Version) -> Result<Past, EngineError> {
        let head = self.inner.journal.head(&cell.id).await?;
        let end = head.map_or(version, |head| head.version);
        let journal = self.read_all(&cell.id, end).await?;
        // Looked at after its journal was read, it knows every secret that is said there.
        let state = self.read(cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        if hot.run.version < end {
            return Err(EngineError::Moved);
        }
        Ok(carried_out(&hot.run, &journal, version))
    }

    /// The version to fork at; a refusal that names the request, where its yes is left to be carried out.
    async fn unless_unspent(
        &self,
        id: &RunId,
        found: Result<Version, (u32, String)>,
    ) -> Result<Version, EngineError> {
        let (ordinal, from) = match found {
            Ok(version) => return Ok(version),
            Err(left) => left,
        };
        let cell = self.inner.cells.get(id);
        let state = self.read(&cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        Err(Refusal::Unspent { request: hot.run.request(ordinal).to_string(), from }.into())
    }

    async fn note_fork(&self, (from, version): (RunId, Version), run: RunId, who: &Principal) {
        let (who, door, known) = who.recorded();
        self.note(Note::Forked { who, door, from, version, run, known }).await;
    }
}

/// A run that failed.
#[derive(Debug)]
pub(in crate::engine) struct Failed {
    /// How long its journal is.
    pub(in crate::engine) version: Version,
    workflow: Arc<Workflow>,
}

impl Failed {
    /// The run, if it failed.
    pub(in crate::engine) fn of(run: &Run) -> Option<Self> {
        match run.status {
            Status::Failed(_) => {
                Some(Self { version: run.version, workflow: Arc::clone(&run.workflow) })
            }
            Status::Running
            | Status::Waiting { .. }
            | Status::Completed
            | Status::Cancelled { .. } => None,
        }
    }

    /// The version up to which its journal is taken over to try again what failed.
    pub(in crate::engine) fn retry_point(
        &self,
        id: &RunId,
        journal: &[Recorded],
        engine: &Engine,
    ) -> Option<Version> {
        retry_point(id, Arc::clone(&self.workflow), journal, engine.inner.clock.now())
    }
}

/// The version of the last pause in a journal.
fn pauses_end(events: &[Event]) -> Version {
    let place = events.iter().rposition(|event| *event == Event::Parked);
    place.map_or(0, |place| Version::try_from(place).unwrap_or(Version::MAX).saturating_add(1))
}

/// The version to fork at: right after the pause that the checkpoint was saved for, or where a
/// failed step is tried again, which comes after all pauses.
fn checkpoint_of(
    marks: &[(Version, Millis)],
    retry: Option<Version>,
    id: &RunId,
    checkpoint: &str,
) -> Result<Version, Refusal> {
    let unknown = || Refusal::UnknownCheckpoint(shortened(checkpoint));
    let mut known = marks.iter().map(|(version, _)| *version).chain(retry.map(|at| at - 1));
    let version = if checkpoint.is_empty() {
        known.next_back()
    } else {
        let (of, version) = parse_checkpoint(checkpoint).map_err(|_| unknown())?;
        known.find(|known| of == *id && *known == version)
    };
    version.map(|version| version + 1).ok_or_else(unknown)
}

/// Whether a fork takes an event over. A vote was one for the other question: nobody has said anything
/// to this one, and nobody has handed anything over in it (K11). What was asked anew is asked once: all of it is asked anew there.
pub(in crate::engine) fn is_inherited(event: &Event, asked: &mut u32) -> bool {
    if let Event::Asked(question) = event {
        let is_new = question.ordinal > *asked;
        *asked = question.ordinal.max(*asked);
        return is_new;
    }
    !matches!(
        event,
        Event::Voted { .. } | Event::Renewed { .. } | Event::Claimed(_) | Event::Delegated(_)
    )
}

/// The version to fork at where every yes of the copied history has been carried out (K11): that of the
/// checkpoint, if one was named; the newest such one, if not. Else the question whose yes is left, and where
/// to fork from instead.
fn spendable(
    marks: &[(Version, Millis)],
    workflow: &Workflow,
    (id, checkpoint): (&RunId, &str),
    journal: &[Recorded],
) -> Result<Version, (u32, String)> {
    let until = |version: Version| {
        let end = usize::try_from(version).unwrap_or(usize::MAX).min(journal.len());
        unspent(workflow, journal.get(..end).unwrap_or_default())
    };
    let version = Version::try_from(journal.len()).unwrap_or(Version::MAX);
    let Some(ordinal) = until(version) else { return Ok(version) };
    let before = marks.iter().rev().map(|(mark, _)| mark + 1).filter(|mark| *mark < version);
    let found = before.into_iter().find(|mark| until(*mark).is_none());
    match found {
        Some(found) if checkpoint.is_empty() => Ok(found),
        found => {
            let named = |found: Version| format!("`{}`", id.checkpoint(found - 1));
            let from = found.map_or_else(|| "a checkpoint before it".into(), named);
            Err((ordinal, from))
        }
    }
}

/// Who takes back, in a fork, what was granted in its original.
const FORK: &str = "fork";

/// How the events of a run are those of another that begins with them.
struct Founding<'a> {
    session: &'a SessionId,
    who: &'a Principal,
    from: (&'a RunId, Version),
    /// The first run of its family, and what was refused in it.
    family: (&'a RunId, &'a [No]),
    /// Those who asked for what the original does.
    requesters: Vec<String>,
    /// What was done in the original after what is copied of it, and before the original.
    done: Past,
    seed: String,
    epoch: String,
    now: Millis,
}

impl Founding<'_> {
    /// What the new run begins with.
    fn taken_over(&self, old: Vec<Recorded>) -> Vec<Recorded> {
        let open: BTreeSet<u32> = open_and_said(&old).0.into_keys().collect();
        let mut asked = 0;
        let inherited: Vec<_> =
            old.into_iter().filter(|it| is_inherited(&it.event, &mut asked)).collect();
        let copied = Version::try_from(inherited.len()).unwrap_or(Version::MAX);
        let numbered = inherited.into_iter().zip(1..);
        let taken_over = numbered.map(|(recorded, version)| Recorded {
            version,
            at: self.now,
            event: self.of(recorded, copied, &open),
        });
        taken_over.collect()
    }

    fn of(&self, recorded: Recorded, copied: Version, open: &BTreeSet<u32>) -> Event {
        let mut event = recorded.event;
        // Its journal begins as the old one did, but under its own name.
        if let Event::Started(started) = &mut event {
            started.session = self.session.clone();
            started.owner.clone_from(&self.who.id);
            started.door = self.who.door.into();
            started.forked_from = Some((self.from.0.clone(), self.from.1 - 1));
            started.trace = trace::current();
            started.from.clone_from(&self.who.from);
            started.seed.clone_from(&self.seed);
            started.epoch.clone_from(&self.epoch);
            started.requesters.clone_from(&self.requesters);
            started.known = Some(Box::new(self.who.known.clone()));
            let (family, done) = (self.family.0.clone(), self.done.done.clone());
            started.descent = Some(Box::new(Descent { family, copied, done }));
        }
        // What its nonces are drawn from is its own, and hidden where what it begins with tells of a secret.
        if let Event::Answered { seed, .. } = &mut event {
            seed.clear();
        }
        // Whoever is asked has as long as they had the first time.
        if let Event::Asked(question) = &mut event {
            let left = question.deadline.map(|deadline| deadline.since(recorded.at));
            question.deadline = left.map(|ms| self.now.plus(ms));
            question.ask_anew(self.now);
            // Whoever is asked here what was refused elsewhere is told (K11).
            if open.contains(&question.ordinal) {
                question.tell_of(question.refused_by(self.family.1));
                self.done.tell(question);
            }
        }
        unkeyed(event)
    }
}

/// What is open at the end of a journal, and what was answered in it with a yes.
fn open_and_said(journal: &[Recorded]) -> (BTreeMap<u32, Question>, Vec<Question>) {
    let mut open: BTreeMap<u32, Question> = BTreeMap::new();
    let mut said: Vec<Question> = Vec::new();
    for recorded in journal {
        if let Event::Asked(question) = &recorded.event {
            open.insert(question.ordinal, (**question).clone());
        } else if let Event::Answered { ordinal, value, .. } = &recorded.event {
            let is_yes = !Verb::of(value).is_none_or(Verb::is_no);
            said.extend(open.remove(ordinal).filter(|_| is_yes));
        } else if let Event::Closed { ordinal, .. } = &recorded.event {
            open.remove(ordinal);
        }
    }
    (open, said)
}

impl Engine {
    /// A no is not forked around (K11): what was rejected, expired or withdrawn, in the run itself or
    /// in any other of its family, is taken up again only by somebody whom the question admits.
    /// Nor is a yes of others spent once more.
    async fn refuse_after_no(
        &self,
        id: &RunId,
        (journal, noes): (&[Recorded], &[No]),
        who: &Principal,
    ) -> Result<(), EngineError> {
        let cell = self.inner.cells.get(id);
        let state = self.read(&cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        let run = &hot.run;
        let (open, said) = open_and_said(journal);
        // What others have allowed in the copied history is theirs to allow once more: a fork by
        // somebody else would spend their one yes again (K10).
        let spent = said.into_iter().filter(|question| !question.stages.is_empty());
        let refused = open.into_values().filter(|question| {
            run.was_refused(question.ordinal) || !question.refused_by(noes).is_empty()
        });
        let operator = self.operator();
        for question in spent.chain(refused).filter(Question::decides) {
            let asked_for_it = run.requesters.contains(&who.id);
            let took_part = run.participants.contains(&who.id);
            let is_barred =
                question.stages.iter().flat_map(|stage| &stage.not).any(|not| match not {
                    Excluded::Requester => asked_for_it,
                    Excluded::Editor => question.editor == who.id || asked_for_it,
                    // Whoever refused it has not taken part in anything else by that.
                    Excluded::Participant => took_part,
                });
            // To take it up again is to decide it again: by somebody who is known as well as that takes.
            let is_known = |stage: Option<&Stage>| who.known.assurance >= wants(stage, &operator);
            let mut stages = question.stages.iter();
            let is_assured = match question.stages.as_slice() {
                [] => is_known(None),
                _ => stages.all(|stage| is_known(Some(stage))),
            };
            let by = run.asker();
            let admission = Admission { by, operator: &operator, now: self.inner.clock.now() };
            if is_barred || !is_assured || !admission.admits(&question, &who.id) {
                let request = run.request(question.ordinal).to_string();
                let waits_for = waits_for(&question, run.asker());
                let (who, why) = (who.id.clone(), admission.why_not(&question, &who.id));
                return Err(Refusal::NotAdmitted { request, waits_for, who, why }.into());
            }
        }
        Ok(())
    }
}
