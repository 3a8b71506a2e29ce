CREATE TABLE counters (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    no INTEGER NOT NULL,
    listed INTEGER NOT NULL,  -- no longer used, like `listed_by`
    listed_by TEXT NOT NULL
);

CREATE TABLE pages (
    page_id TEXT PRIMARY KEY,
    address TEXT NOT NULL,       -- what the page_id is made from: the URL that was asked for
    url TEXT,                    -- NULL: it cannot be fetched
    content_hash TEXT NOT NULL,  -- of its newest content; '' if that is not known
    checked_at REAL NOT NULL,
    etag TEXT,
    last_modified TEXT,
    options TEXT NOT NULL,
    variant TEXT NOT NULL,       -- of its newest content and its validators
    seen INTEGER NOT NULL,       -- when it was last put or watched
    changed INTEGER NOT NULL,    -- no longer used, like `changed_by`
    changed_by TEXT NOT NULL,
    untold INTEGER NOT NULL DEFAULT 0  -- whether its last change was not announced yet
) WITHOUT ROWID;

CREATE TABLE entries (
    no INTEGER PRIMARY KEY,
    source_id TEXT NOT NULL UNIQUE,
    page_id TEXT NOT NULL,
    address TEXT NOT NULL,
    title TEXT,
    site_name TEXT,
    retrieved INTEGER NOT NULL,  -- in microseconds since 1970
    retrieved_at TEXT NOT NULL,
    content_type TEXT NOT NULL,
    content_hash TEXT NOT NULL,
    raw_hash TEXT NOT NULL,
    raw_type TEXT,
    options TEXT NOT NULL,
    variant TEXT NOT NULL,       -- only versions of the same variant are compared
    size INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    ttl REAL NOT NULL,
    pinned INTEGER NOT NULL DEFAULT 0,
    packet_size INTEGER NOT NULL DEFAULT 0  -- bytes of the packet as it is read
);

CREATE TABLE parts (
    id INTEGER PRIMARY KEY,
    source_id TEXT NOT NULL,
    kind TEXT NOT NULL,  -- head (the packet without its content), content, raw, screenshot, feed, memory
    data BLOB NOT NULL,
    UNIQUE (source_id, kind)
);

CREATE TABLE watches (
    page_id TEXT PRIMARY KEY,
    next_at REAL NOT NULL,
    wait REAL NOT NULL,
    failures INTEGER NOT NULL,
    state TEXT NOT NULL,
    leased_by TEXT,
    lease_until REAL NOT NULL,
    lease REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE watchers (
    page_id TEXT NOT NULL,
    owner TEXT NOT NULL,
    options TEXT NOT NULL,
    variant TEXT NOT NULL,
    no INTEGER NOT NULL,
    PRIMARY KEY (page_id, owner)
) WITHOUT ROWID;

CREATE TABLE owners (owner TEXT PRIMARY KEY, alive_until REAL NOT NULL, alive REAL NOT NULL) WITHOUT ROWID;

CREATE VIEW watched AS SELECT w.page_id, p.url, p.address,
    EXISTS (SELECT 1 FROM watchers a WHERE a.page_id = w.page_id AND a.owner = '') AS explicit,
    (SELECT count(*) FROM watchers a WHERE a.page_id = w.page_id AND a.owner <> '') AS subscribers,
    (SELECT options FROM watchers a WHERE a.page_id = w.page_id ORDER BY a.owner <> '', a.no DESC LIMIT 1)
        AS options,
    w.next_at, w.failures, w.state FROM watches w JOIN pages p USING (page_id);

CREATE INDEX entries_by_page ON entries (page_id, no);
CREATE INDEX entries_by_variant ON entries (page_id, variant, no, content_hash);
CREATE INDEX entries_by_expiry ON entries (pinned, expires_at);
CREATE INDEX entries_by_arrival ON entries (pinned, no, source_id);
CREATE INDEX entries_by_age ON entries (retrieved, no);
CREATE INDEX pages_by_change ON pages (changed);
CREATE INDEX pages_by_seen ON pages (seen);
CREATE INDEX watches_by_time ON watches (next_at);
