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
