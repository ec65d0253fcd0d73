-- +goose Up
-- Alerts: webhooks that tell a program of the operator what waits. closed_at is 0 while it waits, and then one alert is about it.
-- need, kind and turn say what waits. seen_at is when a bridge last saw that it waits.
CREATE TABLE alerts (
    id        TEXT COLLATE "C" PRIMARY KEY,
    need      TEXT COLLATE "C" NOT NULL,
    kind      TEXT NOT NULL,
    turn      TEXT NOT NULL,
    agent     TEXT NOT NULL,
    state     TEXT NOT NULL,
    tries     INTEGER NOT NULL,
    trouble   TEXT NOT NULL,
    made_at   BIGINT NOT NULL,
    tried_at  BIGINT NOT NULL,
    due_at    BIGINT NOT NULL,
    seen_at   BIGINT NOT NULL,
    closed_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX alerts_open ON alerts (need, kind, turn) WHERE closed_at = 0;
CREATE INDEX alerts_closed ON alerts (closed_at);

-- How large the database was, one row a day. day counts from 1970-01-01 in UTC.
CREATE TABLE database_sizes (
    day   BIGINT PRIMARY KEY,
    bytes BIGINT NOT NULL
);
