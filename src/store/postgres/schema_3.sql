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

-- A build that knows nothing of desks appends nothing any more: `append.sql` has the function of that name.
drop function if exists holdpoint.append;
