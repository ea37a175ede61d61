//! A database that tells another history of a run than it did: what is known of one is never gone on from with the other. That a
//! loss is found out is in `store`, and what servers do about it in `rewound`.

use holdpoint::kernel::evidence::Hash;
use holdpoint::ports::{AppendError, Fault, Rewind};

use crate::postgres::store::pair;
use crate::support::kit::{Play, WORDS};

#[tokio::test(flavor = "multi_thread")]
async fn j10_whoever_goes_on_from_another_history_writes_nothing() {
    let (database, [one, _]) = pair().await;
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let (run, version) = (play.run.id.clone(), begin.head.version);
    one.append(begin).await.unwrap();
    // As after it went back, and somebody else wrote as much again.
    let another = "update holdpoint.runs set link = sha256('another')";
    database.client().await.batch_execute(another).await.unwrap();
    let refused = one.append(play.speak(WORDS, 20)).await;
    assert!(matches!(refused, Err(AppendError::Fault(Fault::Rewound))), "{refused:?}");
    let replicas = one.replicas().unwrap();
    assert!(replicas.standing(&run).await.is_err(), "it is not believed");
    let rewind = Rewind { had: version, has: version };
    assert_eq!(replicas.look_back().await.unwrap(), Some(rewind));
    replicas.unlearn(None);
    assert_eq!(replicas.standing(&run).await.unwrap().unwrap().version, version);
    assert_eq!(replicas.look_back().await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn j10_what_comes_after_a_version_goes_on_from_the_link_that_was_known_there() {
    let (_database, [one, other]) = pair().await;
    let (mut play, begin) = Play::begin(1, "s", "ann", 10);
    let run = play.run.id.clone();
    one.append(begin).await.unwrap();
    let replicas = one.replicas().unwrap();
    let known = replicas.standing(&run).await.unwrap().unwrap().known().unwrap();
    other.append(play.speak(WORDS, 20)).await.unwrap();
    let read = async |known| replicas.read_on_from(&run, known, 100).await.unwrap();
    let after = one.read(&run, known.0, 100).await.unwrap();
    assert_eq!(read(known).await, Some(after.clone()));
    assert_eq!(read((known.0, Hash([7; 32]))).await, None, "another history");
    // In the middle of one append nothing was ever known to end.
    assert!(known.0 > 1);
    assert_eq!(read((known.0 - 1, known.1)).await, None);
    let end = after.last().unwrap().version;
    assert_eq!(read((end, Hash::default())).await, Some(Vec::new()), "nothing has come since");
}
