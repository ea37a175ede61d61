-- Appends of several runs in one round trip, each of which is written or refused alone. The order of the checks is that
-- of the contract: written before, superseded, held, moved, guards, names.
--
-- No two of a group have to do with one another, which whoever sends it sees to (`committer`): no run stands in it twice,
-- nor a session or a key that is brought, nor a guard that one of them raises. So all are looked at together, and those
-- that may be are written together: a statement costs more than a row does. What a plan is made for is always the same,
-- and it is made once: by keys, however few rows there were when it was made.
create or replace function holdpoint.append(
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
language plpgsql
set lock_timeout = '5s' set plan_cache_mode = 'force_generic_plan'
set enable_seqscan = off set enable_mergejoin = off set jit = off
as $$
declare
  v_said text[];
  v_number bigint[];
  v_fence bigint[];
  v_about bytea[];
  v_there boolean[];
  v_moves boolean[];
  v_lost bytea[];
  v_left bigint;
begin
  -- What is acknowledged is durable, whatever this role's default has become meanwhile.
  if current_setting('synchronous_commit') in ('off', 'local') then
    perform set_config('synchronous_commit', 'on', true);
  end if;
  -- One order for all: whoever locks several waits for nobody who waits for them.
  perform 1 from holdpoint.runs x where x.run = any (a_run) order by x.run for update;
  if cardinality(g_name) > 0 then
    insert into holdpoint.guards (name, number)
      select distinct n collate "C", 0 from unnest(g_name) n where not starts_with(n, 'kept ') order by 1
      on conflict do nothing;
    perform 1 from holdpoint.guards x where x.name = any (g_name) order by x.name for update;
    -- Whoever changes what is kept under a name waits until what rests on it is written, and is waited for
    -- (`asked.sql`, `keep_if`). Many rest on it at once: no row is locked, or all of them would stand in line for it.
    perform pg_advisory_xact_lock_shared(1752132964, hashtext(k.name))
      from (select distinct 'mown.' || substr(n, 6) as name from unnest(g_name) n where starts_with(n, 'kept ') order by 1) k;
  end if;

  select array_agg(d.said), array_agg(d.number), array_agg(d.fence), array_agg(d.about), array_agg(d.there), array_agg(d.moves)
    into v_said, v_number, v_fence, v_about, v_there, v_moves
  from (
    select j.item, j.said, j.there, j.moves,
      case j.said when 'ok' then j.version when 'before' then j.last when 'held' then j.holder
        when 'moved' then j.at else 0 end as number,
      case when j.said = 'ok' and j.hold = 1 then j.fence + 1
        when j.said in ('ok', 'before') and j.hold <> 2 and j.holder = me then j.fence
        when j.said = 'before' and j.holder = me then j.fence else 0 end as fence,
      case j.said when 'guard' then convert_to(j.guard, 'UTF8') when 'key' then j.body end as about
    from (
      select t.item, t.version, t.hold, w.last, r.holder, coalesce(r.fence, 0) as fence, coalesce(r.version, 0) as at,
        g.name as guard, k.body, r.run is not null as there,
        (r.desks, r.deadline, r.since) is distinct from (t.desks, t.deadline, t.since) as moves,
        case
          when w.last is not null then 'before'
          when t.fence is not null and (r.run is null or r.holder is distinct from me or r.fence <> t.fence)
            then 'superseded'
          when t.hold = 1 and r.holder is distinct from t.source and (r.holder is distinct from me or t.source is not null)
            then 'held'
          when coalesce(r.version, 0) <> t.expected then 'moved'
          when r.link <> t.prev then 'again'
          when t.hooks <> coalesce(r.hooks, 0) then 'hooks'
          when g.name is not null then 'guard'
          when s.owner <> t.owner then 'session'
          when k.body is not null then 'key'
          else 'ok'
        end as said
      from unnest(a_run, a_expected, a_version, a_prev, a_token_by, a_token_no, a_fence, a_hold, a_from, a_hooks,
          a_session, a_owner, a_desks, a_deadline, a_since, s_body, k_id) with ordinality
        as t (run, expected, version, prev, token_by, token_no, fence, hold, source, hooks, session, owner, desks,
          deadline, since, brings, key, item)
      left join holdpoint.runs r on r.run = t.run
      left join lateral (
        select x.last from (
          select e.last, e.first, e.token_by, e.token_no from holdpoint.entries e
            where t.token_by is not null and r.version > t.expected and e.run = t.run and e.last > t.expected
            order by e.last limit 1
        ) x where x.first = t.expected + 1 and x.token_by = t.token_by and x.token_no = t.token_no
      ) w on true
      left join (
        select u.item, min(u.name) as name from unnest(g_item, g_name, g_number) as u (item, name, number)
          left join holdpoint.guards x on x.name = u.name collate "C"
          left join holdpoint.kept y on y.name = ('mown.' || substr(u.name, 6)) collate "C"
          where u.number <> case when starts_with(u.name, 'kept ')
              -- Of what is kept, behind the five bytes that say in which form: `Guard::kept`.
              then coalesce(('x' || encode(substr(sha256(substr(y.body, 6)), 1, 7), 'hex'))::bit(56)::bigint, 0)
              else x.number end
          group by u.item
      ) g on g.item = t.item
      left join holdpoint.sessions s on s.session = t.session and t.brings is not null
      left join holdpoint.keys k on k.id = t.key
    ) j order by j.item
  ) d;

  -- Names first. Whoever finds that another has taken one, or begun the run, this moment is looked at anew.
  if cardinality(array_remove(k_id, null)) > 0 then
    with put as (
      insert into holdpoint.keys (id, run, said, body)
        select t.id, t.run, t.words, t.body
          from unnest(k_id, a_run, k_said, k_body, v_said) as t (id, run, words, body, said)
          where t.id is not null and t.said = 'ok' order by t.id
        on conflict do nothing returning run
    )
    select array_agg(case when t.said = 'ok' and t.id is not null and p.run is null then 'again' else t.said end
        order by t.item) into v_said
      from unnest(a_run, k_id, v_said) with ordinality as t (run, id, said, item)
      left join put p on p.run = t.run;
  end if;
  if false = any (v_there) then
    with put as (
      insert into holdpoint.runs (run, version, link, holder, fence, session, owner, workflow, status, updated, wake,
          deadline, since, family, head, desks)
        select t.run, t.version, t.link, case t.hold when 1 then me end, case t.hold when 1 then 1 else 0 end,
            t.session, t.owner, t.workflow, t.status, t.updated, t.wake, t.deadline, t.since, t.family, t.head, t.desks
          from unnest(a_run, a_version, a_link, a_hold, a_session, a_owner, a_workflow, a_status, a_updated, a_wake,
              a_deadline, a_since, a_family, a_head, a_desks, v_said, v_there)
            as t (run, version, link, hold, session, owner, workflow, status, updated, wake, deadline, since, family,
              head, desks, said, there)
          where t.said = 'ok' and not t.there order by t.run
        on conflict do nothing returning run
    )
    select array_agg(case when t.run is null then 'again' else t.said end order by t.item), array_agg(t.gone)
        filter (where t.gone is not null) into v_said, v_lost
      from (
        select t.item, t.said, case when t.said = 'ok' and not t.there then p.run else t.run end as run,
            case when t.said = 'ok' and not t.there and p.run is null then t.run end as gone
          from unnest(a_run, v_said, v_there) with ordinality as t (run, said, there, item)
          left join put p on p.run = t.run
      ) t;
    if v_lost is not null then
      delete from holdpoint.keys x where x.run = any (v_lost);
    end if;
  end if;
  if cardinality(array_remove(s_body, null)) > 0 then
    loop
      insert into holdpoint.sessions (session, owner, body)
        select t.session, t.owner, t.body from unnest(a_session, a_owner, s_body, v_said) as t (session, owner, body, said)
          where t.body is not null and t.said = 'ok' order by t.session
        on conflict do nothing;
      -- Held until the end: nobody forgets the session meanwhile. One that was forgotten this moment is brought again.
      with held as (
        select x.session, x.owner from holdpoint.sessions x
          where x.session = any (array(select t.session from unnest(a_session, s_body, v_said) as t (session, body, said)
            where t.body is not null and t.said = 'ok'))
          order by x.session for share
      )
      select count(*) filter (where h.session is null), array_agg(t.run) filter (where h.owner <> t.owner)
        into v_left, v_lost
        from unnest(a_run, a_session, a_owner, s_body, v_said) as t (run, session, owner, body, said)
        left join held h on h.session = t.session
        where t.body is not null and t.said = 'ok';
      exit when v_left = 0;
    end loop;
    if v_lost is not null then
      delete from holdpoint.keys x where x.run = any (v_lost);
      delete from holdpoint.runs x where x.run = any (v_lost);
      select array_agg(case when t.run = any (v_lost) then 'session' else t.said end order by t.item) into v_said
        from unnest(a_run, v_said) with ordinality as t (run, said, item);
    end if;
  end if;

  insert into holdpoint.entries (run, last, first, token_by, token_no, body)
    select t.run, t.last, t.expected + 1, t.token_by, t.token_no, t.body
      from unnest(a_run, a_version, a_expected, a_token_by, a_token_no, a_body, v_said)
        as t (run, last, expected, token_by, token_no, body, said)
      where t.said = 'ok';
  if true = any (v_there) then
    update holdpoint.runs x set
        version = t.version, link = t.link, holder = case t.hold when 1 then me when 2 then null else x.holder end,
        fence = x.fence + case t.hold when 1 then 1 else 0 end, status = t.status, updated = t.updated, wake = t.wake,
        deadline = t.deadline, since = t.since, session = t.session, owner = t.owner, workflow = t.workflow,
        family = t.family, head = t.head, desks = t.desks
      from unnest(a_run, a_version, a_link, a_hold, a_session, a_owner, a_workflow, a_status, a_updated, a_wake,
          a_deadline, a_since, a_family, a_head, a_desks, v_said, v_there)
        as t (run, version, link, hold, session, owner, workflow, status, updated, wake, deadline, since, family, head,
          desks, said, there)
      where x.run = t.run and t.said = 'ok' and t.there;
  end if;
  -- Most appends ask nobody anything new. Of those that do, what lies where it lay stays there.
  if true = any (v_moves) then
    delete from holdpoint.desks x using unnest(a_run, a_desks, a_deadline, a_since, v_said, v_moves)
        as t (run, desks, deadline, since, said, moves)
      where x.run = t.run and t.said = 'ok' and t.moves
        and not (t.desks is not null and x.deadline = t.deadline and x.since = t.since
          and exists (select from generate_series(0, length(t.desks) / 16 - 1) as k
            where substr(t.desks, 1 + 16 * k, 16) = x.desk));
    insert into holdpoint.desks (desk, deadline, since, run)
      select substr(t.desks, 1 + 16 * k, 16), t.deadline, t.since, t.run
        from unnest(a_run, a_desks, a_deadline, a_since, v_said, v_moves) as t (run, desks, deadline, since, said, moves)
        cross join lateral generate_series(0, length(t.desks) / 16 - 1) as k
        where t.said = 'ok' and t.moves
      on conflict do nothing;
  end if;
  if cardinality(array_remove(a_leaf, null)) > 0 then
    insert into holdpoint.pending (place, body)
      select t.place, t.body from unnest(a_leaf_place, a_leaf, v_said) as t (place, body, said)
        where t.body is not null and t.said = 'ok';
  end if;
  if true = any (g_raises) then
    update holdpoint.guards x set number = x.number + 1
      from unnest(g_item, g_name, g_raises) as t (item, name, raises)
      where t.raises and v_said[t.item] = 'ok' and x.name = t.name collate "C";
  end if;
  if cardinality(l_item) > 0 then
    insert into holdpoint.outbox (run, lane, after, tip, due)
      select a_run[t.item], t.lane, a_expected[t.item], a_version[t.item], t.due
        from unnest(l_item, l_lane, l_due) as t (item, lane, due) where v_said[t.item] = 'ok'
      on conflict (run, lane) do update set tip = excluded.tip;
  end if;
  if cardinality(h_item) > 0 then
    insert into holdpoint.hooks (run, id, body)
      select a_run[t.item], t.id, t.body from unnest(h_item, h_id, h_body) as t (item, id, body)
        where v_said[t.item] = 'ok'
      on conflict (run, id) do update set body = excluded.body;
  end if;
  return query
    select t.item::integer, case t.said when 'before' then 'ok' else t.said end, t.number, t.fence, t.about
      from unnest(v_said, v_number, v_fence, v_about) with ordinality as t (said, number, fence, about, item);
end
$$;
