-- Keeps the rows that Payonce deletes or overwrites, so that a whole run can be checked at its end: the row of each key
-- that was deleted or has begun a new generation, and the timelines that were deleted with keys. Payonce itself does
-- not use this schema.
CREATE SCHEMA lab;
CREATE TABLE lab.ended_keys (LIKE public.idempotency_keys, ended_by text NOT NULL, transaction xid8 NOT NULL);
CREATE TABLE lab.ended_events (LIKE public.idempotency_key_events, transaction xid8 NOT NULL);
CREATE INDEX ON lab.ended_keys (tenant_id, operation, key);

CREATE FUNCTION lab.keep_key() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO lab.ended_keys SELECT (OLD).*, lower(TG_OP), pg_catalog.pg_current_xact_id();
    RETURN NULL;
END $$;
CREATE FUNCTION lab.keep_event() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = '' AS $$
BEGIN
    INSERT INTO lab.ended_events SELECT (OLD).*, pg_catalog.pg_current_xact_id();
    RETURN NULL;
END $$;

CREATE TRIGGER lab_keep_renewed AFTER UPDATE ON public.idempotency_keys FOR EACH ROW
    WHEN (OLD.status = 'expired' AND NEW.status = 'in_progress') EXECUTE FUNCTION lab.keep_key();
CREATE TRIGGER lab_keep_deleted AFTER DELETE ON public.idempotency_keys FOR EACH ROW EXECUTE FUNCTION lab.keep_key();
CREATE TRIGGER lab_keep_deleted AFTER DELETE ON public.idempotency_key_events
    FOR EACH ROW EXECUTE FUNCTION lab.keep_event();
