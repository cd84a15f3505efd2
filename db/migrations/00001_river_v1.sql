-- River v0.51.0, schema version 1 (create river migration). Licence: MPL-2.0, see RIVER-LICENSE.
-- +goose Up
CREATE TABLE river_migration(
  id bigserial PRIMARY KEY,
  created_at timestamptz NOT NULL DEFAULT NOW(),
  version bigint NOT NULL,
  CONSTRAINT version CHECK (version >= 1)
);

CREATE UNIQUE INDEX ON river_migration USING btree(version);
INSERT INTO river_migration (version) VALUES (1);

-- +goose Down
DROP TABLE river_migration;
