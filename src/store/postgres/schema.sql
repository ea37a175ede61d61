-- Schema 1. What callers choose is bytea: no encoding and no collation of the server's can change how it sorts, and
-- a zero byte is as good as any. What is checksummed is a record of `store/codec`, as in the embedded store.
create schema if not exists holdpoint;

create table holdpoint.meta (
  one boolean primary key default true check (one),
  schema integer not null,
  shape text not null default ''
);

-- Who lives, and until when by the database's own clock. Whoever is not here is dead, for good.
create table holdpoint.replicas (
  incarnation bigint primary key,
  until timestamptz not null
) with (fillfactor = 50);

-- One row a run: its head, who drives it, and what it is found by.
create table holdpoint.runs (
  run bytea primary key,
  version bigint not null,
  link bytea not null,
  holder bigint,
  fence bigint not null,
  hooks bigint not null default 0,
  session bytea not null,
  owner bytea not null,
  workflow bytea not null,
  status text not null,
  updated bigint not null,
  wake bigint,
  deadline bigint,
  since bigint,
  family bytea,
  head bytea not null
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02);
create index runs_session on holdpoint.runs (session, run);
create index runs_owner on holdpoint.runs (owner, run);
create index runs_waiting on holdpoint.runs (deadline, since, run) where since is not null;
create index runs_due on holdpoint.runs (wake, run) where wake is not null;
create index runs_going on holdpoint.runs (run) where status = 'RUNNING';
create index runs_held on holdpoint.runs (holder, run) where holder is not null;
create index runs_family on holdpoint.runs (family, run) where family is not null;
create index runs_over on holdpoint.runs (updated, run) where status not in ('RUNNING', 'WAITING');

-- The journals: one row an append, never changed.
create table holdpoint.entries (
  run bytea not null,
  last bigint not null,
  first bigint not null,
  token_by bigint,
  token_no bigint,
  body bytea not null,
  primary key (run, last)
);

create table holdpoint.sessions (session bytea primary key, owner bytea not null, body bytea not null);
create index sessions_owner on holdpoint.sessions (owner, session);
create table holdpoint.keys (id bytea primary key, run bytea not null, said bytea not null, body bytea not null);
create index keys_run on holdpoint.keys (run);
create table holdpoint.definitions (digest bytea primary key, body bytea not null);
create table holdpoint.hooks (run bytea not null, id bytea not null, body bytea not null, primary key (run, id));

-- The outbox.
create table holdpoint.outbox (
  run bytea not null,
  lane bytea not null,
  after bigint not null,
  tip bigint not null,
  due bigint not null,
  tries bigint not null default 0,
  problem bytea not null default '',
  held_by bigint,
  held_until timestamptz,
  primary key (run, lane)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500);
create index outbox_due on holdpoint.outbox (due);

-- Numbers that appends are compared with.
create table holdpoint.guards (name text collate "C" primary key, number bigint not null) with (fillfactor = 70);

-- The store's own log, what it keeps under names, and the log of leaves.
create table holdpoint.log (lane smallint not null, index bigint not null, body bytea not null, primary key (lane, index));
create table holdpoint.kept (name text collate "C" primary key, body bytea);
insert into holdpoint.kept (name) values ('mlog'), ('mtree');
create table holdpoint.pending (place bytea primary key, body bytea not null);
create table holdpoint.leaves (index bigint primary key, place bytea not null unique, body bytea not null);
create table holdpoint.nodes (level smallint not null, index bigint not null, body bytea not null, primary key (level, index));

-- Appends of several runs, each of which is written or refused alone, in one round trip. The order of the checks is
-- that of the contract: written before, superseded, held, moved, guards, names.
create function holdpoint.append(
  me bigint,
  a_run bytea[], a_expected bigint[], a_version bigint[], a_prev bytea[], a_link bytea[],
  a_token_by bigint[], a_token_no bigint[], a_fence bigint[], a_hold smallint[], a_from bigint[], a_hooks bigint[],
  a_session bytea[], a_owner bytea[], a_workflow bytea[], a_status text[], a_updated bigint[],
  a_wake bigint[], a_deadline bigint[], a_since bigint[], a_family bytea[], a_head bytea[], a_body bytea[],
  a_leaf_place bytea[], a_leaf bytea[],
  s_body bytea[], k_id bytea[], k_said bytea[], k_body bytea[],
  g_item integer[], g_name text[], g_number bigint[], g_raises boolean[],
  l_item integer[], l_lane bytea[], l_due bigint[],
  h_item integer[], h_id bytea[], h_body bytea[]
) returns table (o_item integer, o_said text, o_number bigint, o_fence bigint, o_about bytea)
language plpgsql as $$
declare
  r record;
  is_there boolean;
  v_last bigint;
  v_fence bigint;
  v_holder bigint;
  v_name text;
  v_owner bytea;
  v_body bytea;
begin
  -- What is acknowledged is durable, whatever this role's default has become meanwhile.
  if current_setting('synchronous_commit') in ('off', 'local') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  perform set_config('lock_timeout', '5s', true);
  -- One order for all: whoever locks several waits for nobody who waits for them.
  perform 1 from holdpoint.runs x where x.run = any (a_run) order by x.run for update;
  if cardinality(g_name) > 0 then
    insert into holdpoint.guards (name, number)
      select distinct n collate "C", 0 from unnest(g_name) n order by 1 on conflict do nothing;
    perform 1 from holdpoint.guards x where x.name = any (g_name) order by x.name for update;
  end if;
  for i in 1 .. cardinality(a_run) loop
    o_item := i; o_number := 0; o_fence := 0; o_about := null;
    select x.version, x.holder, x.fence, x.hooks, x.link into r from holdpoint.runs x where x.run = a_run[i];
    is_there := found;
    if is_there and r.version > a_expected[i] and a_token_by[i] is not null then
      select x.last into v_last from (
        select e.* from holdpoint.entries e
          where e.run = a_run[i] and e.last > a_expected[i] order by e.last limit 1
      ) x where x.first = a_expected[i] + 1 and x.token_by = a_token_by[i] and x.token_no = a_token_no[i];
      if found then
        o_said := 'ok'; o_number := v_last;
        o_fence := case when r.holder = me then r.fence else 0 end;
        return next; continue;
      end if;
    end if;
    if a_fence[i] is not null and (not is_there or r.holder is distinct from me or r.fence <> a_fence[i]) then
      o_said := 'superseded'; return next; continue;
    end if;
    if a_hold[i] = 1 and r.holder is distinct from a_from[i]
       and (r.holder is distinct from me or a_from[i] is not null) then
      o_said := 'held'; o_number := r.holder; return next; continue;
    end if;
    if coalesce(r.version, 0) <> a_expected[i] then
      o_said := 'moved'; o_number := coalesce(r.version, 0); return next; continue;
    end if;
    if is_there and r.link <> a_prev[i] then
      o_said := 'again'; return next; continue;
    end if;
    if a_hooks[i] is not null and a_hooks[i] <> coalesce(r.hooks, 0) then
      o_said := 'hooks'; return next; continue;
    end if;
    select n into v_name from unnest(g_item, g_name, g_number) as t (item, n, number)
      where t.item = i and t.number <> (select x.number from holdpoint.guards x where x.name = t.n) limit 1;
    if found then
      o_said := 'guard'; o_about := convert_to(v_name, 'UTF8'); return next; continue;
    end if;
    if s_body[i] is not null then
      select x.owner into v_owner from holdpoint.sessions x where x.session = a_session[i];
      if found and v_owner <> a_owner[i] then
        o_said := 'session'; return next; continue;
      end if;
    end if;
    if k_id[i] is not null then
      select x.body into v_body from holdpoint.keys x where x.id = k_id[i];
      if found then
        o_said := 'key'; o_about := v_body; return next; continue;
      end if;
    end if;

    v_fence := coalesce(r.fence, 0);
    v_holder := r.holder;
    if a_hold[i] = 1 then
      v_fence := v_fence + 1; v_holder := me;
    elsif a_hold[i] = 2 then
      v_holder := null;
    end if;
    if is_there then
      update holdpoint.runs x set
          version = a_version[i], link = a_link[i], holder = v_holder, fence = v_fence, status = a_status[i],
          updated = a_updated[i], wake = a_wake[i], deadline = a_deadline[i], since = a_since[i],
          session = a_session[i], owner = a_owner[i], workflow = a_workflow[i], family = a_family[i], head = a_head[i]
        where x.run = a_run[i];
    else
      insert into holdpoint.runs (run, version, link, holder, fence, session, owner, workflow, status, updated, wake,
          deadline, since, family, head)
        values (a_run[i], a_version[i], a_link[i], v_holder, v_fence, a_session[i], a_owner[i], a_workflow[i],
          a_status[i], a_updated[i], a_wake[i], a_deadline[i], a_since[i], a_family[i], a_head[i])
        on conflict do nothing;
      if not found then
        -- Another has begun it this moment: what it is now is looked at anew.
        o_said := 'again'; return next; continue;
      end if;
    end if;
    if k_id[i] is not null then
      insert into holdpoint.keys (id, run, said, body) values (k_id[i], a_run[i], k_said[i], k_body[i])
        on conflict do nothing;
      if not found then
        -- Another has taken it this moment. Only what begins brings a key.
        delete from holdpoint.runs x where x.run = a_run[i];
        o_said := 'again'; return next; continue;
      end if;
    end if;
    if s_body[i] is not null then
      loop
        insert into holdpoint.sessions (session, owner, body) values (a_session[i], a_owner[i], s_body[i])
          on conflict do nothing;
        -- Held until the end: nobody forgets the session meanwhile.
        select x.owner into v_owner from holdpoint.sessions x where x.session = a_session[i] for share;
        exit when found;
      end loop;
      if v_owner <> a_owner[i] then
        delete from holdpoint.keys x where x.run = a_run[i];
        delete from holdpoint.runs x where x.run = a_run[i];
        o_said := 'session'; return next; continue;
      end if;
    end if;
    insert into holdpoint.entries (run, last, first, token_by, token_no, body)
      values (a_run[i], a_version[i], a_expected[i] + 1, a_token_by[i], a_token_no[i], a_body[i]);
    if a_leaf[i] is not null then
      insert into holdpoint.pending (place, body) values (a_leaf_place[i], a_leaf[i]);
    end if;
    update holdpoint.guards x set number = x.number + 1
      from unnest(g_item, g_name, g_raises) as t (item, n, raises)
      where t.item = i and t.raises and x.name = t.n;
    insert into holdpoint.outbox (run, lane, after, tip, due)
      select a_run[i], t.lane, a_expected[i], a_version[i], t.due
        from unnest(l_item, l_lane, l_due) as t (item, lane, due) where t.item = i
      on conflict (run, lane) do update set tip = excluded.tip;
    insert into holdpoint.hooks (run, id, body)
      select a_run[i], t.id, t.body from unnest(h_item, h_id, h_body) as t (item, id, body) where t.item = i
      on conflict (run, id) do update set body = excluded.body;
    o_said := 'ok'; o_number := a_version[i];
    o_fence := case when v_holder = me then v_fence else 0 end;
    return next;
  end loop;
end
$$;

-- The right to drive a run, where there is nothing to append with it.
create function holdpoint.take(me bigint, a_run bytea, a_from bigint, a_expected bigint)
returns table (o_said text, o_number bigint) language plpgsql as $$
declare
  r record;
begin
  perform set_config('lock_timeout', '5s', true);
  select x.version, x.holder, x.fence into r from holdpoint.runs x where x.run = a_run for update;
  if r.holder is distinct from a_from and (r.holder is distinct from me or a_from is not null) then
    o_said := 'held'; o_number := r.holder;
  elsif coalesce(r.version, 0) <> a_expected then
    o_said := 'moved'; o_number := coalesce(r.version, 0);
  else
    update holdpoint.runs x set holder = me, fence = x.fence + 1 where x.run = a_run;
    o_said := 'ok'; o_number := coalesce(r.fence, 0) + 1;
  end if;
  return next;
end
$$;
