//! AISVS: what the OWASP AI Security Verification Standard 1.0 asks of approvals, oversight and their trail, and
//! which tests show that it is so. `docs/aisvs.md` is made from this table; a row whose test is gone, or was
//! renamed, fails. That each of those tests passes is what the suite itself says.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;

use crate::house::architecture::sources;

/// One control.
struct Control {
    id: &'static str,
    /// What it asks, in short.
    asks: &'static str,
    /// What we do; where it is not met, what is missing.
    does: &'static str,
    /// The tests that show it; none where it is not met.
    tests: &'static [&'static str],
    /// What is left to whoever runs it, or is not done.
    open: &'static str,
}

const CONTROLS: &[Control] = &[
    Control {
        id: "9.2.1",
        asks: "privileged and irreversible actions are blocked until a human's approval is received and verified",
        does: "a gate turns a tool call or a step into a question; nothing but an explicit yes, of somebody whom it admits, releases it",
        tests: &[
            "k4_a_call_at_a_gate_is_made_only_after_a_yes",
            "k8_no_deed_is_done_that_the_right_people_have_not_allowed",
        ],
        open: "which actions are gated is said in the workflow's file; `check` warns of tools that are reached without one",
    },
    Control {
        id: "9.2.2",
        asks: "approval requests show the canonical, complete parameters without truncation",
        does: "the action is frozen after all templates are filled, shown whole with its destination, and digested in its canonical form",
        tests: &[
            "k3_a_whole_number_is_shown_as_it_will_be_sent_however_long",
            "a_long_subject_is_not_approved_at_the_console_before_it_was_read_to_its_end",
        ],
        open: "",
    },
    Control {
        id: "9.2.3",
        asks: "each high-impact action has a trusted reversibility classification",
        does: "a tool is declared `pure`, `idempotent` or neither (`safety`), in the file and not by the model",
        tests: &["k4_a_call_at_a_gate_is_made_only_after_a_yes"],
        open: "in part: it says what may be repeated, not what can be undone",
    },
    Control {
        id: "9.2.4",
        asks: "the runtime enforces the classification",
        does: "after a crash only what is declared `pure` or `idempotent` is done again by itself; of anything else a person is asked whether it happened",
        tests: &["k8_a_lost_deed_behind_a_steps_gate_is_asked_of_those_who_released_it"],
        open: "in part: as 9.2.3",
    },
    Control {
        id: "9.2.5",
        asks: "self-modification is restricted by enforceable boundaries",
        does: "a definition is immutable under its SHA-256; a run keeps the one it began with, and bytes that are not what the digest says are never run",
        tests: &["j13_a_definition_without_its_gate_under_the_old_digest_is_not_run"],
        open: "",
    },
    Control {
        id: "9.2.6",
        asks: "an AI-augmented review adds to the deterministic gate, and does not replace it",
        does: "a judge can add a question and never takes one away: rules ask before any judge and after its word",
        tests: &[
            "a_gate_that_always_asks_is_not_softened_by_a_judge_at_another",
            "a_rule_that_holds_asks_before_any_judge_and_after_its_word",
        ],
        open: "",
    },
    Control {
        id: "9.2.7",
        asks: "the review is protected against manipulation by adversarial inputs",
        does: "a judge is given the call and the conversation and no tools; one that fails, is late or says anything but a clear word has asked",
        tests: &[
            "a_judge_is_given_the_call_the_conversation_and_nothing_to_do_harm_with",
            "k7_a_judge_that_fails_is_late_or_talks_nonsense_has_asked",
        ],
        open: "in part: a judge that is talked into a clear word lets pass what no rule stops",
    },
    Control {
        id: "9.2.8",
        asks: "approvals are cryptographically bound to parameters, requester, context and a single-use nonce",
        does: "the digest of a decision is SHA-256 over action, destination, requesters, run, step, definition, approvers, rules and nonce; the answer is stored with it, chained, and proven by a signed head",
        tests: &[
            "k9_a_decision_bound_by_digest_takes_no_id_alone_wherever_the_file_says_so",
            "k10_an_answer_by_checkpoint_sent_three_times_is_one_deed",
            "j13_a_decision_is_proven_on_another_machine_with_the_public_key_alone",
            "j13_verify_lists_who_decided_what_when_and_by_which_leaf",
        ],
        open: "of a bundle without its secrets the digest is not computed again by `verify`: there it is the server's word",
    },
    Control {
        id: "9.2.9",
        asks: "key material used to issue approvals is isolated from the agent runtime",
        does: "API keys are stored as hashes; the key that heads are signed with can be a command outside the process (`audit_signer`), and no model or tool is given either",
        tests: &[
            "a_signer_that_hangs_dies_or_signs_rubbish_delays_proofs_and_no_decision",
            "a_key_that_others_can_read_or_that_is_none_is_refused_with_the_remedy",
        ],
        open: "by default the signing key is a 0600 file in the data directory: set `audit_signer`",
    },
    Control {
        id: "9.2.10",
        asks: "gates for chains enforce the highest class present anywhere in the chain",
        does: "every rule that stops an action is satisfied by somebody whom that rule admits; rules with other approvers become stages, and lists are never united",
        tests: &[
            "k8_two_people_and_then_a_third_are_needed_across_kills_and_each_is_asked_in_turn",
        ],
        open: "in part: each action of a chain is gated by its own rules",
    },
    Control {
        id: "9.4.4",
        asks: "agent state persisted between invocations is integrity-protected",
        does: "every append holds on to the one before it; decisions are leaves of a Merkle tree whose heads are signed; `holdpoint verify` names what does not hold",
        tests: &[
            "j13_every_forgery_of_one_who_knows_the_form_is_found_and_its_place_is_named",
            "j13_every_append_holds_on_to_the_one_before_it",
        ],
        open: "whoever holds both disk and signing key, with no witness outside, can rewrite",
    },
    Control {
        id: "9.6.1",
        asks: "a manual kill switch immediately halts inference and outputs",
        does: "`holdpoint halt` stops everything, a workflow, a tool or an agent, durably and before whatever is done next; a run can be cancelled at every door",
        tests: &[
            "a_thousand_runs_that_move_stop_at_a_halt_and_go_on_after_it_each_once",
            "what_is_halted_is_neither_begun_nor_decided_through_any_door_until_it_is_released",
        ],
        open: "in part: what is under way at a model or a tool is let come home, and written down",
    },
    Control {
        id: "9.6.2",
        asks: "where approval does not come in time, the pending action is blocked",
        does: "silence at the deadline is a no",
        tests: &["k4_silence_and_withdrawal_are_a_no"],
        open: "",
    },
    Control {
        id: "9.6.3",
        asks: "kill-switch commands come through an out-of-band channel isolated from the agent runtime",
        does: "a file `HALT` in the data directory stops everything, without a key and without a door; no agent and no tool is given the directory",
        tests: &["the_file_halt_stops_everything_and_its_absence_lets_it_go_on"],
        open: "",
    },
    Control {
        id: "12.4.1",
        asks: "autonomous action triggers include behavior-pattern analysis and security evaluation",
        does: "gates by rule over arguments and conversation, and judges, look at each call before it is made",
        tests: &["k7_a_judged_call_is_made_only_on_a_clear_word"],
        open: "in part: no analysis of patterns over time, and none of the threat landscape",
    },
    Control {
        id: "12.4.2",
        asks: "audit logs capture approver, time, parameters and outcome of security-critical actions",
        does: "the journal has who, how they were known, through which door, what was shown, when it was asked and when it was decided, what was said and what came of it; the console, the terminal where somebody sits at it and is shown the question there, and clients that say so add how much was shown and for how long",
        tests: &[
            "an_answer_by_somebody_who_was_not_asked_stands_in_the_trail",
            "a_verdict_that_lets_a_call_pass_is_in_the_trail_with_its_reason",
        ],
        open: "",
    },
    Control {
        id: "12.4.3",
        asks: "kill-switch activations and override commands are logged",
        does: "halts and their ends, forks, releases, restores, heads that were given up, halts and releases that were refused, and changes of keys and policy stand in the store's own log, and cancels in their run's trail with how their person was known; all chained and held by signed heads (how often the same refusal came again, and when last, is not)",
        tests: &[
            "forks_exports_prunes_starts_and_stops_stand_in_the_log",
            "what_is_halted_is_neither_begun_nor_decided_through_any_door_until_it_is_released",
            "a_halt_and_a_release_that_are_refused_stand_in_the_stores_own_log",
            "j13_refusals_that_were_taken_away_or_changed_behind_a_signed_head_are_found",
            "a_release_keeps_the_head_that_the_log_lacks_until_somebody_gives_it_up_by_name",
        ],
        open: "",
    },
];

impl Control {
    fn standing(&self) -> &'static str {
        if self.open.starts_with("not met") {
            "not met"
        } else if self.open.starts_with("in part") {
            "in part"
        } else {
            "met"
        }
    }
}

#[test]
fn every_control_that_is_claimed_has_its_tests_and_the_page_says_so() {
    let (src, tests) = (sources("src"), sources("tests"));
    let there: BTreeSet<_> = src
        .iter()
        .chain(&tests)
        .flat_map(|source| source.text.split("fn ").skip(1))
        .filter_map(|rest| rest.split(|char: char| !char.is_alphanumeric() && char != '_').next())
        .collect();
    let mut page = String::from(
        "# AISVS\n\nWhat the [OWASP AI Security Verification Standard 1.0](https://github.com/OWASP/AISVS) asks of approvals, \
         oversight and\ntheir trail, what Holdpoint does, and the tests that show it. Made by `tests/it/evidence/aisvs.rs`, which fails \
         where a test is gone;\nthe suite fails where one does not pass. What is not claimed here is not met.\n\n\
         | control | asks that | stands | what we do | tests | left open |\n|---|---|---|---|---|---|\n",
    );
    for control in CONTROLS {
        let Control { id, asks, does, tests, open } = control;
        assert_eq!(tests.is_empty(), control.standing() == "not met", "{id}");
        for test in *tests {
            assert!(there.contains(test), "{id}: there is no test `{test}`");
        }
        let tests: Vec<_> = tests.iter().map(|test| format!("`{test}`")).collect();
        let (standing, tests) = (control.standing(), tests.join(", "));
        writeln!(page, "| {id} | {asks} | {standing} | {does} | {tests} | {open} |").unwrap();
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/aisvs.md");
    if std::env::var_os("HOLDPOINT_BLESS").is_some() {
        fs::write(path, &page).unwrap();
    }
    let told = fs::read_to_string(path).unwrap_or_default();
    assert_eq!(told, page, "docs/aisvs.md is out of date: run again with HOLDPOINT_BLESS=1");
}
