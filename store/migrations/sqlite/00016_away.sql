-- +goose Up
ALTER TABLE work ADD COLUMN away_since BIGINT NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE work DROP COLUMN away_since;
