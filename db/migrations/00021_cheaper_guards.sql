-- The same guards for less. PostgreSQL parses the WHEN of a trigger anew in each statement that could fire it, and these were long. A trigger that names
-- columns is passed over, unparsed, when the statement sets none of them.

-- +goose Up
-- What a key stands for: no statement of the happy path sets any of it.
CREATE TRIGGER idempotency_keys_guard_identity
    BEFORE UPDATE OF scope, key, fingerprint, subject, attempt, generation, created_at, reserved_at ON idempotency_keys
    FOR EACH ROW EXECUTE FUNCTION idempotency_keys_guard();
-- And its status and response, where the edge is not the happy path's.
DROP TRIGGER idempotency_keys_guard_update ON idempotency_keys;
CREATE TRIGGER idempotency_keys_guard_update BEFORE UPDATE ON idempotency_keys FOR EACH ROW
    WHEN (OLD.status <> 'in_progress' OR NEW.status <> 'completed')
    EXECUTE FUNCTION idempotency_keys_guard();

DROP TRIGGER payments_terms_are_fixed ON payments;
CREATE TRIGGER payments_terms_are_fixed
    BEFORE UPDATE OF id, tenant_id, idempotency_key, generation, customer_id, amount_minor, currency, payment_method, created_at ON payments
    FOR EACH ROW
    WHEN (ROW (NEW.id, NEW.tenant_id, NEW.idempotency_key, NEW.generation, NEW.customer_id, NEW.amount_minor, NEW.currency,
               NEW.payment_method, NEW.created_at)
        <> ROW (OLD.id, OLD.tenant_id, OLD.idempotency_key, OLD.generation, OLD.customer_id, OLD.amount_minor, OLD.currency,
               OLD.payment_method, OLD.created_at))
    EXECUTE FUNCTION history_is_append_only();
DROP TRIGGER refunds_terms_are_fixed ON refunds;
CREATE TRIGGER refunds_terms_are_fixed
    BEFORE UPDATE OF id, payment_id, tenant_id, idempotency_key, generation, amount_minor, currency, created_at ON refunds
    FOR EACH ROW
    WHEN (ROW (NEW.id, NEW.payment_id, NEW.tenant_id, NEW.idempotency_key, NEW.generation, NEW.amount_minor, NEW.currency,
               NEW.created_at)
        <> ROW (OLD.id, OLD.payment_id, OLD.tenant_id, OLD.idempotency_key, OLD.generation, OLD.amount_minor, OLD.currency,
               OLD.created_at))
    EXECUTE FUNCTION history_is_append_only();

-- +goose Down
DROP TRIGGER idempotency_keys_guard_identity ON idempotency_keys;
DROP TRIGGER idempotency_keys_guard_update ON idempotency_keys;
CREATE TRIGGER idempotency_keys_guard_update
    BEFORE UPDATE ON idempotency_keys FOR EACH ROW
    WHEN (NOT (OLD.status = 'in_progress' AND NEW.status = 'completed' AND ROW (
            NEW.scope, NEW.key, NEW.fingerprint, NEW.subject, NEW.attempt,
            NEW.generation, NEW.created_at, NEW.reserved_at)
        = ROW (
            OLD.scope, OLD.key, OLD.fingerprint, OLD.subject, OLD.attempt,
            OLD.generation, OLD.created_at, OLD.reserved_at)))
    EXECUTE FUNCTION idempotency_keys_guard();
DROP TRIGGER payments_terms_are_fixed ON payments;
CREATE TRIGGER payments_terms_are_fixed BEFORE UPDATE ON payments FOR EACH ROW
    WHEN (ROW (NEW.id, NEW.tenant_id, NEW.idempotency_key, NEW.generation, NEW.customer_id, NEW.amount_minor, NEW.currency,
               NEW.payment_method, NEW.created_at)
        <> ROW (OLD.id, OLD.tenant_id, OLD.idempotency_key, OLD.generation, OLD.customer_id, OLD.amount_minor, OLD.currency,
               OLD.payment_method, OLD.created_at))
    EXECUTE FUNCTION history_is_append_only();
DROP TRIGGER refunds_terms_are_fixed ON refunds;
CREATE TRIGGER refunds_terms_are_fixed BEFORE UPDATE ON refunds FOR EACH ROW
    WHEN (ROW (NEW.id, NEW.payment_id, NEW.tenant_id, NEW.idempotency_key, NEW.generation, NEW.amount_minor, NEW.currency,
               NEW.created_at)
        <> ROW (OLD.id, OLD.payment_id, OLD.tenant_id, OLD.idempotency_key, OLD.generation, OLD.amount_minor, OLD.currency,
               OLD.created_at))
    EXECUTE FUNCTION history_is_append_only();
