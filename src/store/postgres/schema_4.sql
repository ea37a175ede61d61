-- Schema 4. An append may rest on what is kept under a name, as keys and halts are: `append.sql` sees that it is as its
-- writer knew it. No table changes. Guards of that kind are nobody's numbers.
delete from holdpoint.guards where starts_with(name, 'kept ');
