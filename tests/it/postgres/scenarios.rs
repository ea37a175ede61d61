//! The scenarios and the laws of consent once more, on three servers over one PostgreSQL of which every call goes to the
//! next: one or two of each kind, the whole of which `tests/replicas` plays. What they are to show is said where they stand.

use crate::support::server::on_three_servers;

macro_rules! once_more {
    ($($room:ident::$file:ident::$test:ident,)+) => {
        $(
            #[test]
            fn $test() {
                on_three_servers(crate::$room::$file::$test);
            }
        )+
    };
}

once_more! {
    workflows::scenarios_served::s1_is_answered_through_other_doors_than_it_was_started_from,
    workflows::scenarios_served::s3_the_budget_agent_is_given_the_words_of_user_and_venue_after_a_restart_too,
    workflows::scenarios_served::s3_a_wish_with_everything_in_it_never_pauses,
    workflows::graph::s2_an_error_is_a_persons_to_decide,
    workflows::graph::s2_is_answered_through_other_doors_than_it_was_started_from,
    workflows::graph::s4_is_answered_through_other_doors_than_it_was_started_from,
    a2a::onboarding::s4_is_taken_up_over_a2a_by_other_clients_after_kills,
    consent::attacks::k8_a_lost_deed_behind_a_steps_gate_is_asked_of_those_who_released_it,
    consent::crowd::k8_a_place_is_handed_over_counts_once_and_is_taken_back_across_kills,
    consent::digest::k9_a_decision_bound_by_digest_is_named_by_it_in_its_session,
    consent::family::k11_a_no_in_a_fork_counts_in_the_run_that_was_forked_and_in_its_other_forks,
    consent::family::k11_of_a_no_and_a_yes_at_once_one_comes_first,
    consent::forks::k11_a_fork_asks_again_where_a_grant_had_expired,
    consent::forks::k11_a_no_is_not_forked_around_at_the_console,
    consent::gates::k12_the_requesters_metadata_does_not_choose_the_environment,
    consent::gates::k10_an_edited_call_is_asked_again_by_websocket,
    consent::gates::k10_what_was_allowed_for_the_run_at_one_gate_does_not_pass_another,
    consent::gone_keys::k8_what_was_allowed_for_the_run_is_allowed_no_more_without_the_key_that_allowed_it,
    consent::keys::k8_two_keys_of_one_person_are_one_owner_and_one_vote,
    consent::keys::a_key_is_refused_when_its_time_has_come_on_open_streams_too,
    consent::lapsed::k10_a_grant_that_is_revoked_while_another_gate_waits_lets_nothing_pass,
    consent::late::k9_a_late_yes_by_session_is_no_yes_to_the_next_question,
    consent::late::k9_a_late_yes_by_a2a_task_is_no_yes_to_the_next_question,
    consent::late::k9_a_late_yes_to_the_response_that_showed_the_first_question_is_stale,
    consent::late::k9_the_second_persons_late_answer_by_id_is_told_that_it_is_late,
    consent::people::k8_whoever_is_asked_passes_it_at_the_console,
    consent::people::k8_whoever_began_it_is_refused_by_websocket,
    consent::people::k8_after_an_escalation_it_is_the_next_persons,
    consent::refused::k11_an_earlier_grant_does_not_beat_a_later_no,
    consent::responses::k10_an_answer_by_checkpoint_sent_three_times_is_one_deed,
    consent::responses::k9_words_repeated_after_a_kill_return_the_first_outcome,
    consent::shown::k3_the_approvers_note_by_a2a_does_not_change_what_was_shown,
    consent::trail::k3_the_draft_that_was_shown_survives_a_kill,
    consent::votes::k8_two_people_and_then_a_third_are_needed_across_kills_and_each_is_asked_in_turn,
    consent::votes::k11_a_fork_carries_no_vote_and_nobody_elses_yes_is_spent_twice,
}
