-- +goose Up
CREATE TABLE door_tokens (
    id         TEXT PRIMARY KEY,
    agent      TEXT NOT NULL,
    hash       TEXT NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    last_used  BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL
);
CREATE INDEX door_tokens_agent ON door_tokens (agent, id);

-- +goose Down
DROP TABLE door_tokens;
