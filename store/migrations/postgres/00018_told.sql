-- +goose Up
ALTER TABLE notices ADD COLUMN item TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN source TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN author TEXT NOT NULL DEFAULT '';
ALTER TABLE notices ADD COLUMN asked TEXT NOT NULL DEFAULT '';
ALTER TABLE turns ADD COLUMN said TEXT NOT NULL DEFAULT '';

-- What runs told that were found after the database was put back.
CREATE TABLE told (
    agent TEXT NOT NULL,
    item  TEXT NOT NULL,
    turn  TEXT NOT NULL,
    PRIMARY KEY (agent, item)
);

-- The operator's word on runs that nobody can read; one row at most.
CREATE TABLE restored (
    id   INTEGER PRIMARY KEY,
    told INTEGER NOT NULL,
    at   BIGINT NOT NULL
);

-- +goose Down
DROP TABLE restored;
DROP TABLE told;
ALTER TABLE turns DROP COLUMN said;
ALTER TABLE notices DROP COLUMN asked;
ALTER TABLE notices DROP COLUMN author;
ALTER TABLE notices DROP COLUMN source;
ALTER TABLE notices DROP COLUMN item;
