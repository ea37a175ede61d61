//! Console: what people do at it, in a real browser: Chromium, with the real server behind it.
//!
//! The scenes are in `tests/console/play.mjs`, one for each test here, and each has a server of its
//! own. `tests/clients/install.sh` fetches what drives the browser; Chromium is Debian's. Every run
//! leaves pictures of what it saw in `target/console`.

pub(crate) mod escalation_seen;
pub(crate) mod outlook;
pub(crate) mod people_see;

use std::path::Path;
use std::process::Command;

use crate::support::server::forget_settings;

/// Plays one scene to its end.
fn play(scene: &str) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let clients = root.join("target/clients");
    assert!(clients.join("console/node_modules").exists(), "run tests/clients/install.sh first");
    let mut node = Command::new("node");
    forget_settings(&mut node);
    let output = node
        .arg(root.join("tests/console/play.mjs"))
        .arg(scene)
        .env("HOLDPOINT_BINARY", env!("CARGO_BIN_EXE_holdpoint"))
        .env("HOLDPOINT_CLIENTS", clients)
        .env("HOLDPOINT_SHOTS", root.join("target/console"))
        .output()
        .unwrap();
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{scene}: {}\n{out}\n{err}", output.status);
}

macro_rules! scenes {
    ($($scene:ident)*) => {
        $(
            #[test]
            fn $scene() {
                play(stringify!($scene));
            }
        )*
    };
}

scenes! {
    a_request_appears_is_answered_and_the_run_goes_on
    a_wrong_value_is_refused_with_the_reason_beside_the_field
    the_other_form_closes_and_says_who_answered
    a_page_comes_back_by_itself_after_the_server_was_killed
    everything_can_be_done_with_the_keyboard_alone
    every_view_fits_a_phone
    an_edited_call_is_reviewed_and_then_done_as_edited
    a_draft_is_edited_and_its_changes_are_seen_word_by_word
    marks_are_laid_out_and_nothing_hides_in_them
    a_huge_message_and_a_bomb_of_marks_do_not_hang_a_page
    a_long_run_opens_where_it_is_now
    many_requests_are_worked_through_one_after_the_other
    half_typed_words_outlive_anothers_answer
    an_open_page_follows_an_escalation
    a_request_is_claimed_and_handed_over
    a_desktop_is_told_of_a_new_request
    what_others_write_is_never_markup
    a_form_that_comes_too_late_changes_nothing
    a_long_subject_is_approved_once_its_end_was_on_the_screen
    everything_works_with_scripts_off
    no_view_breaks_a_rule_of_accessibility
    signing_in_leaves_no_key_behind
    a_fork_shows_what_would_run_again
    lists_are_searched_filtered_and_counted
    an_inbox_of_ten_thousand_is_shown_page_by_page
    a_customer_is_helped_by_four_agents
    an_event_is_planned_with_two_answers
    a_plan_is_changed_and_carried_out_step_by_step
    a_customer_is_onboarded_and_an_event_ends_the_wait
}
