-- +goose Up
CREATE TABLE watches (
    agent      TEXT NOT NULL,
    watched    TEXT NOT NULL,
    after_seq  BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, watched)
);

-- +goose Down
DROP TABLE watches;
