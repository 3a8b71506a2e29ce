CREATE TABLE states (
    identity TEXT PRIMARY KEY,
    writer TEXT NOT NULL,  -- the last process that wrote: its cursor and subscriptions count
    cursor TEXT
) WITHOUT ROWID;

CREATE TABLE subscriptions (identity TEXT, uri TEXT, PRIMARY KEY (identity, uri)) WITHOUT ROWID;

-- In the order in which they were put.
CREATE TABLE entries (
    id INTEGER PRIMARY KEY, identity TEXT NOT NULL, kind TEXT NOT NULL, key TEXT NOT NULL,
    content TEXT NOT NULL, UNIQUE (identity, kind, key)
);

-- A table of its own, so that a mark can change without its content being written again.
CREATE TABLE covered (
    identity TEXT, kind TEXT, key TEXT,
    writer TEXT NOT NULL,  -- the process that keeps it current; meaningless under the cursor of another
    PRIMARY KEY (identity, kind, key)
) WITHOUT ROWID;
