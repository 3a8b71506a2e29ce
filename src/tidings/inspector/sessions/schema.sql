CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    title TEXT,
    began REAL NOT NULL,
    last REAL NOT NULL,
    ended REAL,
    pid INTEGER NOT NULL,
    records INTEGER NOT NULL DEFAULT 0,
    bytes INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE records (
    session INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    at REAL NOT NULL,
    server TEXT NOT NULL,
    kind TEXT NOT NULL,
    data TEXT NOT NULL,
    PRIMARY KEY (session, seq)
) WITHOUT ROWID;
