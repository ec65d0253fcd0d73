-- +goose Up
CREATE TABLE run_messages (
    turn    TEXT NOT NULL,
    seq     BIGINT NOT NULL,
    kind    TEXT NOT NULL,
    name    TEXT NOT NULL,
    call_id TEXT NOT NULL,
    payload TEXT NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (turn, seq),
    UNIQUE (turn, call_id, kind)
);

-- +goose Down
DROP TABLE run_messages;
