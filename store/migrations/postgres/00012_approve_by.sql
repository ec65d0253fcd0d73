-- +goose Up
ALTER TABLE relay_offers ADD COLUMN approve_by TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE relay_offers DROP COLUMN approve_by;
