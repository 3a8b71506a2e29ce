CREATE TABLE files (
    id INTEGER PRIMARY KEY,
    path TEXT NOT NULL UNIQUE,
    folder TEXT NOT NULL,    -- '' for the vault's root
    name TEXT NOT NULL,      -- the key of the file's name; notes without '.md'
    kind TEXT NOT NULL,      -- note, canvas, base or attachment
    size INTEGER NOT NULL,
    mtime INTEGER NOT NULL,  -- in nanoseconds, like ctime
    ctime INTEGER NOT NULL,  -- -1: read it again, it may have changed just after it was read
    inode INTEGER NOT NULL,
    hash TEXT,               -- NULL if it was not read, for example a large attachment
    title TEXT NOT NULL,
    words INTEGER NOT NULL,
    properties TEXT NOT NULL,  -- a JSON object
    problem TEXT
);

-- The texts of files; empty for attachments. `headings` are those of the text, one in each line.
CREATE TABLE texts (id INTEGER PRIMARY KEY, title TEXT NOT NULL, headings TEXT NOT NULL, body TEXT NOT NULL);

-- Notes and canvases, as `read_file.folded` returns their texts. It stores no text: to delete a row takes the same text.
CREATE VIRTUAL TABLE fts USING fts5(title, headings, body, content = '', tokenize = "unicode61 remove_diacritics 0");
-- A batch is written as one segment. Segments are merged in idle times (see `Index.tidy`), or if there are many.
INSERT INTO fts (fts, rank) VALUES ('hashsize', 8000000);
INSERT INTO fts (fts, rank) VALUES ('automerge', 0);
INSERT INTO fts (fts, rank) VALUES ('crisismerge', 64);

-- All words of `fts`; also those that have gone.
CREATE TABLE words (id INTEGER PRIMARY KEY, word TEXT NOT NULL UNIQUE);

-- The contents of files. By their key, the rows of a file lie together and in order.
CREATE TABLE tags (
    file INTEGER, n INTEGER,
    key TEXT, shown TEXT, line INTEGER,  -- without '#'
    PRIMARY KEY (file, n)
) WITHOUT ROWID;

CREATE TABLE links (
    file INTEGER, n INTEGER,
    name TEXT,  -- the key of the target's last segment, without '.md'; '' for a link within the note
    target TEXT, subpath TEXT, shown TEXT, kind TEXT, embed INTEGER,
    line INTEGER, "start" INTEGER, "end" INTEGER,
    PRIMARY KEY (file, n)
) WITHOUT ROWID;

CREATE TABLE headings (
    file INTEGER, n INTEGER,
    level INTEGER, text TEXT, line INTEGER,
    PRIMARY KEY (file, n)
) WITHOUT ROWID;

CREATE TABLE blocks (
    file INTEGER, n INTEGER,
    id TEXT, line INTEGER,
    PRIMARY KEY (file, n)
) WITHOUT ROWID;

CREATE TABLE tasks (
    file INTEGER, n INTEGER,
    line INTEGER, status TEXT, text TEXT,
    PRIMARY KEY (file, n)
) WITHOUT ROWID;

CREATE TABLE properties (
    file INTEGER, n INTEGER,
    key TEXT, text TEXT, number REAL,  -- a row for each value, or item of a list; both NULL if there is none
    PRIMARY KEY (file, n)
) WITHOUT ROWID;

CREATE TABLE aliases (
    file INTEGER, n INTEGER,
    key TEXT, shown TEXT,
    PRIMARY KEY (file, n)
) WITHOUT ROWID;

CREATE TABLE tag_counts (
    key TEXT PRIMARY KEY,
    shown TEXT NOT NULL,    -- its first occurrence, by path, then line
    notes INTEGER NOT NULL, -- with the tag itself
    total INTEGER NOT NULL, -- with it or a tag nested in it
    path TEXT NOT NULL,     -- of the first occurrence
    line INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE INDEX files_by_folder ON files (folder, kind);
CREATE INDEX files_by_name ON files (name);
CREATE INDEX files_by_inode ON files (inode);
CREATE INDEX files_by_age ON files (mtime DESC, path) WHERE kind <> 'attachment';
CREATE INDEX tags_by_key ON tags (key);
CREATE INDEX links_by_name ON links (name);
CREATE INDEX properties_by_key ON properties (key);
CREATE INDEX aliases_by_key ON aliases (key);
