-- +goose Up
CREATE TABLE blocks (
    agent      TEXT COLLATE "C" NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent, label)
);

CREATE TABLE block_versions (
    agent      TEXT COLLATE "C" NOT NULL,
    label      TEXT COLLATE "C" NOT NULL,
    version    INTEGER NOT NULL,
    content    TEXT COLLATE "C" NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (agent, label, version)
);

-- n names a row to the index.
CREATE TABLE passages (
    n          BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         TEXT COLLATE "C" NOT NULL UNIQUE,
    agent      TEXT COLLATE "C" NOT NULL,
    seq        BIGINT NOT NULL,
    content    TEXT COLLATE "C" NOT NULL,
    tags       TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    UNIQUE (agent, seq)
);

-- What is indexed are words that package search made; no text search
-- configuration of the server has a say in them. The texts are in passages alone.
CREATE TABLE passage_index (
    n     BIGINT PRIMARY KEY,
    terms TSVECTOR NOT NULL
);
CREATE INDEX passage_index_terms ON passage_index USING gin (terms);

-- +goose Down
DROP TABLE passage_index;
DROP TABLE passages;
DROP TABLE block_versions;
DROP TABLE blocks;
