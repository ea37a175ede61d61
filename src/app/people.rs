//! People: what the operator's settings and keys say of who there is, and where the server works. Who
//! may answer what is not decided here.

use std::collections::BTreeMap;

use crate::app::Config;
use crate::app::keys::{Key, KeyKind, Keys, KeysError};
use crate::app::settings::Person;
use crate::kernel::{Environment, Membership, Millis, Operator, Say, Voice};

/// Where a server works that asks for no keys, unless the operator says otherwise.
const DEVELOPMENT: &str = "development";
/// Who speaks where there are no keys.
pub(super) const LOCAL: &str = "local";

/// Warns of names that nobody can tell apart.
pub(super) fn warn(config: &Config, keys: Option<&Keys>) {
    let Some(keys) = keys else { return };
    for (one, other) in keys.look_alikes(&config.people.keys().cloned().collect()) {
        tracing::warn!(
            one,
            other,
            "these names differ only in case: they are two people here, and each has a vote"
        );
    }
}

/// Warns of keys that are not made yet, by the clock that words are said by: one that is ahead made them.
pub(super) fn warn_early(keys: Option<&Keys>, now: Millis) {
    for key in keys.into_iter().flat_map(Keys::list) {
        if say(key).is_some_and(|say| say.since > now) {
            tracing::warn!(
                key = key.name,
                created = key.created,
                "this key was made at a time that is still to come: a vote that is given with it counts only if it is given \
                 then; make it anew, by a clock that is right"
            );
        }
    }
}

/// Refuses keys of services that are called like a person whom the settings name: nobody could tell from the
/// trail who spoke.
pub(super) fn refuse_confusion(config: &Config, keys: Option<&Keys>) -> Result<(), KeysError> {
    let named = config.people.keys().cloned().collect();
    match keys.and_then(|keys| keys.service_named(&named)) {
        Some(name) => Err(KeysError::ServiceNamed(name.to_owned())),
        None => Ok(()),
    }
}

/// What the operator says, with these keys in force at `now`.
pub(super) fn operator(config: &Config, keys: Option<&Keys>, now: Millis) -> Operator {
    let environment = match (&config.environment, keys) {
        (Some(named), _) => Environment::Named(named.clone()),
        (None, None) => Environment::Named(DEVELOPMENT.into()),
        // K12: where others can reach it, a rule that asks in some environments asks until somebody
        // says which this is.
        (None, Some(_)) => Environment::Unsaid,
    };
    Operator {
        environment,
        people: people((&config.people, config.shares_keys()), keys, now),
        services: services(keys, now),
        four_eyes: config.four_eyes,
        assurance: config.assurance,
        // The policy is said apart, and what is stopped is the store's to say.
        ..Operator::default()
    }
}

/// What a key is good for in a decision; none where it is for nothing. Keys were once made to the nearest second, and where one
/// does not say when it was it is as old as anything.
fn say(key: &Key) -> Option<Say> {
    let at = key.created.parse::<jiff::Timestamp>().map(jiff::Timestamp::as_millisecond);
    let at = at.ok().and_then(|at| u64::try_from(at).ok()).unwrap_or_default();
    let since = Millis(if at % 1_000 == 0 { at.saturating_sub(1_000) } else { at });
    let voice = if key.workflows.is_empty() {
        Voice::Everywhere
    } else {
        Voice::Within(key.workflows.iter().cloned().collect())
    };
    key.decides().then_some(Say { voice, since })
}

/// The services that speak for people.
fn services(keys: Option<&Keys>, now: Millis) -> BTreeMap<String, Say> {
    let all = keys.into_iter().flat_map(Keys::list);
    let good = all.filter(|key| key.kind == KeyKind::Service && !key.is_over(now));
    good.filter_map(|key| Some((key.name.clone(), say(key)?))).collect()
}

/// Everybody with a credential, and what the settings say of them. Without keys everybody is known.
fn people(
    (settings, shares_keys): (&BTreeMap<String, Person>, bool),
    keys: Option<&Keys>,
    now: Millis,
) -> BTreeMap<String, Membership> {
    let member = |person: &Person| Membership {
        groups: person.groups.clone(),
        titles: person.roles.clone(),
        ..Membership::default()
    };
    let mut people: BTreeMap<String, Membership> =
        settings.iter().map(|(name, person)| (name.clone(), member(person))).collect();
    if let Some(keys) = keys {
        // Somebody whose key is gone is nobody, whatever the settings still say.
        let good = || keys.list().iter().filter(|key| !key.is_over(now));
        people.retain(|name, _| {
            keys.knows(name, true, now) || good().any(|key| key.identity() == name)
        });
        for key in good() {
            people.entry(key.identity().to_owned()).or_default();
        }
        // K8: somebody whose keys only look, or are good elsewhere alone, has no word that counts, whatever
        // they said before.
        for (name, member) in &mut people {
            let own = || good().filter(|key| key.identity() == name);
            // Whoever has none speaks through a service, or as whoever owns the machine.
            if own().next().is_some() {
                member.own = own().filter_map(say).collect();
            }
            let is_own = |key: &&Key| key.kind == KeyKind::Person && key.identity() == name;
            let own = good().filter(is_own).filter(|key| key.workflows.is_empty());
            member.own_roles = own.flat_map(|key| key.roles.iter()).collect();
        }
    }
    // Over a database nobody shows no key once there are keys; in a directory it is whoever owns the machine.
    let is_there = if keys.is_some() { !shares_keys } else { !people.is_empty() };
    if is_there {
        people.entry(LOCAL.into()).or_default();
    }
    people
}
