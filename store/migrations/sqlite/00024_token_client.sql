-- +goose Up
-- client names the program that a token was made for; '' for none in particular.
ALTER TABLE door_tokens ADD COLUMN client TEXT NOT NULL DEFAULT '';

-- +goose Down
ALTER TABLE door_tokens DROP COLUMN client;
