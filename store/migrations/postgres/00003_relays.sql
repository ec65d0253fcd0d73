-- +goose Up
CREATE TABLE relays (
    name         TEXT COLLATE "C" PRIMARY KEY,
    state        TEXT NOT NULL,
    key          TEXT NOT NULL,
    next_key     TEXT NOT NULL,
    pin          TEXT NOT NULL,
    replica      TEXT NOT NULL,
    session      TEXT NOT NULL,
    connected_at BIGINT NOT NULL,
    enrolled_at  BIGINT NOT NULL,
    seen_at      BIGINT NOT NULL
);
-- A replica looks for what it has to cut off, and for what it held before it restarted.
CREATE INDEX relays_replica ON relays (replica, state, name) WHERE replica <> '';
CREATE INDEX relays_state ON relays (state, name);

CREATE TABLE relay_offers (
    relay      TEXT COLLATE "C" NOT NULL,
    action     TEXT COLLATE "C" NOT NULL,
    approval   TEXT NOT NULL,
    bridge     INTEGER NOT NULL,
    definition TEXT NOT NULL,
    PRIMARY KEY (relay, action)
);
CREATE INDEX relay_offers_action ON relay_offers (action, relay);

CREATE TABLE relay_joins (
    id         TEXT PRIMARY KEY,
    relay      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    key        TEXT NOT NULL
);
CREATE INDEX relay_joins_expires ON relay_joins (expires_at);

CREATE TABLE relay_keys (
    generation BIGINT PRIMARY KEY,
    source     TEXT NOT NULL,
    created_at BIGINT NOT NULL
);

CREATE TABLE replicas (
    id      TEXT PRIMARY KEY,
    seen_at BIGINT NOT NULL
);
CREATE INDEX replicas_seen ON replicas (seen_at);

CREATE TABLE relay_calls (
    id         TEXT PRIMARY KEY,
    replica    TEXT NOT NULL,
    relay      TEXT NOT NULL,
    request    TEXT NOT NULL,
    ask        TEXT NOT NULL,
    state      TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX relay_calls_waiting ON relay_calls (replica, id) WHERE state = 'waiting';
CREATE INDEX relay_calls_created ON relay_calls (created_at);

CREATE TABLE relay_ties (
    request    TEXT PRIMARY KEY,
    relay      TEXT NOT NULL,
    created_at BIGINT NOT NULL
);
CREATE INDEX relay_ties_created ON relay_ties (created_at);

-- +goose Down
DROP TABLE relay_ties;
DROP TABLE relay_calls;
DROP TABLE replicas;
DROP TABLE relay_keys;
DROP TABLE relay_joins;
DROP TABLE relay_offers;
DROP TABLE relays;
