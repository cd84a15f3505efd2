-- River v0.51.0, schema version 8 (job id autoincrement). Licence: MPL-2.0, see RIVER-LICENSE.
-- +goose Up
-- No-op. Postgres sequences already prevent automatically generated job IDs
-- from being reused.
SELECT 1;
INSERT INTO river_migration (line, version) VALUES ('main', 8);

-- +goose Down
-- No-op. Postgres sequences already prevent automatically generated job IDs
-- from being reused.
SELECT 1;
DELETE FROM river_migration WHERE line = 'main' AND version = 8;
