-- +goose Up
-- The OpenAI-compatible door: who may come in, conversations, the turns of each, the calls of the callers' tools, and what a backend keeps.
CREATE TABLE openai_tokens (
    id         TEXT PRIMARY KEY,
    name       TEXT NOT NULL,
    hash       TEXT NOT NULL,
    models     TEXT NOT NULL,
    budget     INTEGER NOT NULL,
    per_minute INTEGER NOT NULL,
    commands   TEXT NOT NULL,
    speaks_for TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    last_used  INTEGER NOT NULL,
    revoked_at INTEGER NOT NULL
);
CREATE UNIQUE INDEX openai_tokens_hash ON openai_tokens (hash);
CREATE UNIQUE INDEX openai_tokens_name ON openai_tokens (name) WHERE revoked_at = 0;

CREATE TABLE openai_sessions (
    id         TEXT PRIMARY KEY,
    token      TEXT NOT NULL,
    client_key TEXT NOT NULL,
    model      TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    used_at    INTEGER NOT NULL
);
CREATE INDEX openai_sessions_key ON openai_sessions (token, client_key, used_at) WHERE client_key <> '';

CREATE TABLE openai_turns (
    id         TEXT PRIMARY KEY,
    session    TEXT NOT NULL,
    token      TEXT NOT NULL,
    model      TEXT NOT NULL,
    state      TEXT NOT NULL,
    client_key TEXT NOT NULL,
    body       TEXT NOT NULL,
    before_sum TEXT NOT NULL,
    after_sum  TEXT NOT NULL,
    ref        TEXT NOT NULL,
    holder     TEXT NOT NULL,
    held_until INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    broken_at  INTEGER NOT NULL,
    ended_at   INTEGER NOT NULL,
    met        INTEGER NOT NULL,
    answer     BLOB,
    tokens     INTEGER NOT NULL,
    version    INTEGER NOT NULL
);
CREATE UNIQUE INDEX openai_turns_key ON openai_turns (token, client_key) WHERE client_key <> '';
CREATE INDEX openai_turns_body ON openai_turns (token, body, started_at);
CREATE INDEX openai_turns_after ON openai_turns (token, after_sum) WHERE after_sum <> '';
CREATE INDEX openai_turns_started ON openai_turns (token, started_at);
CREATE INDEX openai_turns_open ON openai_turns (held_until) WHERE ended_at = 0;

CREATE TABLE openai_calls (
    id        TEXT PRIMARY KEY,
    turn      TEXT NOT NULL,
    upstream  TEXT NOT NULL,
    name      TEXT NOT NULL,
    arguments BLOB,
    state     TEXT NOT NULL,
    result    BLOB,
    seq       INTEGER NOT NULL
);
CREATE INDEX openai_calls_turn ON openai_calls (turn, seq);

CREATE TABLE openai_state (
    session TEXT NOT NULL,
    name    TEXT NOT NULL,
    value   BLOB NOT NULL,
    PRIMARY KEY (session, name)
);

-- +goose Down
DROP TABLE openai_state;
DROP TABLE openai_calls;
DROP TABLE openai_turns;
DROP TABLE openai_sessions;
DROP TABLE openai_tokens;
