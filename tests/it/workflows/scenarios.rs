//! The shipped workflows as plays: the kernel and the scripted agents alone, in a plain loop.
//!
//! What every agent was given is asserted word for word, before and after every pause (K5).

use std::sync::Arc;

use async_trait::async_trait;
use holdpoint::{
    agents::Registry,
    definition,
    kernel::{
        Answer, Command, Decision, Earlier, Effect, Kind, Millis, Principal, Question, Run, RunId,
        SessionId, Started, Status, apply, plan, start,
    },
    ports::{Agents as _, Clock},
};
use serde_json::{Value, json};

const STEM: &str = "01k9zq3v7m8n4p5r6s7t8v9w0x";
const NOW: Millis = Millis(1_750_000_000_000);

/// Time stands still here.
#[derive(Debug)]
struct Still;

#[async_trait]
impl Clock for Still {
    fn now(&self) -> Millis {
        NOW
    }

    async fn sleep_until(&self, _at: Millis) {}

    fn fresh_stem(&self) -> String {
        STEM.into()
    }
}

/// A run, and what every agent was given on the way, one line a message.
struct Play {
    run: Run,
    registry: Registry,
    inputs: Vec<(String, Vec<String>)>,
    /// The tools that were offered with each of them.
    offers: Vec<Vec<String>>,
    /// Tools that were called, and with what.
    called: Vec<(String, Value)>,
}

impl Play {
    fn start(workflow: &str, input: &str) -> Self {
        let shipped = definition::shipped();
        let loaded = shipped.iter().find(|one| one.workflow.name == workflow).unwrap();
        let registry = Registry::new(Arc::new(Still));
        assert_eq!(registry.check(&loaded.workflow), Ok(()));
        let started = Started {
            hides: Vec::new(),
            session: SessionId::fresh(STEM),
            workflow: workflow.into(),
            definition: loaded.digest.clone(),
            owner: "ada".into(),
            door: "test".into(),
            input: input.into(),
            metadata: [].into(),
            forked_from: None,
            spent_before: holdpoint::kernel::Spent::default(),
            trace: None,
            from: None,
            follows: None,
            seed: "5eed".into(),
            epoch: String::new(),
            requesters: Vec::new(),
            known: None,
            descent: None,
            gates: Vec::new(),
            policy: None,
        };
        let id = RunId::fresh(STEM);
        let (run, _) = start(
            id,
            Arc::clone(&loaded.workflow),
            started,
            (Earlier::default(), Arc::default()),
            NOW,
        )
        .unwrap();
        let mut play = Self {
            run: *run,
            registry,
            inputs: Vec::new(),
            offers: Vec::new(),
            called: Vec::new(),
        };
        play.perform();
        play
    }

    /// Does what the run owes until it owes nothing.
    fn perform(&mut self) {
        while let Some(effect) = plan(&self.run).into_iter().next() {
            let (turn, attempt, input) = match effect {
                Effect::Reply { turn, attempt, input } => (turn, attempt, input),
                Effect::CallTool { turn, call, .. } => {
                    self.called.push((call.tool.clone(), call.arguments.clone()));
                    let (call_id, outcome) = (call.id, Ok(json!("done")));
                    self.apply(&Command::ToolReturned { turn, call_id, outcome });
                    continue;
                }
            };
            let line = |message: &holdpoint::kernel::Message| {
                let calls: Vec<_> = message.calls.iter().map(|call| call.tool.as_str()).collect();
                let calls = if calls.is_empty() { String::new() } else { format!(" {calls:?}") };
                format!("{} {}: {}{calls}", message.role.word(), message.author, message.text)
            };
            let lines = input.messages.iter().map(|message| line(message)).collect();
            self.offers.push(input.tools.iter().map(|tool| tool.name.clone()).collect());
            self.inputs.push((input.agent.clone(), lines));
            let reply = self.registry.reply_at_once(&self.run.workflow, &input).unwrap();
            let reply = reply.unwrap_or_else(|fault| panic!("{fault:?}"));
            let summarises = input.summarises;
            self.apply(&Command::Replied { turn, attempt, reply, summarises });
        }
    }

    fn apply(&mut self, command: &Command) {
        let decision = apply(&mut self.run, command, NOW).unwrap();
        assert!(matches!(decision, Decision::Events(_)));
    }

    #[track_caller]
    fn question(&self) -> &Question {
        assert!(matches!(self.run.status, Status::Waiting { .. }), "{:?}", self.run.status);
        assert_eq!(self.run.questions.len(), 1);
        self.run.questions.values().next().unwrap()
    }

    fn try_answer(&mut self, value: Value) -> Result<Decision, String> {
        let ordinal = self.question().ordinal;
        let request = self.run.request(ordinal);
        let answer = Answer { request, value, digest: None };
        let principal = Principal { id: "ada".into(), ..Principal::local("test") };
        let (answers, key, seed) = (vec![answer], String::new(), String::new());
        let command = Command::Answer { answers, key, principal, seed };
        apply(&mut self.run, &command, NOW).map_err(|declined| declined.to_string())
    }

    #[track_caller]
    fn answer(&mut self, value: Value) {
        self.try_answer(value).unwrap();
        self.perform();
    }

    /// Who spoke since `after`, in order.
    fn order(&self, after: usize) -> Vec<&str> {
        self.inputs[after..].iter().map(|(agent, _)| agent.as_str()).collect()
    }

    #[track_caller]
    fn saw(&self, index: usize, agent: &str, lines: &[&str]) {
        assert_eq!(self.inputs[index].0, agent);
        assert_eq!(self.inputs[index].1, lines, "what `{agent}` was given");
    }
}

const ASK: &str =
    "I need help with order 12345. I want a replacement and need to know when it will arrive.";
const DAMAGED: &str =
    "The item arrived damaged. I'd like a replacement shipped to the same address.";
const CHARGED: &str = "Great! Can you confirm the shipping cost won't be charged again?";

#[test]
fn s1_four_utterances_are_three_pauses_and_an_end() {
    let mut play = Play::start("multi_tier_support", ASK);
    assert_eq!(play.order(0), ["triage", "replacement"]);
    assert_eq!(play.question().agent.as_deref(), Some("replacement"));
    assert_eq!(play.question().prompt, "What would you like to tell us?");

    play.answer(json!(DAMAGED));
    assert_eq!(play.order(2), ["replacement", "delivery"]);
    assert_eq!(play.question().agent.as_deref(), Some("delivery"));

    play.answer(json!(CHARGED));
    assert_eq!(play.order(4), ["delivery", "billing"]);
    assert_eq!(play.question().agent.as_deref(), Some("billing"));
    play.saw(5, "billing", &[
        &format!("user ada: {ASK}"),
        "assistant triage: I am handing you to our replacement team.",
        "assistant replacement: I can arrange a replacement. What is wrong with the item, and where shall the new one go?",
        &format!("user ada: {DAMAGED}"),
        "assistant replacement: I have arranged a replacement under RMA-12345. Delivery will tell you when it arrives.",
        "assistant delivery: Your package leaves our warehouse tomorrow and arrives within three working days. Is there anything else?",
        &format!("user ada: {CHARGED}"),
        "assistant delivery: Billing can confirm that.",
    ]);

    play.answer(json!("Thank you!"));
    assert_eq!(play.run.status, Status::Completed);
    assert!(play.run.questions.is_empty());
    assert_eq!(play.inputs.len(), 6, "the last word is the customer's");
    let output = play.run.output.clone().unwrap();
    let spoken = output.as_array().unwrap();
    assert_eq!(spoken.len(), 10, "the whole conversation, without tool traffic");
    assert_eq!(spoken[9], json!({"role": "user", "author_name": "ada", "text": "Thank you!"}));
    assert!(spoken.iter().all(|message| !message["text"].as_str().unwrap().is_empty()));
}

#[test]
fn s1_only_allowed_targets_are_offered_and_the_verb_end_ends() {
    let mut play = Play::start("multi_tier_support", "Where is my parcel?");
    assert_eq!(play.order(0), ["triage", "delivery"]);
    let all = ["handoff_to_replacement", "handoff_to_delivery", "handoff_to_billing"];
    assert_eq!(play.offers[0], all);
    assert_eq!(play.offers[1], all[2..]);
    play.answer(json!({"verb": "end"}));
    assert_eq!(play.run.status, Status::Completed);
}

const PARTY: &str = "Plan a party for 30 people";

#[test]
fn s3_a_vague_wish_is_asked_about_twice_and_everybody_sees_all_of_it() {
    let mut play = Play::start("event_planning", PARTY);
    assert_eq!(play.order(0), ["event_coordinator", "venue"]);
    let asked = play.question();
    assert_eq!((asked.kind, asked.agent.as_deref()), (Kind::Selection, Some("venue")));
    assert_eq!(asked.prompt, "Which venue do you prefer?");
    let options: Vec<_> = asked.options.iter().map(|option| option.id.as_str()).collect();
    assert_eq!(options, ["The Foundry", "Pier 66", "Garden House"]);

    let wrong = play.try_answer(json!("The Moon")).unwrap_err();
    assert!(wrong.contains("one of: The Foundry, Pier 66, Garden House"), "{wrong}");
    play.answer(json!("2"));
    assert_eq!(play.order(2), ["venue", "budget"]);
    assert_eq!(play.question().prompt, "What is the total budget?");
    assert_eq!(play.question().agent.as_deref(), Some("budget"));
    play.answer(json!("$2000"));
    assert_eq!(play.order(4), ["budget", "catering", "logistics", "event_coordinator"]);
    assert_eq!(play.run.status, Status::Completed);

    let (user, brought) = (
        "user ada: Plan a party for 30 people",
        "assistant event_coordinator: I am bringing in the specialists, beginning with the venue.",
    );
    let found = "assistant venue: I found three venues that would suit you.";
    let venue = "assistant venue: The venue is Pier 66, as you chose. It is free and has room for everybody.";
    let which = "assistant venue: Which venue do you prefer?";
    let total = "assistant budget: What is the total budget?";
    let shares = "assistant budget: With a budget of $2000: a third each for venue and catering, the rest for logistics and reserve.";
    let food = "assistant catering: A buffet for every taste, with a vegetarian half, within the catering share.";
    let hours = "assistant logistics: Doors at 18:00, dinner at 19:00, end at 22:00; the date can still be moved.";
    let called = format!("{found} [\"request_user_input\"]");
    let to_budget = [user, brought, found, which, "user ada: Pier 66", venue];
    let after_budget = [&to_budget[..], &[total, "user ada: $2000", shares]].concat();
    play.saw(0, "event_coordinator", &[user]);
    play.saw(1, "venue", &[user, brought]);
    play.saw(2, "venue", &[user, brought, &called, "tool : Pier 66"]);
    play.saw(3, "budget", &to_budget);
    play.saw(
        4,
        "budget",
        &[&to_budget[..], &["assistant budget:  [\"request_user_input\"]", "tool : $2000"]]
            .concat(),
    );
    play.saw(5, "catering", &after_budget);
    play.saw(6, "logistics", &[&after_budget[..], &[food]].concat());
    let told = "system event_planning: Everybody has spoken. Write the plan for the event: one text that uses the venue, the budget, the\ncatering and the schedule as they were found.\n";
    play.saw(7, "event_coordinator", &[&after_budget[..], &[food, hours, told]].concat());

    let plan = play.run.output.clone().unwrap();
    for part in [PARTY, "Pier 66", "$2000", "buffet", "Doors at 18:00"] {
        assert!(plan.as_str().unwrap().contains(part), "{part} in {plan}");
    }
}

#[test]
fn s3_a_wish_with_everything_in_it_is_not_asked_about() {
    let play = Play::start(
        "event_planning",
        "Plan a corporate team building event for 30 people, budget $3000, downtown Seattle, Friday \
         evening in 3 weeks, vegetarian and gluten-free options required",
    );
    assert_eq!(play.run.status, Status::Completed);
    assert!(play.run.endings.is_empty(), "no question was ever asked");
    let everybody =
        ["event_coordinator", "venue", "budget", "catering", "logistics", "event_coordinator"];
    assert_eq!(play.order(0), everybody);
    let plan = play.run.output.clone().unwrap();
    for part in ["Harbor Hall", "$3000", "gluten-free", "on the day you named"] {
        assert!(plan.as_str().unwrap().contains(part), "{part} in {plan}");
    }
}

#[test]
fn s3_the_budget_agent_knows_what_the_user_and_the_venue_agent_said() {
    let wish = "Plan a corporate holiday party for 50 people, budget $5000";
    let mut play = Play::start("event_planning", wish);
    assert_eq!(play.order(0), ["event_coordinator", "venue"]);
    let asked = play.question();
    assert_eq!(
        (asked.kind, asked.prompt.as_str()),
        (Kind::Clarification, "Which city should it be in?")
    );

    play.answer(json!("Seattle, WA"));
    assert_eq!(play.run.status, Status::Completed);
    assert_eq!(play.order(2), ["venue", "budget", "catering", "logistics", "event_coordinator"]);
    let user = format!("user ada: {wish}");
    let until_answer = [
        user.as_str(),
        "assistant event_coordinator: I am bringing in the specialists, beginning with the venue.",
        "assistant venue: I can suggest a venue as soon as I know where.",
        "assistant venue: Which city should it be in?",
        "user ada: Seattle, WA",
    ];
    play.saw(1, "venue", &until_answer[..2]);
    play.saw(2, "venue", &until_answer);
    let venue = "assistant venue: In Seattle, WA I recommend the Harbor Hall: central, and room for everybody.";
    let budget = "assistant budget: Of the $5000: venue $2000, catering $2100, logistics $600, reserve $300.";
    play.saw(3, "budget", &[&until_answer[..], &[venue]].concat());
    play.saw(4, "catering", &[&until_answer[..], &[venue, budget]].concat());
}

#[test]
fn s3_human_input_that_is_turned_off_is_not_offered() {
    let play = Play::start("event_planning", "A wedding in London, budget $5000");
    assert_eq!(play.run.status, Status::Completed);
    for (agent, offers) in play.order(0).iter().zip(&play.offers) {
        let may_ask = offers.iter().any(|tool| tool == "request_user_input");
        assert_eq!(may_ask, *agent != "catering", "{agent}");
    }
}

#[test]
fn a_draft_is_sent_only_after_a_yes() {
    let wish = "Tell Ada that her order has shipped.";
    for (answer, status) in [("approve", "Completed"), ("reject", "Failed")] {
        let mut play = Play::start("approve_and_send", wish);
        assert_eq!(play.order(0), ["writer"]);
        assert_eq!(
            (play.question().kind, play.question().step.as_str()),
            (Kind::Approval, "approve")
        );
        play.answer(json!(answer));
        assert!(format!("{:?}", play.run.status).starts_with(status), "{:?}", play.run.status);
        // Letter for letter what was shown, and nothing without a yes (K3).
        let sent = vec![("send".to_owned(), json!({"text": wish}))];
        assert_eq!(play.called, if answer == "approve" { sent } else { Vec::new() });
    }
}
