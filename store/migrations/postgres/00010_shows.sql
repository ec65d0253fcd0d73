-- +goose Up
ALTER TABLE relay_offers ADD COLUMN shows TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE relay_offers DROP COLUMN shows;
