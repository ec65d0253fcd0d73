-- +goose Up
CREATE TABLE done_once (
    agent      TEXT NOT NULL,
    word       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    result     TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, word)
);

-- +goose Down
DROP TABLE done_once;
