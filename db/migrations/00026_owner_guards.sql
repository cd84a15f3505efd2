-- +goose Up
-- What holds for evidence holds for the request itself: it tells nobody of a decline while an open dead letter of the key says that money moved, and releases
-- no key that an operator has to decide about. Its own statements look at the dead letters. This sees one that was opened while they waited for the key's row.
DROP TRIGGER idempotency_keys_dead_lettered_stay ON idempotency_keys;
CREATE TRIGGER idempotency_keys_dead_lettered_stay BEFORE UPDATE ON idempotency_keys FOR EACH ROW
    WHEN ((OLD.status IN ('in_progress', 'unknown') AND NEW.status = 'failed_retryable') OR (OLD.status <> 'expired' AND NEW.status = 'expired')
          OR (OLD.status IN ('in_progress', 'unknown', 'failed_retryable') AND NEW.status = 'completed' AND NEW.response_status = 402))
    EXECUTE FUNCTION dead_lettered_keys_stay();

-- +goose Down
DROP TRIGGER idempotency_keys_dead_lettered_stay ON idempotency_keys;
CREATE TRIGGER idempotency_keys_dead_lettered_stay BEFORE UPDATE ON idempotency_keys FOR EACH ROW
    WHEN ((OLD.status = 'unknown' AND NEW.status = 'failed_retryable') OR (OLD.status <> 'expired' AND NEW.status = 'expired')
          OR (OLD.status IN ('unknown', 'failed_retryable') AND NEW.status = 'completed' AND NEW.response_status = 402))
    EXECUTE FUNCTION dead_lettered_keys_stay();
