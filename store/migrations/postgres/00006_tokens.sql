-- +goose Up
CREATE TABLE door_tokens (
    id         TEXT COLLATE "C" PRIMARY KEY,
    agent      TEXT COLLATE "C" NOT NULL,
    hash       TEXT COLLATE "C" NOT NULL UNIQUE,
    generation INTEGER NOT NULL,
    created_at BIGINT NOT NULL,
    last_used  BIGINT NOT NULL,
    revoked_at BIGINT NOT NULL
);
CREATE INDEX door_tokens_agent ON door_tokens (agent, id);

-- +goose Down
DROP TABLE door_tokens;
