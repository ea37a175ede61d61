-- What is asked with every command, as functions: no statement of ours has a name, so that a pooler may stand in between,
-- and what has none is planned anew each time; what a function asks is planned once a connection of the database's.
create or replace function holdpoint.standing(
  a_run bytea,
  out o_version bigint, out o_holder bigint, out o_fence bigint, out o_hooks bigint, out o_link bytea, out o_lives boolean
) language plpgsql stable as $$
begin
  select r.version, r.holder, r.fence, r.hooks, r.link,
      exists (select from holdpoint.replicas l where l.incarnation = r.holder)
    into o_version, o_holder, o_fence, o_hooks, o_link, o_lives
    from holdpoint.runs r where r.run = a_run;
end
$$;

create or replace function holdpoint.family(a_family bytea) returns bytea[] language plpgsql stable as $$
begin
  return array(select r.run from holdpoint.runs r where r.family = a_family order by r.run);
end
$$;

create or replace function holdpoint.guarded(a_name text) returns bigint language plpgsql stable as $$
begin
  return (select g.number from holdpoint.guards g where g.name = a_name collate "C");
end
$$;

create or replace function holdpoint.kept_as(a_name text) returns bytea language plpgsql stable as $$
begin
  return (select k.body from holdpoint.kept k where k.name = a_name collate "C");
end
$$;

-- Keeps something under a name, where what is there is what its writer knew, and so is what it rests on, if anything. What
-- rests on it and is being written is waited for, and what comes after sees this (`append.sql`): so a change that is
-- acknowledged is one that nobody decides without.
create or replace function holdpoint.keep_if(
  a_name text, a_body bytea, a_knew bytea, a_rests text, a_number bigint
) returns boolean language plpgsql as $$
begin
  perform pg_advisory_xact_lock(1752132964, hashtext(a_name));
  if a_rests is not null then
    perform pg_advisory_xact_lock_shared(1752132964, hashtext(a_rests));
    if a_number <> coalesce((select ('x' || encode(substr(sha256(substr(k.body, 6)), 1, 7), 'hex'))::bit(56)::bigint
        from holdpoint.kept k where k.name = a_rests collate "C"), 0) then
      return false;
    end if;
  end if;
  if a_knew is null then
    insert into holdpoint.kept (name, body) values (a_name, a_body) on conflict do nothing;
  else
    update holdpoint.kept k set body = a_body where k.name = a_name collate "C" and k.body = a_knew;
  end if;
  return found;
end
$$;
