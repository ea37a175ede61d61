//! Awaited: what a message is: new work, the answer to what waits, or something that was said before. The
//! one decision for all doors whose callers just speak; doors translate what came of it.
//!
//! Nothing is loaded to find that out but the run that it turns out to be for: a session's heads say what
//! waits in it, and have marks of the keys that were used there.

use std::borrow::Cow;
use std::fmt::Debug;
use std::sync::Arc;

use serde_json::Value;

use crate::engine::cell::State;
use crate::engine::commands::{AnswerRequest, Begun, StartRequest};
use crate::engine::views::RunView;
use crate::engine::{Engine, EngineError};
use crate::kernel::{
    Admission, Principal, Question, Refusal, Run, RunId, Said, SessionId, Version, Workflow,
    binding, digest, may_have_said,
};
use crate::ports::{Head, RunFilter};

/// A client repeats by itself within minutes; what has not changed for longer was not what it repeats.
const RETRIED_WITHIN_MS: u64 = 3_600_000;

/// What somebody says, without saying whether it is new.
#[derive(Debug, Clone, Default)]
pub struct Speech {
    /// What it begins where nothing waits for it.
    pub start: StartRequest,
    /// The run that it is said to; empty for whichever of its session waits.
    pub run: String,
    /// The answers in it by request id, each with the digest of what was shown, if it gives such.
    pub answers: Vec<(String, Value, Option<String>)>,
    /// The key under which the same again is the same answer; empty for that of the start.
    pub key: String,
    /// How it is read by whoever it is for; none where that is its input for everybody.
    pub words: Option<Arc<dyn Words>>,
    /// Whether the caller is shown the run as it was before the answer.
    pub shows_before: bool,
}

/// A message that says different things to different readers: the whole of it, or its text.
pub trait Words: Debug + Send + Sync {
    /// What it says to a question of a run of that workflow; to nobody in particular, where none is given.
    fn to(&self, asked: Option<(&Question, &Workflow)>) -> Value;
}

/// What a message came to.
#[derive(Debug)]
pub enum Taken {
    /// It began a run.
    Began(Begun),
    /// It answered what a run asked.
    Answered {
        /// What follows.
        begun: Begun,
        /// The run before it, if that was asked for; what follows begins there.
        before: Option<Box<RunView>>,
    },
    /// It was said before: what came of it then.
    Repeated(Begun),
    /// It was meant for this run, and not taken; the run stands as it was.
    Declined(RunId, Refusal),
    /// The run that it was said to asks nothing.
    Idle(RunId),
}

/// What a message is.
enum Awaited {
    Nothing,
    Answers(RunId, Vec<(String, Value, Option<String>)>),
    /// What came of it begins after this version.
    Repeat(RunId, Version),
    Declined(RunId, Refusal),
    Idle(RunId),
}

impl Speech {
    fn key(&self) -> &str {
        if self.key.is_empty() { &self.start.key } else { &self.key }
    }
}

impl Engine {
    /// Takes a message: as the answer that its run or session waits for, or as new work.
    pub async fn answer_or_start(
        &self,
        speech: Speech,
        who: &Principal,
    ) -> Result<Taken, EngineError> {
        self.check_start(&speech.start)?;
        self.refuse_if_unknown(who).await?;
        let (given, digest) = (speech.start.session.as_str(), speech.start.digest());
        let (session, awaited) = if !speech.run.is_empty() {
            let awaited = self.awaited_by_run(&speech, who).await;
            (None, self.unless_refused(awaited, who).await?)
        } else if let Some(begun) = self.begun_before(&speech.start.key, &digest, who).await? {
            return Ok(Taken::Repeated(begun));
        } else if given.is_empty() {
            (None, Awaited::Nothing)
        } else {
            let session = self.session_for(given, who).await?;
            let awaited = self.awaited(&session, &speech, who).await;
            // The same call may have come twice at once. Where the session has something of it by now, the other was
            // first, and that is known after the session was looked at: what began a run answers nothing in it (K9).
            if !matches!(awaited, Ok(Awaited::Nothing))
                && let Some(begun) = self.begun_before(&speech.start.key, &digest, who).await?
            {
                return Ok(Taken::Repeated(begun));
            }
            (Some(session), self.unless_refused(awaited, who).await?)
        };
        match awaited {
            Awaited::Nothing => {
                let begun = self.start_in(session, speech.start, digest, who).await?;
                Ok(Taken::Began(begun))
            }
            Awaited::Answers(run, answers) => self.answer_spoken(run, answers, speech, who).await,
            Awaited::Repeat(run, after) => {
                self.hook_onto(&run, &speech, who).await?;
                let unknown = Refusal::UnknownRun(run.to_string());
                let (cell, session) = self.seen(&run, who, &unknown).await?;
                Ok(Taken::Repeated(self.begun(cell, &session, after, who)))
            }
            Awaited::Declined(run, refusal) => {
                self.hook_onto(&run, &speech, who).await?;
                self.note_refused_as("", Some(run.clone()), refusal.code(), who).await;
                Ok(Taken::Declined(run, refusal))
            }
            Awaited::Idle(run) => Ok(Taken::Idle(run)),
        }
    }

    async fn answer_spoken(
        &self,
        run: RunId,
        answers: Vec<(String, Value, Option<String>)>,
        speech: Speech,
        who: &Principal,
    ) -> Result<Taken, EngineError> {
        self.hook_onto(&run, &speech, who).await?;
        let before = if speech.shows_before {
            Some(Box::new(self.run(run.as_str(), who).await?))
        } else {
            None
        };
        let key = speech.key().to_owned();
        let request = AnswerRequest { session: String::new(), run: run.to_string(), answers, key };
        match self.answer(request, who).await {
            Ok(begun) => {
                // What somebody else did in between follows on what is shown as well.
                let after = begun.watch.after();
                let from = before.as_ref().map_or(after, |before| before.head.version).min(after);
                let begun = Begun { watch: begun.watch.past(from), ..begun };
                Ok(Taken::Answered { begun, before })
            }
            Err(EngineError::Refused(refusal)) => Ok(Taken::Declined(run, refusal)),
            Err(error) => Err(error),
        }
    }

    /// Sets up those who are to be told of a run with a message to it.
    async fn hook_onto(
        &self,
        run: &RunId,
        speech: &Speech,
        who: &Principal,
    ) -> Result<(), EngineError> {
        for hook in &speech.start.hooks {
            self.put_hook(run, hook.clone().of(run), who).await?;
        }
        Ok(())
    }

    /// What a message is to a run that it names.
    async fn awaited_by_run(
        &self,
        speech: &Speech,
        who: &Principal,
    ) -> Result<Awaited, EngineError> {
        let (id, cell) = self.seen_run(&speech.run, who).await?;
        let head = {
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            let (operator, now) = (self.operator(), self.inner.clock.now());
            if let Some(after) =
                said_in(&hot.run, hot.run.admission_by(&operator, now), speech, who)?
            {
                return Ok(Awaited::Repeat(id, after));
            }
            Head::of(&hot.run).sealed()
        };
        if head.questions.is_empty() || head.status.is_over() {
            return Ok(Awaited::Idle(id));
        }
        if !speech.answers.is_empty() {
            return Ok(Awaited::Answers(id, speech.answers.clone()));
        }
        let session = head.session.told_to(&who.id).to_string();
        self.answered_by(speech, &[head], &session, who).await
    }

    /// What a message is to its session. What it names there is found by the kernel's rule (K9).
    async fn awaited(
        &self,
        session: &SessionId,
        speech: &Speech,
        who: &Principal,
    ) -> Result<Awaited, EngineError> {
        let request = &speech.start;
        if request.afresh {
            return Ok(Awaited::Nothing);
        }
        let filter = RunFilter { session: Some(session.clone()), ..RunFilter::default() };
        let mut heads = self.all_heads(&filter).await?;
        // The same again is known before anything that waits is looked at.
        if let Some((run, after)) = self.said_before(&heads, speech, who).await? {
            return Ok(Awaited::Repeat(run, after));
        }
        if let Some((run, after)) = &request.goes_on_from
            && let Err(stale) = self.refuse_stale(run, *after).await
        {
            // The same call may have come twice at once, and the other one have gone on from there.
            let heads = self.all_heads(&filter).await?;
            let said = self.said_before(&heads, speech, who).await?;
            return said.map(|(run, after)| Awaited::Repeat(run, after)).ok_or(stale);
        }
        heads.retain(|head| {
            let is_meant = request.workflow.is_empty() || head.workflow == request.workflow;
            is_meant && !head.questions.is_empty()
        });
        let heads: Vec<_> = heads.into_iter().map(Head::sealed).collect();
        if !speech.answers.is_empty() {
            let asks = |head: &&Head| {
                let mut ids = head.open().map(|open| open.question.id(open.run).to_string());
                ids.any(|id| speech.answers.iter().any(|(named, ..)| *named == id))
            };
            let unknown = || Refusal::UnknownRequest(speech.answers[0].0.clone());
            let run = heads.iter().find(asks).map(|head| head.run.clone()).ok_or_else(unknown)?;
            return Ok(Awaited::Answers(run, speech.answers.clone()));
        }
        self.answered_by(speech, &heads, &request.session, who).await
    }

    /// What the words of a message answer of what these runs ask.
    async fn answered_by(
        &self,
        speech: &Speech,
        heads: &[Head],
        session: &str,
        who: &Principal,
    ) -> Result<Awaited, EngineError> {
        let open: Vec<_> = heads.iter().flat_map(Head::open).collect();
        let asking = heads.iter().find(|head| !head.questions.is_empty());
        let said = match (&speech.words, open.as_slice(), asking) {
            (None, ..) => Cow::Borrowed(&speech.start.input),
            (Some(words), [one], Some(head)) => {
                let journal = &*self.inner.journal;
                let workflow = self.inner.library.kept(journal, &head.definition).await?;
                Cow::Owned(words.to(Some((one.question, &workflow))))
            }
            (Some(words), ..) => Cow::Owned(words.to(None)),
        };
        match (binding::resolve(&said, &open, who, session), heads) {
            (Ok(None), _) => Ok(Awaited::Nothing),
            (Ok(Some((id, value))), _) => {
                let answer = (id.to_string(), value, None);
                Ok(Awaited::Answers(id.run, vec![answer]))
            }
            (Err(refusal), [one]) => Ok(Awaited::Declined(one.run.clone(), refusal)),
            (Err(refusal), _) => Err(refusal.into()),
        }
    }

    /// Refuses words that were said to a pause which is over: whatever is asked now, they were not
    /// meant for it (K9).
    async fn refuse_stale(&self, run: &RunId, after: Version) -> Result<(), EngineError> {
        let cell = self.inner.cells.get(run);
        let state = self.read(&cell).await?;
        let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
        if hot.run.has_gone_on_since(after) {
            return Err(Refusal::StalePause.into());
        }
        Ok(())
    }

    /// The run of a session, and the version before what came of it, where the same was said before
    /// by the same principal: under the same key, or, in a client's own retry, in the same words.
    async fn said_before(
        &self,
        heads: &[Head],
        speech: &Speech,
        who: &Principal,
    ) -> Result<Option<(RunId, Version)>, EngineError> {
        let key = speech.key();
        if key.is_empty() && !speech.start.is_retry {
            return Ok(None);
        }
        let now = self.inner.clock.now();
        let may_be = |head: &&Head| match key {
            "" => head.updated_at.plus(RETRIED_WITHIN_MS) >= now,
            key => may_have_said(head.said.as_deref(), &who.id, key),
        };
        let operator = self.operator();
        for head in heads.iter().filter(may_be) {
            let cell = self.inner.cells.get(&head.run);
            let state = self.read(&cell).await?;
            let State::Hot(hot) = &*state else { return Err(EngineError::Draining) };
            if let Some(after) =
                said_in(&hot.run, hot.run.admission_by(&operator, now), speech, who)?
            {
                return Ok(Some((head.run.clone(), after)));
            }
        }
        Ok(None)
    }
}

/// The version before what came of it, where the same was said in this run before.
fn said_in(
    run: &Run,
    admission: Admission<'_>,
    speech: &Speech,
    who: &Principal,
) -> Result<Option<Version>, Refusal> {
    let key = speech.key();
    if key.is_empty() && !speech.start.is_retry {
        return Ok(None);
    }
    let given = digest::of(&speech.start.input);
    let is_it = |said: &&Said| if key.is_empty() { said.given == given } else { said.key == key };
    let own = run.still_said_by(&who.id, admission).map(|(_, said)| said);
    // Without a key it is only the last of theirs that can have been sent twice.
    let own: Vec<_> = if key.is_empty() { own.last().into_iter().collect() } else { own.collect() };
    if let Some(said) = own.into_iter().find(is_it) {
        // A key that a door has drawn from the call tells the call already.
        let is_callers = !["resp:", "a2a:"].iter().any(|of| key.starts_with(of));
        if said.given != given && is_callers && !key.is_empty() {
            return Err(Refusal::KeyReused(key.to_owned()));
        }
        return Ok(Some(said.version - 1));
    }
    let is_start = run.owner == who.id && digest::of(&run.input) == given;
    Ok((key.is_empty() && is_start).then_some(0))
}
