-- River v0.51.0, schema version 3 (river job tags non null). Licence: MPL-2.0, see RIVER-LICENSE.
-- +goose Up
ALTER TABLE river_job ALTER COLUMN tags SET DEFAULT '{}';
UPDATE river_job SET tags = '{}' WHERE tags IS NULL;
ALTER TABLE river_job ALTER COLUMN tags SET NOT NULL;
INSERT INTO river_migration (version) VALUES (3);

-- +goose Down
ALTER TABLE river_job
    ALTER COLUMN tags DROP NOT NULL,
    ALTER COLUMN tags DROP DEFAULT;
DELETE FROM river_migration WHERE version = 3;
