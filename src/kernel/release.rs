//! Release: who lets go on what was stopped. A service that may stop things stops them for whomever it names: that is safe,
//! and the log has both. Letting go on is not: there a service's word for somebody is worth no more than that person's own
//! keys, and under four eyes nobody who stood behind a halt stands behind its end, whoever else is named (K8).

use crate::kernel::halts::Halt;
use crate::kernel::operator::Operator;
use crate::kernel::principal::{Assurance, Known, Principal, Role};
use crate::kernel::refusal::Refusal;

/// Refuses somebody with an admin's credential who may not take that halt back all the same.
pub fn refuse_halt(halt: &Halt, who: &Principal, operator: &Operator) -> Result<(), Refusal> {
    if !is_theirs(who, &[Role::Admin], operator) {
        let why = "a service takes a halt back for nobody who could not do it themselves: this person has no \
                   key with the role `admin` that is confined to no workflow";
        return Err(Refusal::Forbidden(why));
    }
    let theirs: Vec<_> = behind(&who.id, Some(&who.known)).collect();
    let mut stopped = behind(&halt.by, halt.known.as_deref());
    if operator.four_eyes && stopped.any(|one| theirs.contains(&one)) {
        let why = "whoever stopped something does not let it go on themselves (`four_eyes`), nor does the service \
                   through which it was stopped: another admin does";
        return Err(Refusal::Forbidden(why));
    }
    Ok(())
}

/// Refuses somebody with an operator's credential who may not let a store go on all the same.
pub fn refuse_store(who: &Principal, operator: &Operator) -> Result<(), Refusal> {
    if is_theirs(who, &[Role::Operator, Role::Admin], operator) {
        return Ok(());
    }
    let why = "a service releases a store for nobody who could not do it themselves: this person has no key with \
               the role `operator` or `admin` that is confined to no workflow";
    Err(Refusal::Forbidden(why))
}

/// Whether it is theirs to do: what their credential is good for was looked at, and where that is a service's, which speaks
/// for them, they have a key of their own that is good for it, too.
fn is_theirs(who: &Principal, wanted: &[Role], operator: &Operator) -> bool {
    match who.known.assurance {
        Assurance::Vouched => {
            let known = operator.people.get(&who.id);
            known.is_some_and(|known| known.own_roles.has_any(wanted))
        }
        Assurance::Model | Assurance::Proven => true,
    }
}

/// Whoever stands behind what was said: the person, and the service that spoke for them.
fn behind<'a>(id: &'a str, known: Option<&'a Known>) -> impl Iterator<Item = &'a str> {
    let service = known.and_then(Known::service);
    std::iter::once(id).chain(service)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::principal::Credential;
    use crate::kernel::{Membership, Millis, Roles, Scope};

    /// Four eyes, and of everybody whom a service may name only boss and root are admins themselves.
    fn house() -> Operator {
        let member = |roles: &[Role]| Membership {
            own_roles: roles.iter().copied().collect(),
            ..Membership::default()
        };
        let people = [
            ("ada", member(&[Role::User])),
            ("boss", member(&[Role::Admin])),
            ("op", member(&[Role::Operator])),
            ("root", member(&[Role::Admin])),
        ];
        let people = people.map(|(name, member)| (name.to_owned(), member)).into();
        Operator { four_eyes: true, people, ..Operator::default() }
    }

    /// Somebody with a key of their own.
    fn own(id: &str) -> Principal {
        Principal::new(id, Role::Admin, "grpc")
    }

    /// Whoever that service's key speaks for; the service itself, where that is its own name.
    fn through(service: &str, id: &str) -> Principal {
        let how = if service == id { Assurance::Model } else { Assurance::Vouched };
        let known = Known::new(how, Credential::Service(service.into()));
        let roles: Roles = [Role::Admin, Role::Operator].into_iter().collect();
        Principal { known, ..Principal::new(id, roles, "grpc") }
    }

    fn halt(who: &Principal) -> Halt {
        let (by, door, known) = who.recorded();
        Halt {
            id: "halt_1".into(),
            scope: Scope::All,
            reason: "odd".into(),
            by,
            door,
            known,
            at: Millis(1),
            is_ending: false,
            ended_by: None,
            key: String::new(),
        }
    }

    #[test]
    fn k8_nobody_who_stood_behind_a_halt_stands_behind_its_end_under_four_eyes() {
        let svc = |id: &str| through("svc", id);
        let table = [
            (svc("svc"), svc("svc"), false),
            (svc("svc"), svc("boss"), false),
            (svc("ada"), svc("svc"), false),
            (svc("ada"), svc("boss"), false),
            (svc("boss"), own("boss"), false),
            (own("boss"), svc("boss"), false),
            (own("boss"), own("boss"), false),
            (own("boss"), svc("root"), true),
            (own("boss"), svc("svc"), true),
            (svc("ada"), own("boss"), true),
            (svc("ada"), through("other", "root"), true),
        ];
        for (stops, lets, is_taken) in table {
            let halt = halt(&stops);
            let taken = refuse_halt(&halt, &lets, &house());
            assert_eq!(taken.is_ok(), is_taken, "{stops:?}, {lets:?}");
            let alone = Operator { four_eyes: false, ..house() };
            assert_eq!(refuse_halt(&halt, &lets, &alone), Ok(()), "{stops:?}, {lets:?}");
        }
    }

    #[test]
    fn k8_a_services_word_lets_nothing_go_on_that_its_person_could_not() {
        let halt = halt(&own("op"));
        let table = [
            ("ada", false, false),
            ("op", false, true),
            ("boss", true, true),
            ("nobody", false, false),
        ];
        for (who, takes_back, releases) in table {
            let who = through("svc", who);
            let alone = Operator { four_eyes: false, ..house() };
            assert_eq!(refuse_halt(&halt, &who, &alone).is_ok(), takes_back, "{who:?}");
            assert_eq!(refuse_store(&who, &house()).is_ok(), releases, "{who:?}");
        }
        assert_eq!(refuse_store(&through("svc", "svc"), &house()), Ok(()), "by itself");
    }
}
