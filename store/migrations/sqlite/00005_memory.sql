-- +goose Up
CREATE TABLE blocks (
    agent      TEXT NOT NULL,
    label      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent, label)
);

CREATE TABLE block_versions (
    agent      TEXT NOT NULL,
    label      TEXT NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent, label, version)
);

-- n names a row to the index.
CREATE TABLE passages (
    n          INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT NOT NULL UNIQUE,
    agent      TEXT NOT NULL,
    seq        BIGINT NOT NULL,
    content    TEXT NOT NULL,
    tags       TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (agent, seq)
);

-- What is indexed are words that package search made, one blank between each;
-- to the tokenizer named ascii every character beyond ASCII belongs to a word,
-- so that it cuts nothing more. The texts themselves are in passages alone.
CREATE VIRTUAL TABLE passage_index USING fts5(terms, content='', contentless_delete=1, tokenize='ascii');

-- +goose Down
DROP TABLE passage_index;
DROP TABLE passages;
DROP TABLE block_versions;
DROP TABLE blocks;
