-- Schema 3. Who is asked: a run with open questions lies on the desk of whoever began it and of everybody it asks, so that
-- somebody's inbox is found without a look at others'. A desk is half of the SHA-256 of its name (`ports/desks.rs`); a
-- run's row has all of its desks, one after the other, and the table has them in the order of the inbox.
alter table holdpoint.runs add column desks bytea;
create table holdpoint.desks (
  desk bytea not null,
  deadline bigint not null,
  since bigint not null,
  run bytea not null,
  primary key (desk, deadline, since, run)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.05);
create index desks_run on holdpoint.desks (run);

-- A build that knows nothing of desks appends nothing any more.
drop function holdpoint.append;
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
  h_item integer[], h_id bytea[], h_body bytea[],
  a_desks bytea[]
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
    select x.version, x.holder, x.fence, x.hooks, x.link, x.deadline, x.since, x.desks into r from holdpoint.runs x where x.run = a_run[i];
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
          session = a_session[i], owner = a_owner[i], workflow = a_workflow[i], family = a_family[i], head = a_head[i],
          desks = a_desks[i]
        where x.run = a_run[i];
    else
      insert into holdpoint.runs (run, version, link, holder, fence, session, owner, workflow, status, updated, wake,
          deadline, since, family, head, desks)
        values (a_run[i], a_version[i], a_link[i], v_holder, v_fence, a_session[i], a_owner[i], a_workflow[i],
          a_status[i], a_updated[i], a_wake[i], a_deadline[i], a_since[i], a_family[i], a_head[i],
          a_desks[i])
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
    -- Most appends ask nobody anything new. Of those that do, what lies where it lay stays there.
    if (r.desks, r.deadline, r.since) is distinct from (a_desks[i], a_deadline[i], a_since[i]) then
      delete from holdpoint.desks x where x.run = a_run[i]
        and not (a_desks[i] is not null and x.deadline = a_deadline[i] and x.since = a_since[i]
          and x.desk = any (array(select substr(a_desks[i], 1 + 16 * k, 16)
            from generate_series(0, length(a_desks[i]) / 16 - 1) as k)));
      insert into holdpoint.desks (desk, deadline, since, run)
        select substr(a_desks[i], 1 + 16 * k, 16), a_deadline[i], a_since[i], a_run[i]
          from generate_series(0, length(a_desks[i]) / 16 - 1) as k
        on conflict do nothing;
    end if;
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
