//! The words of the command line: its own commands, and one of a thing is one thing.

use crate::terminal::looking::Place;

#[tokio::test(flavor = "multi_thread")]
async fn the_command_line_speaks_of_its_own_commands() {
    let place = Place::new().await;
    assert_eq!(place.command(&["run", "slow", "Now."]).code, 0);
    for typed in [
        &["run", "nobody", "Hello"][..],
        &["runs", "not-a-run"],
        &["sessions", "nobody"],
        &["journal", "run_01k9zq3v7m8n4p5r6s7t8v9w0x"],
        &["workflows", "nobody"],
    ] {
        let ended = place.command(typed);
        assert_ne!(ended.code, 0, "{typed:?}");
        assert!(ended.err.contains("`holdpoint "), "{typed:?}: {}", ended.err);
        for call in ["ListWorkflows", "ListRuns", "ListSessions", "ListRequests", "GetRun"] {
            assert!(!ended.err.contains(call), "{typed:?}: {}", ended.err);
        }
    }
    let one = place.command(&["check", "flows/slow.yaml"]);
    assert!(one.err.contains("1 file checked, 0 with problems"), "{}", one.err);
    let two = place.command(&["check"]);
    assert!(two.err.contains("2 files checked"), "{}", two.err);
}
