-- +goose Up
CREATE TABLE run_messages (
    turn    TEXT COLLATE "C" NOT NULL,
    seq     BIGINT NOT NULL,
    kind    TEXT COLLATE "C" NOT NULL,
    name    TEXT COLLATE "C" NOT NULL,
    call_id TEXT COLLATE "C" NOT NULL,
    payload TEXT COLLATE "C" NOT NULL,
    at      BIGINT NOT NULL,
    PRIMARY KEY (turn, seq),
    UNIQUE (turn, call_id, kind)
);

-- +goose Down
DROP TABLE run_messages;
