-- A dead letter may be closed without an operator: when its key was completed meanwhile, its question is answered.

-- +goose Up
ALTER TABLE dead_letters DROP CONSTRAINT dead_letters_action_known;
ALTER TABLE dead_letters ADD CONSTRAINT dead_letters_action_known
    CHECK (action IN ('retry', 'executed', 'not_executed', 'dismiss', 'answered'));

-- +goose Down
-- No row may have the action answered, and dead letters are never deleted. So the older program keeps these rows.
ALTER TABLE dead_letters DROP CONSTRAINT dead_letters_action_known;
ALTER TABLE dead_letters ADD CONSTRAINT dead_letters_action_known
    CHECK (action IN ('retry', 'executed', 'not_executed', 'dismiss')) NOT VALID;
