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
