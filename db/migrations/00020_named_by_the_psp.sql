-- An operator may vouch for an execution whose id the PSP does not tell; the row then has an id of our own making. When the PSP tells it
-- after all, the row takes it: only with it can the movement be refunded, and a second one be noticed.

-- +goose Up
DROP TRIGGER payments_verdict_is_final ON payments;
CREATE TRIGGER payments_verdict_is_final BEFORE UPDATE ON payments FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'declined') AND (NEW.status <> OLD.status
          OR (NEW.psp_charge_id IS DISTINCT FROM OLD.psp_charge_id AND starts_with(OLD.psp_charge_id, 'operator:') IS NOT TRUE)))
    EXECUTE FUNCTION movement_verdict_is_final();
DROP TRIGGER refunds_verdict_is_final ON refunds;
CREATE TRIGGER refunds_verdict_is_final BEFORE UPDATE ON refunds FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'declined') AND (NEW.status <> OLD.status
          OR (NEW.psp_refund_id IS DISTINCT FROM OLD.psp_refund_id AND starts_with(OLD.psp_refund_id, 'operator:') IS NOT TRUE)))
    EXECUTE FUNCTION movement_verdict_is_final();

-- +goose Down
DROP TRIGGER payments_verdict_is_final ON payments;
CREATE TRIGGER payments_verdict_is_final BEFORE UPDATE ON payments FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'declined') AND (NEW.status <> OLD.status
          OR NEW.psp_charge_id IS DISTINCT FROM OLD.psp_charge_id))
    EXECUTE FUNCTION movement_verdict_is_final();
DROP TRIGGER refunds_verdict_is_final ON refunds;
CREATE TRIGGER refunds_verdict_is_final BEFORE UPDATE ON refunds FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'declined') AND (NEW.status <> OLD.status
          OR NEW.psp_refund_id IS DISTINCT FROM OLD.psp_refund_id))
    EXECUTE FUNCTION movement_verdict_is_final();
