-- +goose Up
ALTER TABLE echoes ADD COLUMN digest BYTEA NOT NULL DEFAULT '';
ALTER TABLE echoes ADD COLUMN source TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE echoes ADD COLUMN author TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE echoes ADD COLUMN place  TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE echoes ADD COLUMN turn   TEXT COLLATE "C" NOT NULL DEFAULT '';
ALTER TABLE echoes ADD COLUMN seq    BIGINT NOT NULL DEFAULT 0;
-- Rows of before expire as if their agents' latest turns had told them.
UPDATE echoes SET seq = (SELECT COALESCE(MAX(turns.seq), 0) FROM turns WHERE turns.agent = echoes.agent);

-- +goose Down
DELETE FROM echoes WHERE length(digest) > 0;
ALTER TABLE echoes DROP COLUMN seq;
ALTER TABLE echoes DROP COLUMN turn;
ALTER TABLE echoes DROP COLUMN place;
ALTER TABLE echoes DROP COLUMN author;
ALTER TABLE echoes DROP COLUMN source;
ALTER TABLE echoes DROP COLUMN digest;
