-- +goose Up
CREATE TABLE watches (
    agent      TEXT COLLATE "C" NOT NULL,
    watched    TEXT COLLATE "C" NOT NULL,
    after_seq  BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (agent, watched)
);

-- +goose Down
DROP TABLE watches;
