-- +goose Up
-- The OpenAI-compatible door: who may come in, conversations, the turns of each, the calls of the callers' tools, and what a backend keeps.
CREATE TABLE openai_tokens (
    id         TEXT COLLATE "C" PRIMARY KEY,
    name       TEXT COLLATE "C" NOT NULL,
    hash       TEXT COLLATE "C" NOT NULL,
    models     TEXT NOT NULL,
    budget     BIGINT NOT NULL,
    per_minute BIGINT NOT NULL,
    commands   TEXT NOT NULL,
    speaks_for TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    last_used  BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL
);
CREATE UNIQUE INDEX openai_tokens_hash ON openai_tokens (hash);
CREATE UNIQUE INDEX openai_tokens_name ON openai_tokens (name) WHERE revoked_at = 0;

CREATE TABLE openai_sessions (
    id         TEXT COLLATE "C" PRIMARY KEY,
    token      TEXT COLLATE "C" NOT NULL,
    client_key TEXT COLLATE "C" NOT NULL,
    model      TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    used_at    BIGINT NOT NULL
);
CREATE INDEX openai_sessions_key ON openai_sessions (token, client_key, used_at) WHERE client_key <> '';

CREATE TABLE openai_turns (
    id         TEXT COLLATE "C" PRIMARY KEY,
    session    TEXT COLLATE "C" NOT NULL,
    token      TEXT COLLATE "C" NOT NULL,
    model      TEXT NOT NULL,
    state      TEXT NOT NULL,
    client_key TEXT COLLATE "C" NOT NULL,
    body       TEXT COLLATE "C" NOT NULL,
    before_sum TEXT COLLATE "C" NOT NULL,
    after_sum  TEXT COLLATE "C" NOT NULL,
    ref        TEXT NOT NULL,
    holder     TEXT COLLATE "C" NOT NULL,
    held_until BIGINT NOT NULL,
    started_at BIGINT NOT NULL,
    broken_at  BIGINT NOT NULL,
    ended_at   BIGINT NOT NULL,
    met        BIGINT NOT NULL,
    answer     BYTEA,
    tokens     BIGINT NOT NULL,
    version    BIGINT NOT NULL
);
CREATE UNIQUE INDEX openai_turns_key ON openai_turns (token, client_key) WHERE client_key <> '';
CREATE INDEX openai_turns_body ON openai_turns (token, body, started_at);
CREATE INDEX openai_turns_after ON openai_turns (token, after_sum) WHERE after_sum <> '';
CREATE INDEX openai_turns_started ON openai_turns (token, started_at);
CREATE INDEX openai_turns_open ON openai_turns (held_until) WHERE ended_at = 0;

CREATE TABLE openai_calls (
    id        TEXT COLLATE "C" PRIMARY KEY,
    turn      TEXT COLLATE "C" NOT NULL,
    upstream  TEXT NOT NULL,
    name      TEXT NOT NULL,
    arguments BYTEA,
    state     TEXT NOT NULL,
    result    BYTEA,
    seq       BIGINT NOT NULL
);
CREATE INDEX openai_calls_turn ON openai_calls (turn, seq);

CREATE TABLE openai_state (
    session TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    value   BYTEA NOT NULL,
    PRIMARY KEY (session, name)
);

-- +goose Down
DROP TABLE openai_state;
DROP TABLE openai_calls;
DROP TABLE openai_turns;
DROP TABLE openai_sessions;
DROP TABLE openai_tokens;
