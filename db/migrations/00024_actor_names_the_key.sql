-- Labels of API keys are not unique. Who decided about a dead letter is named by the label and the key's id, such as
-- "ann (api key 01937b2e-7c41-7c3a-9d0e-5a1f0c9b2d44)": a label has 100 characters, and the rest 47.

-- +goose Up
ALTER TABLE dead_letters
    DROP CONSTRAINT dead_letters_actor_check,
    ADD CONSTRAINT dead_letters_actor_check CHECK (char_length(actor) BETWEEN 1 AND 150);
ALTER TABLE operator_actions
    DROP CONSTRAINT operator_actions_actor_check,
    ADD CONSTRAINT operator_actions_actor_check CHECK (char_length(actor) BETWEEN 1 AND 150);

-- +goose Down
-- What was written stays: nobody may rewrite it.
ALTER TABLE dead_letters
    DROP CONSTRAINT dead_letters_actor_check,
    ADD CONSTRAINT dead_letters_actor_check CHECK (char_length(actor) BETWEEN 1 AND 100) NOT VALID;
ALTER TABLE operator_actions
    DROP CONSTRAINT operator_actions_actor_check,
    ADD CONSTRAINT operator_actions_actor_check CHECK (char_length(actor) BETWEEN 1 AND 100) NOT VALID;
