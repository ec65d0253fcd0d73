-- +goose Up
-- Alerts: webhooks that tell a program of the operator what waits. closed_at is 0 while it waits, and then one alert is about it.
-- need, kind and turn say what waits. seen_at is when a bridge last saw that it waits.
CREATE TABLE alerts (
    id        TEXT PRIMARY KEY,
    need      TEXT NOT NULL,
    kind      TEXT NOT NULL,
    turn      TEXT NOT NULL,
    agent     TEXT NOT NULL,
    state     TEXT NOT NULL,
    tries     INTEGER NOT NULL,
    trouble   TEXT NOT NULL,
    made_at   INTEGER NOT NULL,
    tried_at  INTEGER NOT NULL,
    due_at    INTEGER NOT NULL,
    seen_at   INTEGER NOT NULL,
    closed_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX alerts_open ON alerts (need, kind, turn) WHERE closed_at = 0;
CREATE INDEX alerts_closed ON alerts (closed_at);

-- How large the database was, one row a day. day counts from 1970-01-01 in UTC.
CREATE TABLE database_sizes (
    day   INTEGER PRIMARY KEY,
    bytes INTEGER NOT NULL
);
