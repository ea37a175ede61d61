-- Schema 2. What a process says of itself, and which stored forms it reads and writes: nobody writes what somebody who
-- lives cannot read. And how far each process knows the database to have come: by that is seen that it has gone back.
alter table holdpoint.meta add column form integer not null default 3;
alter table holdpoint.replicas
  add column name text not null default '',
  add column address text not null default '',
  add column program text not null default '',
  add column since timestamptz not null default now(),
  add column draining boolean not null default false,
  add column reads integer not null default 3,
  add column writes integer not null default 3;
create table holdpoint.marks (
  incarnation bigint not null,
  lane smallint not null,
  mark bigint not null,
  at timestamptz not null default clock_timestamp(),
  primary key (incarnation, lane)
) with (fillfactor = 50);
